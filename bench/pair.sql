-- A pair: a store, one plain table beside it, and the loops over the two; :pair is its name.
--
-- Rule: the plain table has the columns, storage and primary key of the store's leaf, which is
-- checked once its index is built, holds the rows of all of the store's days, and writes the same two
-- clock readings.

CREATE SCHEMA bench_:pair;

DO $$ BEGIN
    EXECUTE format('CREATE TABLE bench_:pair.plain (LIKE %s INCLUDING ALL EXCLUDING INDEXES)', bench.leaf(':pair', 0));
END $$;
INSERT INTO bench_:pair.plain SELECT * FROM once.:pair;

-- The loops: each returns how many keys were new.

CREATE FUNCTION bench_:pair.plain_each(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    k text;
    n bigint := 0;
BEGIN
    FOREACH k IN ARRAY keys LOOP
        INSERT INTO bench_:pair.plain (claimed_at, expires_at, key, effect)
        VALUES (clock_timestamp(), clock_timestamp() + '7 days', k, '') ON CONFLICT DO NOTHING;
        IF FOUND THEN
            n := n + 1;
        END IF;
    END LOOP;
    RETURN n;
END $$;

-- A statement through the executor each time, as the INSERT is and as a client sends it.
CREATE FUNCTION bench_:pair.once_each(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    k text;
    mine boolean;
    n bigint := 0;
BEGIN
    FOREACH k IN ARRAY keys LOOP
        SELECT once.claim_once(k, '7 days', '', ':pair') INTO mine;
        IF mine THEN
            n := n + 1;
        END IF;
    END LOOP;
    RETURN n;
END $$;

CREATE FUNCTION bench_:pair.plain_array(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    INSERT INTO bench_:pair.plain (claimed_at, expires_at, key, effect)
    SELECT clock_timestamp(), clock_timestamp() + '7 days', k, '' FROM unnest(keys) AS k ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

CREATE FUNCTION bench_:pair.once_array(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    SELECT count(*) FILTER (WHERE claimed) INTO n FROM once.claim_many(keys, '7 days', '', ':pair');
    RETURN n;
END $$;
