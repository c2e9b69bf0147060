//! `stat_entries`, `stat_bounds`, `stat_available`, `stat_reset`: what the statistics views are made of.
//!
//! Errors: 42501 to reset a store that the caller does not own; 42704 for an unknown store.

use super::stores::store_name;
use crate::catalog::stores;
use crate::domain::age::BOUNDS;
use crate::error::raise;
use crate::pg::failure::{Sql, sql};
use crate::pg::rows::{RowSet, Value};
use crate::pg::session;
use crate::stats::{self, Kind, layout};
use pgrx::pg_extern;

/// Each entry of the calling database, and the one for what found no place, whose store is NULL.
#[pg_extern(sql = false)]
fn stat_entries() -> Sql<RowSet<'static, 21>> {
    sql(|| {
        RowSet::new(stats::rows().into_iter().map(|row| {
            let count = |field| Value::Integer(row.count(field));
            let outcome = |place| count(layout::OUTCOMES + place);
            let numbers = [
                outcome(0),
                outcome(1),
                outcome(2),
                outcome(3),
                outcome(4),
                count(layout::WAITS),
                count(layout::WAITED),
                count(layout::OLDEST),
                count(layout::LATE),
            ];
            let [claimed, duplicates, in_progress, too_late, mismatch, rest @ ..] = numbers;
            let [waits, waited, oldest, late] = rest;
            let event = |place| count(layout::EVENTS + place);
            let events = [event(0), event(1), event(2), event(3), event(4), event(5)];
            let [completed, released] =
                [Kind::Completed, Kind::Released].map(|kind| outcome(kind as usize));
            let [started, taken_over, done, failed, gave_up, stale] = events;
            let (ages, since) = (Value::Integers(row.ages()), Value::Instant(row.since));
            [
                row.store.map_or(Value::Null, Value::Oid),
                row.effect.map_or(Value::Null, Value::Owned),
                claimed,
                duplicates,
                in_progress,
                too_late,
                mismatch,
                waits,
                waited,
                oldest,
                late,
                ages,
                since,
                started,
                taken_over,
                done,
                failed,
                gave_up,
                stale,
                completed,
                released,
            ]
        }))
    })
}

/// Upper bounds of the buckets of ages, in seconds; one bucket more follows the last.
#[pg_extern(sql = false)]
fn stat_bounds() -> Vec<i64> {
    BOUNDS.to_vec()
}

/// Whether claims can be counted in this server.
#[pg_extern(sql = false)]
fn stat_available() -> bool {
    stats::is_available()
}

/// Lets a store count from zero; NULL: every store the caller owns, and for a superuser what found no place.
#[pg_extern(sql = false)]
fn stat_reset(store: Option<&[u8]>) -> Sql<()> {
    let reset = || {
        let now = session::now();
        if store.is_some() {
            stats::reset(Some(stores::owned(&store_name(store, "store")?)?), now);
            return Ok(());
        }
        for store in stores::maintainable()? {
            stats::reset(Some(store), now);
        }
        if session::is_superuser() {
            stats::reset(None, now);
        }
        Ok(())
    };
    sql(|| raise(reset()))
}
