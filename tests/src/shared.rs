//! The clusters that the tests of one binary share. They are never dropped: the warden stops them.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::cluster::Cluster;
use crate::database::Database;

static PLAIN: LazyLock<Cluster> = LazyLock::new(|| Cluster::build().start());
static CLOCKED: LazyLock<Mutex<Cluster>> =
    LazyLock::new(|| Mutex::new(Cluster::build().clocked().start()));

/// The cluster of tests that hurt nothing but their own database.
pub fn cluster() -> &'static Cluster {
    &PLAIN
}

/// A database with pg_once in the shared cluster.
#[track_caller]
pub fn database() -> Database<'static> {
    PLAIN.database()
}

/// A cluster whose clock the test moves: one test at a time.
pub fn clocked() -> MutexGuard<'static, Cluster> {
    // A test that failed left at worst a wrong time, and the next one sets its own.
    CLOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}
