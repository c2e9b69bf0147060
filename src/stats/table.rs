//! The table of what was counted, in shared memory.
//!
//! Adding takes no lock: a session keeps the place of its entry (see [`Place`]) and adds to words. Only
//! finding a place, freeing entries, reading and resetting take the table's one lock, for as long as a look
//! through it takes.
//!
//! Why nothing is added to somebody else's entry: an entry is freed when its store is gone, and whoever
//! counts in a store holds a lock on a leaf of it to the end of the transaction; a place remembered longer
//! than that is checked by the entry's number of changes. An entry that was reset and not used since is
//! freed after a minute, which is longer than anybody takes between that check and the addition.
//!
//! Nothing here fails: without a free entry, and without one that can be freed, the "other" entry counts.

use super::layout::{self as at, ENTRIES, OTHER, identity, word};
use super::tally::Tally;
use crate::domain::age::BUCKETS;
use crate::domain::day::Instant;
use crate::pg::session;
use crate::pg::shmem::Area;
use pgrx::pg_sys::Oid;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What is counted together.
pub struct Subject<'a> {
    /// The store's table, in this session's database.
    pub store: Oid,
    /// The effect.
    pub effect: &'a [u8],
}

impl Subject<'_> {
    fn owner(&self) -> u64 {
        (u64::from(session::database().to_u32()) << 32) | u64::from(self.store.to_u32())
    }

    /// Chooses where to look closer; never 0, which is a free entry's.
    pub(super) fn identity(&self) -> u64 {
        xxh3_64_with_seed(self.effect, self.owner()).max(1)
    }
}

/// An entry that was found for a subject.
#[derive(Clone, Copy)]
pub struct Place {
    pub(super) entry: usize,
    pub(super) changes: u64,
}

/// What an entry held when it was read.
pub struct Row {
    /// The store; None in the row for everything that found no place.
    pub store: Option<Oid>,
    /// The effect; None where the store is.
    pub effect: Option<Vec<u8>>,
    /// The counts, from the first.
    counts: Vec<u64>,
    /// Since when it counts.
    pub since: Instant,
}

impl Row {
    /// A count, by its place in an entry.
    pub fn count(&self, field: usize) -> i64 {
        self.counts[field - at::COUNTS].cast_signed()
    }

    /// Duplicates by age.
    pub fn ages(&self) -> Vec<i64> {
        (0..BUCKETS).map(|bucket| self.count(at::AGES + bucket)).collect()
    }
}

/// The table.
#[derive(Clone, Copy)]
pub struct Table(pub Area);

impl Table {
    pub(super) fn load(&self, index: usize) -> u64 {
        self.0.words[index].load(Relaxed)
    }

    fn store(&self, index: usize, value: u64) {
        self.0.words[index].store(value, Relaxed);
    }

    /// Adds to an entry; false where it is no longer the one that was found.
    pub fn add(&self, place: Place, tally: &Tally) -> bool {
        let Place { entry, changes } = place;
        if self.0.words[word(entry, at::CHANGES)].load(Acquire) != changes {
            return false;
        }
        for (field, count) in tally.counts() {
            self.0.words[word(entry, field)].fetch_add(count, Relaxed);
        }
        let oldest = word(entry, at::OLDEST);
        if self.load(oldest) < tally.oldest {
            self.0.words[oldest].fetch_max(tally.oldest, Relaxed);
        }
        true
    }

    /// The entry of a subject, made if there is none; the "other" entry where none can be made.
    pub fn place(&self, subject: &Subject, now: Instant) -> Place {
        let (known, is_full) = {
            let _held = self.0.shared();
            (self.find(subject).map(|entry| self.place_of(entry)), self.free_entry().is_none())
        };
        // A full table is looked through by many at once, unless it can be made less full.
        let made = || (!is_full || self.sweep(now)).then(|| self.make(subject, now)).flatten();
        if let Some(place) = known.or_else(made) {
            return place;
        }
        let since = &self.0.words[word(OTHER, at::SINCE)];
        // Another session may have been first, which is as good.
        let _ = since.compare_exchange(0, now.cast_unsigned(), Relaxed, Relaxed);
        self.place_of(OTHER)
    }

