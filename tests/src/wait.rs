//! Waiting for a condition: polled, bounded, never a sleep in the hope that it is true by then.

use std::time::{Duration, Instant};

use crate::session::Session;

/// Longest that any condition may take on a busy machine of two cores.
pub const BOUND: Duration = Duration::from_secs(45);

const GLANCE: Duration = Duration::from_millis(2);

/// Polls until the condition holds; panics after [`BOUND`].
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    assert!(poll(BOUND, &mut holds), "waited {BOUND:?} in vain until {what}");
}

/// Polls until the condition holds; false when it does not within `bound`.
pub fn poll(bound: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + bound;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(GLANCE);
    }
}

/// Waits until backend `pid` waits for a lock; `observer` looks.
#[track_caller]
pub fn blocked(observer: &mut Session, pid: i32) {
    let stands =
        poll(BOUND, || observer.get_with::<bool>("SELECT pg_blocking_pids($1) <> '{}'", &[&pid]));
    if !stands {
        let report = crate::hang::report(observer);
        panic!("waited {BOUND:?} in vain until backend {pid} is blocked\n{report}");
    }
}

/// Waits until the backend has no statement running (its transaction may be open).
#[track_caller]
pub fn idle(observer: &mut Session, pid: i32) {
    until("the backend is idle", || {
        observer.get_with::<bool>(
            "SELECT coalesce(bool_and(state LIKE 'idle%'), true) FROM pg_stat_activity WHERE pid = $1",
            &[&pid],
        )
    });
}

/// Waits until the backend is gone.
#[track_caller]
pub fn gone(observer: &mut Session, pid: i32) {
    until("the backend is gone", || {
        observer
            .get_with::<bool>("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $1", &[&pid])
    });
}
