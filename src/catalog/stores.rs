//! Making, changing and dropping stores.

use super::{away, building, cache, leaves, schema, sql};
use crate::domain::day::{Day, Instant};
use crate::domain::key::lock_number;
use crate::domain::kind::{Kind, Kinds};
use crate::domain::naming::MAX_NAME_BYTES;
use crate::domain::window;
use crate::error::Refusal;
use crate::pg::privilege::{self, Acting};
use crate::pg::{bounds, inval, lock, session};
use pgrx::pg_sys::Oid;
use std::ffi::CString;

/// The tables that know about stores.
const KNOWN: [&str; 6] = [
    "once.effect_state",
    "once.key_audit",
    "once.leaf_promise",
    "once.leaf_seal",
    "once.store_pause",
    "once.store_policy",
];

/// What is decided about a store; None leaves it as it is.
pub struct Policy<'a> {
    /// Microseconds.
    pub retention: Option<i64>,
    /// Microseconds.
    pub retry_horizon: Option<i64>,
    /// Why, as the bytes of a text value.
    pub note: Option<&'a [u8]>,
    /// Kinds of keys that are not to be claimed.
    pub forbid: Option<Kinds>,
    /// How often an effect is begun at most; 0 is no limit.
    pub max_attempts: Option<i32>,
}

/// A name a store may have: 1 to 63 bytes, any characters the database can hold.
pub fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::BadStoreName("must not be empty"));
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(Refusal::BadStoreName("must not be longer than 63 bytes"));
    }
    if !session::is_utf8() && !name.is_ascii() {
        return Err(Refusal::NameEncoding);
    }
    Ok(())
}

/// Waits for the right to make a store of this name, and keeps it to the end of the transaction.
pub fn hold_name(name: &str) {
    lock::hold_name(lock_number(0, b"store", name.as_bytes()));
}

/// Makes a store with its leaves from `today` to `ahead` days later, owned by the current user.
/// A table of that name raises 42P07.
pub fn create(
    name: &str,
    policy: &Policy,
    retention: i64,
    today: Day,
    ahead: i32,
) -> Result<Oid, Refusal> {
    check_name(name)?;
    let schema = schema()?;
    if !privilege::may_create_in(schema) {
        return Err(Refusal::MayNotCreate);
    }
    // One maker of a name at a time: the second then finds the table and says so (42P07).
    hold_name(name);
    let store = {
        let _acting = Acting::as_caller();
        let table = sql::in_once(name);
        let columns = leaves::COLUMNS;
        sql::run(
            &format!("CREATE TABLE {table} ({columns}) PARTITION BY RANGE (claimed_at)"),
            &[],
        )?;
        // The replica identity is the parent's alone: leaves keep their primary key. A publication that
        // goes by the root would otherwise send re-claims that a subscriber cannot place.
        sql::run(
            &format!(
                "ALTER TABLE {table} ALTER COLUMN key SET STORAGE MAIN, \
                 ALTER COLUMN effect SET STORAGE MAIN, REPLICA IDENTITY FULL"
            ),
            &[],
        )?;
        for (object, comment) in COMMENTS {
            let what = if object.is_empty() {
                format!("TABLE {table}")
            } else {
                format!("COLUMN {table}.{object}")
            };
            sql::run(&format!("COMMENT ON {what} IS {}", sql::literal(comment)), &[])?;
        }
        find(name)?.ok_or_else(|| Refusal::Internal(format!("table {table} was not made")))?
    };
    {
        let _acting = Acting::as_role(privilege::schema_owner(schema));
        sql::run(
            "INSERT INTO once.store_policy (store, retention, retry_horizon, note, forbid, max_attempts) \
             VALUES ($1, $2, $3, convert_from($4, getdatabaseencoding()), coalesce($5, '{}'), nullif($6, 0)) \
             ON CONFLICT (store) DO UPDATE SET retention = excluded.retention, \
             retry_horizon = excluded.retry_horizon, note = excluded.note, \
             created_at = excluded.created_at, forbid = excluded.forbid, \
             max_attempts = excluded.max_attempts",
            &[
                store.into(),
                sql::interval(retention)?,
                optional_interval(policy.retry_horizon)?,
                policy.note.into(),
                labels(policy.forbid),
                policy.max_attempts.into(),
            ],
        )?;
    }
    inval::announce(store);
    for offset in 0..=ahead {
        leaves::make(store, today.plus(offset), || ())?;
    }
    Ok(store)
}

const COMMENTS: [(&str, &str); 7] = [
    ("", "pg_once store: one row a claim; claim with once.claim_once, never by INSERT"),
    ("claimed_at", "when the claim was made; its UTC day decides the leaf"),
    ("expires_at", "until when duplicates are refused"),
    ("key", "the intent, byte for byte"),
    ("effect", "which effect of the key this claim guards"),
    ("fingerprint", "reserved for a later version, always NULL: a digest of the request"),
    ("result", "reserved for a later version, always NULL: the answer that duplicates get"),
];

fn optional_interval(micros: Option<i64>) -> Result<pgrx::datum::DatumWithOid<'static>, Refusal> {
    micros.map_or_else(|| Ok(None::<pgrx::datum::Interval>.into()), sql::interval)
}

/// Kinds of keys as an array argument of their labels.
fn labels(kinds: Option<Kinds>) -> pgrx::datum::DatumWithOid<'static> {
    kinds.map(|kinds| kinds.each().map(Kind::label).collect::<Vec<_>>()).into()
}

/// The table of a store, whether or not it has a policy.
fn find(name: &str) -> Result<Option<Oid>, Refusal> {
    Ok(CString::new(name).ok().and_then(|name| bounds::relation_in(schema().ok()?, &name)))
}

