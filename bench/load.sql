-- Filling: keys by number (keys.py says the same in Python), and a day of a store filled with them.
--
-- Rule: a day's rows are written past the claim, which would take an hour, and only before the day is
-- sealed; the index is built afterwards, as the leaf had it.

CREATE EXTENSION IF NOT EXISTS pg_once;
CREATE SCHEMA bench;

CREATE FUNCTION bench.natural_key(slot integer, n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'order-' || lpad((slot + 128 * (n * 7 + ((n * 40503) >> 3) % 7))::text, 9, '0') || ':paid'
$$;

CREATE FUNCTION bench.uuid_key(slot integer, n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT overlay(overlay(md5(slot || '-' || n)::uuid::text PLACING '4' FROM 15) PLACING 'a' FROM 20)
$$;

CREATE FUNCTION bench.leaf(wanted text, days_ago integer) RETURNS regclass LANGUAGE sql AS $$
    SELECT format('once.%I', leaf)::regclass FROM once.partitions
     WHERE store = wanted AND day = (now() AT TIME ZONE 'UTC')::date - days_ago
$$;

CREATE FUNCTION bench.fill(store text, days_ago integer, kind text, wanted integer, keep interval) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    leaf regclass := bench.leaf(store, days_ago);
    day timestamptz := date_trunc('day', now(), 'UTC') - days_ago * interval '1 day';
    pkey name;
    definition text;
BEGIN
    SELECT conname, pg_get_constraintdef(oid) INTO STRICT pkey, definition FROM pg_constraint WHERE conrelid = leaf AND contype = 'p';
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', leaf, pkey);
    EXECUTE format('INSERT INTO %s (claimed_at, expires_at, key, effect)
                    SELECT $1 + n * interval ''1 us'', $1 + n * interval ''1 us'' + $2, bench.%I(%s, n), ''''
                      FROM generate_series(0::bigint, %s) AS n', leaf, kind || '_key', days_ago, wanted - 1) USING day, keep;
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', leaf, pkey, definition);
END $$;

-- An index as random inserts have left it: pages 70 % full, and not packed, which would make the first
-- inserts split pages and nothing else.
CREATE FUNCTION bench.settle_index(index regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER INDEX %s SET (fillfactor = 70)', index);
    EXECUTE format('REINDEX INDEX %s', index);
    EXECUTE format('ALTER INDEX %s RESET (fillfactor)', index);
END $$;

CREATE FUNCTION bench.pkey(of regclass) RETURNS regclass LANGUAGE sql AS $$
    SELECT conindid::regclass FROM pg_constraint WHERE conrelid = of AND contype = 'p'
$$;

-- All that bears on the work; vacuum_truncate, which leaves have, only tells VACUUM not to lock them.
CREATE FUNCTION bench.layout(wanted regclass) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(concat_ws(' ', attname, atttypid::regtype, attcollation, attnotnull, attstorage, attcompression), ', ' ORDER BY attnum)
           || '; ' || (SELECT string_agg(concat_ws(' ', indisprimary, indisunique, indkey, indcollation, x.reloptions), ', ')
                         FROM pg_index JOIN pg_class x ON x.oid = indexrelid WHERE indrelid = wanted)
           || '; ' || (SELECT concat_ws(' ', relpersistence, nullif(array_remove(reloptions, 'vacuum_truncate=false'), '{}')) FROM pg_class WHERE oid = wanted)
      FROM pg_attribute WHERE attrelid = wanted AND attnum > 0 AND NOT attisdropped
$$;
