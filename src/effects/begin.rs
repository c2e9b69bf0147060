//! Giving an effect out: started, taken over, or not at all.
//!
//! Who claims the key starts the effect. Who finds it claimed looks at the effect's row, and where that is none, once
//! more at the claim: it may have been finished between the two looks. Each look shows what has committed until
//! then, and where two do not fit together (the claim is another by now, the row was changed before ours was), the
//! call starts over.

use super::stand;
use crate::catalog::cache::Store;
use crate::catalog::effects::{Given, Subject};
use crate::claim::answer::digest;
use crate::claim::arbiter::Arbiter;
use crate::claim::lint::lint;
use crate::claim::{Outcome as Claimed, Settings, Terms, check};
use crate::domain::day::Instant;
use crate::domain::lease::{Beginning, Unfinished};
use crate::domain::window::{Span, expiry};
use crate::error::Refusal;
use crate::pg::privilege::{self, TableRight};
use crate::pg::rows::Json;
use crate::pg::text::Text;
use crate::stats::{self, Event};
use std::ffi::CStr;

/// What became of beginning an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the caller's, for the first time in its window.
    Started,
    /// It is the caller's; an attempt before has not said how it ended, or failed.
    TakenOver,
    /// Somebody runs it, or it waits for its retry.
    InProgress,
    /// It was begun for another request.
    Mismatch,
    /// It is done.
    Done,
    /// The message is older than what the store still remembers.
    TooLate,
    /// It was begun as often as it may be.
    GaveUp,
}

impl Outcome {
    /// The label of the SQL enum once.effect_outcome.
    pub fn label(self) -> &'static CStr {
        match self {
            Outcome::Started => c"started",
            Outcome::TakenOver => c"taken_over",
            Outcome::InProgress => c"in_progress",
            Outcome::Mismatch => c"mismatch",
            Outcome::Done => c"done",
            Outcome::TooLate => c"too_late",
            Outcome::GaveUp => c"gave_up",
        }
    }

    /// Whether there is an effect that the outside can be asked about.
    pub fn is_of_an_effect(self) -> bool {
        !matches!(self, Outcome::TooLate | Outcome::Mismatch)
    }
}

/// What is to be begun.
pub struct Wanted<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What is claimed apart from it.
    pub terms: Terms<'a>,
    /// What the request is told apart by.
    pub fingerprint: Option<&'a [u8]>,
    /// For how long nobody takes the effect over, in microseconds.
    pub lease: i64,
}

/// What became of it.
pub struct Begun {
    /// In a word.
    pub outcome: Outcome,
    /// The caller's number, where the effect is theirs.
    pub fence: Option<i64>,
    /// Which attempt it is.
    pub attempt: Option<i32>,
    /// The answer, where it is done and has one.
    pub result: Option<Json>,
    /// Until when the caller has it, or nobody else gets it.
    pub until: Option<Instant>,
}

impl Begun {
    fn of(outcome: Outcome) -> Begun {
        Begun { outcome, fence: None, attempt: None, result: None, until: None }
    }
}

/// Begins an effect.
pub fn begin(wanted: &Wanted, settings: &Settings) -> Result<Begun, Refusal> {
    let Wanted { key, terms, lease, fingerprint } = wanted;
    check(key, terms.effect, settings)?;
    lint(&[key], terms, settings)?;
    let text = Text::new(key);
    loop {
        let called_at = (settings.clock)();
        let answer = {
            // No page stays pinned for what may be waited for after it.
            let mut arbiter = Arbiter::new(terms, settings).asking(fingerprint.map(digest));
            let answer = arbiter.claim(&text)?;
            arbiter.settle(0);
            answer
        };
        let store = stand::store(terms.store)?;
        let window = window(&store, terms.ttl, (settings.clock)())?;
        if *lease > window {
            return Err(Refusal::LeaseTooLong(window));
        }
        let one = One { wanted, settings, key: &text, store: &store, called_at };
        let begun = match (answer.outcome, answer.window) {
            (Claimed::Mismatch, _) => Some(Begun::of(Outcome::Mismatch)),
            (Claimed::TooLate, _) => Some(Begun::of(Outcome::TooLate)),
            (Claimed::InProgress, _) | (_, None) => Some(Begun::of(Outcome::InProgress)),
            (Claimed::Claimed, Some(window)) => Some(one.start(window)?),
            (Claimed::Duplicate, Some(window)) => one.again(window)?,
        };
        if let Some(begun) = begun {
            one.count(begun.outcome);
            return Ok(begun);
        }
        pgrx::check_for_interrupts!();
    }
}

