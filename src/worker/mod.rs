//! The background process that makes what a claim needs: connects, makes one thing, leaves. It lives
//! for milliseconds and holds up nothing: a lock it cannot get within seconds ends it.

use crate::catalog::making::Order;
use crate::pg::worker;

/// How long the process waits for a lock before it leaves the work to the claimer.
const PATIENCE: &std::ffi::CStr = c"2s";

/// The whole life of the process.
pub fn make() {
    let Some(order) = Order::decode(&worker::order()) else { return };
    worker::connect(order.database().into());
    worker::set(c"lock_timeout", PATIENCE);
    // Whatever the database's defaults are: the work is an ordinary transaction of its own.
    worker::set(c"default_transaction_isolation", c"read committed");
    worker::set(c"default_transaction_read_only", c"off");
    worker::set(c"statement_timeout", c"0");
    worker::transaction(|| {
        crate::error::raise(order.carry_out());
    });
}
