//! Which leaves of a store can hold a live claim.

use crate::catalog::cache::{Leaf, Store};
use crate::domain::day::Instant;

/// Every leaf whose promise is not over, newest first, but `today`'s own, which is looked at before
/// them. Days ahead belong to them too: a clock that was ahead may have left claims there.
pub fn others<'a>(
    store: &'a Store,
    today: &'a Leaf,
    now: Instant,
) -> impl Iterator<Item = &'a Leaf> {
    store.leaves.iter().filter(move |leaf| leaf.table != today.table && leaf.keep_until > now)
}
