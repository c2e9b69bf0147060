-- The limit for arrays: COPY of rows that are sorted already, into one table like today's leaf of :pair.
--
-- Rule: it finds nothing out about a key; the file is written before the clock is read.

DO $$ BEGIN
    EXECUTE format('CREATE TABLE bench_:pair.sorted (LIKE %s INCLUDING ALL EXCLUDING INDEXES)', bench.leaf(':pair', 0));
    EXECUTE format('INSERT INTO bench_:pair.sorted SELECT * FROM %s', bench.leaf(':pair', 0));
END $$;

CREATE FUNCTION bench_:pair.write_sorted(keys text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('COPY (SELECT clock_timestamp(), clock_timestamp() + interval ''7 days'', k, '''' FROM unnest(%L::text[]) AS k
                           ORDER BY k COLLATE "C") TO %L (FORMAT binary)', keys, current_setting('data_directory') || '/bench.copy');
END $$;

CREATE FUNCTION bench_:pair.copy_sorted(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format('COPY bench_:pair.sorted (claimed_at, expires_at, key, effect) FROM %L (FORMAT binary)',
                   current_setting('data_directory') || '/bench.copy');
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
