//! `schedule`, `unschedule`: maintenance as a job of pg_cron.
//!
//! Errors: 55000 where pg_cron is not in this database; 22004 for a NULL schedule; 3D000 for an unknown
//! database; 25006 in a read-only transaction or on a standby; whatever pg_cron says of the schedule
//! (22023) and of the caller's privileges (42501).

use super::given;
use crate::catalog::cron;
use crate::claim::arbiter;
use crate::error::raise;
use crate::pg::failure::{Sql, sql};
use pgrx::pg_extern;

/// Makes the caller's job for a database, or changes the one there is. The job's number.
#[pg_extern(sql = false)]
fn schedule(schedule: Option<&[u8]>, database: Option<&[u8]>) -> Sql<i64> {
    sql(|| {
        arbiter::refuse_read_only(c"once.schedule()");
        raise(given(schedule, "schedule").and_then(|schedule| cron::schedule(schedule, database)))
    })
}

/// Takes the caller's job for a database away. False where there is none.
#[pg_extern(sql = false)]
fn unschedule(database: Option<&[u8]>) -> Sql<bool> {
    sql(|| {
        arbiter::refuse_read_only(c"once.unschedule()");
        raise(cron::unschedule(database))
    })
}
