//! What a pass should do with one store, from its leaves and the clock alone.

use crate::catalog::cache::Leaf;
use crate::domain::day::{DAY, Day, Instant};
use crate::domain::pause::Pauses;

/// The days from today to `ahead` days later that no leaf covers or overlaps.
pub fn missing(leaves: &[Leaf], today: Day, ahead: i32) -> Vec<Day> {
    (0..=ahead)
        .map(|offset| today.plus(offset))
        .filter(|day| !leaves.iter().any(|leaf| leaf.meets(*day)))
        .collect()
}

/// The leaves whose day and whose promise are over, pauses taken into account, oldest first. A leaf that
/// nobody promised anything for is kept, and so is one whose range is open.
pub fn due(leaves: &[Leaf], pauses: &Pauses, now: Instant) -> Vec<Leaf> {
    let over = |leaf: &&Leaf| {
        leaf.range.from != i64::MIN && leaf.range.to <= now && end_of(leaf, pauses) <= now
    };
    let mut due: Vec<Leaf> = leaves.iter().filter(over).cloned().collect();
    due.sort_by_key(|leaf| leaf.range.from);
    due
}

/// Leaves that nobody promised anything for, as they were attached by hand, of days that would be due by now. A
/// default partition, and a range without a beginning, are left alone.
pub fn over_by_hand<'a>(
    leaves: &'a [Leaf],
    pauses: &Pauses,
    retention: Instant,
    now: Instant,
) -> impl Iterator<Item = &'a Leaf> {
    leaves.iter().filter(move |leaf| {
        leaf.keep_until == Instant::MAX
            && leaf.range.from != Instant::MIN
            && pauses.end(leaf.range.from, leaf.range.to.saturating_add(retention)) <= now
    })
}

/// Until when a leaf may hold a live claim.
fn end_of(leaf: &Leaf, pauses: &Pauses) -> Instant {
    pauses.end(leaf.range.from, leaf.keep_until)
}

/// How far the clock may go back without a doubt: time servers step it by seconds.
const TOLERANCE: Instant = DAY / (24 * 12);

/// Why a clock is not to be believed.
#[derive(Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It shows an earlier time than when drops went by it last.
    Back,
    /// More leaves have become due since then than days have left a trace.
    Ahead {
        /// How many have become due.
        due: usize,
        /// How many could have.
        plausible: usize,
    },
}

/// Whether the clock can be believed, by what it has shown before and by the traces that time leaves: a day
/// that really passed has claims in its leaf. Two leaves may become due without any, the night after a
/// quiet day. `due` are those that were ever written to.
pub fn doubt(
    due: &[Leaf],
    pauses: &Pauses,
    seen: Instant,
    now: Instant,
    days_with_claims: usize,
) -> Option<Doubt> {
    if now < seen.saturating_sub(TOLERANCE) {
        return Some(Doubt::Back);
    }
    let newly = due.iter().filter(|leaf| end_of(leaf, pauses) > seen).count();
    let plausible = days_with_claims + 2;
    (newly > plausible).then_some(Doubt::Ahead { due: newly, plausible })
}
