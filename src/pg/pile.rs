//! The rows of a result that were kept: a pile of them may be larger than memory, and is gone through as often as wanted.

use super::failure::step;
use super::statement::{Connection, Row, row_of};
use super::unwinding;
use pgrx::pg_sys;
use std::marker::PhantomData;

/// Rows that were kept: in memory, and beyond half a megabyte in a temporary file.
pub struct Pile<'c> {
    pub(super) store: *mut pg_sys::Tuplestorestate,
    pub(super) descriptor: pg_sys::TupleDesc,
    pub(super) rows: u64,
    pub(super) connection: PhantomData<&'c Connection>,
}

impl Pile<'_> {
    /// How many there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Goes through the rows from the first on. A pile is gone through by one at a time.
    pub fn walk(&self) -> Walk<'_> {
        // SAFETY: the slot is dropped with the walk; after an error its memory goes with the connection.
        unsafe {
            pg_sys::tuplestore_rescan(self.store);
            let slot =
                pg_sys::MakeSingleTupleTableSlot(self.descriptor, &pg_sys::TTSOpsMinimalTuple);
            Walk {
                slot,
                store: self.store,
                context: pg_sys::CurrentMemoryContext,
                pile: PhantomData,
            }
        }
    }

    /// Hands out the rows from the first to the last; what `take` does may use any other pile.
    pub fn each<E>(&self, mut take: impl FnMut(&Row) -> Result<(), E>) -> Result<(), E> {
        let mut walk = self.walk();
        while let Some(row) = walk.next() {
            take(&row)?;
        }
        Ok(())
    }
}

impl Drop for Pile<'_> {
    fn drop(&mut self) {
        if !unwinding() {
            // SAFETY: made once, ended once, before the connection whose memory it lies in.
            unsafe { pg_sys::tuplestore_end(self.store) };
        }
    }
}

/// A place in a pile.
pub struct Walk<'p> {
    slot: *mut pg_sys::TupleTableSlot,
    store: *mut pg_sys::Tuplestorestate,
    context: pg_sys::MemoryContext,
    pile: PhantomData<&'p ()>,
}

impl Walk<'_> {
    /// The next row, good until the one after it is asked for.
    pub fn next(&mut self) -> Option<Row<'_>> {
        // SAFETY: store and slot are of one shape. A row that was on disk is in memory that the slot frees later,
        // so it is that of the walk, whoever asks.
        let found = unsafe {
            step(|| {
                let asking = pg_sys::MemoryContextSwitchTo(self.context);
                let found = pg_sys::tuplestore_gettupleslot(self.store, true, false, self.slot);
                pg_sys::MemoryContextSwitchTo(asking);
                found
            })
        };
        found.then(|| row_of(self.slot))
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        if !unwinding() {
            // SAFETY: made once, dropped once.
            unsafe { pg_sys::ExecDropSingleTupleTableSlot(self.slot) };
        }
    }
}
