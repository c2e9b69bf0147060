//! A duplicate needs no lock. That a claim stands is true whoever decides the key at that moment, so a look
//! without the key's lock may refuse, and only that: whatever else it finds, or does not, is decided under the lock.
//!
//! It saves a duplicate the lock where the last answer was a duplicate too, and keeps those of a hot key from
//! queueing behind each other.

use super::Arbiter;
use super::desk::Desk;
use super::verdict::Verdict;
use crate::claim::Answer;
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::inval;
use crate::pg::text::Text;

impl Arbiter<'_> {
    /// The answer, where a claim of the key stands in today's leaf.
    pub(super) fn glance(
        &self,
        desk: &mut Desk,
        key: &Text,
        at: Option<Instant>,
    ) -> Result<Option<Answer>, Refusal> {
        inval::accept();
        let (now, store) = ((self.settings.clock)(), &desk.store);
        let (leaf, at) = (&store.leaves[desk.place], at.unwrap_or(now));
        if !store.is_current() || !leaf.holds(at) || store.is_stale(now) {
            return Ok(None);
        }
        // As under the lock: a wrong ttl is wrong for a duplicate too.
        self.expires_at(store, leaf.keep_until, at)?;
        Ok(match self.verdict(store, &mut desk.today, key, now, true)? {
            Some(Verdict::Taken(answer)) => {
                self.meter.looked(store.table, now);
                Some(answer)
            }
            _ => None,
        })
    }
}
