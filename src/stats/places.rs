//! The entries this session has counted in, so that the next call finds its own without the table's lock.

use super::layout::ENTRIES;
use super::table::{Place, Subject, Table};
use super::tally::Tally;
use crate::domain::day::Instant;
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::collections::HashMap;

struct Known {
    store: Oid,
    effect: Box<[u8]>,
    place: Place,
}

thread_local! {
    /// By the subject's identity. Never more than there are entries: then all are forgotten.
    static KNOWN: RefCell<HashMap<u64, Known>> = RefCell::default();
}

/// Adds to the entry of a subject.
pub fn add(table: &Table, subject: &Subject, tally: &Tally, now: Instant) {
    if remembered(subject).is_some_and(|place| table.add(place, tally)) {
        return;
    }
    let place = table.place(subject, now);
    remember(subject, place);
    // One that changed hands in this moment: rather counted nowhere than as somebody else's.
    table.add(place, tally);
}

fn remembered(subject: &Subject) -> Option<Place> {
    KNOWN.with(|known| {
        let known = known.borrow();
        let known = known.get(&subject.identity())?;
        (known.store == subject.store && *known.effect == *subject.effect).then_some(known.place)
    })
}

fn remember(subject: &Subject, place: Place) {
    let Subject { store, effect } = *subject;
    KNOWN.with(|known| {
        let mut known = known.borrow_mut();
        if known.len() == ENTRIES {
            known.clear();
        }
        known.insert(subject.identity(), Known { store, effect: effect.into(), place });
    });
}
