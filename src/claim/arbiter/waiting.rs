//! Waiting, when no key's lock is held, for what a look has run into; the look is then made again.

use super::desk::Desk;
use super::{Arbiter, Look};
use crate::catalog::cache;
use crate::error::Refusal;
use crate::pg::bulk::Bulk;
use crate::pg::snapshot::View;
use crate::pg::text::Text;
use crate::pg::tuple::Strength;
use crate::storage::OpenLeaf;

impl Arbiter<'_> {
    /// Waits, with no key's lock held, until the look can be made again.
    pub(super) fn wait_out(
        &mut self,
        mut desk: Desk,
        look: Look,
        key: &Text,
    ) -> Result<(), Refusal> {
        match look {
            Look::Decided(_) | Look::Stale => cache::forget(&desk.store),
            Look::Held(place, xid, found) => {
                desk.prepare_to_wait(place);
                let leaf = desk.leaf_at(place);
                self.meter.wait(self.settings.clock, || leaf.wait_for(xid, &found));
                self.desk = Some(self.resumed(desk));
            }
            Look::RowBusy => {
                desk.prepare_to_wait(None);
                let strength = Strength::for_key(key, &self.effect);
                let today = &desk.today;
                self.meter.wait(self.settings.clock, || today.wait_for_row(strength));
                self.desk = Some(self.resumed(desk));
            }
            Look::LeafBusy(place) => {
                desk.others[place] = OpenLeaf::to_search(&desk.store.leaves[place], View::Dirty)?;
                if desk.others[place].is_some() {
                    self.desk = Some(desk);
                } else {
                    cache::forget(&desk.store);
                }
            }
        }
        Ok(())
    }

    /// A desk after a wait.
    fn resumed(&self, mut desk: Desk) -> Desk {
        desk.bulk = self.in_bulk.then(Bulk::new);
        desk
    }
}
