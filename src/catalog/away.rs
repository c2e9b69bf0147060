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

/// Leaves that have begun and were written to, newest first.
pub fn written(leaves: &[Leaf], now: Instant) -> impl Iterator<Item = &Leaf> {
    leaves.iter().filter(move |leaf| leaf.range.from <= now).filter(|leaf| {
        match Relation::try_open(leaf.table, Access::Read) {
            Opened::Open(table) => table.is_ordinary() && !table.is_empty(),
            // Somebody does something to it, so it is not what an absence looks like.
            Opened::Busy => true,
            Opened::Gone => false,
        }
    })
}

/// Whole days between two leaves, the newer one first.
fn days_between(newer: &Leaf, older: &Leaf) -> i32 {
    Day::of(newer.range.from).0 - Day::of(older.range.to - 1).0 - 1
}

/// Whether something is to be settled about a store, as far as can be told for nothing: asked by a claim.
pub fn is_in_question(leaves: &[Leaf], known: &StorePauses, now: Instant, days: i32) -> bool {
    if days == 0 {
        return false;
    }
    let Some(newest) = written(leaves, now).next() else { return false };
    match known.away_since {
        Some(since) => newest.range.from > since,
        None => Day::of(now).0 - Day::of(newest.range.to - 1).0 > days && !is_known(known, newest),
    }
}

/// When an absence that lasts has begun at the earliest: with the day of the last claim.
pub fn earliest(leaves: &[Leaf], now: Instant) -> Option<Instant> {
    written(leaves, now).next().map(|leaf| leaf.range.from)
}

/// Whether the absence after a leaf is known already: it may have been ended by hand.
fn is_known(known: &StorePauses, last_before: &Leaf) -> bool {
    known.last_away >= Some(last_before.range.from)
}

/// Finds out whether the store is or was away, and writes it down, in the current transaction.
pub fn settle(store: Oid, now: Instant, days: i32) -> Result<(), Refusal> {
    if days == 0 || !privilege::exists(store) {
        return Ok(());
    }
    lock::hold_definition(store);
    let leaves = cache::leaves_of(store)?;
    let known = pauses::of(store)?;
    let written: Vec<&Leaf> = written(&leaves, now).collect();
    let Some(newest) = written.first() else { return Ok(()) };
    if let Some(since) = known.away_since {
        let later = written.iter().rev().filter(|leaf| leaf.range.to > since);
        for leaf in later {
            if let Some(back) = claimed_after(leaf.table, since)? {
                return pauses::record_away(store, since, back);
            }
        }
        return Ok(());
    }
    let usual = |pairs: &[&Leaf]| pairs.windows(2).map(|p| days_between(p[0], p[1])).max();
    let empty = Day::of(now).0 - Day::of(newest.range.to - 1).0 - 1;
    if !is_known(&known, newest)
        && empty >= days + usual(&written).unwrap_or(0).max(0)
        && let Some(since) = last_claim(newest.table)?
    {
        return pauses::record_away(store, since, Instant::MAX);
    }
    // One that began and ended between two looks.
    if let [back, gone, ..] = written[..] {
        let empty = days_between(back, gone);
        if !is_known(&known, gone)
            && empty >= days + usual(&written[1..]).unwrap_or(0).max(0)
            && let Some(since) = last_claim(gone.table)?
            && let Some(until) = claimed_after(back.table, Instant::MIN)?
        {
            return pauses::record_away(store, since, until);
        }
    }
    Ok(())
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
