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
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    maintained_at timestamptz,
    clock_seen    timestamptz,
    doubt         text,
    doubt_since   timestamptz,
    raised_at     timestamptz,
    raised_from   interval,
    forbid        text[]      NOT NULL DEFAULT '{}'
        CHECK (forbid <@ '{uuidv4,time_based,hash,natural}' AND coalesce(array_ndims(forbid), 1) = 1),
    max_attempts  integer     CHECK (max_attempts > 0)
);
COMMENT ON TABLE once.store_policy IS 'one row a store: how long it keeps claims and why; written by create_store, alter_store and drop_store';
COMMENT ON COLUMN once.store_policy.store IS 'the partitioned table that is the store';
COMMENT ON COLUMN once.store_policy.retention IS 'how long a claim may be kept at most: the upper limit of every ttl';
COMMENT ON COLUMN once.store_policy.retry_horizon IS 'longest time after which the sender side can still redeliver';
COMMENT ON COLUMN once.store_policy.note IS 'why the window is what it is, in the words of whoever chose it';
COMMENT ON COLUMN once.store_policy.created_at IS 'when the store was made';
COMMENT ON COLUMN once.store_policy.maintained_at IS 'when the last pass of maintenance over it came to its end, whoever ran it';
COMMENT ON COLUMN once.store_policy.clock_seen IS 'the latest time that drops have gone by; a clock that shows an earlier one is not believed';
COMMENT ON COLUMN once.store_policy.doubt IS 'why maintenance does not believe the clock, and drops nothing';
COMMENT ON COLUMN once.store_policy.doubt_since IS 'since when it does not';
COMMENT ON COLUMN once.store_policy.raised_at IS 'when the retention was raised last: claims made before may be forgotten earlier than it says now';
COMMENT ON COLUMN once.store_policy.raised_from IS 'the shortest retention it was raised from';
COMMENT ON COLUMN once.store_policy.forbid IS 'kinds of keys that are not to be claimed: uuidv4, time_based, hash, natural; what becomes of one says pg_once.lint_keys';
COMMENT ON COLUMN once.store_policy.max_attempts IS 'how often an effect of begin_effect is begun at most; NULL: no limit';

CREATE TABLE once.leaf_promise (
    leaf       regclass    PRIMARY KEY,
    store      regclass    NOT NULL,
    keep_until timestamptz NOT NULL
);
COMMENT ON TABLE once.leaf_promise IS 'one row a leaf: no claim in it expires later than keep_until; only raised, never lowered';
COMMENT ON COLUMN once.leaf_promise.leaf IS 'the partition that holds one UTC day';
COMMENT ON COLUMN once.leaf_promise.store IS 'the store it belongs to';
COMMENT ON COLUMN once.leaf_promise.keep_until IS 'before this instant the leaf may hold a live claim and is not dropped';

CREATE TABLE once.store_pause (
    store   regclass    NOT NULL,
    since   timestamptz NOT NULL,
    until   timestamptz NOT NULL CHECK (until > since),
    is_hold boolean     NOT NULL,
    guard   interval    NOT NULL DEFAULT '0',
    reason  text        NOT NULL,
    made_by text        NOT NULL,
    PRIMARY KEY (store, is_hold, since)
);
COMMENT ON TABLE once.store_pause IS 'times in which the windows of a store stand still: holds, and absences of its consumers or the server; written by hold, unhold and maintenance';
COMMENT ON COLUMN once.store_pause.store IS 'the store';
COMMENT ON COLUMN once.store_pause.since IS 'when it began';
COMMENT ON COLUMN once.store_pause.until IS 'when it ended or will end; infinity: not over';
COMMENT ON COLUMN once.store_pause.is_hold IS 'true: somebody asked for it; false: an absence that was found';
COMMENT ON COLUMN once.store_pause.guard IS 'windows at least as long stand still in it: all in a hold; in an absence those as long as the retry horizon, or the retention, was when it was found';
COMMENT ON COLUMN once.store_pause.reason IS 'why';
COMMENT ON COLUMN once.store_pause.made_by IS 'the role that asked for it or found it';

CREATE TABLE once.maintenance_log (
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    store   text        NOT NULL,
    action  text        NOT NULL,
    day     date,
    rows    bigint,
    took    interval,
    detail  text        NOT NULL,
    made_by text        NOT NULL,
    runner  text        NOT NULL DEFAULT ''
);
CREATE INDEX maintenance_log_at ON once.maintenance_log (at);
COMMENT ON TABLE once.maintenance_log IS 'what maintenance did and who held what, newest 10,000 entries';
COMMENT ON COLUMN once.maintenance_log.at IS 'when';
COMMENT ON COLUMN once.maintenance_log.store IS 'the store, as it was called then';
COMMENT ON COLUMN once.maintenance_log.action IS 'create, seal or drop (a leaf), postpone or keep (a drop that did not happen), hold, unhold, away, back, doubt (about the clock), force';
COMMENT ON COLUMN once.maintenance_log.day IS 'the leaf''s UTC day';
COMMENT ON COLUMN once.maintenance_log.rows IS 'claims concerned';
COMMENT ON COLUMN once.maintenance_log.took IS 'how long it took';
COMMENT ON COLUMN once.maintenance_log.detail IS 'in words';
COMMENT ON COLUMN once.maintenance_log.made_by IS 'the role that did it';
COMMENT ON COLUMN once.maintenance_log.runner IS 'the application_name of the session that did it, or its kind where that is empty: pg_once worker (the launcher''s), pg_once claim (a claim that lacked a leaf), pg_cron, or whatever a client calls itself';

CREATE SEQUENCE once.effect_fence;
COMMENT ON SEQUENCE once.effect_fence IS 'fences of effects: one for each time that somebody is given an effect to run, never given twice';

