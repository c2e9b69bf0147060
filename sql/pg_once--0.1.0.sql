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

-- ---------------------------------------------------------------------------------------------
-- Statistics
-- ---------------------------------------------------------------------------------------------

CREATE FUNCTION once.stat_available() RETURNS boolean
    LANGUAGE c STABLE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'stat_available_wrapper';
COMMENT ON FUNCTION once.stat_available() IS
    'whether claims can be counted here: on 17 and later always, before that only where pg_once is in shared_preload_libraries';

CREATE FUNCTION once.stat_bounds() RETURNS bigint[]
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'stat_bounds_wrapper';
COMMENT ON FUNCTION once.stat_bounds() IS
    'upper bounds, inclusive, of the buckets of ages in seconds; one bucket without a bound follows the last';

CREATE FUNCTION once.stat_entries() RETURNS TABLE (
    store regclass, effect text, claimed bigint, duplicates bigint, in_progress bigint, too_late bigint,
    mismatch bigint, waits bigint, waited_us bigint, oldest_us bigint, last_tenth bigint, ages bigint[],
    stats_reset timestamptz
)   LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100 AS 'MODULE_PATHNAME', 'stat_entries_wrapper';
COMMENT ON FUNCTION once.stat_entries() IS
    'what the views of statistics are made of: one row for each store and effect counted in this database';

