//! What one call of a claim function answered, before it is added to the table: one addition for each
//! outcome and bucket, however many keys there were.

use super::layout::{self as at, COUNTS, END};
use super::{Event, Kind};
use crate::domain::age;
use crate::domain::day::Instant;

const FIELDS: usize = END - COUNTS;
// Each has its bit in `touched`.
const _: () = assert!(FIELDS <= u64::BITS as usize);

/// Counts of one call.
pub struct Tally {
    counts: [u64; FIELDS],
    /// Which counts are not zero: a call for one key has three, and looking through all would cost as much as
    /// adding them.
    touched: u64,
    /// The greatest age of a duplicate, in microseconds.
    pub oldest: u64,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Tally {
        Tally { counts: [0; FIELDS], touched: 0, oldest: 0 }
    }

    fn add(&mut self, field: usize, count: u64) {
        let place = field - COUNTS;
        self.counts[place] += count;
        self.touched |= 1 << place;
    }

    /// Counts an answer.
    pub fn answered(&mut self, kind: Kind) {
        self.add(at::OUTCOMES + kind as usize, 1);
    }

    /// Counts what became of an effect.
    pub fn happened(&mut self, event: Event) {
        self.add(at::EVENTS + event as usize, 1);
    }

    /// Sorts a duplicate in that arrived at `now` and was refused by a claim with this window.
    pub fn aged(&mut self, now: Instant, window: (Instant, Instant)) {
        let (claimed_at, expires_at) = window;
        let age = now.saturating_sub(claimed_at).max(0);
        self.add(at::AGES + age::bucket(age), 1);
        self.oldest = self.oldest.max(age.cast_unsigned());
        if age::is_in_last_tenth(age, expires_at.saturating_sub(claimed_at)) {
            self.add(at::LATE, 1);
        }
    }

    /// Counts an answer that was waited for, so many microseconds.
    pub fn waited(&mut self, micros: i64) {
        self.add(at::WAITS, 1);
        self.add(at::WAITED, micros.max(0).cast_unsigned());
    }

    /// Each count that is not zero, with the field of an entry that it is added to.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut left = self.touched;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            self.counts.get(place).map(|&count| (COUNTS + place, count))
        })
    }
}
