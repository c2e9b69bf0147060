//! What a row found says of its key.

use super::Arbiter;
use crate::catalog::cache::Store;
use crate::claim::{Answer, Outcome};
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::index::Found;
use crate::pg::text::Text;
use crate::storage::{OpenLeaf, Peek};
use pgrx::pg_sys::TransactionId;

/// What a row found says.
pub(super) enum Verdict {
    /// Its claim stands.
    Taken(Answer),
    /// Its claim has expired.
    Expired,
    /// A transaction in flight wrote it or is replacing it.
    Held(TransactionId, Found),
}

impl Arbiter<'_> {
    /// What a leaf says of a key, if anything. Where `by_pages` can be expected to tell, they are looked at first,
    /// which saves most claims a search.
    pub(super) fn verdict(
        &self,
        store: &Store,
        leaf: &mut OpenLeaf,
        key: &Text,
        now: Instant,
        by_pages: bool,
    ) -> Result<Option<Verdict>, Refusal> {
        let peek = if by_pages { leaf.peek(key, &self.effect) } else { Peek::Unknown };
        match peek {
            Peek::Absent => return Ok(None),
            Peek::Stands(claimed_at, expires_at) if !self.by_search => {
                let end = store.end_of(claimed_at, expires_at);
                if now < end {
                    let window = Some((claimed_at, end));
                    return Ok(Some(Verdict::Taken(Answer {
                        outcome: Outcome::Duplicate,
                        window,
                    })));
                }
            }
            _ => {}
        }
        match leaf.find(key, &self.effect) {
            Some(found) => self.judge(store, leaf, found, now).map(Some),
            None => Ok(None),
        }
    }

    /// By what its transaction has come to, its window, and whether it is the caller's own.
    fn judge(
        &self,
        store: &Store,
        leaf: &OpenLeaf,
        found: Found,
        now: Instant,
    ) -> Result<Verdict, Refusal> {
        if let Some(xid) = found.written_by {
            return Ok(Verdict::Held(xid, found));
        }
        let end = store.end_of(found.claimed_at, found.expires_at);
        let live = now < end;
        // A claim that is committed and live stands, whatever somebody is about to make of it: an answer, or nothing.
        // One that has expired may be on its way to be claimed anew.
        if let Some(xid) = found.changed_by.filter(|_| !live) {
            return Ok(Verdict::Held(xid, found));
        }
        // Asked only of a row whose claim counts: of one that has expired, nothing is given to who claims it anew.
        let taken = || self.duplicate_of(leaf, found.claimed_at, end);
        if live && !self.pinned {
            return Ok(taken());
        }
        // What this transaction claimed itself is a duplicate even when its window is over.
        if leaf.found_is_own() {
            return Ok(taken());
        }
        // A winner that the transaction's snapshot does not show, live or not, means that what the
        // caller has read is older than what it is about to do.
        if self.pinned && !leaf.found_is_visible() {
            return Err(Refusal::Invisible);
        }
        Ok(if live { taken() } else { Verdict::Expired })
    }

    /// What the claim that the row found last is says to another of its key: where the whole answer is wanted, by the
    /// request it was made for, and with its result.
    fn duplicate_of(&self, leaf: &OpenLeaf, claimed_at: Instant, end: Instant) -> Verdict {
        let window = Some((claimed_at, end));
        let mut outcome = Outcome::Duplicate;
        if let Some(asked) = &self.asked {
            let other = |digest: &Text| {
                leaf.found_fingerprint().is_some_and(|stored| stored != digest.bytes())
            };
            if asked.fingerprint.as_ref().is_some_and(other) {
                outcome = Outcome::Mismatch;
            }
            let may_read = outcome == Outcome::Duplicate && asked.may_read;
            asked.result.set(may_read.then(|| leaf.found_result()).flatten());
        }
        Verdict::Taken(Answer { outcome, window })
    }
}
