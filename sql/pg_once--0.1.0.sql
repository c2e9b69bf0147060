-- pg_once 0.1.0: the whole SQL surface.
--
-- Everything lives in schema "once". The script creates that schema itself: if somebody made one
-- beforehand, CREATE EXTENSION fails instead of trusting what is in it. Stores and their daily
-- leaves are made at run time and are not members of the extension: DROP EXTENSION refuses while a
-- store exists, and pg_dump carries every claim.

\echo Use "CREATE EXTENSION pg_once" to load this file. \quit

CREATE SCHEMA once;
COMMENT ON SCHEMA once IS 'pg_once: claims, stores and their daily leaves';

-- ---------------------------------------------------------------------------------------------
-- What is known about stores
-- ---------------------------------------------------------------------------------------------

CREATE TABLE once.store_policy (
    store         regclass    PRIMARY KEY,
    retention     interval    NOT NULL CHECK (retention > '0'),
    retry_horizon interval    CHECK (retry_horizon > '0'),
    note          text,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE once.store_policy IS 'one row a store: how long it keeps claims and why; written by create_store, alter_store and drop_store';
COMMENT ON COLUMN once.store_policy.store IS 'the partitioned table that is the store';
COMMENT ON COLUMN once.store_policy.retention IS 'how long a claim may be kept at most: the upper limit of every ttl';
COMMENT ON COLUMN once.store_policy.retry_horizon IS 'longest time after which the sender side can still redeliver';
COMMENT ON COLUMN once.store_policy.note IS 'why the window is what it is, in the words of whoever chose it';
COMMENT ON COLUMN once.store_policy.created_at IS 'when the store was made';

CREATE TABLE once.leaf_promise (
    leaf       regclass    PRIMARY KEY,
    store      regclass    NOT NULL,
    keep_until timestamptz NOT NULL
);
COMMENT ON TABLE once.leaf_promise IS 'one row a leaf: no claim in it expires later than keep_until; only raised, never lowered';
COMMENT ON COLUMN once.leaf_promise.leaf IS 'the partition that holds one UTC day';
COMMENT ON COLUMN once.leaf_promise.store IS 'the store it belongs to';
COMMENT ON COLUMN once.leaf_promise.keep_until IS 'before this instant the leaf may hold a live claim and is not dropped';

SELECT pg_catalog.pg_extension_config_dump('once.store_policy', '');
SELECT pg_catalog.pg_extension_config_dump('once.leaf_promise', '');

-- ---------------------------------------------------------------------------------------------
-- Claims
-- ---------------------------------------------------------------------------------------------

CREATE TYPE once.outcome AS ENUM ('claimed', 'duplicate', 'in_progress', 'mismatch', 'too_late');
COMMENT ON TYPE once.outcome IS 'what became of a claim: claimed = do the work; every other value = do not';

CREATE FUNCTION once.claim_once(
    key text, ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'claim_once_text_wrapper';
COMMENT ON FUNCTION once.claim_once(text, interval, text, text) IS
    'true: the key is yours, do the work in this transaction; false: done already. ttl NULL = the store''s retention. Needs INSERT on the store';

CREATE FUNCTION once.claim_once(
    key uuid, ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'claim_once_uuid_wrapper';
COMMENT ON FUNCTION once.claim_once(uuid, interval, text, text) IS
    'the same as claim_once of the key''s text form (lower case, with hyphens)';

CREATE FUNCTION once.claim_once(
    key bigint, ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'claim_once_bigint_wrapper';
COMMENT ON FUNCTION once.claim_once(bigint, interval, text, text) IS
    'the same as claim_once of the key''s text form (decimal)';

CREATE FUNCTION once.claim(
    key text, ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events',
    fingerprint text DEFAULT NULL, event_time timestamptz DEFAULT NULL, wait boolean DEFAULT true,
    OUT outcome once.outcome, OUT claimed_at timestamptz, OUT expires_at timestamptz, OUT result jsonb
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'claim_wrapper';
COMMENT ON FUNCTION once.claim(text, interval, text, text, text, timestamptz, boolean) IS
    'claim with the whole answer as one row; wait => false answers in_progress at once instead of waiting for another transaction. Needs INSERT on the store';

CREATE FUNCTION once.claim_many(
    keys text[], ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS TABLE (key text, claimed boolean)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'claim_many_wrapper';
COMMENT ON FUNCTION once.claim_many(text[], interval, text, text) IS
    'claims every key of the array, in one global order so that batches cannot deadlock; one row per element in input order, of equal elements the first can be true. Needs INSERT on the store';

CREATE FUNCTION once.lookup(
    key text, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS TABLE (claimed_at timestamptz, expires_at timestamptz, result jsonb)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'lookup_wrapper';
COMMENT ON FUNCTION once.lookup(text, text, text) IS
    'the live claim of a key as this statement sees it, or no row; never claims, works on a standby. Needs SELECT on the store';

-- ---------------------------------------------------------------------------------------------
-- Stores and days
-- ---------------------------------------------------------------------------------------------

CREATE FUNCTION once.create_store(
    name text, retry_horizon interval DEFAULT NULL, retention interval DEFAULT NULL, note text DEFAULT NULL
) RETURNS regclass
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'create_store_wrapper';
COMMENT ON FUNCTION once.create_store(text, interval, interval, text) IS
    'makes a store: the partitioned table once.<name> and its first days; retention defaults to pg_once.horizon_factor x retry_horizon, or pg_once.default_retention. Needs CREATE on schema once';

CREATE FUNCTION once.alter_store(
    name text, retry_horizon interval DEFAULT NULL, retention interval DEFAULT NULL, note text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'alter_store_wrapper';
COMMENT ON FUNCTION once.alter_store(text, interval, interval, text) IS
    'changes what is given and leaves what is NULL; a longer retention protects what is there, a shorter one never drops a claim before the expiry it was given. Needs ownership of the store';

CREATE FUNCTION once.drop_store(name text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'drop_store_wrapper';
COMMENT ON FUNCTION once.drop_store(text) IS
    'drops a store with every claim in it. Needs ownership of the store';

CREATE PROCEDURE once.maintain()
    LANGUAGE c AS 'MODULE_PATHNAME', 'maintain_wrapper';
COMMENT ON PROCEDURE once.maintain() IS
    'one pass over the stores the caller owns: makes the days ahead, then drops days in which every claim has expired, each in a transaction of its own';

CREATE FUNCTION once.schedule(schedule text DEFAULT '*/10 * * * *', database text DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'schedule_wrapper';
COMMENT ON FUNCTION once.schedule(text, text) IS
    'has pg_cron run CALL once.maintain() as the caller in a database, this one by default; calling it again changes the job; returns its number. Works where pg_cron is installed';

CREATE FUNCTION once.unschedule(database text DEFAULT NULL) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'unschedule_wrapper';
COMMENT ON FUNCTION once.unschedule(text) IS
    'takes the caller''s job of once.schedule away again; false where there is none';

CREATE FUNCTION once.leaf_day(leaf regclass) RETURNS date
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'leaf_day_wrapper';
COMMENT ON FUNCTION once.leaf_day(regclass) IS
    'the UTC day a leaf covers, read from its partition bound; NULL for a table that is no leaf';

CREATE VIEW once.stores AS
SELECT c.relname::text                      AS store,
       pg_catalog.pg_get_userbyid(c.relowner) AS owner,
       p.retention,
       p.retry_horizon,
       p.note,
       l.days,
       l.first_day,
       l.last_day,
       p.created_at
  FROM once.store_policy p
  JOIN pg_catalog.pg_class c ON c.oid = p.store
  CROSS JOIN LATERAL (
       SELECT count(*)::integer               AS days,
              min(once.leaf_day(i.inhrelid))  AS first_day,
              max(once.leaf_day(i.inhrelid))  AS last_day
         FROM pg_catalog.pg_inherits i
        WHERE i.inhparent = p.store) l;
COMMENT ON VIEW once.stores IS 'one row a store: owner, window, and the days it has';

CREATE VIEW once.partitions AS
SELECT s.relname::text                 AS store,
       c.relname::text                 AS leaf,
       once.leaf_day(c.oid)            AS day,
       CASE WHEN once.leaf_day(c.oid) > u.today      THEN 'future'
            WHEN once.leaf_day(c.oid) = u.today      THEN 'current'
            WHEN k.keep_until <= clock_timestamp()   THEN 'due'
            ELSE 'open' END            AS state,
       k.keep_until,
       c.reltuples::bigint             AS rows_estimate,
       pg_catalog.pg_total_relation_size(c.oid) AS bytes
  FROM once.store_policy p
  JOIN pg_catalog.pg_class s    ON s.oid = p.store
  JOIN pg_catalog.pg_inherits i ON i.inhparent = p.store
  JOIN pg_catalog.pg_class c    ON c.oid = i.inhrelid
  LEFT JOIN once.leaf_promise k ON k.leaf = c.oid AND k.store = p.store
  CROSS JOIN (SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date AS today) u;
COMMENT ON VIEW once.partitions IS 'one row a leaf: its UTC day, whether it is future, current, open or due to be dropped, and until when it is kept';

-- Nothing here is for PUBLIC: no USAGE on the schema, so none of the functions can be reached, and
-- each checks the caller's privileges on the store all the same.
REVOKE ALL ON SCHEMA once FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA once FROM PUBLIC;
