//! What one call of a claim function answered, before it is added to the table: one addition for each
//! outcome and bucket, however many keys there were.

use super::layout as at;
use super::{Kind, OUTCOMES};
use crate::domain::age::{self, BUCKETS};
use crate::domain::day::Instant;

/// Counts of one call.
#[derive(Default)]
pub struct Tally {
    outcomes: [u64; OUTCOMES],
    waits: u64,
    waited: u64,
    late: u64,
    ages: [u64; BUCKETS],
    /// The greatest age of a duplicate, in microseconds.
    pub oldest: u64,
}

impl Tally {
    /// Counts an answer.
    pub fn answered(&mut self, kind: Kind) {
        self.outcomes[kind as usize] += 1;
    }

    /// Sorts a duplicate in that arrived at `now` and was refused by a claim with this window.
    pub fn aged(&mut self, now: Instant, window: (Instant, Instant)) -> i64 {
        let (claimed_at, expires_at) = window;
        let age = now.saturating_sub(claimed_at).max(0);
        self.ages[age::bucket(age)] += 1;
        self.oldest = self.oldest.max(age.cast_unsigned());
        if age::is_in_last_tenth(age, expires_at.saturating_sub(claimed_at)) {
            self.late += 1;
        }
        age
    }

    /// Counts an answer that was waited for, so many microseconds.
    pub fn waited(&mut self, micros: i64) {
        self.waits += 1;
        self.waited += micros.max(0).cast_unsigned();
    }

    /// Each count with the field of an entry that it is added to.
    pub fn counts(&self) -> impl Iterator<Item = (usize, &u64)> {
        let fields = [(at::OUTCOMES, &self.outcomes[..]), (at::AGES, &self.ages[..])];
        let single = [(at::WAITS, &self.waits), (at::WAITED, &self.waited), (at::LATE, &self.late)];
        let listed = fields.into_iter().flat_map(|(first, counts)| {
            counts.iter().enumerate().map(move |(i, count)| (first + i, count))
        });
        listed.chain(single)
    }
}
