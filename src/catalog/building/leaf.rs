//! The keys of sealed leaves as entries of a filter, read from the leaves.

use super::Day;
use crate::catalog::filters::Seal;
use crate::domain::day::Instant;
use crate::domain::filter::MOST_DAYS;
use crate::domain::filter::merge::Source;
use crate::domain::filter::page::Entry;
use crate::domain::key::lock_number;
use crate::error::Refusal;
use crate::pg::keys::for_each_key;
use crate::pg::relation::{Access, Relation};
use crate::pg::session;
use pgrx::pg_sys::Oid;
use std::rc::Rc;

/// Days read together. What fits in maintenance_work_mem is kept; of one day that does not, only a part of the
/// hashes at a time is read, again and again.
pub struct Batch {
    store: Oid,
    days: Vec<Day>,
    first: u8,
    /// Sorted; None where they do not fit.
    entries: Option<Rc<Vec<Entry>>>,
}

impl Batch {
    /// Reads sealed days: as many as fit, one at least.
    pub fn read(store: Oid, seals: &[Seal]) -> Result<Batch, Refusal> {
        let mut batch = Batch { store, days: Vec::new(), first: 0, entries: None };
        let (mut entries, room) = (Vec::new(), room());
        for seal in seals.iter().take(MOST_DAYS) {
            let (place, before) = (day_number(batch.days.len())?, entries.len());
            let (mut keys, mut newest) = (0, None);
            for_each_hash(store, seal.leaf, |hash, expires_at| {
                keys += 1;
                newest = newest.max(Some(expires_at));
                if entries.len() < room {
                    entries.push((hash, place));
                }
            })?;
            let fits = (entries.len() - before) as u64 == keys;
            if !fits && !batch.days.is_empty() {
                entries.truncate(before);
                break;
            }
            batch.days.push(Day { leaf: seal.leaf, seal: seal.number, keys, newest });
            if !fits {
                return Ok(batch);
            }
        }
        entries.sort_unstable();
        batch.entries = Some(Rc::new(entries));
        Ok(batch)
    }

    /// Days of an elder filter, whose entries are not known well enough there, numbered from `first`.
    pub fn again(store: Oid, days: &[(usize, Day)], first: usize) -> Result<Batch, Refusal> {
        let days = days.iter().map(|(_, day)| *day).collect();
        Ok(Batch { store, days, first: day_number(first)?, entries: None })
    }

    pub fn days(&self) -> &[Day] {
        &self.days
    }

    pub fn keys(&self) -> u64 {
        self.days.iter().map(|day| day.keys).sum()
    }

    /// Its entries in order.
    pub fn source(&self) -> Read {
        let rounds = match &self.entries {
            Some(_) => 0,
            None => self.keys().div_ceil(room() as u64).max(1),
        };
        let mut read = Read {
            store: self.store,
            days: self.days.clone(),
            first: self.first,
            entries: self.entries.clone().unwrap_or_default(),
            place: 0,
            rounds,
            done: 0,
            failed: None,
        };
        read.refill();
        read
    }
}

fn day_number(place: usize) -> Result<u8, Refusal> {
    u8::try_from(place).map_err(|_| Refusal::Internal("too many days in one filter".to_owned()))
}

/// How many entries may be in memory.
fn room() -> usize {
    (session::maintenance_memory() / size_of::<Entry>()).max(1_000)
}

fn for_each_hash(store: Oid, leaf: Oid, mut each: impl FnMut(u64, Instant)) -> Result<(), Refusal> {
    let gone = || Refusal::Internal(format!("leaf {leaf} is gone"));
    let table = Relation::open(leaf, Access::Read).ok_or_else(gone)?;
    let store = store.to_u32();
    let has_keys = for_each_key(&table, |key, effect, expires_at| {
        each(lock_number(store, effect, key), expires_at);
    });
    if has_keys { Ok(()) } else { Err(Refusal::UnusableLeaf(table.name())) }
}

/// The entries of a batch, in the order of their hashes.
pub struct Read {
    store: Oid,
    days: Vec<Day>,
    first: u8,
    entries: Rc<Vec<Entry>>,
    place: usize,
    /// How many parts the hashes are read in; 0: all were there from the start.
    rounds: u64,
    done: u64,
    failed: Option<Refusal>,
}

impl Read {
    /// Reads the next part, while this one is used up.
    fn refill(&mut self) {
        while self.place == self.entries.len() && self.done < self.rounds && self.failed.is_none() {
            let part = self.done;
            self.done += 1;
            let part_of = |hash: u64| (u128::from(hash) * u128::from(self.rounds)) >> 64;
            let mut entries = Vec::new();
            for (day, number) in self.days.iter().zip(self.first..) {
                let add = |hash, _| {
                    if part_of(hash) == u128::from(part) {
                        entries.push((hash, number));
                    }
                };
                if let Err(refusal) = for_each_hash(self.store, day.leaf, add) {
                    self.failed = Some(refusal);
                }
            }
            entries.sort_unstable();
            (self.entries, self.place) = (Rc::new(entries), 0);
        }
    }

    pub fn finish(self) -> Result<(), Refusal> {
        self.failed.map_or(Ok(()), Err)
    }
}

impl Source for Read {
    fn peek(&mut self) -> Option<Entry> {
        self.entries.get(self.place).copied()
    }

    fn advance(&mut self) {
        self.place += 1;
        self.refill();
    }
}
