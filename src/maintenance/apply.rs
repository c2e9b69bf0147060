//! Carrying a pass out. A drop waits for its locks for a tenth of a second at a time, so that nobody waits
//! behind it for longer, and gives up after a few tries; the next pass tries again.

use super::effects;
use super::plan::{self, Doubt};
use crate::catalog::cache::Leaf;
use crate::catalog::filters::{self, Seal};
use crate::catalog::log::{self, Action, Entry};
use crate::catalog::{away, cache, holders, leaves, pauses, sql, stores};
use crate::domain::counted::counted;
use crate::domain::day::{DAY, Day, Instant};
use crate::error::Refusal;
use crate::pg::privilege::{self, Acting};
use crate::pg::procedure::{Failed, attempt, wait_at_most};
use crate::pg::{bounds, lock};
use pgrx::pg_sys::Oid;
use std::cell::Cell;

/// How often a drop tries for its locks, and how long it pauses in between (milliseconds), so that whoever
/// waited behind it gets through.
pub(super) const TRIES: u32 = 5;
pub(super) const PAUSE: i64 = 100;

/// How long a step waits for any other lock before it leaves the rest to the next pass, in milliseconds.
const PATIENCE: i32 = 2_000;

const HOUR: Instant = DAY / 24;
/// After which time without a pass the next one says so: a daily one may come some minutes late.
const OVERDUE: Instant = DAY + HOUR;
/// After which time a leaf that somebody attached is read again.
const LOOK_AGAIN: Instant = 20 * HOUR;

/// Why a pass that could not find out about an absence drops nothing.
const UNTOLD: &str = "nobody can tell whether the store was away";

/// What a pass has to know.
pub struct Pass<'a> {
    /// Days to make ahead.
    pub ahead: i32,
    /// Days without a claim, beyond what is usual, after which a store counts as away; 0 is never.
    pub away_days: i32,
    /// How long a drop waits for a lock, in milliseconds.
    pub lock_timeout: i32,
    /// Whether days that are over get filters.
    pub filters: bool,
    /// Whether claims are counted.
    pub counts_claims: bool,
    /// Whether to believe the clock in any case.
    pub force: bool,
    /// The clock.
    pub clock: fn() -> Instant,
    /// Ends the transaction of a step and starts the next.
    pub commit: &'a dyn Fn(),
}

