//! Many keys in one call. They are claimed in the order of their bytes, which is the same for every
//! session, so that two batches that wait for each other's keys cannot wait in a circle; it is also
//! the order of the index. Of equal keys the first in the array is the one that can win.

use super::arbiter::Arbiter;
use super::{Outcome, Settings, Terms};
use crate::domain::key;
use crate::error::Refusal;
use crate::pg::text::Text;

/// Claims every key and says for each, in input order, whether it was claimed. All keys are checked
/// before the first is claimed.
pub fn claim_many(
    keys: &[&[u8]],
    terms: &Terms,
    settings: &Settings,
) -> Result<Vec<bool>, Refusal> {
    for bytes in keys {
        key::check(bytes, settings.max_key_bytes)?;
    }
    super::check_effect(terms.effect)?;
    let mut order: Vec<u32> = (0..u32::try_from(keys.len()).unwrap_or(u32::MAX)).collect();
    // Ties keep the position, so that the first of equal keys comes first.
    order.sort_unstable_by(|&a, &b| keys[a as usize].cmp(keys[b as usize]).then(a.cmp(&b)));

    let mut claimed = vec![false; keys.len()];
    let mut arbiter = Arbiter::new(terms, settings).in_bulk();
    let mut key = Text::new(b"");
    let mut previous: Option<&[u8]> = None;
    for place in order {
        let bytes = keys[place as usize];
        if previous == Some(bytes) {
            continue;
        }
        previous = Some(bytes);
        key.set(bytes);
        claimed[place as usize] = arbiter.claim(&key)?.outcome == Outcome::Claimed;
    }
    Ok(claimed)
}
