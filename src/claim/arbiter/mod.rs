//! Who wins a key. The protocol, step by step:
//!
//! 1. open today's leaf, then take the key's lock: exclusive, short, held only in here;
//! 2. under it, take in what other sessions changed, read the clock, and make sure that the leaf is
//!    still the one for this instant; else start over;
//! 3. look the key up in every leaf that may hold a live claim, today's first, seeing also what
//!    transactions in flight have written;
//! 4. write to today's leaf, and let go of the key's lock: from here the row itself makes others wait.
//!
//! Nothing is waited for while the key's lock is held: not a transaction, not a row, not a leaf that
//! some DDL has locked. Each of these means letting go, waiting, starting over. What somebody else adds is
//! another matter: a trigger on a leaf runs under the lock and may wait, and so does the primary key's own
//! check for a row that plain SQL inserts at the same moment; the deadlock detector sees both.

mod desk;
mod glance;
mod sealed;
mod standing;
mod together;
mod verdict;
mod waiting;

use self::desk::Desk;
pub use self::standing::{Act, Standing};
pub use self::together::Wanted;
use self::verdict::Verdict;
use crate::catalog::cache::{self, Store};
use crate::catalog::making;
use crate::claim::{Answer, Outcome, Settings, Terms, window};
use crate::domain::day::{Day, Instant};
use crate::domain::key::lock_number;
use crate::domain::shown::shown;
use crate::domain::window::{SpanFault, expiry};
use crate::error::Refusal;
use crate::pg::bulk::Bulk;
use crate::pg::index::Found;
use crate::pg::lock::OwnLock;
use crate::pg::privilege::{self, TableRight};
use crate::pg::relation::Opened;
use crate::pg::rows::Json;
use crate::pg::session;
use crate::pg::snapshot;
use crate::pg::text::Text;
use crate::pg::tuple::{NewRow, Replaced};
use crate::stats::Meter;
use crate::storage::{self, OpenLeaf};
use pgrx::pg_sys::TransactionId;
use std::cell::Cell;
use std::rc::Rc;

/// How often a claim has it found out whether a store was away, before it takes it for granted.
const MOST_QUESTIONS: u32 = 3;

/// A store opened for claims of one effect. Handles stay open from key to key.
pub struct Arbiter<'a> {
    terms: &'a Terms<'a>,
    settings: &'a Settings,
    effect: Text,
    pinned: bool,
    /// Whether a duplicate is told by the row itself: for its visibility, or for what is stored with it.
    by_search: bool,
    /// What more is asked than who has the key.
    asked: Option<Asked>,
    /// What the caller must be allowed on the store.
    right: TableRight,
    in_bulk: bool,
    /// How many keys to try for together next.
    reach: Cell<usize>,
    desk: Option<Desk>,
    meter: Meter<'a>,
}

/// What a claim asks for besides the key.
struct Asked {
    /// The digest of the request.
    fingerprint: Option<Text>,
    /// Whether the caller may read what is stored with claims.
    may_read: bool,
    /// What was stored with the claim that stands.
    result: Cell<Option<Json>>,
}

/// What one look under the key's lock came to.
enum Look {
    /// Decided.
    Decided(Answer),
    /// Something changed: open everything anew.
    Stale,
    /// A transaction holds a row of the key: in today's leaf, or in the other at this place.
    Held(Option<usize>, TransactionId, Found),
    /// Somebody has locked the expired row that is to be replaced.
    RowBusy,
    /// The leaf at this place is locked by some DDL.
    LeafBusy(usize),
}

impl<'a> Arbiter<'a> {
    /// Prepares claims on these terms. Nothing is opened before the first claim.
    pub fn new(terms: &'a Terms<'a>, settings: &'a Settings) -> Arbiter<'a> {
        let pinned = snapshot::is_pinned();
        Arbiter {
            terms,
            settings,
            effect: Text::new(terms.effect),
            pinned,
            by_search: pinned,
            asked: None,
            right: TableRight::Insert,
            in_bulk: false,
            reach: Cell::new(1),
            desk: None,
            meter: Meter::new(settings.measured, terms.store, terms.effect),
        }
    }

    /// For a call that will claim many keys.
    pub fn in_bulk(mut self) -> Arbiter<'a> {
        self.in_bulk = true;
        self
    }

