//! What a pass should do with one store, from its leaves and the clock alone.

use crate::catalog::cache::Leaf;
use crate::domain::day::{Day, Instant};

/// The days from today to `ahead` days later that no leaf covers or overlaps.
pub fn missing(leaves: &[Leaf], today: Day, ahead: i32) -> Vec<Day> {
    (0..=ahead)
        .map(|offset| today.plus(offset))
        .filter(|day| !leaves.iter().any(|leaf| leaf.meets(*day)))
        .collect()
}

/// The leaves whose day and whose promise are over, oldest first. A leaf that nobody promised
/// anything for is kept, and so is one whose range is open.
pub fn due(leaves: &[Leaf], now: Instant) -> Vec<Leaf> {
    let over = |leaf: &&Leaf| {
        leaf.range.from != i64::MIN && leaf.range.to <= now && leaf.keep_until <= now
    };
    let mut due: Vec<Leaf> = leaves.iter().filter(over).cloned().collect();
    due.sort_by_key(|leaf| leaf.range.from);
    due
}
