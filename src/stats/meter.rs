//! The one thing the claim path knows of statistics: a meter, which is told what happens and adds it to the
//! table when the call has its answer. Claims of a call that fails were not answered, and are not counted.

use super::table::{Subject, Table};
use super::tally::Tally;
use super::{Kind, places, sample};
use crate::domain::day::Instant;
use pgrx::pg_sys::Oid;
use std::cell::Cell;

/// What is to be measured.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Whether to count: `pg_once.track_claims`.
    pub counts: bool,
    /// Whether to log some duplicates: `pg_once.log_duplicates`.
    pub samples: bool,
}

/// The measuring of one call.
pub struct Meter<'a> {
    table: Option<Table>,
    samples: bool,
    store: &'a [u8],
    effect: &'a [u8],
    /// The store's table and the clock at the last look under a key's lock.
    looked: Cell<(Oid, Instant)>,
    /// How long the claim in hand has waited.
    waited: Cell<Option<i64>>,
    tally: Tally,
}

impl<'a> Meter<'a> {
    /// For claims of an effect in a store. To be made before anything is opened: the memory may have to
    /// be got first.
    pub fn new(wanted: Wanted, store: &'a [u8], effect: &'a [u8]) -> Meter<'a> {
        Meter {
            table: if wanted.counts { super::table() } else { None },
            samples: wanted.samples,
            store,
            effect,
            looked: Cell::new((Oid::INVALID, 0)),
            waited: Cell::new(None),
            tally: Tally::new(),
        }
    }

    /// A key is looked up in this table at this instant.
    pub fn looked(&self, table: Oid, now: Instant) {
        self.looked.set((table, now));
    }

    /// Waits for another transaction. The clock is read for it only where there is somebody to count.
    pub fn wait(&self, clock: fn() -> Instant, wait: impl FnOnce()) {
        if self.table.is_none() {
            return wait();
        }
        let began = clock();
        wait();
        let took = clock().saturating_sub(began).max(0);
        self.waited.set(Some(self.waited.get().unwrap_or(0).saturating_add(took)));
    }

    /// A claim was answered so; `window` is that of the claim that stands, where it is known.
    pub fn answered(&mut self, kind: Kind, window: Option<(Instant, Instant)>) {
        let refused_by = window.filter(|_| kind == Kind::Duplicate);
        if self.table.is_some() {
            self.tally.answered(kind);
            if let Some(micros) = self.waited.take() {
                self.tally.waited(micros);
            }
            if let Some(window) = refused_by {
                self.tally.aged(self.looked.get().1, window);
            }
        }
        if let Some((claimed_at, _)) = refused_by.filter(|_| self.samples) {
            sample::duplicate(self.store, self.effect, claimed_at, self.looked.get().1);
        }
    }

    /// Keys came again in the call that they came in first: duplicates as young as can be.
    pub fn repeated(&mut self, count: usize) {
        let now = self.looked.get().1;
        for _ in 0..count {
            self.tally.answered(Kind::Duplicate);
            self.tally.aged(now, (now, Instant::MAX));
        }
    }

    /// The call has its answer.
    pub fn settle(&mut self) {
        let (store, now) = self.looked.get();
        if let Some(table) = self.table.take() {
            places::add(&table, &Subject { store, effect: self.effect }, &self.tally, now);
        }
    }
}
