//! What an arbiter has open: today's leaf to write to (for a claim that counts as made on another day, that
//! day's; it is called today's all the same), and of the store's other leaves those that were
//! looked at. Opening one of those waits for nobody, because it happens under a key's lock.

use crate::catalog::cache::Store;
use crate::error::Refusal;
use crate::pg::bulk::Bulk;
use crate::pg::relation::Opened;
use crate::pg::snapshot::View;
use crate::storage::OpenLeaf;
use std::rc::Rc;

/// How many of the newest leaves a batch keeps open from key to key. Two locks each: all of them still
/// fit the sixteen that a session takes without the shared lock table.
const KEPT_OPEN: usize = 6;

/// Open leaves of a store. Fields are dropped in order.
pub(super) struct Desk {
    /// Belongs to today's leaf: it remembers a page of that table.
    pub bulk: Option<Bulk>,
    pub today: OpenLeaf,
    /// The others, place by place.
    pub others: Vec<Option<OpenLeaf>>,
    /// Today's place in the store's list.
    pub place: usize,
    pub store: Rc<Store>,
}

impl Desk {
    /// Before a wait that may be long: no page stays pinned but the one of the row waited for.
    pub fn prepare_to_wait(&mut self, place: Option<usize>) {
        self.bulk = None;
        for (other, opened) in self.others.iter_mut().enumerate() {
            if Some(other) != place {
                *opened = None;
            }
        }
        if place.is_some() {
            self.today.release_pages();
        }
    }

    pub fn leaf_at(&mut self, place: Option<usize>) -> &mut OpenLeaf {
        let other = place.and_then(|place| self.others.get_mut(place)?.as_mut());
        other.unwrap_or(&mut self.today)
    }

    /// The leaf at a place, opened if it can be at once.
    pub fn other(&mut self, place: usize) -> Result<Opened<&mut OpenLeaf>, Refusal> {
        if self.others.is_empty() {
            self.others.resize_with(self.store.leaves.len(), || None);
        }
        let slot = &mut self.others[place];
        let leaf = &self.store.leaves[place];
        if slot.as_ref().is_none_or(|opened| opened.has_outgrown(leaf)) {
            *slot = None;
            match OpenLeaf::to_search_at_once(leaf, View::Dirty)? {
                Opened::Open(opened) => *slot = Some(opened),
                Opened::Busy => return Ok(Opened::Busy),
                Opened::Gone => return Ok(Opened::Gone),
            }
        }
        Ok(slot.as_mut().map_or(Opened::Gone, Opened::Open))
    }

    /// After the look at the leaf at a place: however many days are live, a claim has the locks of a few
    /// at a time, and a batch those of the newest.
    pub fn done_with(&mut self, place: usize) {
        if self.bulk.is_none() || place >= KEPT_OPEN {
            self.others[place] = None;
        }
    }
}
