//! Several keys of a batch decided together: the same protocol, with the locks of all of them held at once
//! and one clock read for all.
//!
//! What is not plain is left to the protocol for one key: a key whose lock somebody holds, whose row is in
//! flight, or whose expired row is to be replaced ends the run before it. So nothing is waited for here,
//! and of the locks held together none is ever asked for with waiting. How many keys are tried for
//! together doubles while it goes well and falls back to one when it does not, so that a batch full
//! of such keys does not pay for both ways.

use super::Arbiter;
use super::verdict::Verdict;
use crate::catalog::cache::{self, Store};
use crate::catalog::filters::Places;
use crate::claim::{Outcome, window};
use crate::domain::day::Instant;
use crate::domain::key::lock_number;
use crate::error::Refusal;
use crate::pg::bulk::ROOM;
use crate::pg::lock::KeyLocks;
use crate::pg::relation::Opened;
use crate::pg::text::Text;
use crate::pg::tuple::NewRow;
use crate::storage::OpenLeaf;
use std::rc::Rc;

/// A key to be claimed.
pub struct Wanted {
    /// The key.
    pub key: Text,
    /// When the claim counts as made; None is now.
    pub at: Option<Instant>,
}

impl Wanted {
    /// No key yet.
    pub fn nothing() -> Wanted {
        Wanted { key: Text::new(b""), at: None }
    }
}

/// The first keys of a run, decided.
pub struct Decided {
    outcomes: [Outcome; ROOM],
    count: usize,
}

impl Decided {
    /// One outcome a key, in order.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes[..self.count]
    }
}

/// A run under way: which of its first `count` keys are still free.
struct Run<'a> {
    keys: &'a [Wanted],
    free: [bool; ROOM],
    /// Of those that are not, the windows of the claims that stand.
    windows: [Option<(Instant, Instant)>; ROOM],
    count: usize,
}

impl Arbiter<'_> {
    /// How many keys are worth giving to [`Arbiter::claim_first`] next: at least one.
    pub fn reach(&self) -> usize {
        self.reach.get()
    }

    /// Claims at least the first of these keys, which are distinct and [`Arbiter::reach`] at most, and as
    /// many of the others as can be decided with it.
    pub fn claim_first(&mut self, keys: &[Wanted]) -> Result<Decided, Refusal> {
        let mut decided = Decided { outcomes: [Outcome::Duplicate; ROOM], count: 0 };
        if keys.len() > 1 {
            decided = self.claim_together(keys)?;
            let reach =
                if decided.count == keys.len() { (self.reach.get() * 2).min(ROOM) } else { 1 };
            self.reach.set(reach);
        }
        if decided.count == 0 {
            // Before the claim, which makes it one again where it replaces an expired row.
            self.reach.set(2);
            decided.outcomes[0] = self.claim_as_of(&keys[0].key, keys[0].at)?.outcome;
            decided.count = 1;
        }
        Ok(decided)
    }

    /// Decides the first of the keys, perhaps none.
    fn claim_together(&mut self, keys: &[Wanted]) -> Result<Decided, Refusal> {
        let mut decided = Decided { outcomes: [Outcome::Duplicate; ROOM], count: 0 };
        let mut desk = match self.desk.take() {
            Some(desk) => desk,
            None => self.open(keys[0].at)?,
        };
        let store = Rc::clone(&desk.store);
        let table = store.table.to_u32();
        let mut numbers = [0; ROOM];
        for (number, wanted) in numbers.iter_mut().zip(keys) {
            *number = lock_number(table, self.terms.effect, wanted.key.bytes());
        }
        let (locks, now) = KeyLocks::try_keys(numbers.iter().take(keys.len()).copied());
        let leaf = &store.leaves[desk.place];
        let at = |wanted: &Wanted| wanted.at.unwrap_or(now);
        let usable = store.is_current()
            && !store.is_stale(now)
            && keys.iter().all(|wanted| leaf.holds(at(wanted)))
            && desk.today.takes_many();
        if locks.held() > 0 && usable {
            // Before anything is looked up: a wrong ttl is wrong for a duplicate too.
            let expires_at = |wanted| self.expires_at(&store, leaf.keep_until, at(wanted));
            let ends: Vec<Instant> = keys.iter().map(expires_at).collect::<Result<_, _>>()?;
            self.meter.looked(store.table, now);
            let (free, windows) = ([true; ROOM], [None; ROOM]);
            let mut run = Run { keys, free, windows, count: locks.held() };
            self.sift(&mut run, &store, &mut desk.today, None, now)?;
            let (maybe, any) = self.sealed_places_of(&store, &numbers[..run.count]);
            for place in window::others(&store, desk.place, now, &any) {
                let asked = Some((place, &maybe));
                match desk.other(place)? {
                    Opened::Open(opened) => self.sift(&mut run, &store, opened, asked, now)?,
                    Opened::Busy | Opened::Gone => run.count = 0,
                }
                desk.done_with(place);
            }
            // Rows may have moved meanwhile: see the protocol for one key.
            if !store.is_current() {
                run.count = 0;
            }
            let rows: Vec<NewRow> = keys
                .iter()
                .zip(&ends)
                .zip(&run.free[..run.count])
                .filter(|(_, free)| **free)
                .map(|((wanted, &expires_at), _)| NewRow {
                    claimed_at: at(wanted),
                    expires_at,
                    key: &wanted.key,
                    effect: &self.effect,
                    fingerprint: None,
                })
                .collect();
            if let Some(bulk) = desk.bulk.as_ref().filter(|_| !rows.is_empty()) {
                desk.today.insert_many(&rows, bulk)?;
                cache::wrote_to(leaf);
            }
            for (free, window) in run.free.into_iter().zip(run.windows).take(run.count) {
                let kind = if free { Outcome::Claimed } else { Outcome::Duplicate };
                self.meter.answered(kind.kind(), window);
            }
            let outcome = |free| if free { Outcome::Claimed } else { Outcome::Duplicate };
            decided = Decided { outcomes: run.free.map(outcome), count: run.count };
        }
        drop(locks);
        self.desk = Some(desk);
        pgrx::check_for_interrupts!();
        Ok(decided)
    }

    /// Looks for every free key of the run in one leaf, or those that may be there by what the filters have
    /// answered; the run ends before the first that has to be decided alone.
    fn sift(
        &self,
        run: &mut Run,
        store: &Store,
        leaf: &mut OpenLeaf,
        asked: Option<(usize, &[Places; ROOM])>,
        now: Instant,
    ) -> Result<(), Refusal> {
        // Not asked about is today's leaf.
        let is_today = asked.is_none();
        let asked = asked.filter(|(place, _)| store.filters.answer_for(*place));
        let by_pages = is_today || asked.is_some();
        for (place, wanted) in run.keys[..run.count].iter().enumerate() {
            let may_be_there = asked.is_none_or(|(leaf, maybe)| maybe[place].include(leaf));
            if !run.free[place] || !may_be_there {
                continue;
            }
            match self.verdict(store, leaf, &wanted.key, now, by_pages)? {
                None => {}
                Some(Verdict::Taken(answer)) => {
                    run.free[place] = false;
                    run.windows[place] = answer.window;
                }
                // In an older leaf it is left behind, in today's it would be replaced.
                Some(Verdict::Expired) if !is_today => {}
                Some(Verdict::Expired | Verdict::Held(..)) => {
                    run.count = place;
                    break;
                }
            }
        }
        Ok(())
    }
}
