//! `CALL once.maintain()`: the one procedure. It commits between its steps and therefore refuses to run
//! where it cannot.

use super::given;
use crate::claim::arbiter;
use crate::error::{Refusal, raise};
use crate::gucs;
use crate::maintenance::apply::Pass;
use crate::pg::failure::{Sql, sql};
use crate::pg::procedure::Call;
use crate::pg::session;
use pgrx::pg_extern;

/// One pass over the stores the caller owns, a notice for each step; with `force` it believes the clock. Errors: 25001 where it cannot
/// commit between steps, 25006 in a read-only transaction or on a standby.
#[pg_extern(sql = false)]
fn maintain(call: Call, force: Option<bool>) -> Sql<()> {
    sql(|| {
        arbiter::refuse_read_only(c"once.maintain()");
        if call.is_atomic() {
            raise::<()>(Err(Refusal::InTransaction("once.maintain()")));
        }
        let commit = || call.commit();
        let force = raise(given(force, "force"));
        let pass = Pass {
            ahead: gucs::precreate_days(),
            away_days: gucs::away_days(),
            lock_timeout: gucs::maintenance_lock_timeout(),
            filters: gucs::filters(),
            counts_claims: gucs::track_claims(),
            force,
            clock: session::now,
            commit: &commit,
        };
        raise(pass.run());
    })
}
