//! Which leaves of a store can hold a live claim.

use crate::catalog::cache::Store;
use crate::domain::day::Instant;
use crate::pg::session;

/// The places of every leaf whose promise is not over, pauses taken into account, and that was ever written to, newest first, but
/// `today`'s own, which is looked at before them. Days ahead belong to them too: a clock that was
/// ahead may have left claims there. Only of these is it believed that nothing was written: a row that plain
/// SQL or a subscription writes, telling nobody, goes to a day that has begun.
pub fn others(store: &Store, today: usize, now: Instant) -> impl Iterator<Item = usize> {
    let transaction = session::transaction();
    store
        .leaves
        .iter()
        .enumerate()
        .filter(move |(place, leaf)| {
            let ahead = leaf.range.from > now;
            let unwritten = ahead && leaf.is_unwritten(transaction);
            *place != today && leaf.live_until > now && !unwritten
        })
        .map(|(place, _)| place)
}
