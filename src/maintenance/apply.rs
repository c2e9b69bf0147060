//! Carrying a pass out. A drop never queues for its locks: it tries, pauses and gives up, so that
//! nobody ever waits behind it; the next pass tries again.

use super::plan;
use crate::catalog::{cache, leaves, stores};
use crate::domain::day::{Day, Instant};
use crate::error::Refusal;
use crate::pg::lock;
use crate::pg::privilege::{self, Acting};
use crate::pg::procedure::attempt;
use pgrx::pg_sys::Oid;

/// How often a drop tries for its locks, and how long it pauses in between (milliseconds).
const TRIES: u32 = 20;
const PAUSE: i64 = 25;

/// How long a step waits for any one lock before it leaves the rest to the next pass.
const PATIENCE: &std::ffi::CStr = c"2s";

/// What a pass has to know.
pub struct Pass<'a> {
    /// Days to make ahead.
    pub ahead: i32,
    /// The clock.
    pub clock: fn() -> Instant,
    /// Ends the transaction of a step and starts the next.
    pub commit: &'a dyn Fn(),
}

impl Pass<'_> {
    /// One pass over every store the current user owns.
    pub fn run(&self) -> Result<(), Refusal> {
        if let Err(message) = attempt(PATIENCE, stores::forget_gone) {
            pgrx::warning!("could not forget stores that are gone: {message}");
        }
        (self.commit)();
        let stores = stores::maintainable()?;
        for &store in &stores {
            self.make_ahead(store)?;
        }
        for &store in &stores {
            self.drop_due(store)?;
        }
        Ok(())
    }

    fn make_ahead(&self, store: Oid) -> Result<(), Refusal> {
        let today = Day::of((self.clock)());
        self.step(store, today, "tidy up before", || leaves::forget_gone(store));
        for day in plan::missing(&cache::leaves_of(store)?, today, self.ahead) {
            self.step(store, day, "make", || {
                if leaves::make(store, day)? {
                    pgrx::notice!("{}: made the leaf of {}", name(store), date(day));
                }
                Ok(())
            });
        }
        Ok(())
    }

    fn drop_due(&self, store: Oid) -> Result<(), Refusal> {
        for leaf in plan::due(&cache::leaves_of(store)?, (self.clock)()) {
            let day = Day::of(leaf.range.from);
            self.step(store, day, "drop", || self.drop_one(store, leaf.table, day));
        }
        Ok(())
    }

    /// One step in a transaction of its own. Whatever it runs into is said and left behind: the other
    /// days and stores have their turn all the same.
    fn step(&self, store: Oid, day: Day, what: &str, work: impl FnOnce() -> Result<(), Refusal>) {
        if let Err(message) = attempt(PATIENCE, work) {
            pgrx::warning!(
                "{}: could not {what} the leaf of {}: {message}",
                name(store),
                date(day)
            );
        }
        (self.commit)();
    }

    fn drop_one(&self, store: Oid, leaf: Oid, day: Day) -> Result<(), Refusal> {
        // Read before anything is locked, because it may take long: claims go to today's leaf only.
        match leaves::holds_live_claim(leaf, (self.clock)())? {
            Some(false) => {}
            Some(true) => {
                pgrx::warning!(
                    "{}: the leaf of {} is kept: it holds a claim that outlives what was promised for it",
                    name(store),
                    date(day)
                );
                return Ok(());
            }
            None => return Ok(()),
        }
        lock::hold_definition(store);
        // Under the lock, as things are now: another run may have been faster, the retention may have
        // been raised, the store may be gone.
        let due = plan::due(&cache::leaves_of(store)?, (self.clock)());
        if !due.iter().any(|due| due.table == leaf) {
            return Ok(());
        }
        // The parent first, as readers lock it, so that nobody can meet us the other way round.
        let locked = (0..TRIES).any(|attempt| {
            if attempt > 0 {
                lock::pause(PAUSE);
            }
            lock::try_lock_exclusively(store, leaf)
        });
        if !locked {
            let (store, day) = (name(store), date(day));
            pgrx::notice!("{store}: the leaf of {day} is in use; the next pass tries again");
            return Ok(());
        }
        if privilege::exists(leaf) {
            leaves::drop_leaf(leaf)?;
            pgrx::notice!("{}: dropped the leaf of {}", name(store), date(day));
        }
        Ok(())
    }
}

/// A day as YYYY-MM-DD.
fn date(day: Day) -> String {
    day.bound()[..10].to_owned()
}

/// A store's name for messages.
fn name(store: Oid) -> String {
    let _acting = Acting::as_caller();
    crate::catalog::sql::named(store).map_or_else(|_| store.to_string(), |named| named.name)
}
