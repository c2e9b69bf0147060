-- A claim and its answer, and an effect begun and completed: by pg_once, and by hand on a plain table.
--
-- Rule: the hand-made versions are right for one claimer at a time who waits for the commit of another, and they
-- are given what helps them: one row a key, found by its primary key, and no table beside it. Each loop returns how many
-- keys were new and were answered.

-- What somebody writes who needs a lease: one row a key goes from claimed to running to done.
DO $$ BEGIN
    EXECUTE format('CREATE TABLE bench_:pair.effect (LIKE %s INCLUDING ALL EXCLUDING INDEXES, state text, fence bigint, '
                   'attempt integer NOT NULL DEFAULT 0, lease_until timestamptz)', bench.leaf(':pair', 0));
END $$;
INSERT INTO bench_:pair.effect SELECT * FROM once.:pair;
CREATE SEQUENCE bench_:pair.fence;

CREATE FUNCTION bench_:pair.once_answer(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb := '{"status": 200, "body": "paid"}';
    k text;
    mine boolean;
    n bigint := 0;
BEGIN
    FOREACH k IN ARRAY keys LOOP
        SELECT outcome = 'claimed' INTO mine FROM once.claim(k, '7 days', '', ':pair');
        IF mine THEN
            SELECT once.complete(k, answer, '', ':pair') INTO mine;
            IF mine THEN
                n := n + 1;
            END IF;
        END IF;
    END LOOP;
    RETURN n;
END $$;

CREATE FUNCTION bench_:pair.plain_answer(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb := '{"status": 200, "body": "paid"}';
    k text;
    mine boolean;
    n bigint := 0;
BEGIN
    FOREACH k IN ARRAY keys LOOP
        INSERT INTO bench_:pair.plain (claimed_at, expires_at, key, effect)
        VALUES (clock_timestamp(), clock_timestamp() + '7 days', k, '') ON CONFLICT DO NOTHING RETURNING true INTO mine;
        IF mine THEN
            UPDATE bench_:pair.plain SET result = answer WHERE key = k AND effect = '';
            IF FOUND THEN
                n := n + 1;
            END IF;
        END IF;
    END LOOP;
    RETURN n;
END $$;

CREATE FUNCTION bench_:pair.once_effect(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb := '{"status": 200, "body": "paid"}';
    k text;
    mine boolean;
    token bigint;
    n bigint := 0;
BEGIN
    FOREACH k IN ARRAY keys LOOP
        SELECT outcome = 'started', fence INTO mine, token FROM once.begin_effect(k, '1 minute', '7 days', '', ':pair');
        IF mine THEN
            SELECT once.complete_effect(k, token, answer, '', ':pair') INTO mine;
            IF mine THEN
                n := n + 1;
            END IF;
        END IF;
    END LOOP;
    RETURN n;
END $$;

CREATE FUNCTION bench_:pair.updates_effect(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb := '{"status": 200, "body": "paid"}';
    k text;
    token bigint;
    n bigint := 0;
BEGIN
    FOREACH k IN ARRAY keys LOOP
        INSERT INTO bench_:pair.effect (claimed_at, expires_at, key, effect)
        VALUES (clock_timestamp(), clock_timestamp() + '7 days', k, '') ON CONFLICT DO NOTHING;
        -- Whoever takes it over later does so by this statement too.
        UPDATE bench_:pair.effect
           SET state = 'running', fence = nextval('bench_:pair.fence'), attempt = attempt + 1, lease_until = clock_timestamp() + '1 minute'
         WHERE key = k AND effect = '' AND (state IS NULL OR state = 'running' AND lease_until < clock_timestamp())
        RETURNING fence INTO token;
        IF FOUND THEN
            UPDATE bench_:pair.effect SET state = 'done', result = answer, lease_until = NULL
             WHERE key = k AND effect = '' AND fence = token;
            IF FOUND THEN
                n := n + 1;
            END IF;
        END IF;
    END LOOP;
    RETURN n;
END $$;
