-- A pair: a store, one plain table beside it, and the loops over the two; :pair is its name.
--
-- Rule: the plain table has the columns, storage and primary key of the store's leaf, which is
-- checked below, and writes the same two clock readings; the store is one that create_store makes
-- with every setting as it comes.

CREATE SCHEMA bench_:pair;

SELECT once.create_store(':pair');

CREATE FUNCTION bench_:pair.leaf() RETURNS regclass LANGUAGE sql AS $$
    SELECT format('once.%I', leaf)::regclass FROM once.partitions WHERE store = ':pair' AND state = 'current'
$$;

DO $$ BEGIN
    EXECUTE format('CREATE TABLE bench_:pair.plain (LIKE %s INCLUDING ALL)', bench_:pair.leaf());
    IF bench.layout(bench_:pair.leaf()) IS DISTINCT FROM bench.layout('bench_:pair.plain') THEN
        RAISE EXCEPTION 'the tables differ: leaf (%), plain (%)',
            bench.layout(bench_:pair.leaf()), bench.layout('bench_:pair.plain');
    END IF;
END $$;

-- The loops: each returns how many keys were new.

CREATE FUNCTION bench_:pair.plain_statement(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
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
CREATE FUNCTION bench_:pair.once_statement(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
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

-- As one writes it in PL/pgSQL, which evaluates such an expression without the executor.
CREATE FUNCTION bench_:pair.once_expression(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    k text;
    n bigint := 0;
BEGIN
    FOREACH k IN ARRAY keys LOOP
        IF once.claim_once(k, '7 days', '', ':pair') THEN
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

-- What a careful writer may do by hand: index pages are then visited in order.
CREATE FUNCTION bench_:pair.plain_array_sorted(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    INSERT INTO bench_:pair.plain (claimed_at, expires_at, key, effect)
    SELECT clock_timestamp(), clock_timestamp() + '7 days', k, ''
      FROM (SELECT k FROM unnest(keys) AS k ORDER BY k COLLATE "C") AS sorted ON CONFLICT DO NOTHING;
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