/// How long a claim made now holds, in microseconds.
fn window(store: &Store, ttl: Option<Span>, now: Instant) -> Result<i64, Refusal> {
    let end = expiry(now, ttl, store.retention);
    // The claim has said what is wrong with a ttl.
    Ok(end.map_or(store.retention, |end| end.saturating_sub(now)))
}

/// One look at an effect.
struct One<'a> {
    wanted: &'a Wanted<'a>,
    settings: &'a Settings,
    key: &'a Text,
    store: &'a Store,
    /// When it was called.
    called_at: Instant,
}

impl One<'_> {
    fn subject(&self) -> Subject<'_> {
        let Wanted { key, terms, .. } = self.wanted;
        Subject { store: self.store.table, effect: terms.effect, key }
    }

    fn lease_until(&self, now: Instant, end: Instant) -> Instant {
        now.saturating_add(self.wanted.lease).min(end)
    }

    fn start(&self, (claimed_at, expires_at): (Instant, Instant)) -> Result<Begun, Refusal> {
        let now = (self.settings.clock)();
        let end = self.store.end_of(claimed_at, expires_at);
        let lease_until = self.lease_until(now, end);
        let fence = self.subject().start(&Given { claimed_at, expires_at, now, lease_until })?;
        Ok(Begun {
            fence: Some(fence),
            attempt: Some(1),
            until: Some(lease_until),
            ..Begun::of(Outcome::Started)
        })
    }

    /// What is told who finds the key claimed; None where the looks do not fit together.
    fn again(&self, (claimed_at, end): (Instant, Instant)) -> Result<Option<Begun>, Refusal> {
        let unfinished = self.subject().find()?;
        match unfinished.filter(|unfinished| unfinished.claimed_at == claimed_at) {
            Some(unfinished) => self.unfinished(&unfinished, end),
            None => self.finished(claimed_at, end),
        }
    }

    fn unfinished(&self, seen: &Unfinished, end: Instant) -> Result<Option<Begun>, Refusal> {
        let now = (self.settings.clock)();
        let attempt = Some(seen.attempt);
        let gave_up = Begun { attempt, ..Begun::of(Outcome::GaveUp) };
        match seen.begin(now) {
            Beginning::NotBefore(at) => {
                Ok(Some(Begun { attempt, until: Some(at), ..Begun::of(Outcome::InProgress) }))
            }
            Beginning::GivenUp => Ok(Some(gave_up)),
            Beginning::GiveUp => {
                let is_done = self.subject().give_up(seen, now)?;
                if is_done {
                    self.count_event(Event::GaveUp);
                }
                Ok(is_done.then_some(gave_up))
            }
            Beginning::TakeOver => {
                let lease_until = self.lease_until(now, end);
                let taken = self.subject().take_over(seen, now, lease_until)?;
                Ok(taken.map(|(fence, attempt)| Begun {
                    fence: Some(fence),
                    attempt: Some(attempt),
                    until: Some(lease_until),
                    ..Begun::of(Outcome::TakenOver)
                }))
            }
        }
    }

    /// The claim has no unfinished effect: it was finished, or never was one.
    fn finished(&self, claimed_at: Instant, end: Instant) -> Result<Option<Begun>, Refusal> {
        let terms = &self.wanted.terms;
        let effect = Text::new(terms.effect);
        let claim = stand::claim(terms.store, self.key, &effect, self.settings)?;
        match claim {
            Some(claim) if claim.claimed_at == claimed_at => {
                let may_read = privilege::may(self.store.table, TableRight::Select);
                let result = claim.result.filter(|_| may_read);
                Ok(Some(Begun { result, ..Begun::of(Outcome::Done) }))
            }
            // Over before it was asked for, and a duplicate all the same: the transaction's own.
            None if end <= self.called_at => Ok(Some(Begun::of(Outcome::Done))),
            _ => Ok(None),
        }
    }

    fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Started => self.count_event(Event::Started),
            Outcome::TakenOver => self.count_event(Event::TakenOver),
            _ => {}
        }
    }

    fn count_event(&self, event: Event) {
        let now = (self.settings.clock)();
        stats::count(
            self.settings.measured,
            self.store.table,
            self.wanted.terms.effect,
            event,
            now,
        );
    }
}
