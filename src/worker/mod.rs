//! The background processes: when things are done, and by whom; what is done is below.
//!
//! - [`make`]: what a claim lacks, for a claim that waits for it.
//! - [`launcher`]: with `shared_preload_libraries` alone: goes round the databases and starts a process
//!   for each, one after the other.
//! - [`pass`]: that process: one pass over the stores of one database.
//!
//! None holds anything up: those in a database live for as long as their work, and leave at once when the
//! database is wanted alone.

mod launcher;
mod make;
mod pass;

use crate::pg::worker::{self, Mains};

/// Says what our processes do, and has the server start the launcher where it can have one.
pub fn define() {
    worker::define_mains(Mains { make: make::run, launch: launcher::run, maintain: pass::run });
    launcher::register();
}

/// Takes out of the way what a database or a role sets for its sessions: the work is ordinary
/// transactions of their own.
fn be_ordinary() {
    // ALTER DATABASE .. SET role would make it somebody who owns nothing.
    worker::set(c"role", c"none");
    worker::set(c"default_transaction_isolation", c"read committed");
    worker::set(c"default_transaction_read_only", c"off");
    worker::set(c"statement_timeout", c"0");
    worker::set(c"idle_in_transaction_session_timeout", c"0");
    worker::lift_transaction_timeout();
}
