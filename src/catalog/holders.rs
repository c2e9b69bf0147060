//! Who is in the way: the sessions that hold locks which maintenance waited for in vain, for a message.

use super::sql;
use crate::error::Refusal;
use crate::pg::privilege::Acting;
use pgrx::pg_sys::Oid;

/// Who holds any lock on one of the tables.
pub fn users_of(tables: &[Oid]) -> Result<String, Refusal> {
    said("l.locktype = 'relation' AND l.relation = ANY ($1)", &[tables.to_vec().into()])
}

/// Who keeps others from so much as reading the store or a leaf of it, or is changing its definition.
pub fn changers_of(store: Oid) -> Result<String, Refusal> {
    // The definition lock is numbered by the store's oid: see pg/lock.rs.
    said(
        "(l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND (l.relation = $1 \
          OR l.relation IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = $1)) \
          OR l.locktype = 'advisory' AND l.objsubid = 20304 AND l.classid = 0 AND l.objid = $1)",
        &[store.into()],
    )
}

fn said(which: &str, args: &[pgrx::datum::DatumWithOid]) -> Result<String, Refusal> {
    let _acting = Acting::as_caller();
    // One that is prepared has no process; it shows as a transaction that somebody has to end.
    let found = sql::get::<String>(
        &format!(
            "SELECT string_agg(DISTINCT coalesce('backend ' || l.pid, 'a prepared transaction'), ', ') \
               FROM pg_locks l WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND {which} \
                AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ),
        args,
    )?;
    Ok(found.unwrap_or_else(|| "somebody who has let go meanwhile".to_owned()))
}