    fn free_entry(&self) -> Option<usize> {
        (0..ENTRIES).find(|&entry| self.load(identity(entry)) == 0)
    }

    pub(super) fn place_of(&self, entry: usize) -> Place {
        Place { entry, changes: self.0.words[word(entry, at::CHANGES)].load(Acquire) }
    }

    /// Under the lock.
    fn find(&self, subject: &Subject) -> Option<usize> {
        let sought = subject.identity();
        (0..ENTRIES).find(|&entry| {
            self.0.words[identity(entry)].load(Acquire) == sought
                && self.load(word(entry, at::OWNER)) == subject.owner()
                && self.effect(entry) == subject.effect
        })
    }

    fn effect(&self, entry: usize) -> Vec<u8> {
        let words = (0..at::EFFECT_WORDS).map(|i| self.load(word(entry, at::EFFECT + i)));
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        bytes.truncate(usize::try_from(self.load(word(entry, at::LENGTH))).unwrap_or(0));
        bytes
    }

    fn make(&self, subject: &Subject, now: Instant) -> Option<Place> {
        let _held = self.0.exclusive();
        if let Some(entry) = self.find(subject) {
            return Some(self.place_of(entry));
        }
        let entry = self.free_entry()?;
        self.store(word(entry, at::OWNER), subject.owner());
        self.store(word(entry, at::LENGTH), subject.effect.len() as u64);
        for (i, chunk) in subject.effect.chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            self.store(word(entry, at::EFFECT + i), u64::from_ne_bytes(bytes));
        }
        self.zero(entry, now);
        // Last: whoever dies before this leaves a free entry.
        self.0.words[identity(entry)].store(subject.identity(), Release);
        Some(self.place_of(entry))
    }

    fn zero(&self, entry: usize, now: Instant) {
        for field in at::COUNTS..at::END {
            self.store(word(entry, field), 0);
        }
        self.store(word(entry, at::SINCE), now.cast_unsigned());
    }

    /// What the entries of a database held, and what found no place if anything did.
    pub fn rows(&self, database: Oid) -> Vec<Row> {
        let _held = self.0.shared();
        let of_database =
            |&entry: &usize| self.load(identity(entry)) != 0 && self.owner(entry).0 == database;
        let mut rows: Vec<Row> = (0..ENTRIES)
            .filter(of_database)
            .map(|entry| {
                let (store, effect) = (self.owner(entry).1, self.effect(entry));
                self.row(entry, Some(store), Some(effect))
            })
            .collect();
        if self.has_counted(OTHER) {
            rows.push(self.row(OTHER, None, None));
        }
        rows
    }

    fn row(&self, entry: usize, store: Option<Oid>, effect: Option<Vec<u8>>) -> Row {
        let counts = (at::COUNTS..at::END).map(|field| self.load(word(entry, field))).collect();
        let since = self.load(word(entry, at::SINCE)).cast_signed();
        Row { store, effect, counts, since }
    }

    /// Lets the entries of a store of this database count from zero; those of no store are the "other"
    /// entry.
    pub fn reset(&self, store: Option<Oid>, now: Instant) {
        let _held = self.0.exclusive();
        let Some(store) = store else { return self.zero(OTHER, now) };
        for entry in (0..ENTRIES).filter(|&entry| self.load(identity(entry)) != 0) {
            if self.owner(entry) == (session::database(), store) {
                self.zero(entry, now);
            }
        }
    }

    /// The database and the store of an entry that is not free.
    #[allow(clippy::cast_possible_truncation)] // the two halves of the word
    pub(super) fn owner(&self, entry: usize) -> (Oid, Oid) {
        let owner = self.load(word(entry, at::OWNER));
        (Oid::from((owner >> 32) as u32), Oid::from(owner as u32))
    }

    pub(super) fn has_counted(&self, entry: usize) -> bool {
        (at::COUNTS..at::END).any(|field| self.load(word(entry, field)) != 0)
    }
}
