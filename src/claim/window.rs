//! Which leaves of a store can hold a live claim.

use crate::catalog::cache::Store;
use crate::catalog::filters::Places;
use crate::domain::day::Instant;
use crate::storage;

/// The places of every leaf whose promise is not over, pauses taken into account, and that was ever written to, newest first, but
/// `today`'s own, which is looked at before them. Days ahead belong to them too: a clock that was
/// ahead may have left claims there. Only of these is it believed that nothing was written: a row that plain
/// SQL or a subscription writes, telling nobody, goes to a day that has begun.
///
/// Of the leaves that filters answer for, only those that `maybe` has.
pub fn others<'a>(
    store: &'a Store,
    today: usize,
    now: Instant,
    maybe: &Places,
) -> impl Iterator<Item = usize> + use<'a> {
    let (all, unanswered, few) = match maybe.is_all() {
        true => (0..store.leaves.len(), [].as_slice(), Places::NONE),
        false => (0..0, store.filters.unanswered(), *maybe),
    };
    all.chain(unanswered.iter().copied()).chain(few.few()).filter(move |&place| {
        let leaf = &store.leaves[place];
        let ahead = leaf.range.from > now;
        place != today && leaf.live_until > now && !(ahead && storage::is_still_unwritten(leaf))
    })
}
