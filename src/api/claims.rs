//! `claim_once`, `claim`, `claim_many`, `lookup`.
//!
//! Claiming needs INSERT on the store's table, looking up SELECT. Errors: 22004 for a NULL key,
//! effect, store or element; 22023 for an empty or over-long key, an over-long effect, a ttl that is
//! not positive or longer than the store's retention; 2202E for an array of several dimensions;
//! 25006 in a read-only transaction or on a standby; 40001 under REPEATABLE READ and SERIALIZABLE when the
//! winner is not visible; OC001 from claim_once for a message too late to be judged; 42501 without the privilege; 42704 for an unknown store; 55P03 and 57014 when a wait is
//! cut short by lock_timeout, statement_timeout or cancel.

use super::{given, settings, span};
use crate::claim::arbiter::{self, Arbiter};
use crate::claim::lint::lint;
use crate::claim::{Answer, Outcome, Terms, answer, batch, check, lookup as looking};
use crate::domain::shown::shown;
use crate::error::{Refusal, raise};
use crate::pg::array::{ArrayFault, TextArray};
use crate::pg::failure::{Sql, sql};
use crate::pg::rows::{Json, OneRow, RowSet, Value};
use crate::pg::text::Text;
use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_extern;

/// Claims a key. Source of the shape: the inbox pattern, with the row in the effect's transaction.
#[pg_extern(sql = false)]
fn claim_once_text(
    key: Option<&[u8]>,
    ttl: Option<Interval>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
    event_time: Option<TimestampWithTimeZone>,
) -> Sql<bool> {
    claim_once(key, ttl, effect, store, event_time)
}

/// Claims the text form of a uuid: lower case, with hyphens, as PostgreSQL writes it.
#[pg_extern(sql = false)]
fn claim_once_uuid(
    key: Option<Uuid>,
    ttl: Option<Interval>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
    event_time: Option<TimestampWithTimeZone>,
) -> Sql<bool> {
    let mut form = [0; uuid::fmt::Hyphenated::LENGTH];
    let key = key
        .map(|key| &*uuid::Uuid::from_bytes(*key.as_bytes()).hyphenated().encode_lower(&mut form));
    claim_once(key.map(str::as_bytes), ttl, effect, store, event_time)
}

/// Claims the text form of a bigint: decimal.
#[pg_extern(sql = false)]
fn claim_once_bigint(
    key: Option<i64>,
    ttl: Option<Interval>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
    event_time: Option<TimestampWithTimeZone>,
) -> Sql<bool> {
    let key = key.map(|key| key.to_string());
    claim_once(key.as_deref().map(str::as_bytes), ttl, effect, store, event_time)
}

fn claim_once(
    key: Option<&[u8]>,
    ttl: Option<Interval>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
    event_time: Option<TimestampWithTimeZone>,
) -> Sql<bool> {
    sql(|| {
        arbiter::refuse_read_only(c"once.claim_once()");
        let answer = raise(claim_one(key, ttl, effect, store, event_time));
        if answer.outcome == Outcome::TooLate {
            let store = shown(store.unwrap_or_default());
            raise::<()>(Err(Refusal::TooLate { store }));
        }
        answer.outcome == Outcome::Claimed
    })
}

fn claim_one(
    key: Option<&[u8]>,
    ttl: Option<Interval>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
    event_time: Option<TimestampWithTimeZone>,
) -> Result<Answer, Refusal> {
    let key = given(key, "key")?;
    let effect = given(effect, "effect")?;
    let store = given(store, "store")?;
    let event_time = event_time.map(i64::from);
    let terms = Terms { store, effect, ttl: ttl.map(span), event_time, wait: true };
    let settings = settings();
    check(key, effect, &settings)?;
    lint(&[key], &terms, &settings)?;
    let mut arbiter = Arbiter::new(&terms, &settings);
    let answer = arbiter.claim(&Text::new(key))?;
    arbiter.settle(0);
    Ok(answer)
}

