//! `hold`, `unhold`: the windows of a store stand still for as long as somebody replays an incident.
//!
//! Errors: 22004 for a NULL argument; 22023 for an end that is not in the future; 42501 without ownership of
//! the store; 42704 for an unknown store; 25006 in a read-only transaction or on a standby.

use super::{given, stores::store_name};
use crate::catalog::pauses;
use crate::claim::arbiter;
use crate::error::raise;
use crate::pg::failure::{Sql, sql};
use crate::pg::session;
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_extern;

/// Begins a hold until an instant, or changes the one in force.
#[pg_extern(sql = false)]
fn hold(
    store: Option<&[u8]>,
    reason: Option<&[u8]>,
    until: Option<TimestampWithTimeZone>,
) -> Sql<()> {
    let hold = || {
        let (name, reason) = (store_name(store, "store")?, given(reason, "reason")?);
        pauses::hold(&name, reason, session::now, given(until, "until")?.into())
    };
    sql(|| {
        arbiter::refuse_read_only(c"once.hold()");
        raise(hold());
    })
}

/// Ends every pause in force, absences too. False where there was none.
#[pg_extern(sql = false)]
fn unhold(store: Option<&[u8]>) -> Sql<bool> {
    sql(|| {
        arbiter::refuse_read_only(c"once.unhold()");
        raise(store_name(store, "store").and_then(|name| pauses::unhold(&name, session::now)))
    })
}
