//! Whether the claim that an effect was begun with still stands.

use crate::catalog::cache::{self, Store};
use crate::claim::Settings;
use crate::claim::arbiter::unknown;
use crate::claim::lookup::{self, Claim};
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::inval;
use crate::pg::snapshot::{Fresh, View};
use crate::pg::text::Text;
use crate::storage::OpenLeaf;
use std::rc::Rc;

/// The store of this name, with all that has happened to it taken in.
pub(super) fn store(name: &[u8]) -> Result<Rc<Store>, Refusal> {
    inval::accept();
    cache::find(name)?.ok_or_else(|| unknown(name))
}

/// The claim of a key that stands now: committed, or this transaction's own, and not expired. In a transaction of
/// one snapshot, by that.
pub(super) fn claim(
    name: &[u8],
    key: &Text,
    effect: &Text,
    settings: &Settings,
) -> Result<Option<Claim>, Refusal> {
    loop {
        let store = store(name)?;
        let found = {
            let _fresh = Fresh::take();
            lookup::look(&store, key, effect, (settings.clock)())?
        };
        // Rows may have moved from a leaf that was looked into to one that was not known.
        if found.is_some() || store.is_current() {
            return Ok(found);
        }
        pgrx::check_for_interrupts!();
    }
}

/// For a transaction of one snapshot that sees no claim: raises 40001 where there is one all the same.
pub(super) fn require_none_since(
    store: &Store,
    key: &Text,
    effect: &Text,
    now: Instant,
) -> Result<(), Refusal> {
    for leaf in store.leaves.iter().filter(|leaf| leaf.live_until > now) {
        let Some(mut opened) = OpenLeaf::to_search(leaf, View::Dirty)? else { continue };
        let is_there = opened.find(key, effect).is_some_and(|found| {
            found.written_by.is_none() && now < store.end_of(found.claimed_at, found.expires_at)
        });
        if is_there && !opened.found_is_own() && !opened.found_is_visible() {
            return Err(Refusal::Invisible);
        }
    }
    Ok(())
}
