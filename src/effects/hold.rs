//! What the holder of an effect does: extends the lease, says that it is done, or that it failed.
//!
//! A fence is good as long as nobody was given the effect after it, also when its lease is over. Each call looks at
//! the effect's row, then at its claim, and then changes what it has seen; where that is no longer so it looks again.

use super::stand;
use crate::catalog::cache::Store;
use crate::catalog::effects::Subject;
use crate::claim::answer::{self, Stored};
use crate::claim::arbiter::require;
use crate::claim::lookup::Claim;
use crate::claim::{Settings, check};
use crate::domain::day::Instant;
use crate::domain::lease::{State, Unfinished};
use crate::error::{FenceFault, Refusal};
use crate::pg::privilege::TableRight;
use crate::pg::rows::Json;
use crate::pg::snapshot;
use crate::pg::text::Text;
use crate::stats::{self, Event};
use std::rc::Rc;

/// An effect and the fence that somebody shows for it.
pub struct Held<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The effect.
    pub effect: &'a [u8],
    /// The store's name.
    pub store: &'a [u8],
    /// The fence.
    pub fence: i64,
    /// The settings.
    pub settings: &'a Settings,
}

/// What a look at it has shown.
struct Seen {
    store: Rc<Store>,
    unfinished: Option<Unfinished>,
    claim: Option<Claim>,
    now: Instant,
}

impl Seen {
    /// The effect and its claim, if they belong together.
    fn standing(&self) -> Option<(&Unfinished, &Claim)> {
        let both = self.unfinished.as_ref().zip(self.claim.as_ref());
        both.filter(|(unfinished, claim)| unfinished.claimed_at == claim.claimed_at)
    }

    /// The same, if it is also the fence's.
    fn good(&self, fence: i64) -> Option<(&Unfinished, &Claim)> {
        self.standing().filter(|(unfinished, _)| unfinished.fence == fence)
    }

    fn fault(&self) -> FenceFault {
        match (self.standing(), &self.claim) {
            (Some(_), _) => FenceFault::TakenOver,
            (None, Some(_)) => FenceFault::Finished,
            (None, None) => FenceFault::NoClaim,
        }
    }
}

impl Held<'_> {
    fn subject<'a>(&'a self, store: &Store) -> Subject<'a> {
        Subject { store: store.table, effect: self.effect, key: self.key }
    }

    /// First the row, then the claim: were it the other way round, a claim made in between would belong to a row
    /// that was seen.
    fn look(&self) -> Result<Seen, Refusal> {
        check(self.key, self.effect, self.settings)?;
        let store = stand::store(self.store)?;
        require(&store, TableRight::Insert)?;
        let unfinished = self.subject(&store).find()?;
        let (key, effect) = (Text::new(self.key), Text::new(self.effect));
        let claim = stand::claim(self.store, &key, &effect, self.settings)?;
        let now = (self.settings.clock)();
        Ok(Seen { store, unfinished, claim, now })
    }

    /// Refuses the fence; 40001 where that is only how an old snapshot shows it.
    fn refuse<T>(&self, seen: &Seen, fault: FenceFault) -> Result<T, Refusal> {
        if snapshot::is_pinned() {
            self.subject(&seen.store).require_newest()?;
            if seen.claim.is_none() {
                let (key, effect) = (Text::new(self.key), Text::new(self.effect));
                stand::require_none_since(&seen.store, &key, &effect, seen.now)?;
            }
        }
        self.count(&seen.store, Event::Stale, seen.now);
        Err(Refusal::Fence { store: seen.store.display_name(), fence: self.fence, fault })
    }

    fn count(&self, store: &Store, event: Event, now: Instant) {
        stats::count(self.settings.measured, store.table, self.effect, event, now);
    }
}

/// Lets the lease end `lease` microseconds from now, or with the window. When that is.
pub fn extend(held: &Held, lease: i64) -> Result<Instant, Refusal> {
    loop {
        let seen = held.look()?;
        let Some((unfinished, claim)) = seen.good(held.fence) else {
            return held.refuse(&seen, seen.fault());
        };
        if !unfinished.is_extensible() {
            return held.refuse(&seen, FenceFault::NotRunning);
        }
        let lease_until = seen.now.saturating_add(lease).min(claim.expires_at);
        if held.subject(&seen.store).extend(held.fence, lease_until)? {
            return Ok(lease_until);
        }
        pgrx::check_for_interrupts!();
    }
}

/// Says that the attempt failed, and that the next is not to come for `retry_after` microseconds. The new state.
pub fn fail(held: &Held, error: &[u8], retry_after: i64) -> Result<State, Refusal> {
    loop {
        let seen = held.look()?;
        let Some((unfinished, claim)) = seen.good(held.fence) else {
            return held.refuse(&seen, seen.fault());
        };
        let retry_at = seen.now.saturating_add(retry_after).min(claim.expires_at);
        if held.subject(&seen.store).fail(unfinished, seen.now, retry_at, error)? {
            let state = unfinished.failed();
            // Said once more, after an acknowledgement that was lost, it is counted once.
            if unfinished.state == State::Running {
                held.count(&seen.store, Event::Failed, seen.now);
                if state == State::GaveUp {
                    held.count(&seen.store, Event::GaveUp, seen.now);
                }
            }
            return Ok(state);
        }
        pgrx::check_for_interrupts!();
    }
}

/// Says that the effect is done. True: its answer is stored now; false: the same answer is there already.
pub fn complete(held: &Held, result: &Json) -> Result<bool, Refusal> {
    let mut is_again = false;
    loop {
        let seen = held.look()?;
        let Some((unfinished, _)) = seen.good(held.fence) else {
            // As after an acknowledgement that was lost.
            let finished = seen.claim.as_ref().filter(|_| seen.standing().is_none());
            return match finished.and_then(|claim| claim.result.as_ref()) {
                Some(stored) if stored.equals(result) => Ok(false),
                _ => held.refuse(&seen, seen.fault()),
            };
        };
        // The claim's row before the effect's, as everywhere.
        let subject = held.subject(&seen.store);
        let (key, effect, settings) = (held.key, held.effect, held.settings);
        let given = (result, Some(unfinished.claimed_at));
        match answer::store(key, effect, held.store, given, settings)? {
            Stored::Now(_) if subject.finish(held.fence)? => {
                held.count(&seen.store, Event::Done, seen.now);
                return Ok(true);
            }
            // What was stored goes with the error.
            Stored::Now(_) => {
                let now = held.look()?;
                return held.refuse(&now, now.fault());
            }
            // Twice at the same time: the other was faster.
            Stored::Same => {
                subject.finish(held.fence)?;
                return Ok(false);
            }
            Stored::Other | Stored::Unclaimed if is_again => {
                return held.refuse(&seen, FenceFault::Finished);
            }
            Stored::Other | Stored::Unclaimed => is_again = true,
        }
        pgrx::check_for_interrupts!();
    }
}
