//! Looking whether the pages of filters are still what was written to them. A claim that comes upon one that is not
//! looks into every day of the filter, which is right and slow; only whoever merges the filter would notice, and an old one
//! may not be merged again for as long as its days live.

use super::{counting_days, retire};
use crate::catalog::filters::{self, Known};
use crate::catalog::{cache, sql};
use crate::error::Refusal;
use crate::pg::pages::{self, Pages};
use crate::pg::procedure::attempt;
use crate::pg::{inval, lock, session};
use pgrx::pg_sys::Oid;

/// How many pages of a store's filters are looked at in one pass: 8 MB, some milliseconds. Where there are more, a
/// pass takes so many in a row, from one chosen at random.
const PAGES: u64 = 1_000;

/// How long any lock is waited for meanwhile, in milliseconds.
const PATIENCE: i32 = 2_000;

/// Retires the filters of a store in which a page is found that is not what was written to it; their days are without a
/// filter then. Their names come back.
pub fn retire_spoilt(store: Oid) -> Result<Vec<String>, Refusal> {
    if !lock::try_hold_filters(store) {
        return Ok(Vec::new());
    }
    let seals = filters::seals(store, &cache::leaves_of(store)?)?;
    let answering = |filter: &Known| !filter.retired && !counting_days(filter, &seals).is_empty();
    let known: Vec<Known> = filters::known(store)?.into_iter().filter(answering).collect();
    let total: u64 = known.iter().map(|filter| u64::from(filter.shape.pages)).sum();
    let first = session::random().cast_unsigned().checked_rem(total).unwrap_or(0);
    let (mut spoilt, mut names) = (Vec::new(), Vec::new());
    // The part may go on past the last page, at the first.
    let (mut begin, count) = (0, total.min(PAGES));
    for filter in &known {
        let pages = u64::from(filter.shape.pages);
        let wanted = (0..filter.shape.pages)
            .filter(|page| (begin + u64::from(*page) + total - first) % total < count);
        // What cannot be read at all raises: the page's checksum, the disk.
        let sound = attempt(PATIENCE, || Ok::<_, Refusal>(is_sound(filter, wanted)));
        if !matches!(sound, Ok(true)) {
            spoilt.push(filter.table);
            names.push(sql::named(filter.table)?.qualified);
        }
        begin += pages;
    }
    if !spoilt.is_empty() {
        retire(&spoilt)?;
        inval::announce(store);
    }
    Ok(names)
}

/// Whether these pages of a filter are what was written to them. Nobody drops it: that takes the right to build, which the
/// caller holds.
fn is_sound(filter: &Known, mut wanted: impl Iterator<Item = u32>) -> bool {
    let Some(pages) = Pages::find(filter.table, filter.shape.pages) else { return false };
    let (mut entries, mut is_page) = (Vec::new(), true);
    wanted.all(|number| {
        pgrx::check_for_interrupts!();
        pages::read(std::iter::once((0, &pages, number)), |_, page| {
            is_page = filter.shape.read(page, number, &mut entries).is_some();
        });
        is_page
    })
}
