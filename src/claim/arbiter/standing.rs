//! Finding the claim that stands, to do something with its row: give it an answer, or take it away. By the protocol of
//! a claim: under the key's lock, waiting for nobody while it is held. The row may lie in any leaf; it is acted on in the
//! one that is open to be written to, so that where another has it the look is made once more, with that one.

use super::desk::Desk;
use super::{Arbiter, Look};
use crate::catalog::cache::{self, Store};
use crate::claim::window;
use crate::domain::day::Instant;
use crate::domain::key::lock_number;
use crate::error::Refusal;
use crate::pg::index::Found;
use crate::pg::lock::OwnLock;
use crate::pg::privilege::TableRight;
use crate::pg::relation::Opened;
use crate::pg::session;
use crate::pg::text::Text;
use crate::pg::tuple::Replaced;
use crate::stats::Kind;
use crate::storage::OpenLeaf;
use pgrx::pg_sys::TransactionId;
use std::rc::Rc;

/// The claim that stands.
pub struct Standing<'l> {
    /// The leaf its row is in; the row is the one found last.
    pub leaf: &'l mut OpenLeaf,
    /// When it was made.
    pub claimed_at: Instant,
    /// When it expires.
    pub expires_at: Instant,
}

/// What became of an act.
pub enum Act<T> {
    /// It has this outcome.
    Done(T),
    /// It could not be done to the row as it was found.
    Not(Replaced),
}

/// What one look came to.
enum Seen<T> {
    /// The act is done; None where no claim stands.
    Done(Option<T>),
    /// The claim is in the leaf of this instant.
    Elsewhere(Instant),
    /// Something has to be waited for or opened anew.
    Again(Look),
}

/// What a leaf has of a key.
struct Row {
    claimed_at: Instant,
    expires_at: Instant,
    /// Its window is not over, or the transaction has made it itself.
    stands: bool,
}

impl Arbiter<'_> {
    /// For acting on a claim instead of claiming: what that needs on the store.
    pub fn needing(mut self, right: TableRight) -> Self {
        self.right = right;
        self
    }

    /// Does something to the claim that stands; None where there is none. `over` says whether the newest claim whose
    /// window is over counts too, where no other stands.
    ///
    /// With `made_at`, the leaf of that instant is looked at first: after a clock that went back a key may have two
    /// claims whose windows are not over.
    pub fn act<T>(
        &mut self,
        key: &Text,
        over: bool,
        made_at: Option<Instant>,
        mut act: impl FnMut(Standing) -> Result<Act<T>, Refusal>,
    ) -> Result<Option<T>, Refusal> {
        // What the calling command has written is to be found as what earlier ones have.
        session::next_command();
        let mut at = made_at;
        loop {
            let mut desk = match self.desk.take() {
                Some(desk) => desk,
                None => {
                    // A day that went meanwhile took the claim along; it is not made anew for it.
                    let store = cache::find(self.terms.store)?;
                    let is_there = |at: &Instant| {
                        store.is_some_and(|store| store.leaves.iter().any(|leaf| leaf.holds(*at)))
                    };
                    at = at.filter(is_there);
                    self.open(at)?
                }
            };
            match self.seek(&mut desk, key, over, &mut act)? {
                Seen::Done(outcome) => {
                    self.desk = Some(desk);
                    return Ok(outcome);
                }
                Seen::Elsewhere(claimed_at) => at = Some(claimed_at),
                Seen::Again(look) => self.wait_out(desk, look, key)?,
            }
            pgrx::check_for_interrupts!();
        }
    }

    /// Counts what was done.
    pub fn count(&mut self, kind: Kind) {
        self.meter.answered(kind, None);
        self.meter.settle();
    }

    fn seek<T>(
        &self,
        desk: &mut Desk,
        key: &Text,
        over: bool,
        act: &mut impl FnMut(Standing) -> Result<Act<T>, Refusal>,
    ) -> Result<Seen<T>, Refusal> {
        let store = Rc::clone(&desk.store);
        let number = lock_number(store.table.to_u32(), self.terms.effect, key.bytes());
        let (_key_lock, now) = OwnLock::key(number);
        self.meter.looked(store.table, now);
        if !store.is_current() || store.is_stale(now) {
            return Ok(Seen::Again(Look::Stale));
        }
        let today = match self.row(&store, &mut desk.today, key, now)? {
            Err((xid, found)) => return Ok(Seen::Again(Look::Held(None, xid, found))),
            Ok(row) => row,
        };
        if let Some(row) = today.as_ref().filter(|row| row.stands) {
            return perform(desk, row, act);
        }
        let mut newest = today.as_ref().map(|row| row.claimed_at);
        let places: Vec<usize> = if over {
            (0..store.leaves.len()).filter(|&place| place != desk.place).collect()
        } else {
            let maybe = self.sealed_places(&store, number);
            window::others(&store, desk.place, now, &maybe).collect()
        };
        for place in places {
            let opened = match desk.other(place)? {
                Opened::Open(opened) => opened,
                Opened::Busy => return Ok(Seen::Again(Look::LeafBusy(place))),
                Opened::Gone => return Ok(Seen::Again(Look::Stale)),
            };
            match self.row(&store, opened, key, now)? {
                Err((xid, found)) => return Ok(Seen::Again(Look::Held(Some(place), xid, found))),
                Ok(Some(row)) if row.stands => return Ok(Seen::Elsewhere(row.claimed_at)),
                Ok(Some(row)) => newest = newest.max(Some(row.claimed_at)),
                Ok(None) => {}
            }
            desk.done_with(place);
        }
        // As for a claim: rows may have moved to a leaf that is not in this list.
        if !store.is_current() {
            return Ok(Seen::Again(Look::Stale));
        }
        match (newest.filter(|_| over), today) {
            (None, _) => Ok(Seen::Done(None)),
            (Some(newest), Some(row)) if row.claimed_at == newest => perform(desk, &row, act),
            (Some(newest), _) => Ok(Seen::Elsewhere(newest)),
        }
    }

    /// What a leaf has of a key; the transaction and the row to wait for, where somebody is writing or changing it.
    #[allow(clippy::type_complexity)] // a refusal, a wait, a row or none
    fn row(
        &self,
        store: &Store,
        leaf: &mut OpenLeaf,
        key: &Text,
        now: Instant,
    ) -> Result<Result<Option<Row>, (TransactionId, Found)>, Refusal> {
        let Some(found) = leaf.find(key, &self.effect) else { return Ok(Ok(None)) };
        if let Some(xid) = found.written_by.or(found.changed_by) {
            return Ok(Err((xid, found)));
        }
        let own = leaf.found_is_own();
        if self.pinned && !own && !leaf.found_is_visible() {
            return Err(Refusal::Invisible);
        }
        let expires_at = store.end_of(found.claimed_at, found.expires_at);
        let (claimed_at, stands) = (found.claimed_at, own || now < expires_at);
        Ok(Ok(Some(Row { claimed_at, expires_at, stands })))
    }
}

/// Acts on the row found last in the leaf that is open to be written to.
fn perform<T>(
    desk: &mut Desk,
    row: &Row,
    act: &mut impl FnMut(Standing) -> Result<Act<T>, Refusal>,
) -> Result<Seen<T>, Refusal> {
    let Row { claimed_at, expires_at, .. } = *row;
    Ok(match act(Standing { leaf: &mut desk.today, claimed_at, expires_at })? {
        Act::Done(outcome) => Seen::Done(Some(outcome)),
        Act::Not(Replaced::Busy) => Seen::Again(Look::RowBusy),
        Act::Not(_) => Seen::Again(Look::Stale),
    })
}
