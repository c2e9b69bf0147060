//! Freeing entries that nobody needs, when there is no free one: those of stores and databases that are
//! gone, and those that were reset and not used since.

use super::layout::{self as at, ENTRIES, OTHER, identity, word};
use super::table::{Place, Table};
use crate::domain::day::Instant;
use crate::pg::{privilege, session};
use pgrx::pg_sys::Oid;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// How long an entry is left alone after a reset, and how long after one search for entries to free the
/// next may follow: each reads the catalog for a thousand entries.
const GRACE: u64 = 60_000_000;

impl Table {
    /// Frees what can be freed, unless that was tried a moment ago; true where it was tried.
    pub(super) fn sweep(&self, now: Instant) -> bool {
        let swept = &self.0.words[at::SWEPT_AT];
        let before = swept.load(Relaxed);
        // A distance, so that a clock that went back does not put it off for long.
        if now.abs_diff(before.cast_signed()) < GRACE
            || swept.compare_exchange(before, now.cast_unsigned(), Relaxed, Relaxed).is_err()
        {
            return false;
        }
        // Not under the lock, because it reads the catalog.
        let gone: Vec<Place> = self
            .taken()
            .into_iter()
            .filter(|&(_, owner)| is_gone(owner))
            .map(|(place, _)| place)
            .collect();
        let _held = self.0.exclusive();
        for place in gone {
            // Unless it is another's by now.
            if self.place_of(place.entry).changes == place.changes {
                self.free(place.entry);
            }
        }
        for entry in 0..ENTRIES {
            if self.load(identity(entry)) != 0 && self.is_idle(entry, now) {
                self.free(entry);
            }
        }
        true
    }

    /// The entries in use and whose they are.
    fn taken(&self) -> Vec<(Place, (Oid, Oid))> {
        let _held = self.0.shared();
        (0..ENTRIES)
            .filter(|&entry| self.load(identity(entry)) != 0)
            .map(|entry| (self.place_of(entry), self.owner(entry)))
            .collect()
    }

    fn free(&self, entry: usize) {
        self.0.words[identity(entry)].store(0, Release);
        for entry in [entry, OTHER] {
            self.0.words[word(entry, at::CHANGES)].fetch_add(1, Release);
        }
    }

    /// Whether it was made or reset a while ago and has counted nothing since.
    fn is_idle(&self, entry: usize, now: Instant) -> bool {
        let since = self.load(word(entry, at::SINCE)).cast_signed();
        now.abs_diff(since) > GRACE && !self.has_counted(entry)
    }
}

fn is_gone((database, store): (Oid, Oid)) -> bool {
    if database == session::database() {
        !privilege::exists(store)
    } else {
        !session::database_exists(database)
    }
}