impl Pass<'_> {
    /// One pass over every store the current user owns.
    pub fn run(&self) -> Result<(), Refusal> {
        if let Err(failed) = attempt(PATIENCE, stores::forget_gone) {
            pgrx::warning!("could not forget stores that are gone: {failed}");
        }
        (self.commit)();
        let stores = stores::maintainable()?;
        if stores.is_empty() {
            pgrx::notice!("there is no store that the current role owns");
        }
        for &store in &stores {
            self.make_ahead(store)?;
        }
        for &store in &stores {
            self.drop_due(store)?;
        }
        for &store in &stores {
            self.seal(store)?;
        }
        for &store in &stores {
            self.audit(store);
        }
        self.forget_filters()?;
        if let Err(failed) = attempt(PATIENCE, log::prune) {
            pgrx::warning!("could not shorten the maintenance log: {failed}");
        }
        (self.commit)();
        Ok(())
    }

    fn make_ahead(&self, store: Oid) -> Result<(), Refusal> {
        let now = (self.clock)();
        let today = Day::of(now);
        if let Some(last) = stores::last_pass(store)?.filter(|last| now - last > OVERDUE) {
            let hours = counted((now - last) / HOUR, "hour", "hours");
            pgrx::warning!(
                "{}: maintenance was overdue: the last pass came to its end {hours} ago",
                name(store)
            );
        }
        self.step(store, "tidy up", || leaves::forget_gone(store));
        for day in plan::missing(&cache::leaves_of(store)?, today, self.ahead) {
            if !self.make_leaf(store, day) {
                break;
            }
        }
        let leaves = cache::leaves_of(store)?;
        let left =
            leaves.first().map_or(0, |newest| newest.range.to.saturating_sub((self.clock)()));
        if left < DAY {
            let hours = counted(left.max(0) / HOUR, "hour", "hours");
            pgrx::warning!(
                "{}: the last leaf ends in {hours}; a claim then has to make its own, or fails",
                name(store)
            );
        }
        Ok(())
    }

    /// Makes one leaf. A default partition, which every claim looks into, is locked against all of them for that:
    /// it is waited for as a drop waits. False if it is in use, so that the other days need not be tried.
    fn make_leaf(&self, store: Oid, day: Day) -> bool {
        let Some(default) = bounds::default_of(store) else {
            let make = || self.made(store, day, || ());
            self.step(store, &format!("make the leaf of {}", date(day)), make);
            return true;
        };
        for _ in 0..TRIES {
            let briefly = || wait_at_most(self.lock_timeout);
            let made = attempt(PATIENCE, || self.made(store, day, briefly));
            (self.commit)();
            match made {
                Ok(()) => return true,
                Err(Failed::LockTimeout) => lock::pause(PAUSE),
                Err(failed) => {
                    let (store, day) = (name(store), date(day));
                    pgrx::warning!("{store}: could not make the leaf of {day}: {failed}");
                    return true;
                }
            }
        }
        self.step(store, "write the log", || {
            let detail =
                format!("the default partition is in use by {}", holders::users_of(&[default])?);
            let (name, date) = (name(store), date(day));
            pgrx::warning!(
                "{name}: could not make the leaf of {date}: {detail}; the next pass tries again"
            );
            let entry = Entry { day: Some(day), ..Entry::of(Action::Postpone, &detail) };
            log::write_once_an_hour(store, &entry)
        });
        false
    }

    fn made(&self, store: Oid, day: Day, before_default: impl FnOnce()) -> Result<(), Refusal> {
        let Some(moved) = leaves::make(store, day, before_default)? else { return Ok(()) };
        let with = match moved {
            0 => String::new(),
            _ => format!(", with {} of the default partition", counted(moved, "claim", "claims")),
        };
        pgrx::notice!("{}: made the leaf of {}{with}", name(store), date(day));
        Ok(())
    }

    fn drop_due(&self, store: Oid) -> Result<(), Refusal> {
        let settled = self.try_step(store, "see whether it was away", || {
            away::settle(store, (self.clock)(), self.away_days)
        });
        if let Err(failed) = settled {
            // What is due by the clock may be what an absence keeps open.
            self.step(store, "write the log", || {
                let detail = match failed {
                    Failed::LockTimeout => {
                        format!("{UNTOLD}: in use by {}", holders::changers_of(store)?)
                    }
                    Failed::Said(_) => UNTOLD.to_owned(),
                };
                pgrx::warning!("{}: nothing is dropped, because {detail}", name(store));
                log::write_once_an_hour(store, &Entry::of(Action::Postpone, &detail))
            });
            return Ok(());
        }
        let now = (self.clock)();
        self.step(store, "write the log", || {
            for words in pauses::tell_ended(store, now)? {
                pgrx::notice!("{}: {words}", name(store));
            }
            Ok(())
        });
        let Some(policy) = cache::policy_of(store)? else { return Ok(()) };
        let pauses = pauses::of(store)?.all;
        let leaves = cache::leaves_of(store)?;
        let due = plan::due(&leaves, &pauses, now);
        let seen = policy.clock_seen.or(policy.created_at).unwrap_or(now);
        let days =
            away::written(&leaves, now, away::not_told).filter(|leaf| leaf.range.to > seen).count();
        // An empty leaf is no loss, and after an absence all that were made in it become due at once.
        let at_stake: Vec<Leaf> = away::written(&due, now, |_| true).cloned().collect();
        let doubt = plan::doubt(&at_stake, &pauses, seen, now, days).map(|doubt| in_words(&doubt));
        if let Some(doubt) = &doubt {
            let action = if self.force { Action::Force } else { Action::Doubt };
            self.step(store, "write the log", || {
                log::write_once_an_hour(store, &Entry::of(action, doubt))
            });
        }
        let doubt = doubt.filter(|_| !self.force);
        if doubt.is_none() {
            self.show_effects(store);
        }
        if let Some(doubt) = &doubt {
            pgrx::warning!(
                "{}: nothing is dropped, because {doubt}; CALL once.maintain(force => true) if the clock is right",
                name(store)
            );
        } else if !pauses.in_force(now) {
            for leaf in &due {
                let over_by = pauses.over_by(leaf.range.from, now);
                if !self.drop_leaf(store, leaf, over_by) {
                    break;
                }
            }
            for leaf in plan::over_by_hand(&leaves, &pauses, policy.retention, now) {
                let (over_by, since) = (pauses.over_by(leaf.range.from, now), now - LOOK_AGAIN);
                self.step(store, "read a leaf that was attached by hand", || {
                    leaves::see_by_hand(store, leaf.table, over_by, since)
                });
            }
            self.forget_effects(store, &leaves);
            if let Some(oldest) = leaves.last() {
                self.step(store, "tidy up", || pauses::forget_before(store, oldest.range.from));
            }
        }
        self.step(store, "write down that it was maintained", || {
            stores::maintained(store, now, doubt.as_deref())
        });
        Ok(())
    }

    /// One step in a transaction of its own. Whatever it runs into is said and left behind: the other
    /// days and stores have their turn all the same. False if it failed.
    pub(super) fn step(
        &self,
        store: Oid,
        what: &str,
        work: impl FnOnce() -> Result<(), Refusal>,
    ) -> bool {
        self.try_step(store, what, work).is_ok()
    }

    /// The same, with what it ran into.
    fn try_step(
        &self,
        store: Oid,
        what: &str,
        work: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<(), Failed> {
        let done = attempt(PATIENCE, work);
        if let Err(failed) = &done {
            pgrx::warning!("{}: could not {what}: {failed}", name(store));
        }
        (self.commit)();
        done
    }

    /// Drops one leaf, whose claims are over if they were to expire by `over_by`. False if the store is in
    /// use, so that the others need not be tried.
    fn drop_leaf(&self, store: Oid, leaf: &Leaf, over_by: Instant) -> bool {
        let day = Day::of(leaf.range.from);
        if self.is_kept_by_effects(store, leaf) {
            return true;
        }
        // Read before anything is locked, because it may take long: claims go to today's leaf only.
        let (mut rows, mut sealed) = (None, None);
        self.step(store, &format!("read the leaf of {}", date(day)), || {
            // A seal that holds says it without reading.
            let content = filters::content_of(store, leaf)?;
            if let Some(known) = content.filter(|known| known.newest.is_none_or(|at| at <= over_by))
            {
                (rows, sealed) = (Some(known.keys), Some(known.seal));
                return Ok(());
            }
            let Some((all, live)) = leaves::count_claims(leaf.table, over_by)? else {
                return Ok(());
            };
            if live == 0 {
                rows = Some(all);
                return Ok(());
            }
            let claims = counted(live, "claim outlives", "claims outlive");
            let detail = format!("{claims} what was promised for the leaf");
            pgrx::warning!("{}: the leaf of {} is kept: {detail}", name(store), date(day));
            let entry =
                Entry { day: Some(day), rows: Some(live), ..Entry::of(Action::Keep, &detail) };
            log::write_once_an_hour(store, &entry)
        });
        let Some(rows) = rows else { return true };
        let has_store = Cell::new(false);
        for _ in 0..TRIES {
            let dropped =
                attempt(PATIENCE, || self.drop_locked(store, leaf, rows, sealed, &has_store));
            (self.commit)();
            match dropped {
                Ok(()) => return true,
                Err(Failed::LockTimeout) => lock::pause(PAUSE),
                Err(failed) => {
                    let (store, day) = (name(store), date(day));
                    pgrx::warning!("{store}: could not drop the leaf of {day}: {failed}");
                    return true;
                }
            }
        }
        self.step(store, "write the log", || {
            // A drop locks a default partition, too.
            let in_use: Vec<Oid> =
                [store, leaf.table].into_iter().chain(bounds::default_of(store)).collect();
            let detail = format!("in use by {}", holders::users_of(&in_use)?);
            let (name, date) = (name(store), date(day));
            pgrx::notice!("{name}: the leaf of {date} is {detail}; the next pass tries again");
            let entry = Entry { day: Some(day), ..Entry::of(Action::Postpone, &detail) };
            log::write_once_an_hour(store, &entry)
        });
        has_store.get()
    }

    fn drop_locked(
        &self,
        store: Oid,
        known: &Leaf,
        rows: i64,
        sealed: Option<Seal>,
        has_store: &Cell<bool>,
    ) -> Result<(), Refusal> {
        let (leaf, day) = (known.table, Day::of(known.range.from));
        let began = (self.clock)();
        has_store.set(false);
        lock::hold_definition(store);
        wait_at_most(self.lock_timeout);
        // The parent first, as readers lock it, so that nobody can meet us the other way round.
        if !privilege::exists(store) || !privilege::exists(leaf) {
            return Ok(());
        }
        lock::hold_exclusively(store);
        has_store.set(true);
        lock::hold_exclusively(leaf);
        // Under the locks, as things are now: another run may have been faster, the retention may have been
        // raised, a hold may have begun, the store may be gone.
        let (now, pauses) = ((self.clock)(), pauses::of(store)?.all);
        let due = plan::due(&cache::leaves_of(store)?, &pauses, now);
        if pauses.in_force(now) || !due.iter().any(|due| due.table == leaf) {
            return Ok(());
        }
        // What was said without reading must still be so; if not, the next pass reads.
        if let Some(seal) = sealed
            && !filters::holds(store, known, seal)?
        {
            return Ok(());
        }
        let Some(with) = effects::let_go(store, known, now)? else { return Ok(()) };
        leaves::drop_leaf(leaf)?;
        pgrx::notice!("{}: dropped the leaf of {}", name(store), date(day));
        let took = Some((self.clock)() - began);
        log::write(
            store,
            &Entry { day: Some(day), rows: Some(rows), took, ..Entry::of(Action::Drop, &with) },
        )
    }
}

fn in_words(doubt: &Doubt) -> String {
    match doubt {
        Doubt::Back => "the clock has gone back since the last pass".to_owned(),
        Doubt::Ahead { due, plausible } => format!(
            "{} become due since the last pass, where the days that left claims make {plausible} plausible",
            counted(i64::try_from(*due).unwrap_or(i64::MAX), "leaf has", "leaves have")
        ),
    }
}

/// A day as YYYY-MM-DD.
pub(super) fn date(day: Day) -> String {
    day.bound()[..10].to_owned()
}

/// A store's name for messages.
pub(super) fn name(store: Oid) -> String {
    let _acting = Acting::as_caller();
    sql::named(store).map_or_else(|_| store.to_string(), |named| named.name)
}
