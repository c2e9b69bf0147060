//! Rows that are put in as they come and handed out in order: the server's own sort, which goes to disk where there are many.

use super::failure::step;
use super::procedure::in_own_memory;
use super::statement::{Connection, Plan, Row, row_of};
use super::unwinding;
use pgrx::pg_sys::{self, Datum};
use std::marker::PhantomData;
use std::ptr::null_mut;

unsafe extern "C-unwind" {
    // utils/tuplesort.h, here without pgrx's guard: a step around them is one.
    fn tuplesort_puttupleslot(
        state: *mut pg_sys::Tuplesortstate,
        slot: *mut pg_sys::TupleTableSlot,
    );
    fn tuplesort_gettupleslot(
        state: *mut pg_sys::Tuplesortstate,
        forward: bool,
        copy: bool,
        slot: *mut pg_sys::TupleTableSlot,
        abbreviated: *mut Datum,
    ) -> bool;
}

/// What it holds in memory, in kilobytes: sixty megabytes take one merge.
const KILOBYTES: i32 = 4096;
/// Rows that are handed out before what was unpacked of them is freed.
const BATCH: u32 = 200;
/// `<` of bigint and of text (pg_operator.dat), and the collation by bytes (pg_collation.dat).
const LESS_BIGINT: u32 = 412;
const LESS_TEXT: u32 = 664;
const BYTES: u32 = 950;

/// What a column is sorted by; NULL comes last.
#[derive(Clone, Copy)]
pub enum By {
    /// A column of type bigint.
    Integer(usize),
    /// A column of type text, by its bytes.
    Text(usize),
}

/// Rows like those of a query's result, to be sorted.
pub struct Sorted<'c> {
    state: *mut pg_sys::Tuplesortstate,
    put_in: *mut pg_sys::TupleTableSlot,
    out: *mut pg_sys::TupleTableSlot,
    connection: PhantomData<&'c Connection>,
}

impl<'c> Sorted<'c> {
    /// None yet.
    pub fn new(like: &Plan<'c>, order: &[By]) -> Sorted<'c> {
        let descriptor = like.columns_copied();
        let (mut columns, mut less, mut collations) = (Vec::new(), Vec::new(), Vec::new());
        for by in order {
            let (place, operator, collation) = match by {
                By::Integer(place) => (place, LESS_BIGINT, pg_sys::InvalidOid),
                By::Text(place) => (place, LESS_TEXT, pg_sys::Oid::from(BYTES)),
            };
            columns.push(*place as pg_sys::AttrNumber + 1);
            less.push(pg_sys::Oid::from(operator));
            collations.push(collation);
        }
        let mut nulls_first = vec![false; order.len()];
        // SAFETY: the sort copies what it is ordered by; it and the slots lie in memory of the connection, its files
        // belong to the resource owner that is current now.
        unsafe {
            let state = pg_sys::tuplesort_begin_heap(
                descriptor,
                order.len() as i32,
                columns.as_mut_ptr(),
                less.as_mut_ptr(),
                collations.as_mut_ptr(),
                nulls_first.as_mut_ptr(),
                KILOBYTES,
                null_mut(),
                pg_sys::TUPLESORT_NONE as i32,
            );
            let put_in = pg_sys::MakeSingleTupleTableSlot(descriptor, &pg_sys::TTSOpsVirtual);
            let out = pg_sys::MakeSingleTupleTableSlot(descriptor, &pg_sys::TTSOpsMinimalTuple);
            Sorted { state, put_in, out, connection: PhantomData }
        }
    }

    /// Adds a row of the query, with another value in a column of type bigint.
    pub fn put(&mut self, row: &Row, column: usize, value: Option<i64>) {
        // SAFETY: the slot has the columns that the row has; the sort copies them.
        unsafe {
            let slot = self.put_in;
            pg_sys::ExecClearTuple(slot);
            row.fill((*slot).tts_values, (*slot).tts_isnull);
            *(*slot).tts_values.add(column) = Datum::from(value.unwrap_or_default());
            *(*slot).tts_isnull.add(column) = value.is_none();
            pg_sys::ExecStoreVirtualTuple(slot);
            step(|| tuplesort_puttupleslot(self.state, slot));
        }
    }

    /// Hands out the rows in order, in memory of their own.
    pub fn each(self, mut take: impl FnMut(&Row)) {
        // SAFETY: nothing is put in any more.
        unsafe { step(|| pg_sys::tuplesort_performsort(self.state)) };
        let mut more = true;
        while more {
            in_own_memory(|| {
                for _ in 0..BATCH {
                    // SAFETY: sort and slot are of one shape; a row is the sort's, good until the next one is
                    // asked for.
                    more = unsafe {
                        step(|| {
                            tuplesort_gettupleslot(self.state, true, false, self.out, null_mut())
                        })
                    };
                    if !more {
                        break;
                    }
                    take(&row_of(self.out));
                }
            });
        }
    }
}

impl Drop for Sorted<'_> {
    fn drop(&mut self) {
        if !unwinding() {
            // SAFETY: made once, ended once, before the connection whose memory they lie in.
            unsafe {
                pg_sys::ExecDropSingleTupleTableSlot(self.put_in);
                pg_sys::ExecDropSingleTupleTableSlot(self.out);
                pg_sys::tuplesort_end(self.state);
            }
        }
    }
}
