//! Looking a key up without claiming it: what the calling statement sees, so it works in a
//! read-only transaction and on a standby, and waits for nobody's claim (for DDL on a leaf it does).

use super::arbiter::{require, unknown};
use super::{Settings, check};
use crate::catalog::cache::{self, Store};
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::inval;
use crate::pg::privilege::TableRight;
use crate::pg::rows::Json;
use crate::pg::snapshot::View;
use crate::pg::text::Text;
use crate::storage::OpenLeaf;

/// A live claim.
pub struct Claim {
    /// When it was made.
    pub claimed_at: Instant,
    /// When it expires.
    pub expires_at: Instant,
    /// The stored answer.
    pub result: Option<Json>,
}

/// The live claim of a key, if this statement sees one.
pub fn lookup(
    key: &[u8],
    effect: &[u8],
    store: &[u8],
    settings: &Settings,
) -> Result<Option<Claim>, Refusal> {
    check(key, effect, settings)?;
    let (key, effect) = (Text::new(key), Text::new(effect));
    loop {
        inval::accept();
        let store = cache::find(store)?.ok_or_else(|| unknown(store))?;
        require(&store, TableRight::Select)?;
        let found = look(&store, &key, &effect, (settings.clock)())?;
        // Rows may have moved from a leaf that was looked into to one that was not known.
        if found.is_some() || store.is_current() {
            return Ok(found);
        }
        pgrx::check_for_interrupts!();
    }
}

/// The live claim of a key in a store that is current, by the snapshot that is in force; whoever asks sees to who may.
pub fn look(
    store: &Store,
    key: &Text,
    effect: &Text,
    now: Instant,
) -> Result<Option<Claim>, Refusal> {
    for leaf in store.leaves.iter().filter(|leaf| leaf.live_until > now) {
        // A leaf that is gone had nothing live.
        let Some(mut opened) = OpenLeaf::to_search(leaf, View::Statement)? else { continue };
        let Some(found) = opened.find(key, effect) else { continue };
        let expires_at = store.end_of(found.claimed_at, found.expires_at);
        if now < expires_at {
            return Ok(Some(Claim {
                claimed_at: found.claimed_at,
                expires_at,
                result: opened.found_result(),
            }));
        }
    }
    Ok(None)
}