    /// For claims that count as made at a time given: nobody acts on what this transaction has read.
    pub fn backdating(mut self) -> Arbiter<'a> {
        (self.pinned, self.by_search) = (false, false);
        self
    }

    /// For a claim that wants the whole answer: whether it is the same request that the key was claimed for, by the
    /// digest of it, and what is stored.
    pub fn asking(mut self, fingerprint: Option<Text>) -> Arbiter<'a> {
        self.by_search = true;
        self.asked = Some(Asked { fingerprint, may_read: false, result: Cell::new(None) });
        self
    }

    /// The answer stored with the claim that stands, where there is one and the caller may read it.
    pub fn result(&self) -> Option<Json> {
        self.asked.as_ref()?.result.take()
    }

    /// Claims one key, which the caller has checked, now.
    pub fn claim(&mut self, key: &Text) -> Result<Answer, Refusal> {
        self.claim_as_of(key, None)
    }

    /// The same, counted as made at an instant: in the leaf of that day, for as long from then.
    pub fn claim_as_of(&mut self, key: &Text, at: Option<Instant>) -> Result<Answer, Refusal> {
        let answer = self.decide(key, at)?;
        self.meter.answered(answer.outcome.kind(), answer.window);
        Ok(answer)
    }

    /// The call has all its answers, and one more for each of `repeated` keys that came in it before: they are
    /// counted.
    pub fn settle(&mut self, repeated: usize) {
        self.meter.repeated(repeated);
        self.meter.settle();
    }

    fn decide(&mut self, key: &Text, at: Option<Instant>) -> Result<Answer, Refusal> {
        loop {
            let mut desk = match self.desk.take() {
                Some(desk) => desk,
                None => self.open(at)?,
            };
            match self.look(&mut desk, key, at)? {
                Look::Decided(answer) => {
                    self.desk = Some(desk);
                    return Ok(answer);
                }
                Look::Held(..) | Look::RowBusy if !self.terms.wait => {
                    return Ok(Answer::without_claim(Outcome::InProgress));
                }
                look => self.wait_out(desk, look, key)?,
            }
            pgrx::check_for_interrupts!();
        }
    }

    /// Opens the store and the leaf of the day, today's unless an instant is given, making what is missing.
    fn open(&mut self, at: Option<Instant>) -> Result<Desk, Refusal> {
        let (mut looked_again, mut asked) = (false, 0);
        loop {
            pgrx::check_for_interrupts!();
            let store = self.store()?;
            let now = (self.settings.clock)();
            if store.is_stale(now) {
                cache::forget(&store);
                continue;
            }
            // Before the first claim after an absence, so that no window has run out meanwhile.
            let away_days = self.settings.away_days;
            if store.is_in_question(now, away_days) {
                asked += 1;
                let is_settled = making::settle(&store, now, away_days)?;
                cache::forget(&store);
                if !is_settled || asked > MOST_QUESTIONS {
                    cache::assume_away(&store, now, away_days)?;
                }
                continue;
            }
            let at = at.unwrap_or(now);
            let Some(place) = store.leaves.iter().position(|leaf| leaf.holds(at)) else {
                let today = Day::of(at);
                // A leaf of another shape stands where today's should: looked at once more, freshly.
                if store.leaves.iter().any(|leaf| leaf.meets(today)) {
                    if looked_again {
                        return Err(Refusal::Uncovered { store: store.display_name(), day: today });
                    }
                    looked_again = true;
                } else {
                    making::leaf(&store, today, at == now)?;
                }
                cache::forget(&store);
                continue;
            };
            let opened = OpenLeaf::to_write(&store.leaves[place]);
            // Taking the lock has let messages in: the leaf may have been detached or dropped.
            if !store.is_current() {
                continue;
            }
            let Some(today) = opened? else {
                cache::forget(&store);
                continue;
            };
            let bulk = self.in_bulk.then(Bulk::new);
            return Ok(Desk { bulk, today, others: Vec::new(), place, store });
        }
    }

    fn store(&mut self) -> Result<Rc<Store>, Refusal> {
        let name = self.terms.store;
        let store = match cache::find(name)? {
            Some(store) => store,
            None if name == making::DEFAULT_STORE.as_bytes() => {
                let Settings { default_retention, precreate_days, .. } = *self.settings;
                making::default_store(default_retention, self.settings.today(), precreate_days)?;
                cache::find(name)?.ok_or_else(|| unknown(name))?
            }
            None => return Err(unknown(name)),
        };
        require(&store, self.right)?;
        if let Some(asked) = &mut self.asked {
            asked.may_read = privilege::may(store.table, TableRight::Select);
        }
        Ok(store)
    }

    /// One look and, where the key is free, the write. The key's lock lives no longer than this.
    /// What a duplicate can be told without it, it is: see `glance`.
    fn look(&self, desk: &mut Desk, key: &Text, at: Option<Instant>) -> Result<Look, Refusal> {
        let store = Rc::clone(&desk.store);
        let number = lock_number(store.table.to_u32(), self.terms.effect, key.bytes());
        store.filters.expect(number);
        let mut lock = None;
        if !storage::expects_duplicate() {
            lock = OwnLock::key_at_once(number);
        }
        if lock.is_none()
            && let Some(answer) = self.glance(desk, key, at)?
        {
            return Ok(Look::Decided(answer));
        }
        let (_key_lock, now) = lock.unwrap_or_else(|| OwnLock::key(number));
        self.meter.looked(store.table, now);
        let leaf = &store.leaves[desk.place];
        let at = at.unwrap_or(now);
        if !store.is_current() || !leaf.holds(at) || store.is_stale(now) {
            return Ok(Look::Stale);
        }
        // Before anything is looked up: a wrong ttl is wrong for a duplicate too.
        let expires_at = self.expires_at(&store, leaf.keep_until, at)?;
        // A row in flight is waited for only where no claim stands in any leaf: its writer may have released that.
        let mut held = None;
        let over_expired = match self.verdict(&store, &mut desk.today, key, now, true)? {
            None => false,
            Some(Verdict::Expired) => true,
            Some(Verdict::Taken(answer)) => return Ok(Look::Decided(answer)),
            Some(Verdict::Held(xid, found)) => {
                held = Some((None, xid, found));
                false
            }
        };
        let maybe = self.sealed_places(&store, number);
        for place in window::others(&store, desk.place, now, &maybe) {
            let opened = match desk.other(place)? {
                Opened::Open(opened) => opened,
                Opened::Busy | Opened::Gone if held.is_some() => break,
                Opened::Busy => return Ok(Look::LeafBusy(place)),
                Opened::Gone => return Ok(Look::Stale),
            };
            let by_pages = store.filters.answer_for(place);
            match self.verdict(&store, opened, key, now, by_pages)? {
                // Left behind: its day goes as a whole.
                None | Some(Verdict::Expired) => {}
                Some(Verdict::Taken(answer)) => return Ok(Look::Decided(answer)),
                Some(Verdict::Held(xid, found)) => {
                    held.get_or_insert((Some(place), xid, found));
                    continue;
                }
            }
            desk.done_with(place);
        }
        if let Some((place, xid, found)) = held {
            return Ok(Look::Held(place, xid, found));
        }
        // Rows may have moved from a leaf looked into to one that is not in this list; whoever did that has told.
        if !store.is_current() {
            return Ok(Look::Stale);
        }
        if self.is_too_late(&store, now) {
            return Ok(Look::Decided(Answer::without_claim(Outcome::TooLate)));
        }
        self.write(desk, key, over_expired, (at, expires_at))
    }

    /// Whether a claim on these terms, made when what the message tells of happened, would be forgotten by
    /// now: then that there is none says nothing.
    fn is_too_late(&self, store: &Store, now: Instant) -> bool {
        let Some(event_time) = self.terms.event_time.filter(|_| self.settings.refuse_late) else {
            return false;
        };
        let remembered = store.remembered(event_time);
        let end = expiry(event_time, self.terms.ttl, remembered)
            .unwrap_or(event_time.saturating_add(remembered));
        store.end_of(event_time, end) <= now
    }

    fn expires_at(
        &self,
        store: &Store,
        keep_until: Instant,
        at: Instant,
    ) -> Result<Instant, Refusal> {
        match expiry(at, self.terms.ttl, store.retention) {
            // No claim outlives what its leaf was promised for.
            Ok(end) if end <= keep_until => Ok(end),
            Err(SpanFault::NotPositive) => Err(Refusal::TtlNotPositive),
            _ => {
                let (store, retention) = (store.display_name(), store.retention);
                Err(Refusal::TtlTooLong { store, retention })
            }
        }
    }

    fn write(
        &self,
        desk: &mut Desk,
        key: &Text,
        over_expired: bool,
        window: (Instant, Instant),
    ) -> Result<Look, Refusal> {
        let (claimed_at, expires_at) = window;
        let fingerprint = self.asked.as_ref().and_then(|asked| asked.fingerprint.as_ref());
        let row = NewRow { claimed_at, expires_at, key, effect: &self.effect, fingerprint };
        if over_expired {
            match desk.today.replace(&row)? {
                // Where one row has expired its neighbours often have, and those are replaced one by one.
                Replaced::Done => self.reach.set(1),
                Replaced::Busy => return Ok(Look::RowBusy),
                Replaced::Changed => return Ok(Look::Stale),
            }
        } else {
            desk.today.insert(&row, desk.bulk.as_ref())?;
        }
        cache::wrote_to(&desk.store.leaves[desk.place]);
        Ok(Look::Decided(Answer { outcome: Outcome::Claimed, window: Some(window) }))
    }
}

/// The refusal for a store that is not there.
pub fn unknown(name: &[u8]) -> Refusal {
    Refusal::UnknownStore(shown(name))
}

/// Refuses a caller without the privilege on the store's table, or under row-level security.
pub fn require(store: &Store, right: TableRight) -> Result<(), Refusal> {
    if !privilege::may(store.table, right) {
        let right = match right {
            TableRight::Select => "SELECT",
            TableRight::Insert => "INSERT",
            TableRight::Delete => "DELETE",
        };
        return Err(Refusal::NoPrivilege { store: store.display_name(), right });
    }
    if store.row_security && privilege::row_security_applies(store.table) {
        return Err(Refusal::RowSecurity(store.display_name()));
    }
    Ok(())
}

/// Refuses a read-only transaction, a standby and a parallel worker.
pub fn refuse_read_only(function: &std::ffi::CStr) {
    session::refuse_read_only(function);
}
