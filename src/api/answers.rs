//! `complete`: what is stored with claims.
//!
//! Needs INSERT on the store. Errors: 22004 for a NULL argument; 22023 for a key or effect that cannot be claimed; 25006
//! in a read-only transaction; 40001 as for a claim; OC006 where no claim stands, OC007 where it has another answer;
//! 42501 without the privilege; 42704 for an unknown store.

use super::{given, settings};
use crate::claim::answer;
use crate::claim::arbiter;
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
