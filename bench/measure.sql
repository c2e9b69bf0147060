-- How one loop is measured; the loops themselves are in pair.sql.
--
-- Rule: what is timed is the loop alone; keys are ready in memory before the clock is read, and the
-- commit comes after: one for all keys, on both sides.

CREATE UNLOGGED TABLE bench.input (part text PRIMARY KEY, keys text[] NOT NULL);
ALTER TABLE bench.input ALTER COLUMN keys SET STORAGE EXTERNAL;

-- The loop itself, so that a reader can take it off both sides.
CREATE FUNCTION bench.empty_loop(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    k text;
    n bigint := 0;
BEGIN
    FOREACH k IN ARRAY keys LOOP
        IF k IS NULL THEN
            n := n + 1;
        END IF;
    END LOOP;
    RETURN n;
END $$;

-- EXPLAIN drops what the loop answers; this keeps it without writing anything.
CREATE FUNCTION bench.keep(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('bench.claimed', n::text, false);
    RETURN n;
END $$;

-- Two measures of WAL: how far the end of the WAL moved, which is what disks, archives and standbys
-- see, and what EXPLAIN says this backend wrote, which no other process can add to. EXPLAIN
-- instruments the one outer row and nothing inside the loop.
CREATE FUNCTION bench.measure(loop regproc, wanted text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    a text[] := (SELECT keys FROM bench.input WHERE part = wanted);
    plan jsonb;
    wal pg_lsn;
    began timestamptz;
    ended timestamptz;
BEGIN
    wal := pg_current_wal_insert_lsn();
    began := clock_timestamp();
    EXECUTE format('EXPLAIN (ANALYZE, WAL, TIMING OFF, BUFFERS OFF, FORMAT JSON) SELECT bench.keep(%s($1))', loop)
       INTO plan USING a;
    ended := clock_timestamp();
    RETURN jsonb_build_object(
        'loop', loop,
        'keys', cardinality(a),
        'claimed', current_setting('bench.claimed')::bigint,
        'seconds', extract(epoch FROM ended - began),
        'wal_bytes', pg_current_wal_insert_lsn() - wal,
        'own_wal_bytes', coalesce((plan #>> '{0,Plan,WAL Bytes}')::bigint, 0),
        'full_page_images', coalesce((plan #>> '{0,Plan,WAL FPI}')::bigint, 0));
END $$;
