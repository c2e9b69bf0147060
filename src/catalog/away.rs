//! Whether a store's consumers, or the server, were away: whole UTC days without a claim, more of them than
//! usual. A message that waited in the broker meanwhile may be delivered again when they are back, so such a time
//! does not count against the windows that guard against redelivery.
//!
//! Days are the measure, because whether a leaf was ever written to costs nothing to see. Usual is the longest
//! stretch of whole days without a claim between the older leaves that are still there: a store that rests
//! at weekends is not away on Sunday.

use super::cache::{self, Leaf};
use super::pauses::{self, StorePauses};
use super::sql;
use crate::domain::day::{Day, Instant};
use crate::error::Refusal;
use crate::pg::lock;
use crate::pg::privilege::{self, Acting};
use crate::pg::relation::{Access, Opened, Relation};
use pgrx::pg_sys::Oid;

/// Leaves that have begun and were written to, newest first; of one that somebody has locked `busy` says
/// whether it was.
pub fn written(
    leaves: &[Leaf],
    now: Instant,
    busy: fn(&Leaf) -> bool,
) -> impl Iterator<Item = &Leaf> {
    leaves.iter().filter(move |leaf| leaf.range.from <= now).filter(move |leaf| {
        match Relation::try_open(leaf.table, Access::Read) {
            Opened::Open(table) => holds_pages(&table),
            Opened::Busy => busy(leaf),
            Opened::Gone => false,
        }
    })
}

/// A leaf of which nobody can tell at once counts as empty: in doubt the store was away.
pub fn not_told(_: &Leaf) -> bool {
    false
}

/// Waits for whoever has a leaf locked.
fn told_later(leaf: &Leaf) -> bool {
    Relation::open(leaf.table, Access::Read).is_some_and(|table| holds_pages(&table))
}

fn holds_pages(table: &Relation) -> bool {
    table.is_ordinary() && !table.is_empty()
}

/// Whole days between two leaves, the newer one first.
fn days_between(newer: &Leaf, older: &Leaf) -> i32 {
    Day::of(newer.range.from).0 - Day::of(older.range.to - 1).0 - 1
}

/// Days without a claim, more of them than usual and not known yet, by the pages of the leaves alone.
struct Gap<'a> {
    /// The leaves before it, newest first.
    before: Vec<&'a Leaf>,
    /// The one after it, if it is over.
    after: Option<&'a Leaf>,
}

fn gap<'a>(
    leaves: &'a [Leaf],
    known: &StorePauses,
    now: Instant,
    days: i32,
    busy: fn(&Leaf) -> bool,
) -> Option<Gap<'a>> {
    let mut newest_first = written(leaves, now, busy);
    let newest = newest_first.next()?;
    let since_newest = Day::of(now).0 - Day::of(newest.range.to - 1).0 - 1;
    let before_newest = newest_first.next().map(|gone| days_between(newest, gone));
    // As a rule all is well, and two leaves say so.
    if since_newest.max(before_newest.unwrap_or(0)) < days {
        return None;
    }
    let usual = |pairs: &[&Leaf]| {
        pairs.windows(2).map(|p| days_between(p[0], p[1])).max().unwrap_or(0).max(0)
    };
    let mut before: Vec<&Leaf> = written(leaves, now, busy).collect();
    if since_newest >= days + usual(&before) && !is_known(known, newest) {
        return Some(Gap { before, after: None });
    }
    // One that began and ended between two looks.
    before.retain(|leaf| leaf.table != newest.table);
    let gone = before.first()?;
    (before_newest? >= days + usual(&before) && !is_known(known, gone))
        .then_some(Gap { before, after: Some(newest) })
}

/// When an absence in question has begun at the earliest: with the day of the last claim before it.
pub fn earliest(leaves: &[Leaf], now: Instant, days: i32) -> Option<Instant> {
    let none = StorePauses::default();
    let before =
        gap(leaves, &none, now, days, not_told).and_then(|gap| gap.before.first().copied());
    before.or_else(|| written(leaves, now, not_told).next()).map(|leaf| leaf.range.from)
}

