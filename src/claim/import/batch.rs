//! The rows of one range of pages: those that can still refuse, in memory, in the order in which they are
//! claimed.

use super::Tally;
use super::source::Row;
use crate::catalog::cache::Store;
use crate::claim::{Settings, check_effect};
use crate::domain::day::{Day, Instant};
use crate::domain::key::{self, KeyFault};
use crate::domain::window::{Span, SpanFault, expiry};
use crate::error::Refusal;
use std::cmp::Reverse;

/// What makes a row live, refused or over.
pub struct Judge<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// The window.
    pub ttl: Option<Span>,
    /// The store, with its retention and its pauses.
    pub store: &'a Store,
    /// The effect of rows that have none of their own; None where each must.
    pub effect: Option<&'a [u8]>,
    /// When the batch is read.
    pub now: Instant,
}

/// A claim to be made.
#[derive(Clone, Copy)]
pub struct Entry {
    start: usize,
    key: usize,
    effect: usize,
    /// When it counts as made.
    pub at: Instant,
}

/// Claims to be made. Keys and effects lie one behind the other in one piece of memory.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Batch {
    /// Takes a row in, or counts why not.
    pub fn take(&mut self, row: &Row, judge: &Judge, tally: &mut Tally) -> Result<(), Refusal> {
        tally.read += 1;
        let Some(key) = row.key.filter(|key| !key.is_empty()) else {
            tally.no_key += 1;
            return Ok(());
        };
        if let Err(KeyFault::TooLong { .. }) = key::check(key, judge.settings.max_key_bytes) {
            tally.long_key += 1;
            return Ok(());
        }
        let Some(effect) = judge.effect.or(row.effect).filter(|e| check_effect(e).is_ok()) else {
            tally.no_effect += 1;
            return Ok(());
        };
        let Some(claimed_at) = row.claimed_at else {
            tally.no_time += 1;
            return Ok(());
        };
        let at = claimed_at.min(judge.now);
        if judge.is_over(at)? {
            tally.expired += 1;
            return Ok(());
        }
        tally.ahead += u64::from(at < claimed_at);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(effect);
        self.entries.push(Entry { start, key: key.len(), effect: effect.len(), at });
        Ok(())
    }

    /// The key of a claim.
    pub fn key(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start..entry.start + entry.key]
    }

    /// The effect of a claim.
    pub fn effect(&self, entry: &Entry) -> &[u8] {
        let start = entry.start + entry.key;
        &self.bytes[start..start + entry.effect]
    }

    /// Puts the claims in order: the newest day first, then by effect and key. Of one key and effect the
    /// newest comes first in this order, and so is the one that stands; those of the same day that come
    /// behind it are left out. Says how many.
    pub fn sort(&mut self) -> usize {
        let mut entries = std::mem::take(&mut self.entries);
        let order =
            |e: &Entry| (Reverse(Day::of(e.at)), self.effect(e), self.key(e), Reverse(e.at));
        entries.sort_unstable_by(|a, b| order(a).cmp(&order(b)));
        let count = entries.len();
        let claim = |e: &Entry| (Day::of(e.at), self.effect(e), self.key(e));
        entries.dedup_by(|b, a| claim(a) == claim(b));
        let doubled = count - entries.len();
        self.entries = entries;
        doubled
    }

    /// The days of the claims, once they are in order.
    pub fn days(&self) -> Vec<Day> {
        let mut days: Vec<Day> = self.entries.iter().map(|entry| Day::of(entry.at)).collect();
        days.dedup();
        days
    }

    /// The claims of one day and one effect at a time, once they are in order.
    pub fn groups(&self) -> impl Iterator<Item = &[Entry]> {
        self.entries
            .chunk_by(|a, b| Day::of(a.at) == Day::of(b.at) && self.effect(a) == self.effect(b))
    }
}

impl Judge<'_> {
    /// Whether a claim made at `at` has expired.
    pub fn is_over(&self, at: Instant) -> Result<bool, Refusal> {
        match expiry(at, self.ttl, self.store.retention) {
            Ok(end) => Ok(self.store.end_of(at, end) <= self.now),
            Err(SpanFault::NotPositive) => Err(Refusal::TtlNotPositive),
            // What is too long ends late: the claim itself refuses it, with the store's name.
            Err(SpanFault::TooLong) => Ok(false),
        }
    }
}
