//! The background process that makes what a claim needs: connects, makes one thing, leaves. It lives
//! for milliseconds and holds up nothing: a lock it cannot get within seconds ends it.

use crate::catalog::making::Order;
use crate::pg::worker;

/// How long the process waits for a lock before it leaves the work to the claimer.
const PATIENCE: &std::ffi::CStr = c"2s";

/// The whole life of the process.
pub fn run() {
    let Some(order) = Order::decode(&worker::order()) else { return };
    worker::connect(order.database().into());
    worker::set(c"application_name", c"pg_once claim");
    worker::set(c"lock_timeout", PATIENCE);
    super::be_ordinary();
    worker::begin();
    crate::error::raise(order.carry_out());
    worker::commit();
}