/// What a claim with the whole answer is given: the digest of the fingerprint may be the same as the one stored.
fn claim_whole(
    key: Option<&[u8]>,
    terms: &Terms,
    fingerprint: Option<&[u8]>,
) -> Result<(Answer, Option<Json>), Refusal> {
    let (key, settings) = (given(key, "key")?, settings());
    check(key, terms.effect, &settings)?;
    lint(&[key], terms, &settings)?;
    let mut arbiter = Arbiter::new(terms, &settings).asking(fingerprint.map(answer::digest));
    let answer = arbiter.claim(&Text::new(key))?;
    arbiter.settle(0);
    Ok((answer, arbiter.result()))
}

/// Claims a key and gives the whole answer; `wait` false answers in_progress instead of waiting for
/// another transaction; `event_time`, when what the message tells of happened, answers too_late where nobody
/// can tell any more whether it was claimed; `fingerprint` answers mismatch where the key was claimed with another.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)] // the arguments of the SQL function
fn claim(
    key: Option<&[u8]>,
    ttl: Option<Interval>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
    fingerprint: Option<&[u8]>,
    event_time: Option<TimestampWithTimeZone>,
    wait: Option<bool>,
) -> Sql<OneRow<'static, 4>> {
    sql(|| {
        arbiter::refuse_read_only(c"once.claim()");
        let claim = || {
            let terms = Terms {
                effect: given(effect, "effect")?,
                store: given(store, "store")?,
                ttl: ttl.map(span),
                event_time: event_time.map(i64::from),
                wait: given(wait, "wait")?,
            };
            claim_whole(key, &terms, fingerprint)
        };
        let (answer, result) = raise(claim());
        let instant = |at: Option<i64>| at.map_or(Value::Null, Value::Instant);
        OneRow([
            Value::Label(answer.outcome.label()),
            instant(answer.window.map(|(claimed_at, _)| claimed_at)),
            instant(answer.window.map(|(_, expires_at)| expires_at)),
            result.map_or(Value::Null, Value::Json),
        ])
    })
}

/// Claims every key of an array; one row per element in input order. NULL (22004) for the array or
/// an element and more than one dimension (2202E) are refused before anything is claimed; an empty
/// array gives no rows.
#[pg_extern(sql = false)]
fn claim_many<'a>(
    keys: Option<TextArray<'a>>,
    ttl: Option<Interval>,
    effect: Option<&'a [u8]>,
    store: Option<&'a [u8]>,
) -> Sql<RowSet<'a, 2>> {
    sql(|| {
        arbiter::refuse_read_only(c"once.claim_many()");
        let claims = || {
            let keys = given(keys, "keys")?.elements().map_err(|fault| match fault {
                ArrayFault::Dimensions(n) => Refusal::Dimensions(n),
                ArrayFault::NullElement(position) => Refusal::NullElement(position),
            })?;
            let effect = given(effect, "effect")?;
            let store = given(store, "store")?;
            let terms = Terms { store, effect, ttl: ttl.map(span), event_time: None, wait: true };
            let claimed = batch::claim_many(&keys, &terms, &settings())?;
            Ok((keys, claimed))
        };
        let (keys, claimed) = raise(claims());
        RowSet::new(
            keys.into_iter()
                .zip(claimed)
                .map(|(key, claimed)| [Value::Bytes(key), Value::Bool(claimed)]),
        )
    })
}

/// The live claim of a key as the calling statement sees it: one row or none.
#[pg_extern(sql = false)]
fn lookup<'a>(
    key: Option<&'a [u8]>,
    effect: Option<&'a [u8]>,
    store: Option<&'a [u8]>,
) -> Sql<RowSet<'a, 3>> {
    sql(|| {
        let look = || {
            let (key, effect) = (given(key, "key")?, given(effect, "effect")?);
            looking::lookup(key, effect, given(store, "store")?, &settings())
        };
        RowSet::new(raise(look()).into_iter().map(|claim| {
            [
                Value::Instant(claim.claimed_at),
                Value::Instant(claim.expires_at),
                claim.result.map_or(Value::Null, Value::Json),
            ]
        }))
    })
}