CREATE TABLE once.effect_state (
    store            regclass         NOT NULL,
    fence            bigint           NOT NULL,
    claimed_at       timestamptz      NOT NULL,
    expires_at       timestamptz      NOT NULL,
    since            timestamptz      NOT NULL,
    lease_until      timestamptz,
    retry_at         timestamptz,
    shown_at         timestamptz,
    attempt          integer          NOT NULL,
    state            text             NOT NULL CHECK (state IN ('running', 'failed', 'gave_up')),
    effect           text COLLATE "C" NOT NULL,
    key              text COLLATE "C" NOT NULL,
    holder           text             NOT NULL,
    application_name text             NOT NULL,
    error            text,
    PRIMARY KEY (store, effect, key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
COMMENT ON TABLE once.effect_state IS 'one row an effect outside the database that was begun and is not finished; written by begin_effect, extend_effect, complete_effect, fail_effect and release. It counts only while the claim it was begun with stands';
COMMENT ON COLUMN once.effect_state.store IS 'the store';
COMMENT ON COLUMN once.effect_state.fence IS 'the number of whoever runs it, or ran it last';
COMMENT ON COLUMN once.effect_state.claimed_at IS 'when its claim was made, which is when it was begun first';
COMMENT ON COLUMN once.effect_state.expires_at IS 'when that claim expires, pauses left out';
COMMENT ON COLUMN once.effect_state.since IS 'when it came into its state, or was last taken over';
COMMENT ON COLUMN once.effect_state.lease_until IS 'running: until when nobody takes it over';
COMMENT ON COLUMN once.effect_state.retry_at IS 'failed: from when on it can be taken over';
COMMENT ON COLUMN once.effect_state.shown_at IS 'when a pass first saw that its window is over; its day is kept for a day from then on, and once.health tells of it';
COMMENT ON COLUMN once.effect_state.attempt IS 'how often it was begun';
COMMENT ON COLUMN once.effect_state.state IS 'running, failed or gave_up; a finished effect has no row';
COMMENT ON COLUMN once.effect_state.effect IS 'which effect of the key';
COMMENT ON COLUMN once.effect_state.key IS 'the key';
COMMENT ON COLUMN once.effect_state.holder IS 'the role that was given it';
COMMENT ON COLUMN once.effect_state.application_name IS 'what the session of that role called itself';
COMMENT ON COLUMN once.effect_state.error IS 'what fail_effect said last';

CREATE TABLE once.release_log (
    at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    store            text        NOT NULL,
    effect           text        NOT NULL,
    key              text        NOT NULL,
    claimed_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    had_answer       boolean     NOT NULL,
    reason           text        NOT NULL,
    made_by          text        NOT NULL,
    application_name text        NOT NULL
);
CREATE INDEX release_log_at ON once.release_log (at);
COMMENT ON TABLE once.release_log IS 'claims that were given up with once.release() and once.release_many(), so that their messages may be processed again; kept until somebody deletes from it';
COMMENT ON COLUMN once.release_log.at IS 'when';
COMMENT ON COLUMN once.release_log.store IS 'the store, as it was called then';
COMMENT ON COLUMN once.release_log.effect IS 'the effect';
COMMENT ON COLUMN once.release_log.key IS 'the key';
COMMENT ON COLUMN once.release_log.claimed_at IS 'when the claim was made';
COMMENT ON COLUMN once.release_log.expires_at IS 'when it expired, or would have';
COMMENT ON COLUMN once.release_log.had_answer IS 'whether an answer was stored with it';
COMMENT ON COLUMN once.release_log.reason IS 'why';
COMMENT ON COLUMN once.release_log.made_by IS 'the role that did it';
COMMENT ON COLUMN once.release_log.application_name IS 'the application_name of its session';

-- Seals and filters are not dumped: they belong to this server's files, and maintenance makes them anew, as it does
-- what it finds about keys.

CREATE TABLE once.leaf_seal (
    voided       boolean     NOT NULL DEFAULT false,
    leaf         regclass    NOT NULL PRIMARY KEY,
    store        regclass    NOT NULL,
    made_trigger oid         NOT NULL,
    made_by      bigint      NOT NULL,
    file         oid         NOT NULL,
    seal         bigint      NOT NULL,
    key_at       bigint      NOT NULL,
    effect_at    bigint      NOT NULL,
    altered_by   bigint      NOT NULL,
    sealed_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE once.leaf_seal IS 'one row a leaf whose day is over: nothing was added to it since, as long as it is not voided and the leaf bears these marks; rows are never updated';
COMMENT ON COLUMN once.leaf_seal.voided IS 'a row has come all the same, or was about to: set at once, past transactions';
COMMENT ON COLUMN once.leaf_seal.leaf IS 'the partition that holds one UTC day';
COMMENT ON COLUMN once.leaf_seal.store IS 'the store it belongs to';
COMMENT ON COLUMN once.leaf_seal.made_trigger IS 'the trigger that fires when a row comes';
COMMENT ON COLUMN once.leaf_seal.made_by IS 'the transaction that made the trigger, or altered it last';
COMMENT ON COLUMN once.leaf_seal.file IS 'the leaf''s file';
COMMENT ON COLUMN once.leaf_seal.seal IS 'which seal of the leaf it is';
COMMENT ON COLUMN once.leaf_seal.key_at IS 'the number of the store''s column that is the key';
COMMENT ON COLUMN once.leaf_seal.effect_at IS 'the number of the store''s column that is the effect';
COMMENT ON COLUMN once.leaf_seal.altered_by IS 'the transaction that altered the leaf''s definition last';
COMMENT ON COLUMN once.leaf_seal.sealed_at IS 'when it was sealed';

CREATE TABLE once.key_audit (
    store   regclass          NOT NULL,
    effect  text COLLATE "C"  NOT NULL,
    finding text,
    since   timestamptz       NOT NULL,
    seen_at timestamptz       NOT NULL,
    PRIMARY KEY (store, effect)
);
COMMENT ON TABLE once.key_audit IS 'what the last pass that looked at a store''s keys found wrong with them, once a day, for once.health; no key is in it';
COMMENT ON COLUMN once.key_audit.store IS 'the store';
COMMENT ON COLUMN once.key_audit.effect IS 'the effect';
COMMENT ON COLUMN once.key_audit.finding IS 'what is wrong, with the evidence; NULL: nothing, and the row says when that was seen';
COMMENT ON COLUMN once.key_audit.since IS 'when it was found first';
COMMENT ON COLUMN once.key_audit.seen_at IS 'when it was found last';

CREATE TABLE once.filter (
    pages_in    regclass    PRIMARY KEY,
    store       regclass    NOT NULL,
    id          bigint      NOT NULL,
    pages       bigint      NOT NULL,
    bucket_bits bigint      NOT NULL,
    day_bits    bigint      NOT NULL,
    entries     bigint      NOT NULL,
    retired     boolean     NOT NULL DEFAULT false,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE once.filter IS 'one row a filter: which of its sealed days may hold a key; made by maintenance and never changed';
COMMENT ON COLUMN once.filter.pages_in IS 'the table its pages are in';
COMMENT ON COLUMN once.filter.store IS 'the store it belongs to';
COMMENT ON COLUMN once.filter.id IS 'the number that each of its pages bears';
COMMENT ON COLUMN once.filter.pages IS 'how many pages it has';
COMMENT ON COLUMN once.filter.bucket_bits IS 'how many bits of a key''s hash choose the place in it';
COMMENT ON COLUMN once.filter.day_bits IS 'how many bits of an entry say which day';
COMMENT ON COLUMN once.filter.entries IS 'claims in it';
COMMENT ON COLUMN once.filter.retired IS 'another has taken its place; its table is dropped by the next pass';
COMMENT ON COLUMN once.filter.made_at IS 'when it was made';

CREATE TABLE once.filter_day (
    filter regclass NOT NULL,
    place  bigint   NOT NULL,
    leaf   regclass NOT NULL,
    seal   bigint   NOT NULL,
    keys   bigint   NOT NULL,
    newest timestamptz,
    PRIMARY KEY (filter, place)
);
COMMENT ON TABLE once.filter_day IS 'the days of each filter';
COMMENT ON COLUMN once.filter_day.filter IS 'the table its pages are in';
COMMENT ON COLUMN once.filter_day.place IS 'number of the day in the filter, from 0';
COMMENT ON COLUMN once.filter_day.leaf IS 'the partition that holds the day';
COMMENT ON COLUMN once.filter_day.seal IS 'the seal of the leaf that it was built under: it answers for no other';
COMMENT ON COLUMN once.filter_day.keys IS 'claims of the day';
COMMENT ON COLUMN once.filter_day.newest IS 'when the last of them expires, pauses left out';

SELECT pg_catalog.pg_extension_config_dump('once.store_policy', '');
SELECT pg_catalog.pg_extension_config_dump('once.leaf_promise', '');
SELECT pg_catalog.pg_extension_config_dump('once.store_pause', '');
SELECT pg_catalog.pg_extension_config_dump('once.maintenance_log', '');
SELECT pg_catalog.pg_extension_config_dump('once.effect_fence', '');
SELECT pg_catalog.pg_extension_config_dump('once.effect_state', '');
SELECT pg_catalog.pg_extension_config_dump('once.release_log', '');

-- ---------------------------------------------------------------------------------------------
-- Claims
-- ---------------------------------------------------------------------------------------------

CREATE TYPE once.outcome AS ENUM ('claimed', 'duplicate', 'in_progress', 'mismatch', 'too_late');
COMMENT ON TYPE once.outcome IS 'what became of a claim: claimed = do the work; every other value = do not';

CREATE FUNCTION once.claim_once(
    key text, ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events',
    event_time timestamptz DEFAULT NULL
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'claim_once_text_wrapper';
COMMENT ON FUNCTION once.claim_once(text, interval, text, text, timestamptz) IS
    'true: the key is yours, do the work in this transaction; false: done already. ttl NULL = the store''s retention; event_time given: OC001 for a message older than the store remembers. Needs INSERT on the store';

CREATE FUNCTION once.claim_once(
    key uuid, ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events',
    event_time timestamptz DEFAULT NULL
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'claim_once_uuid_wrapper';
COMMENT ON FUNCTION once.claim_once(uuid, interval, text, text, timestamptz) IS
    'the same as claim_once of the key''s text form (lower case, with hyphens)';

CREATE FUNCTION once.claim_once(
    key bigint, ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events',
    event_time timestamptz DEFAULT NULL
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'claim_once_bigint_wrapper';
COMMENT ON FUNCTION once.claim_once(bigint, interval, text, text, timestamptz) IS
    'the same as claim_once of the key''s text form (decimal)';

CREATE FUNCTION once.claim(
    key text, ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events',
    fingerprint text DEFAULT NULL, event_time timestamptz DEFAULT NULL, wait boolean DEFAULT true,
    OUT outcome once.outcome, OUT claimed_at timestamptz, OUT expires_at timestamptz, OUT result jsonb
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'claim_wrapper';
COMMENT ON FUNCTION once.claim(text, interval, text, text, text, timestamptz, boolean) IS
    'claim with the whole answer as one row: result is what once.complete() stored, for callers with SELECT on the store; fingerprint given: mismatch where the key was claimed with another; wait => false answers in_progress at once instead of waiting for another transaction. Needs INSERT on the store';

CREATE FUNCTION once.complete(
    key text, result jsonb, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'complete_wrapper';
COMMENT ON FUNCTION once.complete(text, jsonb, text, text) IS
    'stores the answer of a claim, for duplicates to be given: true = stored now, false = the same was there; OC006 where the key is not claimed, OC007 where another answer is there, OC008 where an effect of it is not finished. Needs INSERT on the store';

CREATE FUNCTION once.release(
    key text, reason text, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'release_wrapper';
COMMENT ON FUNCTION once.release(text, text, text, text) IS
    'gives the claim of a key up in this transaction, its window over or not, so that its message may be processed again, and writes to once.release_log; false where there is none. Needs DELETE on the store';

CREATE FUNCTION once.release_many(
    query text, reason text, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'release_many_wrapper';
COMMENT ON FUNCTION once.release_many(text, text, text, text) IS
    'gives up every claim that a query names, by key or by key and effect, in this transaction; how many there were. Needs DELETE on the store, and what the query needs';

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
-- Keys
-- ---------------------------------------------------------------------------------------------

CREATE FUNCTION once.natural_key(VARIADIC parts text[]) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'natural_key_wrapper';
COMMENT ON FUNCTION once.natural_key(text[]) IS
    'one key of several parts, joined by colons so that no two lists of parts give the same key; a colon or backslash within a part has a backslash before it; a NULL part is refused';

CREATE FUNCTION once.key_from_json(payload jsonb, VARIADIC paths text[]) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'key_from_json_wrapper';
COMMENT ON FUNCTION once.key_from_json(jsonb, text[]) IS
    'the natural key of fields of a payload, the same however it is serialised; paths are order.id, items[0].sku, ["name.with.dots"].id; a field that is missing or null is refused';

CREATE FUNCTION once.fingerprint(payload jsonb, VARIADIC ignore text[] DEFAULT '{}') RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'fingerprint_wrapper';
COMMENT ON FUNCTION once.fingerprint(jsonb, text[]) IS
    'the SHA-256 of a payload in hexadecimal, the same however it is serialised, without the fields that the paths to be ignored lead to; paths as in key_from_json, ending in a name';

CREATE FUNCTION once.key_uuid(effect text, key text) RETURNS uuid
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'key_uuid_wrapper';
COMMENT ON FUNCTION once.key_uuid(text, text) IS
    'the UUIDv5 of an effect and a key in namespace 7778a313-3934-52bb-9f5d-71f21bc2f442: the same on every attempt, in every language';

-- ---------------------------------------------------------------------------------------------
-- Stores and days
-- ---------------------------------------------------------------------------------------------

CREATE FUNCTION once.create_store(
    name text, retry_horizon interval DEFAULT NULL, retention interval DEFAULT NULL, note text DEFAULT NULL,
    forbid text[] DEFAULT NULL, max_attempts integer DEFAULT NULL
) RETURNS regclass
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'create_store_wrapper';
COMMENT ON FUNCTION once.create_store(text, interval, interval, text, text[], integer) IS
    'makes a store: the partitioned table once.<name> and its first days; retention defaults to pg_once.horizon_factor x retry_horizon, or pg_once.default_retention; forbid: kinds of keys not to be claimed (uuidv4, time_based, hash, natural); max_attempts: how often begin_effect gives out an effect, NULL or 0 without limit. Needs CREATE on schema once';

CREATE FUNCTION once.alter_store(
    name text, retry_horizon interval DEFAULT NULL, retention interval DEFAULT NULL, note text DEFAULT NULL,
    forbid text[] DEFAULT NULL, max_attempts integer DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'alter_store_wrapper';
COMMENT ON FUNCTION once.alter_store(text, interval, interval, text, text[], integer) IS
    'changes what is given and leaves what is NULL; a longer retention protects what is there, a shorter one never drops a claim before the expiry it was given; forbid => ''{}'' forbids none, max_attempts => 0 takes the limit away. Needs ownership of the store';

CREATE FUNCTION once.drop_store(name text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'drop_store_wrapper';
COMMENT ON FUNCTION once.drop_store(text) IS
    'drops a store with every claim in it. Needs ownership of the store';

CREATE FUNCTION once.hold(store text, reason text, until timestamptz DEFAULT 'infinity') RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hold_wrapper';
COMMENT ON FUNCTION once.hold(text, text, timestamptz) IS
    'windows of the store stand still and nothing is dropped until then, for an incident replay; a second call changes the hold in force. Needs ownership of the store';

CREATE FUNCTION once.unhold(store text) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'unhold_wrapper';
COMMENT ON FUNCTION once.unhold(text) IS
    'ends the hold in force, and an absence that maintenance found; windows run on from now. False where there was none. Needs ownership of the store';

CREATE PROCEDURE once.maintain(force boolean DEFAULT false)
    LANGUAGE c AS 'MODULE_PATHNAME', 'maintain_wrapper';
COMMENT ON PROCEDURE once.maintain(boolean) IS
    'one pass over the stores the caller owns: makes the days ahead, drops days in which every claim has expired, seals those that are over and builds their filters, each in a transaction of its own; force => true believes the clock where it is in doubt';

CREATE PROCEDURE once.import_claims(
    store text, source regclass, key_column text, claimed_at_column text,
    effect_column text DEFAULT NULL, effect text DEFAULT '', ttl interval DEFAULT NULL,
    time_zone text DEFAULT NULL, batch_size integer DEFAULT 10000,
    INOUT rows_read bigint DEFAULT NULL, INOUT imported bigint DEFAULT NULL, INOUT already_there bigint DEFAULT NULL,
    INOUT expired bigint DEFAULT NULL, INOUT refused bigint DEFAULT NULL
)
    LANGUAGE c AS 'MODULE_PATHNAME', 'import_claims_wrapper';
COMMENT ON PROCEDURE once.import_claims(text, regclass, text, text, text, text, interval, text, integer, bigint, bigint, bigint, bigint, bigint) IS
    'makes claims of the keys that a table says were processed, each for ttl (NULL = the store''s retention) from its own time, in batches that are committed one by one; safe to run twice and while claims go on. Needs INSERT on the store and SELECT on the source';

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

CREATE FUNCTION once.audit_keys(store text, sample integer DEFAULT 10000) RETURNS TABLE (
    effect text, sampled bigint, uuidv4_share double precision, time_based_share double precision,
    hash_share double precision, natural_share double precision, shortest bigint, median bigint, longest bigint,
    claimed bigint, duplicates bigint, counted_since timestamptz, findings text[]
)   LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'audit_keys_wrapper';
COMMENT ON FUNCTION once.audit_keys(text, integer) IS
    'what the keys in use look like, one row an effect: shares of random, time-based, hashed and natural keys in a sample of pages, lengths, what was counted, and findings in words. Needs SELECT on the store';

CREATE VIEW once.stores AS
SELECT c.relname::text                      AS store,
       pg_catalog.pg_get_userbyid(c.relowner) AS owner,
       p.retention,
       p.retry_horizon,
       p.note,
       l.days,
       l.first_day,
       l.last_day,
       p.created_at,
       p.maintained_at,
       p.forbid,
       p.max_attempts
  FROM once.store_policy p
  JOIN pg_catalog.pg_class c ON c.oid = p.store
  CROSS JOIN LATERAL (
       SELECT count(*)::integer               AS days,
              min(once.leaf_day(i.inhrelid))  AS first_day,
              max(once.leaf_day(i.inhrelid))  AS last_day
         FROM pg_catalog.pg_inherits i
        WHERE i.inhparent = p.store) l;
COMMENT ON VIEW once.stores IS 'one row a store: owner, window, the days it has, when a pass over it last came to its end, the kinds of keys it forbids, and how often it has an effect begun';

CREATE FUNCTION once.kept_until(store regclass) RETURNS TABLE (leaf regclass, kept_until timestamptz)
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED ROWS 10 AS 'MODULE_PATHNAME', 'kept_until_wrapper';
COMMENT ON FUNCTION once.kept_until(regclass) IS
    'until when each leaf of a store may hold a live claim: what was promised, and longer by the store''s pauses';

CREATE FUNCTION once.leaf_expiries(leaf regclass, OUT oldest timestamptz, OUT newest timestamptz) RETURNS record
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'leaf_expiries_wrapper';
COMMENT ON FUNCTION once.leaf_expiries(regclass) IS
    'when the first and the last claim of a leaf expire; reads the whole leaf. NULL without SELECT on its store, and for a table that is no leaf';

CREATE FUNCTION once.void_filter() RETURNS trigger
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'void_filter_wrapper';
COMMENT ON FUNCTION once.void_filter() IS
    'trigger on the leaf of a day that is over: says, before a row comes all the same, that no filter answers for the leaf any more';

CREATE FUNCTION once.keep_seal() RETURNS trigger
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'keep_seal_wrapper';
COMMENT ON FUNCTION once.keep_seal() IS
    'trigger on once.leaf_seal: refuses an update, after which a filter could deny a row that came all the same';
CREATE TRIGGER keep_seal BEFORE UPDATE ON once.leaf_seal EXECUTE FUNCTION once.keep_seal();
ALTER TABLE once.leaf_seal ENABLE ALWAYS TRIGGER keep_seal;
COMMENT ON TRIGGER keep_seal ON once.leaf_seal IS 'a seal is deleted and made anew, never changed';

CREATE FUNCTION once.sealed_leaves(store regclass) RETURNS TABLE (leaf regclass, filter regclass)
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED ROWS 1 AS 'MODULE_PATHNAME', 'sealed_leaves_wrapper';
COMMENT ON FUNCTION once.sealed_leaves(regclass) IS
    'the leaves of a store for which a filter answers, and the table of its pages';

CREATE FUNCTION once.filter_probe(store text, key text, effect text DEFAULT '') RETURNS TABLE (leaf regclass, filter regclass)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'filter_probe_wrapper';
COMMENT ON FUNCTION once.filter_probe(text, text, text) IS
    'the sealed leaves that may hold a key, by their filters alone: a claim looks the key up in these. Needs SELECT on the store';

CREATE VIEW once.filters AS
SELECT c.relname::text AS store,
       f.pages_in      AS filter,
       (SELECT count(*) FROM once.filter_day d WHERE d.filter = f.pages_in)::integer AS days,
       f.entries       AS keys,
       pg_catalog.pg_relation_size(f.pages_in) AS bytes,
       f.retired,
       f.made_at
  FROM once.filter f
  JOIN pg_catalog.pg_class c ON c.oid = f.store;
COMMENT ON VIEW once.filters IS 'one row a filter: the days and keys it answers for, its size, and whether it waits to be dropped';

CREATE VIEW once.partitions AS
SELECT s.relname::text                 AS store,
       c.relname::text                 AS leaf,
       once.leaf_day(c.oid)            AS day,
       CASE WHEN once.leaf_day(c.oid) > u.today      THEN 'future'
            WHEN once.leaf_day(c.oid) = u.today      THEN 'current'
            WHEN h.store IS NOT NULL         THEN 'held'
            WHEN g.kept_until <= u.now       THEN 'due'
            WHEN f.leaf IS NOT NULL    THEN 'sealed'
            ELSE 'open' END            AS state,
       k.keep_until,
       g.kept_until                    AS goes_at,
       NULLIF(c.reltuples, -1)::bigint AS rows_estimate,
       pg_catalog.pg_total_relation_size(c.oid) AS bytes,
       (once.leaf_expiries(c.oid)).oldest AS oldest_expiry,
       (once.leaf_expiries(c.oid)).newest AS newest_expiry
  FROM once.store_policy p
  JOIN pg_catalog.pg_class s    ON s.oid = p.store
  CROSS JOIN LATERAL once.kept_until(p.store) g
  JOIN pg_catalog.pg_class c    ON c.oid = g.leaf
  LEFT JOIN once.leaf_promise k ON k.leaf = c.oid AND k.store = p.store
  LEFT JOIN (SELECT s.leaf FROM once.store_policy q, once.sealed_leaves(q.store) s) f ON f.leaf = c.oid
  LEFT JOIN (SELECT DISTINCT h.store FROM once.store_pause h
              WHERE h.since <= clock_timestamp() AND clock_timestamp() < h.until) h ON h.store = p.store
  CROSS JOIN (SELECT now, (now AT TIME ZONE 'UTC')::date AS today FROM (SELECT clock_timestamp() AS now) c) u;
COMMENT ON VIEW once.partitions IS 'one row a leaf: its UTC day, its state (future, current, open, sealed, held by a pause, due to be dropped), until when it was promised and when it goes; the two expiries read the whole leaf, only where they are selected';

-- ---------------------------------------------------------------------------------------------
-- Effects outside the database
-- ---------------------------------------------------------------------------------------------

CREATE TYPE once.effect_outcome AS ENUM ('started', 'taken_over', 'in_progress', 'done', 'mismatch', 'too_late', 'gave_up');
COMMENT ON TYPE once.effect_outcome IS 'what became of begin_effect: started, taken_over = run the effect; every other value = do not';

CREATE FUNCTION once.begin_effect(
    key text, lease interval, ttl interval DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events',
    fingerprint text DEFAULT NULL, event_time timestamptz DEFAULT NULL,
    OUT outcome once.effect_outcome, OUT fence bigint, OUT attempt integer, OUT downstream_key uuid, OUT result jsonb,
    OUT lease_until timestamptz
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'begin_effect_wrapper';
COMMENT ON FUNCTION once.begin_effect(text, interval, interval, text, text, text, timestamptz) IS
    'claims the key of an effect outside the database for as long as lease: commit, run the effect with downstream_key, then call complete_effect with fence. taken_over: another attempt ended without saying how. Needs INSERT on the store';

CREATE FUNCTION once.extend_effect(
    key text, fence bigint, lease interval, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS timestamptz
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'extend_effect_wrapper';
COMMENT ON FUNCTION once.extend_effect(text, bigint, interval, text, text) IS
    'lets the lease of a running effect end so long from now, and says when that is: not after its window. A stale fence is refused (OC008). Needs INSERT on the store';

CREATE FUNCTION once.complete_effect(
    key text, fence bigint, result jsonb DEFAULT NULL, effect text DEFAULT '', store text DEFAULT 'processed_events'
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'complete_effect_wrapper';
COMMENT ON FUNCTION once.complete_effect(text, bigint, jsonb, text, text) IS
    'the effect is done: stores its answer, NULL as a JSON null, with the claim. True: stored now; false: the same answer is there already. A stale fence is refused (OC008). Needs INSERT on the store';

CREATE FUNCTION once.fail_effect(
    key text, fence bigint, error text, retry_after interval DEFAULT '0', effect text DEFAULT '',
    store text DEFAULT 'processed_events'
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'fail_effect_wrapper';
COMMENT ON FUNCTION once.fail_effect(text, bigint, text, interval, text, text) IS
    'the attempt has failed: another can take the effect over after retry_after. Answers failed, or gave_up where the store''s max_attempts is reached. A stale fence is refused (OC008). Needs INSERT on the store';

CREATE FUNCTION once.window_end(store regclass, claimed_at timestamptz, expires_at timestamptz) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'window_end_wrapper';
COMMENT ON FUNCTION once.window_end(regclass, timestamptz, timestamptz) IS
    'when the window of a claim ends: when it expires, and later by the store''s pauses';

CREATE VIEW once.effects AS
SELECT c.relname::text AS store,
       s.effect,
       s.key,
       CASE WHEN w.ends_at <= t.now        THEN 'expired'
            WHEN s.state = 'gave_up'       THEN 'gave_up'
            WHEN s.state = 'running'       THEN CASE WHEN s.lease_until > t.now THEN 'running' ELSE 'overdue' END
            WHEN s.retry_at > t.now        THEN 'waiting'
            ELSE 'failed' END AS state,
       s.attempt,
       p.max_attempts,
       s.fence,
       s.claimed_at AS began_at,
       v.since,
       greatest(t.now - v.since, '0') AS lasts,
       s.lease_until,
       s.retry_at,
       w.ends_at,
       s.shown_at,
       s.error,
       s.holder,
       s.application_name
  FROM once.effect_state s
  JOIN pg_catalog.pg_class c ON c.oid = s.store
  LEFT JOIN once.store_policy p ON p.store = s.store
 CROSS JOIN (SELECT clock_timestamp() AS now) t
 -- A pause only lets a window end later.
 CROSS JOIN LATERAL (SELECT CASE WHEN s.expires_at > t.now THEN s.expires_at
                                 ELSE once.window_end(s.store, s.claimed_at, s.expires_at) END AS ends_at) w
 CROSS JOIN LATERAL (SELECT CASE WHEN w.ends_at <= t.now     THEN w.ends_at
                                 WHEN s.state = 'gave_up'    THEN s.since
                                 WHEN s.lease_until <= t.now THEN s.lease_until
                                 WHEN s.retry_at <= t.now    THEN s.retry_at
                                 ELSE s.since END AS since) v;
COMMENT ON VIEW once.effects IS
    'one row an unfinished effect: running, overdue (its lease is over), waiting (for its retry), failed (to be retried), gave_up, or expired (its window is over); since when, by whom';

CREATE VIEW once.health AS
WITH clock AS (SELECT now, (now AT TIME ZONE 'UTC')::date AS today FROM (SELECT clock_timestamp() AS now) c),
     known AS (
SELECT p.*, c.relname::text AS name, l.last_day
  FROM once.store_policy p
  JOIN pg_catalog.pg_class c ON c.oid = p.store
  CROSS JOIN LATERAL (SELECT max(once.leaf_day(i.inhrelid)) AS last_day
                        FROM pg_catalog.pg_inherits i WHERE i.inhparent = p.store) l),
     postponed AS (
-- Until its day is over it is the making of a leaf that was put off, from then on its drop.
SELECT l.store, l.day, l.at >= (l.day + 1)::timestamp AT TIME ZONE 'UTC' AS of_drop, min(l.at) AS since,
       (pg_catalog.array_agg(l.action || ': ' || l.detail ORDER BY l.at DESC))[1] AS detail
  FROM once.maintenance_log l
 WHERE l.action IN ('postpone', 'keep') AND l.day IS NOT NULL GROUP BY 1, 2, 3),
     leaf AS (
SELECT k.name, k.store, g.leaf, g.kept_until, c.relkind, c.relam, c.relpartbound IS NOT NULL
       AND pg_catalog.pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT' AS is_default,
       p.leaf IS NULL AS by_hand, once.leaf_day(g.leaf) AS day
  FROM known k
 CROSS JOIN LATERAL once.kept_until(k.store) g
  JOIN pg_catalog.pg_class c ON c.oid = g.leaf
  LEFT JOIN once.leaf_promise p ON p.leaf = g.leaf AND p.store = k.store),
     over_by_hand AS (
-- Of a default partition that nothing was ever written to; of another leaf what the last pass that read it saw.
SELECT l.* FROM leaf l, clock
 WHERE l.by_hand AND l.relkind = 'r'
   AND CASE WHEN l.is_default THEN pg_catalog.pg_relation_size(l.leaf) = 0
            ELSE (SELECT m.detail LIKE '%was attached by hand, every claim in it is over%'
                    FROM once.maintenance_log m CROSS JOIN (
                         SELECT pg_catalog.format('%I.%I ', n.nspname, c.relname) AS name FROM pg_catalog.pg_class c
                           JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = l.leaf) x
                   WHERE m.store = l.name AND m.action = 'keep' AND pg_catalog.starts_with(m.detail, x.name)
                     AND m.at BETWEEN clock.now - interval '2 days' AND clock.now
                   ORDER BY m.at DESC LIMIT 1) END),
     slow AS (
-- What keeps a claim from writing a leaf directly (src/pg/layout.rs), with the statement that takes it away:
-- on the store, where the leaf has it from there.
SELECT l.name, l.leaf, 'warning' AS severity, 'index ' || i.index::text AS what,
       CASE WHEN k.conname IS NULL THEN pg_catalog.format('DROP INDEX %s', i.index)
            ELSE pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::pg_catalog.regclass, k.conname) END AS remedy
  FROM leaf l JOIN pg_catalog.pg_index x ON x.indrelid = l.leaf AND NOT x.indisprimary
 CROSS JOIN LATERAL (SELECT coalesce(pg_catalog.pg_partition_root(x.indexrelid), x.indexrelid::pg_catalog.regclass) AS index) i
  LEFT JOIN pg_catalog.pg_constraint k ON k.conindid = i.index AND k.contype IN ('u', 'x')
 WHERE l.day >= (SELECT today FROM clock)
UNION ALL
SELECT l.name, l.leaf, 'warning', 'trigger ' || t.tgname,
       pg_catalog.format('DROP TRIGGER %I ON %s', t.tgname,
                         CASE WHEN t.tgparentid <> 0 THEN l.store ELSE l.leaf END)
  FROM leaf l JOIN pg_catalog.pg_trigger t ON t.tgrelid = l.leaf AND NOT t.tgisinternal AND t.tgname <> 'pg_once_sealed'
 WHERE l.day >= (SELECT today FROM clock)
UNION ALL
SELECT l.name, l.leaf, 'warning',
       CASE k.contype WHEN 'c' THEN 'check ' ELSE 'foreign key ' END || k.conname,
       pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I',
                         CASE WHEN k.coninhcount > 0 THEN l.store ELSE l.leaf END, k.conname)
  FROM leaf l JOIN pg_catalog.pg_constraint k ON k.conrelid = l.leaf AND k.contype IN ('c', 'f')
 WHERE l.day >= (SELECT today FROM clock)
UNION ALL
SELECT l.name, l.leaf, CASE WHEN a.attisdropped THEN 'info' ELSE 'warning' END,
       CASE WHEN a.attisdropped THEN 'a dropped column, as the leaves that are there have, but none that is made from now on'
            ELSE CASE WHEN a.attgenerated <> '' THEN 'generated column ' ELSE 'column ' END || a.attname END,
       CASE WHEN a.attisdropped
            THEN pg_catalog.format('SELECT leaf, day, state FROM once.partitions WHERE store = %L ORDER BY day', l.name)
            ELSE pg_catalog.format('ALTER TABLE %s DROP COLUMN %I', l.store, a.attname) END
  FROM leaf l JOIN pg_catalog.pg_attribute a ON a.attrelid = l.leaf AND a.attnum > 0
   AND a.attname NOT IN ('claimed_at', 'expires_at', 'key', 'effect', 'fingerprint', 'result')
 WHERE l.day >= (SELECT today FROM clock)
UNION ALL
SELECT l.name, l.leaf, 'warning', pg_catalog.format('NOT NULL on column %s', a.attname),
       pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', CASE WHEN p.attnotnull THEN l.store ELSE l.leaf END, a.attname)
  FROM leaf l JOIN pg_catalog.pg_attribute a ON a.attrelid = l.leaf AND a.attname IN ('fingerprint', 'result') AND a.attnotnull
  JOIN pg_catalog.pg_attribute p ON p.attrelid = l.store AND p.attname = a.attname
 WHERE l.day >= (SELECT today FROM clock)
UNION ALL
SELECT l.name, l.leaf, 'warning', 'access method ' || m.amname,
       pg_catalog.format('ALTER TABLE %s SET ACCESS METHOD heap', l.leaf)
  FROM leaf l JOIN pg_catalog.pg_am m ON m.oid = l.relam AND m.amname <> 'heap'
 WHERE l.day >= (SELECT today FROM clock))
SELECT 'info' AS severity, name AS store, 'no retry horizon is known' AS finding, created_at AS since,
       pg_catalog.format('retention is %s, chosen without knowing how late a message can be redelivered', retention) AS detail,
       pg_catalog.format('SELECT once.alter_store(%L, retry_horizon => ''...'')', name) AS remedy
  FROM known WHERE retry_horizon IS NULL
UNION ALL
SELECT 'error', name, 'retention is shorter than the retry horizon', NULL,
       pg_catalog.format('retention is %s, a message can be redelivered after %s', retention, retry_horizon),
       pg_catalog.format('SELECT once.alter_store(%L, retention => %L)', name, retry_horizon)
  FROM known WHERE retention < retry_horizon
UNION ALL
SELECT CASE WHEN last_day = today THEN 'warning' ELSE 'error' END, name, 'no day ahead is there',
       (coalesce(last_day, today)::timestamp AT TIME ZONE 'UTC'),
       coalesce(pg_catalog.format('the last leaf ends %s; a claim then has to make its own',
                                  pg_catalog.to_char(last_day + 1, 'YYYY-MM-DD "00:00 UTC"')), 'there is no leaf at all'),
       'CALL once.maintain()'
  FROM known, clock WHERE last_day IS NULL OR last_day <= today
UNION ALL
SELECT CASE WHEN min(m.day) <= today + 1 THEN 'error' ELSE 'warning' END, name, 'a day ahead is missing', NULL,
       pg_catalog.concat_ws('; ',
           pg_catalog.format('there is no leaf for %s UTC, but one for a later day; if maintenance cannot make it, it says why',
                             pg_catalog.to_char(min(m.day), 'YYYY-MM-DD')),
           (SELECT l.detail FROM postponed l WHERE l.store = name AND l.day = min(m.day) AND NOT l.of_drop)),
       'CALL once.maintain()'
  FROM known k, clock
  CROSS JOIN LATERAL (SELECT today + n AS day FROM pg_catalog.generate_series(0, least(last_day - today, 30)) n) m
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
                    WHERE i.inhparent = k.store
                      AND CASE WHEN once.leaf_day(c.oid) IS NULL
                               THEN pg_catalog.pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
                               ELSE once.leaf_day(c.oid) = m.day END)
 GROUP BY name, today
UNION ALL
SELECT CASE WHEN coalesce(maintained_at, created_at) < now - interval '3 days' THEN 'error' ELSE 'warning' END, name,
       'maintenance is overdue', coalesce(maintained_at, created_at),
       CASE WHEN maintained_at IS NULL THEN 'no pass has ever come to its end' ELSE 'the last pass is more than a day ago' END,
       'CALL once.maintain()'
  FROM known, clock WHERE coalesce(maintained_at, created_at) < now - interval '1 day'
UNION ALL
SELECT 'error', name, 'the last pass lies in the future', maintained_at, 'the clock has gone back', 'CALL once.maintain(force => true)'
  FROM known, clock WHERE maintained_at > now + interval '5 minutes'
UNION ALL
SELECT 'error', name, 'the clock is in doubt, so nothing is dropped', doubt_since, doubt, 'CALL once.maintain(force => true)'
  FROM known WHERE doubt IS NOT NULL
UNION ALL
SELECT CASE WHEN h.is_hold THEN 'info' ELSE 'warning' END, k.name,
       CASE WHEN h.is_hold THEN 'a hold is in force' ELSE 'consumers or the server are away' END, h.since,
       pg_catalog.format('%s; until %s; by %s', h.reason, CASE WHEN pg_catalog.isfinite(h.until) THEN h.until::text
                         ELSE 'further notice' END, h.made_by),
       pg_catalog.format('SELECT once.unhold(%L)', k.name)
  FROM known k JOIN once.store_pause h ON h.store = k.store, clock WHERE h.since <= now AND now < h.until
UNION ALL
SELECT 'info', k.name, 'consumers or the server were away', h.since,
       pg_catalog.format('windows that were open are open for %s longer', h.until - h.since),
       pg_catalog.format('SELECT * FROM once.maintenance_log WHERE store = %L', k.name)
  FROM known k JOIN once.store_pause h ON h.store = k.store, clock WHERE NOT h.is_hold AND h.until <= now
UNION ALL
SELECT 'warning', p.store, 'a leaf that is over is still there', coalesce(l.since, p.goes_at),
       pg_catalog.concat_ws('; ', pg_catalog.format('%s is due since %s', p.leaf, p.goes_at), l.detail),
       'CALL once.maintain()'
  FROM once.partitions p LEFT JOIN postponed l ON l.store = p.store AND l.day = p.day AND l.of_drop, clock
 WHERE p.state = 'due' AND (l.since IS NOT NULL OR p.goes_at < now - interval '1 day')
UNION ALL
SELECT 'warning', k.name, 'drops are put off', max(l.at), l.detail, 'CALL once.maintain()'
  FROM known k JOIN once.maintenance_log l ON l.store = k.name, clock
 WHERE l.action = 'postpone' AND l.day IS NULL AND l.at > now - interval '2 hours'
 GROUP BY k.name, l.detail
UNION ALL
SELECT 'warning', p.store, 'a filter is missing', (p.day + 1)::timestamp AT TIME ZONE 'UTC',
       pg_catalog.concat_ws('; ', pg_catalog.format('claims look their keys up in the index of %s', p.leaf),
           CASE WHEN s.voided THEN 'a row came into it after its day was over' END, l.detail),
       'CALL once.maintain()'
  FROM once.partitions p
  JOIN pg_catalog.pg_class c ON c.relname = p.leaf AND c.relnamespace = 'once'::pg_catalog.regnamespace
  JOIN known k ON k.name = p.store
  LEFT JOIN once.leaf_seal s ON s.leaf = c.oid
  LEFT JOIN postponed l ON l.store = p.store AND l.day = p.day
 WHERE p.state = 'open'
   AND (s.voided OR (p.day + 1)::timestamp AT TIME ZONE 'UTC' < k.maintained_at - interval '1 hour')
   AND pg_catalog.current_setting('pg_once.filters', true) IS DISTINCT FROM 'off'
UNION ALL
SELECT severity, name, 'claims take the slow way into a leaf', NULL,
       pg_catalog.format('%s %s %s', pg_catalog.string_agg(DISTINCT leaf::text, ', ' ORDER BY leaf::text),
                         CASE WHEN count(DISTINCT leaf) = 1 THEN 'has' ELSE 'have' END, what), remedy
  FROM slow GROUP BY severity, name, what, remedy
UNION ALL
SELECT 'warning', k.name, 'keys look wrong', a.since, pg_catalog.format('effect %L: %s', a.effect, a.finding),
       pg_catalog.format('SELECT effect, findings FROM once.audit_keys(%L)', k.name)
  FROM known k JOIN once.key_audit a ON a.store = k.store WHERE a.finding IS NOT NULL
UNION ALL
SELECT 'warning', e.store, 'effects wait for somebody to take them over', min(e.since),
       pg_catalog.format('%s overdue or failed; the longest for %s', count(*), max(e.lasts)),
       pg_catalog.format('SELECT * FROM once.effects WHERE store = %L AND state IN (''overdue'', ''failed'')', e.store)
  FROM once.effects e WHERE e.state IN ('overdue', 'failed') GROUP BY e.store
UNION ALL
SELECT 'error', e.store, 'effects were given up', min(e.since),
       pg_catalog.format('%s, begun as often as max_attempts allows; nobody begins them again', count(*)),
       pg_catalog.format('SELECT * FROM once.effects WHERE store = %L AND state = ''gave_up''', e.store)
  FROM once.effects e WHERE e.state = 'gave_up' GROUP BY e.store
UNION ALL
SELECT 'warning', e.store, 'windows of unfinished effects are about to end', NULL,
       pg_catalog.format('%s; from %s on the key of the first can be claimed anew', count(*), min(e.ends_at)),
       pg_catalog.format('SELECT * FROM once.effects WHERE store = %L AND state <> ''expired'' ORDER BY ends_at', e.store)
  FROM once.effects e, clock
 WHERE e.state <> 'expired' AND e.ends_at - now < (e.ends_at - e.began_at) / 10 GROUP BY e.store
UNION ALL
SELECT 'error', e.store, 'windows of unfinished effects are over', min(e.since),
       pg_catalog.format('%s; nobody knows whether they were done, and they go with their day, at the earliest a day after a pass has seen them', count(*)),
       pg_catalog.format('SELECT * FROM once.effects WHERE store = %L AND state = ''expired''', e.store)
  FROM once.effects e WHERE e.state = 'expired' GROUP BY e.store
UNION ALL
SELECT 'error', l.name, 'a leaf cannot be searched, so claims fail', NULL,
       CASE WHEN l.relkind <> 'r' THEN pg_catalog.format('%s is no ordinary table', l.leaf)
            WHEN NOT x.indisvalid THEN pg_catalog.format('the primary key of %s is not valid', l.leaf)
            ELSE pg_catalog.format('%s has no primary key on (key, effect)', l.leaf) END,
       CASE WHEN l.relkind <> 'r' THEN pg_catalog.format('ALTER TABLE %s DETACH PARTITION %s', l.store, l.leaf)
            WHEN NOT x.indisvalid THEN pg_catalog.format('REINDEX INDEX %s', x.indexrelid::pg_catalog.regclass)
            ELSE pg_catalog.format('ALTER TABLE %s %sADD PRIMARY KEY (key, effect)', l.leaf,
                                   (SELECT pg_catalog.format('DROP CONSTRAINT %I, ', k.conname) FROM pg_catalog.pg_constraint k
                                     WHERE k.conrelid = l.leaf AND k.contype = 'p')) END
  FROM leaf l JOIN clock ON l.kept_until > clock.now
  LEFT JOIN pg_catalog.pg_index x ON x.indrelid = l.leaf AND x.indisprimary AND x.indnatts = 2
   AND (SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attname DESC) FROM pg_catalog.pg_attribute a
         WHERE a.attrelid = l.leaf AND a.attnum IN (x.indkey[0], x.indkey[1])) = '{key,effect}'
 WHERE l.relkind <> 'r' OR x.indisvalid IS NOT TRUE
UNION ALL
SELECT 'warning', name, 'a leaf that pg_once did not make is over', NULL,
       pg_catalog.format('no claim in %s is live, but nothing was promised for it, so that maintenance never drops it', leaf),
       pg_catalog.format('ALTER TABLE %s DETACH PARTITION %s', store, leaf)
  FROM over_by_hand
UNION ALL
SELECT 'info', l.name, 'a default partition is there', NULL,
       pg_catalog.format('every claim looks into %s and waits for it whenever a day is made or dropped; rows of other days stay in it', l.leaf),
       pg_catalog.format('SELECT min(claimed_at), max(claimed_at), max(expires_at), count(*) FROM %s', l.leaf)
  FROM leaf l WHERE l.is_default AND NOT EXISTS (SELECT FROM over_by_hand o WHERE o.leaf = l.leaf);
COMMENT ON VIEW once.health IS 'one row a finding: how severe, which store, what is wrong, since when, and the statement that mends it or shows more';

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
    stats_reset timestamptz, started bigint, taken_over bigint, effects_done bigint, effects_failed bigint, gave_up bigint,
    stale_fences bigint, completed bigint, released bigint
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
       e.stats_reset,
       e.started,
       e.taken_over,
       e.effects_done,
       e.effects_failed,
       e.gave_up,
       e.stale_fences,
       e.completed,
       e.released
  FROM once.stat_entries() e
  LEFT JOIN pg_catalog.pg_class c ON c.oid = e.store
 WHERE e.store IS NULL OR c.oid IS NOT NULL;
COMMENT ON VIEW once.stat_claims IS
    'one row for each store and effect that was claimed: what was answered, completed and released since stats_reset, waits, and duplicates by age; the row without store and effect is what found no place in the table, of all databases';

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

-- ---------------------------------------------------------------------------------------------
-- Double tap
-- ---------------------------------------------------------------------------------------------

CREATE FUNCTION once.double_tap(
    log text, handler regprocedure, watch regclass[], ignore text[] DEFAULT '{}', shuffle boolean DEFAULT false,
    keep boolean DEFAULT false, seed bigint DEFAULT NULL, later interval DEFAULT '25:01:01.001'
) RETURNS TABLE (
    pass integer, relation regclass, primary_key text, kind text, column_name text, before text, after text,
    message bigint, message_key text
)   LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'double_tap_wrapper';
COMMENT ON FUNCTION once.double_tap(text, regprocedure, regclass[], text[], boolean, boolean, bigint, interval) IS
    'hands the rows of a query, the messages, to a handler twice and compares the watched tables after the first and the second pass: one row a difference, none if the pipeline is ready for duplicates; rolled back unless keep. shuffle => true adds a pass in random order with every message doubled. Runs with the caller''s rights';

CREATE FUNCTION once.double_tap_report(
    log text, handler regprocedure, watch regclass[], ignore text[] DEFAULT '{}', shuffle boolean DEFAULT false,
    keep boolean DEFAULT false, seed bigint DEFAULT NULL, later interval DEFAULT '25:01:01.001'
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'double_tap_report_wrapper';
COMMENT ON FUNCTION once.double_tap_report(text, regprocedure, regclass[], text[], boolean, boolean, bigint, interval) IS
    'the same as one text: the verdict, then per table and column the count, three examples, what usually causes it and the remedy';

CREATE TABLE once.state_snapshot (
    name       text        NOT NULL,
    relation   regclass    NOT NULL,
    kept_in    regclass    NOT NULL,
    definition text        NOT NULL,
    ignored    text[]      NOT NULL,
    made_by    text        NOT NULL,
    taken_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, relation)
);
COMMENT ON TABLE once.state_snapshot IS 'one row for each table of a snapshot; written by snapshot and drop_snapshot, not dumped';
COMMENT ON COLUMN once.state_snapshot.name IS 'what the snapshot is called';
COMMENT ON COLUMN once.state_snapshot.relation IS 'the table whose state was kept';
COMMENT ON COLUMN once.state_snapshot.kept_in IS 'the table it was copied to, which belongs to the role that took the snapshot';
COMMENT ON COLUMN once.state_snapshot.definition IS 'the columns as they were';
COMMENT ON COLUMN once.state_snapshot.ignored IS 'columns that do not count';
COMMENT ON COLUMN once.state_snapshot.made_by IS 'the role that took it';
COMMENT ON COLUMN once.state_snapshot.taken_at IS 'when';

CREATE TABLE once.state_sequence (
    name     text     NOT NULL,
    sequence regclass NOT NULL,
    relation regclass NOT NULL,
    value    bigint,
    PRIMARY KEY (name, sequence, relation)
);
COMMENT ON TABLE once.state_sequence IS 'where the sequences of a snapshot''s tables stood; not dumped';
COMMENT ON COLUMN once.state_sequence.name IS 'what the snapshot is called';
COMMENT ON COLUMN once.state_sequence.sequence IS 'the sequence';
COMMENT ON COLUMN once.state_sequence.relation IS 'the table whose rows it numbers';
COMMENT ON COLUMN once.state_sequence.value IS 'the number it gave out last';

CREATE FUNCTION once.snapshot(name text, watch regclass[], ignore text[] DEFAULT '{}') RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'snapshot_wrapper';
COMMENT ON FUNCTION once.snapshot(text, regclass[], text[]) IS
    'keeps a copy of the watched tables under a name, to be compared after a consumer outside the database has run; only the role that took it can. Needs CREATE on schema once';

CREATE FUNCTION once.compare(name text) RETURNS TABLE (
    pass integer, relation regclass, primary_key text, kind text, column_name text, before text, after text,
    message bigint, message_key text
)   LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'compare_wrapper';
COMMENT ON FUNCTION once.compare(text) IS
    'what is different from the snapshot of that name: one row a difference, as of double_tap, without pass and message';

CREATE FUNCTION once.drop_snapshot(name text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'drop_snapshot_wrapper';
COMMENT ON FUNCTION once.drop_snapshot(text) IS
    'drops the snapshot of that name and what was copied for it';

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
-- These tell of stores, days and sizes, never of a key; the expiries in once.partitions are for those who may
-- read the store.
GRANT SELECT ON once.stores, once.partitions, once.filters, once.health, once.maintenance_log TO pg_monitor;
GRANT SELECT (at, store, effect, claimed_at, expires_at, had_answer, reason, made_by, application_name)
    ON once.release_log TO pg_monitor;
