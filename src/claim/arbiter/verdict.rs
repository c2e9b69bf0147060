//! What a row found says of its key.

use super::Arbiter;
use crate::catalog::cache::Store;
use crate::claim::{Answer, Outcome};
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::index::Found;
use crate::storage::OpenLeaf;
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
    /// By what its transaction has come to, its window, and whether it is the caller's own.
    pub(super) fn judge(
        &self,
        store: &Store,
        leaf: &OpenLeaf,
        found: Found,
        now: Instant,
    ) -> Result<Verdict, Refusal> {
        if let Some(xid) = found.in_flight {
            return Ok(Verdict::Held(xid, found));
        }
        let end = store.end_of(found.claimed_at, found.expires_at);
        let live = now < end;
        let window = Some((found.claimed_at, end));
        let taken = Verdict::Taken(Answer { outcome: Outcome::Duplicate, window });
        if live && !self.pinned {
            return Ok(taken);
        }
        // What this transaction claimed itself is a duplicate even when its window is over.
        if leaf.found_is_own() {
            return Ok(taken);
        }
        // A winner that the transaction's snapshot does not show, live or not, means that what the
        // caller has read is older than what it is about to do.
        if self.pinned && !leaf.found_is_visible() {
            return Err(Refusal::Invisible);
        }
        Ok(if live { taken } else { Verdict::Expired })
    }
}
