//! `complete`, `release`, `release_many`: what is stored with claims, and giving them up.
//!
//! Storing needs INSERT on the store, giving up DELETE; to be given an answer needs SELECT. Errors: 0A000 under row-level
//! security; 22004 for a NULL argument; 22023 for a key or effect that cannot be claimed, an empty reason, and a query that does not
//! give keys; 25006 in a read-only transaction; 27000 where a trigger on the leaf kept or altered the row; 40001 as for a claim;
//! 42501 without the privilege; 42704 for an unknown store; 55P03 and 57014 when a wait is cut short; OC006 where no claim stands,
//! OC007 where it has another answer, OC008 where it is that of an effect that is not finished.

use super::{given, settings};
use crate::claim::answer;
use crate::claim::arbiter;
use crate::claim::release::{self as releasing, Release};
use crate::error::raise;
use crate::pg::failure::{Sql, sql};
use crate::pg::rows::Json;
use pgrx::pg_extern;

/// Stores the answer of a claim: true where it is stored now, false where the same was there already.
#[pg_extern(sql = false)]
fn complete(
    key: Option<&[u8]>,
    result: Option<Json>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
) -> Sql<bool> {
    sql(|| {
        arbiter::refuse_read_only(c"once.complete()");
        let complete = || {
            let (key, result) = (given(key, "key")?, given(result, "result")?);
            let (effect, store) = (given(effect, "effect")?, given(store, "store")?);
            answer::complete(key, effect, store, &result, &settings())
        };
        raise(complete())
    })
}

/// Gives a claim up, its window over or not; false where there is none.
#[pg_extern(sql = false)]
fn release(
    key: Option<&[u8]>,
    reason: Option<&[u8]>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
) -> Sql<bool> {
    sql(|| {
        arbiter::refuse_read_only(c"once.release()");
        let release = || {
            let (key, reason) = (given(key, "key")?, given(reason, "reason")?);
            let (effect, store) = (given(effect, "effect")?, given(store, "store")?);
            releasing::release(key, effect, Release { store, reason }, &settings())
        };
        raise(release())
    })
}

/// Gives up every claim that a query names by key, or by key and effect; how many there were.
#[pg_extern(sql = false)]
fn release_many(
    query: Option<&[u8]>,
    reason: Option<&[u8]>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
) -> Sql<i64> {
    sql(|| {
        arbiter::refuse_read_only(c"once.release_many()");
        let tell = |seen, released| pgrx::notice!("{seen} keys read, {released} claims released");
        let release = || {
            let (query, reason) = (given(query, "query")?, given(reason, "reason")?);
            let (effect, store) = (given(effect, "effect")?, given(store, "store")?);
            releasing::release_many(query, effect, Release { store, reason }, &settings(), tell)
        };
        raise(release())
    })
}
