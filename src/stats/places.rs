//! The entries this session has counted in, so that the next call finds its own without the table's lock.

use super::table::{Place, Subject, Table};
use super::tally::Tally;
use crate::domain::day::Instant;
use pgrx::pg_sys::Oid;
use std::cell::RefCell;

/// Places for what is remembered, one for each remainder of a subject's identity: of two subjects that
/// share one, each is looked up again after the other was.
const REMEMBERED: u64 = 512;

struct Known {
    store: Oid,
    effect: Box<[u8]>,
    place: Place,
}

thread_local! {
    static KNOWN: RefCell<Vec<Option<Known>>> = const { RefCell::new(Vec::new()) };
}

/// Adds to the entry of a subject.
pub fn add(table: &Table, subject: &Subject, tally: &Tally, now: Instant) {
    KNOWN.with(|known| {
        // Nothing that is called here comes back to this function.
        let Ok(mut known) = known.try_borrow_mut() else { return };
        known.resize_with(REMEMBERED as usize, || None);
        let slot = (subject.identity() % REMEMBERED) as usize;
        let is_it =
            |known: &&Known| known.store == subject.store && *known.effect == *subject.effect;
        let place = known[slot].as_ref().filter(is_it).map(|known| known.place);
        if place.is_some_and(|place| table.add(place, tally)) {
            return;
        }
        let place = table.place(subject, now);
        let Subject { store, effect } = *subject;
        known[slot] = Some(Known { store, effect: effect.into(), place });
        // One that changed hands in this moment: rather counted nowhere than as somebody else's.
        table.add(place, tally);
    });
}