/// The store of this name if the current user owns it.
pub fn owned(name: &str) -> Result<Oid, Refusal> {
    let unknown = || Refusal::UnknownStore(name.to_owned());
    let store = find(name)?.ok_or_else(unknown)?;
    cache::retention_of(store)?.ok_or_else(unknown)?;
    if privilege::owns(store) { Ok(store) } else { Err(Refusal::NotOwner(name.to_owned())) }
}

/// The same with its definition lock, which may have been waited for, held to the end of the transaction.
pub fn owned_to_change(name: &str) -> Result<Oid, Refusal> {
    loop {
        let store = owned(name)?;
        lock::hold_definition(store);
        // It may be gone by now, or another one have its name.
        inval::accept();
        if owned(name)? == store {
            return Ok(store);
        }
    }
}

/// Changes what is given. A longer retention reaches the leaves that are there; a shorter one does
/// not, because claims in them may have been given a later expiry. An absence that nobody has found yet is written
/// down first, by what the store was told until now.
pub fn alter(
    name: &str,
    policy: &Policy,
    clock: fn() -> Instant,
    away_days: i32,
) -> Result<(), Refusal> {
    let store = owned_to_change(name)?;
    let now = clock();
    away::settle(store, now, away_days)?;
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    let horizon = match policy.retry_horizon {
        Some(horizon) => Some(horizon),
        None => sql::get::<pgrx::datum::Interval>(
            "SELECT retry_horizon FROM once.store_policy WHERE store = $1",
            &[store.into()],
        )?
        .map(|i| sql::length(i.months(), i.days(), i.micros())),
    };
    let retention = match policy.retention {
        Some(retention) => retention,
        None => {
            cache::retention_of(store)?.ok_or_else(|| Refusal::UnknownStore(name.to_owned()))?
        }
    };
    window::cover(retention, horizon)
        .map_err(|horizon| Refusal::RetentionBelowHorizon { retention, horizon })?;
    sql::run(
        "UPDATE once.store_policy SET retention = coalesce($2, retention), \
         raised_at = CASE WHEN $2 > retention THEN $5 ELSE raised_at END, \
         raised_from = CASE WHEN $2 > retention THEN least(raised_from, retention) ELSE raised_from END, \
         retry_horizon = coalesce($3, retry_horizon), \
         note = coalesce(convert_from($4, getdatabaseencoding()), note), \
         forbid = coalesce($6, forbid), \
         max_attempts = CASE WHEN $7 IS NULL THEN max_attempts ELSE nullif($7, 0) END WHERE store = $1",
        &[
            store.into(),
            optional_interval(policy.retention)?,
            optional_interval(policy.retry_horizon)?,
            policy.note.into(),
            sql::instant(now)?,
            labels(policy.forbid),
            policy.max_attempts.into(),
        ],
    )?;
    for leaf in cache::leaves_of(store)? {
        if leaf.keep_until != i64::MAX && leaf.range.to != i64::MIN {
            leaves::promise(leaf.table, store, leaf.range.to.saturating_add(retention))?;
        }
    }
    inval::announce(store);
    session::next_command();
    Ok(())
}

/// Drops a store with every claim in it.
pub fn drop_store(name: &str) -> Result<(), Refusal> {
    let store = owned_to_change(name)?;
    // Their tables go in the next pass, whoever runs it.
    building::retire_all(store)?;
    {
        let _acting = Acting::as_caller();
        sql::run(&format!("DROP TABLE {}", sql::in_once(name)), &[])?;
    }
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    for known in KNOWN {
        sql::run(&format!("DELETE FROM {known} WHERE store = $1"), &[store.into()])?;
    }
    Ok(())
}

/// Forgets what is known of stores whose table somebody has dropped by hand. A dump would carry it on as a
/// bare number, which means something else where it is restored.
pub fn forget_gone() -> Result<(), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    for known in KNOWN {
        let gone = "NOT EXISTS (SELECT FROM pg_class WHERE oid = k.store)";
        sql::run(&format!("DELETE FROM {known} k WHERE {gone}"), &[])?;
    }
    Ok(())
}

/// Writes down that a pass over a store has come to its end, and that drops have gone by this time, unless
/// there is a doubt about it.
pub fn maintained(store: Oid, now: Instant, doubt: Option<&str>) -> Result<(), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    sql::run(
        "UPDATE once.store_policy SET maintained_at = $2, \
                clock_seen = CASE WHEN $3 IS NULL THEN $2 ELSE clock_seen END, doubt = $3, \
                doubt_since = CASE WHEN $3 IS NOT NULL THEN coalesce(doubt_since, $2) END \
          WHERE store = $1",
        &[store.into(), sql::instant(now)?, doubt.into()],
    )
}

/// When the last pass over a store came to its end, or the store was made.
pub fn last_pass(store: Oid) -> Result<Option<Instant>, Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    let last = sql::get::<pgrx::datum::TimestampWithTimeZone>(
        "SELECT coalesce(maintained_at, created_at) FROM once.store_policy WHERE store = $1",
        &[store.into()],
    )?;
    Ok(last.map(Instant::from))
}

/// The stores the current user may maintain.
pub fn maintainable() -> Result<Vec<Oid>, Refusal> {
    let policy = bounds::relation_in(schema()?, c"store_policy").ok_or(Refusal::NotInstalled)?;
    let mut stores = Vec::new();
    crate::pg::table::for_each_row(policy, |row| stores.extend(row.oid(0)));
    stores.retain(|&store| privilege::exists(store) && privilege::owns(store));
    Ok(stores)
}
