//! `pg_once.log_duplicates = sample`: of a session's duplicates the first and each hundredth after it are
//! written to the server's log, at most one line a second.
//!
//! The line has no key and no statement, because keys may be personal data and logs go far. It has the instant of the claim
//! that refused, to the microsecond, by which whoever may read the store finds the key.

use crate::domain::day::{Instant, stamp};
use crate::domain::shown::shown;
use crate::pg::log;
use std::cell::Cell;

/// One of so many is logged.
const ONE_OF: u64 = 100;
/// Microseconds between two lines of a session.
const PAUSE: u64 = 1_000_000;

thread_local! {
    static SEEN: Cell<u64> = const { Cell::new(0) };
    static SAID: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A duplicate came at `now`.
pub fn duplicate(store: &[u8], effect: &[u8], claimed_at: Instant, now: Instant) {
    let seen = SEEN.with(|seen| seen.replace(seen.get().wrapping_add(1)));
    let pauses = SAID.with(Cell::get).is_some_and(|said| now.abs_diff(said) < PAUSE);
    if !seen.is_multiple_of(ONE_OF) || pauses {
        return;
    }
    SAID.with(|said| said.set(Some(now)));
    let age = now.saturating_sub(claimed_at).max(0);
    log::line(&format!(
        "pg_once: duplicate in store \"{}\", effect \"{}\": claimed at {}, {} s ago",
        shown(store),
        shown(effect),
        stamp(claimed_at),
        age / 1_000_000
    ));
}
