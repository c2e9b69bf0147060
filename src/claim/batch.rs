//! Many keys in one call. They are claimed in the order of their bytes, which is the same for every
//! session, so that two batches that wait for each other's keys cannot wait in a circle; it is also
//! the order of the index. Of equal keys the first in the array is the one that can win.

use super::arbiter::{Arbiter, Wanted};
use super::lint::lint;
use super::{Outcome, Settings, Terms};
use crate::domain::key;
use crate::error::Refusal;

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
    lint(keys, terms, settings)?;
    let mut claimed = vec![false; keys.len()];
    let mut arbiter = Arbiter::new(terms, settings).in_bulk();
    let order = in_order(keys);
    let key = |place: usize, wanted: &mut Wanted| wanted.key.set(keys[order[place]]);
    let mut each = |place: usize, outcome| claimed[order[place]] = outcome == Outcome::Claimed;
    in_runs(&mut arbiter, order.len(), key, &mut each)?;
    arbiter.settle(keys.len() - order.len());
    Ok(claimed)
}

/// Claims `count` distinct keys in an order that is the same for all: `key` writes down the one at a place,
/// `each` is told what became of it.
pub fn in_runs(
    arbiter: &mut Arbiter,
    count: usize,
    key: impl Fn(usize, &mut Wanted),
    each: &mut impl FnMut(usize, Outcome),
) -> Result<(), Refusal> {
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut done = 0;
    while done < count {
        let run = (count - done).min(arbiter.reach());
        wanted.resize_with(wanted.len().max(run), Wanted::nothing);
        for (offset, wanted) in wanted[..run].iter_mut().enumerate() {
            key(done + offset, wanted);
        }
        let decided = arbiter.claim_first(&wanted[..run])?;
        for (offset, &outcome) in decided.outcomes().iter().enumerate() {
            each(done + offset, outcome);
        }
        done += decided.outcomes().len();
    }
    Ok(())
}

/// The positions of the keys in the order of their bytes, of equal keys the first.
///
/// Sorted by the eight bytes behind what all keys have in common, as one number, because keys of one
/// kind differ late ('order-10017:paid', 'order-10018:paid') and comparing whole keys costs most of a sort.
fn in_order(keys: &[&[u8]]) -> Vec<usize> {
    let common = keys.iter().fold(keys.first().map_or(0, |key| key.len()), |common, key| {
        let same = key.iter().zip(keys[0]).take(common).take_while(|(a, b)| a == b);
        same.count()
    });
    let digest = |key: &[u8]| {
        let mut head = [0; 8];
        let rest = &key[common..];
        let len = rest.len().min(head.len());
        head[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(head)
    };
    let mut order: Vec<(u64, usize)> =
        keys.iter().enumerate().map(|(place, key)| (digest(key), place)).collect();
    order.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| keys[a.1].cmp(keys[b.1])).then(a.1.cmp(&b.1))
    });
    order.dedup_by(|b, a| keys[a.1] == keys[b.1]);
    order.into_iter().map(|(_, place)| place).collect()
}