CREATE FUNCTION once.stat_reset(store text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'stat_reset_wrapper';
COMMENT ON FUNCTION once.stat_reset(text) IS
    'lets the statistics of a store begin anew; NULL: of every store the caller owns, and for a superuser also of what found no place. Needs ownership of the store';

CREATE VIEW once.stat_claims AS
SELECT c.relname::text AS store,
       e.effect,
       e.claimed,
       e.duplicates,
       e.in_progress,
       e.too_late,
       e.mismatch,
       e.waits,
       e.waited_us / 1000.0::double precision      AS wait_time,
       CASE WHEN e.duplicates > 0 THEN e.oldest_us * interval '1 microsecond' END AS oldest_duplicate,
       e.last_tenth,
       e.ages,
       e.stats_reset
  FROM once.stat_entries() e
  LEFT JOIN pg_catalog.pg_class c ON c.oid = e.store
 WHERE e.store IS NULL OR c.oid IS NOT NULL;
COMMENT ON VIEW once.stat_claims IS
    'one row for each store and effect that was claimed: what was answered since stats_reset, waits, and duplicates by age; the row without store and effect is what found no place in the table, of all databases';

CREATE VIEW once.stat_duplicate_ages AS
SELECT s.store,
       s.effect,
       CASE WHEN b.bound IS NULL THEN '+Inf' ELSE b.bound::text END AS le,
       coalesce(b.bound, 'Infinity'::double precision)              AS le_seconds,
       (sum(b.duplicates) OVER (PARTITION BY s.store, s.effect ORDER BY b.place))::bigint AS duplicates
  FROM once.stat_claims s
  CROSS JOIN LATERAL ROWS FROM (unnest(s.ages), unnest(once.stat_bounds()))
                     WITH ORDINALITY AS b (duplicates, bound, place);
COMMENT ON VIEW once.stat_duplicate_ages IS
    'the same duplicates as a cumulative histogram, one row a bucket: how many were at most le seconds old when they came';

CREATE VIEW once.retention_advice AS
WITH entry AS (
    SELECT e.* FROM once.stat_entries() e WHERE e.store IS NOT NULL
), bucket AS (
    SELECT e.store, b.place, b.bound,
           sum(sum(b.duplicates)) OVER (PARTITION BY e.store ORDER BY b.place) AS upto,
           sum(sum(b.duplicates)) OVER (PARTITION BY e.store)                  AS total
      FROM entry e
      CROSS JOIN LATERAL ROWS FROM (unnest(e.ages), unnest(once.stat_bounds()))
                         WITH ORDINALITY AS b (duplicates, bound, place)
     GROUP BY e.store, b.place, b.bound
), quantile AS (
    SELECT b.store,
           min(b.bound) FILTER (WHERE b.upto >= 0.50 * b.total) * interval '1 second' AS p50,
           min(b.bound) FILTER (WHERE b.upto >= 0.99 * b.total) * interval '1 second' AS p99
      FROM bucket b
     GROUP BY b.store
), seen AS (
    SELECT e.store,
           sum(e.duplicates)::bigint                          AS duplicates,
           sum(e.last_tenth)::bigint                          AS last_tenth,
           max(e.oldest_us) * interval '1 microsecond'        AS oldest,
           min(e.stats_reset)                                 AS since
      FROM entry e
     GROUP BY e.store
), judged AS (
    SELECT p.store, p.retention, p.retry_horizon, s.since,
           coalesce(s.duplicates, 0)                          AS duplicates,
           coalesce(s.last_tenth, 0)                          AS last_tenth,
           CASE WHEN s.duplicates > 0 THEN s.oldest END       AS oldest,
           CASE WHEN s.duplicates > 0 THEN least(q.p50, s.oldest) END AS p50,
           CASE WHEN s.duplicates > 0 THEN least(coalesce(q.p99, s.oldest), s.oldest) END AS p99,
           -- Twice the oldest, in whole hours upwards, and never below the horizon.
           greatest(ceil(extract(epoch FROM s.oldest) * 2 / 3600) * interval '1 hour', p.retry_horizon,
                    interval '1 hour')                        AS evidence
      FROM once.store_policy p
      LEFT JOIN seen s ON s.store = p.store
      LEFT JOIN quantile q ON q.store = p.store
), verdict AS (
    SELECT j.*,
           CASE WHEN NOT once.stat_available()                          THEN 'unavailable'
                WHEN j.last_tenth > 0 OR j.oldest >= j.retention * 0.9  THEN 'cannot tell'
                WHEN j.duplicates < 100                                 THEN 'too few'
                WHEN clock_timestamp() - j.since < j.retention          THEN 'too short'
                WHEN j.evidence > j.retention                           THEN 'raise'
                WHEN j.evidence < j.retention                           THEN 'could lower'
                ELSE 'fits' END AS verdict
      FROM judged j
)
SELECT c.relname::text AS store,
       v.since         AS observed_since,
       v.duplicates,
       v.p50, v.p99, v.oldest,
       v.retention,
       v.retention - v.oldest AS headroom,
       v.retry_horizon,
       CASE WHEN v.duplicates > 0 THEN v.last_tenth::double precision / v.duplicates END AS last_tenth,
       CASE WHEN v.verdict IN ('raise', 'could lower', 'fits') THEN v.evidence END AS supported_retention,
       v.verdict,
       CASE v.verdict
           WHEN 'unavailable' THEN 'claims cannot be counted: put pg_once into shared_preload_libraries'
           WHEN 'cannot tell' THEN 'duplicates still come in the last tenth of their window; later ones are claimed anew and cannot be seen: raise ttl and retention, then look again'
           WHEN 'too few'     THEN format('%s duplicates are too few to judge by (100 are needed): keep what the retry horizon gives', v.duplicates)
           WHEN 'too short'   THEN 'observed for less than the retention: what comes late may not have come yet; look again then'
           WHEN 'raise'       THEN format('the oldest duplicate leaves too little room: raise the retention to %s', v.evidence)
           WHEN 'could lower' THEN format('%s would be twice the oldest duplicate, and no less than the retry horizon; what you know of the sender counts for more', v.evidence)
           ELSE 'the retention is what the evidence supports' END AS advice
  FROM verdict v
  JOIN pg_catalog.pg_class c ON c.oid = v.store;
COMMENT ON VIEW once.retention_advice IS
    'one row a store: how late duplicates come against its retention, and what retention that supports; it sees only duplicates that came within their window';

-- Nothing here is for PUBLIC: no USAGE on the schema, so none of the functions can be reached, and
-- each checks the caller's privileges on the store all the same.
REVOKE ALL ON SCHEMA once FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA once FROM PUBLIC;

-- Those who watch the server read what was counted. EXECUTE is given here because a view's functions are
-- called as its reader, and these read no table whose privileges could decide.
REVOKE ALL ON FUNCTION once.stat_entries() FROM PUBLIC;
GRANT USAGE ON SCHEMA once TO pg_monitor;
GRANT EXECUTE ON FUNCTION once.stat_entries() TO pg_monitor;
GRANT SELECT ON once.stat_claims, once.stat_duplicate_ages, once.retention_advice TO pg_monitor;
