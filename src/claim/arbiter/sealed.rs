//! Asking the filters of sealed days where a key may be. Asked under the key's lock, after what other sessions
//! changed was taken in: a row that was on its way into a sealed day before is known by then.

use super::Arbiter;
use crate::catalog::cache::Store;
use crate::catalog::filters::Places;
use crate::pg::bulk::ROOM;

impl Arbiter<'_> {
    /// Of the leaves that filters answer for, those to be looked at for a key.
    pub(super) fn sealed_places(&self, store: &Store, number: u64) -> Places {
        if store.filters.is_empty() || !self.settings.use_filters {
            return Places::ALL;
        }
        let mut places = [Places::NONE];
        store.filters.ask(&[number], &mut places);
        places[0]
    }

    /// Of the leaves that filters answer for, those to be looked at for each key, and for any of them.
    pub(super) fn sealed_places_of(
        &self,
        store: &Store,
        numbers: &[u64],
    ) -> ([Places; ROOM], Places) {
        if store.filters.is_empty() || !self.settings.use_filters {
            return ([Places::ALL; ROOM], Places::ALL);
        }
        let mut maybe = [Places::NONE; ROOM];
        for &number in numbers {
            store.filters.expect(number);
        }
        store.filters.ask(numbers, &mut maybe);
        let any = maybe[..numbers.len()].iter().fold(Places::NONE, |any, places| any.or(places));
        (maybe, any)
    }
}
