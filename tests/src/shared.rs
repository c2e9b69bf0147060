//! The clusters that the tests of one binary share. They are never dropped: the warden stops them.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::cluster::Cluster;
use crate::database::Database;

static PLAIN: LazyLock<Cluster> = LazyLock::new(|| Cluster::build().start());
/// Two, because tests run two at a time on the machines this is meant for.
static CLOCKED: [LazyLock<Mutex<Cluster>>; 2] = [
    LazyLock::new(|| Mutex::new(Cluster::build().clocked().start())),
    LazyLock::new(|| Mutex::new(Cluster::build().clocked().start())),
];

/// The cluster of tests that hurt nothing but their own database.
pub fn cluster() -> &'static Cluster {
    &PLAIN
}

/// A database with pg_once in the shared cluster.
#[track_caller]
pub fn database() -> Database<'static> {
    PLAIN.database()
}

/// A cluster whose clock the test moves, for this test alone until it ends.
pub fn clocked() -> MutexGuard<'static, Cluster> {
    for cluster in &CLOCKED {
        match cluster.try_lock() {
            Ok(free) => return free,
            // A test that failed left at worst a wrong time, and the next one sets its own.
            Err(TryLockError::Poisoned(left)) => return left.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    CLOCKED[0].lock().unwrap_or_else(PoisonError::into_inner)
}
