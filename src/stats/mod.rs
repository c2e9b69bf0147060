//! What was answered, counted for each database, store and effect in shared memory.
//!
//! Counted is what was answered, at once, and stays counted where the transaction then rolls back: as
//! PostgreSQL counts scans and calls, and unlike it counts rows. A claim that was made, rolled back and made
//! again by the redelivery is two.
//!
//! `meter` is what a claim uses, `tally` what one call adds up, `table` the shared table, `layout` where
//! things lie in it, `places` what a session remembers of it, `sweep` how entries are freed, `file` how it
//! outlives a restart, `sample` the log of duplicates.

mod file;
pub mod layout;
mod meter;
mod places;
mod sample;
mod sweep;
mod table;
mod tally;

pub use meter::{Meter, Wanted};
pub use table::Row;

use crate::domain::day::Instant;
use crate::pg::shmem::{self, Plan};
use crate::pg::{log, session};
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use table::Table;

/// What is counted, by its place in an entry: the outcomes of claims, then what became of claims later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Do the work.
    Claimed,
    /// Done already.
    Duplicate,
    /// Another transaction holds the key.
    InProgress,
    /// Nobody can tell any more.
    TooLate,
    /// Done already, for another request.
    Mismatch,
    /// An answer was stored.
    Completed,
    /// A claim was given up.
    Released,
}

/// Something that became of an effect outside the database, by its place among those of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It was begun for the first time.
    Started,
    /// It was begun again.
    TakenOver,
    /// It was done.
    Done,
    /// An attempt was said to have failed.
    Failed,
    /// It was begun as often as it may be.
    GaveUp,
    /// A fence was refused.
    Stale,
}

/// How many there are.
const EVENTS: usize = 6;

/// Counts an event of an effect in a store, where counting is wanted.
pub fn count(wanted: Wanted, store: Oid, effect: &[u8], event: Event, now: Instant) {
    if let Some(table) = wanted.counts.then(table).flatten() {
        let mut tally = tally::Tally::new();
        tally.happened(event);
        places::add(&table, &table::Subject { store, effect }, &tally, now);
    }
}

/// How many kinds there are.
const OUTCOMES: usize = 7;

thread_local! {
    /// Whether getting the memory has failed in this session: said once, and not tried again.
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Called when the library is loaded.
pub fn prepare() {
    shmem::define(Plan {
        name: layout::NAME,
        words: layout::WORDS,
        load: file::load,
        save: file::save,
    });
}

/// Whether anything can be counted in this server.
pub fn is_available() -> bool {
    shmem::is_available()
}

/// The table, got if this session does not have it yet.
fn table() -> Option<Table> {
    let known = shmem::attached();
    if known.is_some() || FAILED.with(Cell::get) || !is_available() {
        return known.map(Table);
    }
    match shmem::attach() {
        Ok(area) => area.map(Table),
        Err(message) => {
            FAILED.with(|failed| failed.set(true));
            log::line(&format!("pg_once: claims of this session are not counted: {message}"));
            None
        }
    }
}

/// What was counted in this session's database, and what found no place in any.
pub fn rows() -> Vec<Row> {
    table().map_or_else(Vec::new, |table| table.rows(session::database()))
}

/// Lets a store count from zero; None is what found no place.
pub fn reset(store: Option<Oid>, now: Instant) {
    if let Some(table) = table() {
        table.reset(store, now);
    }
}
