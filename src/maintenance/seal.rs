//! Sealing days that are over, and building their filters.

use super::apply::{PAUSE, Pass, TRIES, date, name};
use crate::catalog::cache::{self, Leaf};
use crate::catalog::log::{self, Action, Entry};
use crate::catalog::{building, filters, holders, pauses, sealing};
use crate::domain::day::{DAY, Day, Instant};
use crate::domain::pause::Pauses;
use crate::error::Refusal;
use crate::pg::lock;
use crate::pg::procedure::{Failed, attempt, wait_at_most};
use pgrx::pg_sys::Oid;

/// How long after its end a day is sealed. A claim that comes later all the same, by a clock that is behind, makes
/// the filter void: that is right, but slow.
const AFTER: Instant = DAY / (24 * 12);

/// How long sealing waits for any lock but the leaf's, in milliseconds.
const PATIENCE: i32 = 2_000;

impl Pass<'_> {
    /// Seals what is over and still live, and builds what is missing.
    pub(super) fn seal(&self, store: Oid) -> Result<(), Refusal> {
        if self.filters {
            for leaf in self.to_seal(store)? {
                self.seal_leaf(store, &leaf);
            }
            self.look_through(store);
            self.build(store);
        }
        self.step(store, "drop filters that are asked no more", || {
            building::drop_retired(store, self.lock_timeout).map(|_| ())
        });
        Ok(())
    }

    fn to_seal(&self, store: Oid) -> Result<Vec<Leaf>, Refusal> {
        let leaves = cache::leaves_of(store)?;
        let (now, pauses): (Instant, Pauses) = ((self.clock)(), pauses::of(store)?.all);
        let sealed = filters::seals(store, &leaves)?;
        let wanted = |leaf: &Leaf| {
            leaf.range.from != Instant::MIN
                && leaf.range.to.saturating_add(AFTER) <= now
                && pauses.end(leaf.range.from, leaf.keep_until) > now
                && !sealed.iter().any(|seal| seal.leaf == leaf.table)
        };
        Ok(leaves.into_iter().filter(wanted).collect())
    }

    fn seal_leaf(&self, store: Oid, leaf: &Leaf) {
        let day = Day::of(leaf.range.from);
        for _ in 0..TRIES {
            let sealed = attempt(PATIENCE, || {
                wait_at_most(self.lock_timeout);
                sealing::seal(store, leaf.table, (self.clock)())
            });
            (self.commit)();
            match sealed {
                Ok(_) => return,
                Err(Failed::LockTimeout) => lock::pause(PAUSE),
                Err(failed) => {
                    let (store, day) = (name(store), date(day));
                    pgrx::warning!("{store}: could not seal the leaf of {day}: {failed}");
                    return;
                }
            }
        }
        self.step(store, "write the log", || {
            let detail = format!("sealing: in use by {}", holders::users_of(&[leaf.table])?);
            let (name, date) = (name(store), date(day));
            pgrx::notice!("{name}: sealing the leaf of {date} is left to the next pass, {detail}");
            let entry = Entry { day: Some(day), ..Entry::of(Action::Postpone, &detail) };
            log::write_once_an_hour(store, &entry)
        });
    }

    /// Puts away filters that somebody or something has spoilt, so that they are built anew.
    fn look_through(&self, store: Oid) {
        self.step(store, "look through the filters of sealed days", || {
            for filter in building::retire_spoilt(store)? {
                let detail = format!(
                    "{filter} was not what was written to it: the days it answered for are read anew"
                );
                pgrx::warning!("{}: {detail}", name(store));
                log::write(store, &Entry::of(Action::Seal, &detail))?;
            }
            Ok(())
        });
    }

    /// Builds until nothing is missing, as much at a time as fits in memory.
    fn build(&self, store: Oid) {
        loop {
            let mut count = 0;
            let done = self.step(store, "build the filter of sealed days", || {
                let began = (self.clock)();
                let built = building::build(store)?;
                count = built.len();
                let took =
                    Some(((self.clock)() - began) / i64::try_from(count.max(1)).unwrap_or(1));
                for building::Built { leaf, keys } in built {
                    let day = crate::pg::bounds::range_of(leaf).map(|range| Day::of(range.from));
                    let date = day.map_or_else(String::new, date);
                    pgrx::notice!("{}: sealed the leaf of {date}", name(store));
                    let rows = Some(keys);
                    log::write(store, &Entry { day, rows, took, ..Entry::of(Action::Seal, "") })?;
                }
                Ok(())
            });
            if !done || count == 0 {
                return;
            }
        }
    }

    /// Drops the filters of stores that somebody has dropped by hand.
    pub(super) fn forget_filters(&self) -> Result<(), Refusal> {
        for store in building::gone_stores()? {
            let forgotten = attempt(PATIENCE, || {
                // With the store its claimers have heard that it is gone.
                building::retire_all(store)?;
                building::drop_retired(store, self.lock_timeout)
            });
            if let Err(failed) = forgotten {
                pgrx::warning!("could not drop the filters of a store that is gone: {failed}");
            }
            (self.commit)();
        }
        Ok(())
    }
}