/// Whether the absence after a leaf is known already: it may have been ended by hand.
fn is_known(known: &StorePauses, last_before: &Leaf) -> bool {
    known.last_away >= Some(last_before.range.from)
}

/// Whether something is to be settled about a store, as far as can be told for nothing: asked by a claim.
pub fn is_in_question(leaves: &[Leaf], known: &StorePauses, now: Instant, days: i32) -> bool {
    match known.away_since.filter(|_| days > 0) {
        Some(since) => written(leaves, now, not_told).any(|leaf| leaf.range.from > since),
        None => days > 0 && gap(leaves, known, now, days, not_told).is_some(),
    }
}

/// Finds out whether the store is or was away, and writes it down, in the current transaction. Holds the store's
/// definition lock from there on only if there is something to write.
pub fn settle(store: Oid, now: Instant, days: i32) -> Result<(), Refusal> {
    let found = || if privilege::exists(store) { find(store, now, days) } else { Ok(None) };
    if found()?.is_some() {
        lock::hold_definition(store);
        if let Some((since, until)) = found()? {
            return pauses::record_away(store, since, until);
        }
    }
    Ok(())
}

/// Whether there is an absence that is not written down.
pub fn is_to_be_written(store: Oid, now: Instant, days: i32) -> Result<bool, Refusal> {
    Ok(find(store, now, days)?.is_some())
}

/// The absence to be written down: since when, and until when, or the end of time.
fn find(store: Oid, now: Instant, days: i32) -> Result<Option<(Instant, Instant)>, Refusal> {
    if days == 0 {
        return Ok(None);
    }
    let leaves = cache::leaves_of(store)?;
    let known = pauses::of(store)?;
    if let Some(since) = known.away_since {
        let written: Vec<&Leaf> = written(&leaves, now, told_later).collect();
        for leaf in written.iter().rev().filter(|leaf| leaf.range.to > since) {
            if let Some(back) = claimed_after(leaf.table, since)? {
                return Ok(Some((since, back)));
            }
        }
        return Ok(None);
    }
    let Some(Gap { before, after }) = gap(&leaves, &known, now, days, told_later) else {
        return Ok(None);
    };
    // Claims that were rolled back leave pages and nothing in them.
    for leaf in before {
        if is_known(&known, leaf) {
            break;
        }
        if let Some(since) = last_claim(leaf.table)? {
            let back = match after {
                Some(after) => claimed_after(after.table, Instant::MIN)?,
                None => None,
            };
            return Ok(Some((since, back.unwrap_or(Instant::MAX))));
        }
    }
    Ok(None)
}

/// When the last claim in a leaf was made.
fn last_claim(leaf: Oid) -> Result<Option<Instant>, Refusal> {
    look(leaf, "SELECT max(claimed_at) FROM ", None)
}

/// When the first claim in a leaf after an instant was made.
fn claimed_after(leaf: Oid, after: Instant) -> Result<Option<Instant>, Refusal> {
    let after = (after != Instant::MIN).then_some(after);
    look(leaf, "SELECT min(claimed_at) FROM ", after)
}

fn look(leaf: Oid, select: &str, after: Option<Instant>) -> Result<Option<Instant>, Refusal> {
    let Some(_open) = Relation::open(leaf, Access::Read) else { return Ok(None) };
    let _acting = Acting::as_role(privilege::table_owner(leaf));
    let table = sql::named(leaf)?.qualified;
    let found = match after {
        None => sql::get::<pgrx::datum::TimestampWithTimeZone>(&format!("{select}{table}"), &[])?,
        Some(after) => sql::get::<pgrx::datum::TimestampWithTimeZone>(
            &format!("{select}{table} WHERE claimed_at > $1"),
            &[sql::instant(after)?],
        )?,
    };
    Ok(found.map(i64::from))
}
