//! Unfinished effects and the days they were begun in.
//!
//! The rule: a day with an unfinished effect goes only after a pass has seen, at least a day before, that the effect's
//! window is over; once.health tells of it all that time. In doubt the day is kept.

use super::apply::{Pass, date, name};
use crate::catalog::cache::Leaf;
use crate::catalog::effects;
use crate::catalog::log::{self, Action, Entry};
use crate::domain::counted::counted;
use crate::domain::day::{Day, Instant};
use crate::error::Refusal;
use pgrx::pg_sys::Oid;

impl Pass<'_> {
    /// Sees which effects were not finished when their windows ended.
    pub(super) fn show_effects(&self, store: Oid) {
        self.step(store, "see which effects are unfinished", || {
            let seen = effects::show(store, (self.clock)())?;
            if seen > 0 {
                let effects = counted(seen, "effect was", "effects were");
                let detail = format!(
                    "{effects} not finished when the window ended, and kept for a day from now on"
                );
                pgrx::warning!("{}: {detail}; see once.effects", name(store));
                log::write(store, &Entry { rows: Some(seen), ..Entry::of(Action::Keep, &detail) })?;
            }
            Ok(())
        });
    }

    /// Whether unfinished effects keep a leaf; says so where they do.
    pub(super) fn is_kept_by_effects(&self, store: Oid, leaf: &Leaf) -> bool {
        let mut is_kept = true;
        self.step(store, "see which effects are unfinished", || {
            let (_, keeping) = effects::unfinished(store, leaf.range, (self.clock)())?;
            is_kept = keeping > 0;
            if is_kept {
                let day = Day::of(leaf.range.from);
                let effects = counted(keeping, "unfinished effect", "unfinished effects");
                let detail = format!("{effects} of it was first seen less than a day ago");
                pgrx::warning!("{}: the leaf of {} is kept: {detail}", name(store), date(day));
                let entry = Entry {
                    day: Some(day),
                    rows: Some(keeping),
                    ..Entry::of(Action::Keep, &detail)
                };
                log::write_once_an_hour(store, &entry)?;
            }
            Ok(())
        });
        is_kept
    }

    /// Forgets effects of days that are gone.
    pub(super) fn forget_effects(&self, store: Oid, leaves: &[Leaf]) {
        let days = leaves.iter().map(|leaf| leaf.range.from).filter(|&from| from != Instant::MIN);
        let Some(oldest) = days.min() else { return };
        self.step(store, "tidy up", || {
            let gone = effects::forget_before(store, oldest, (self.clock)())?;
            if gone > 0 {
                let detail = format!(
                    "{} of days that are gone",
                    counted(gone, "unfinished effect", "unfinished effects")
                );
                log::write(store, &Entry { rows: Some(gone), ..Entry::of(Action::Drop, &detail) })?;
            }
            Ok(())
        });
    }
}

/// Under the locks of a leaf that is about to be dropped: forgets its unfinished effects, and says how many there were in words;
/// None where one of them keeps it.
pub(super) fn let_go(store: Oid, leaf: &Leaf, now: Instant) -> Result<Option<String>, Refusal> {
    let (unfinished, keeping) = effects::unfinished(store, leaf.range, now)?;
    if keeping > 0 {
        return Ok(None);
    }
    if unfinished == 0 {
        return Ok(Some(String::new()));
    }
    effects::forget(store, leaf.range)?;
    Ok(Some(format!("with {}", counted(unfinished, "unfinished effect", "unfinished effects"))))
}
