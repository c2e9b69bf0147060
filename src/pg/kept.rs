//! A fixed statement that a session prepares once and keeps, for what is called for each message. Errors are kept
//! whole.
//!
//! It runs with a snapshot of its own, which shows what has committed until now (in a transaction of one snapshot,
//! that one), and not with that of the calling statement, which may have waited since.

use super::failure::step;
use super::query::Row;
use super::raw;
use super::rows::Value;
use super::text::Text;
use pgrx::pg_sys::{self, Datum, Oid};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

unsafe extern "C-unwind" {
    // executor/spi.h, here without pgrx's guard: a step around them is one.
    fn SPI_prepare(sql: *const c_char, count: c_int, kinds: *mut Oid) -> pg_sys::SPIPlanPtr;
    fn SPI_keepplan(plan: pg_sys::SPIPlanPtr) -> c_int;
    fn SPI_execute_plan(
        plan: pg_sys::SPIPlanPtr,
        values: *mut Datum,
        nulls: *const c_char,
        read_only: bool,
        limit: std::ffi::c_long,
    ) -> c_int;
}

/// A statement with `N` parameters. To be run under [`Acting`](super::privilege::Acting) always, so that its names
/// are never looked up through a caller's search_path.
pub struct Kept<const N: usize> {
    text: &'static CStr,
    kinds: [Oid; N],
    plan: Cell<pg_sys::SPIPlanPtr>,
}

impl<const N: usize> Kept<N> {
    /// The statement with the types of its parameters. Nothing is prepared yet.
    pub const fn new(text: &'static CStr, kinds: [Oid; N]) -> Kept<N> {
        Kept { text, kinds, plan: Cell::new(std::ptr::null_mut()) }
    }

    /// Runs it, and reads the first row that it gives; None where it gives none. The arguments fit the types.
    pub fn run<T>(&self, arguments: [Value<'_>; N], read: impl FnOnce(&Row) -> T) -> Option<T> {
        execute(self, arguments, read)
    }
}

fn execute<const N: usize, T>(
    kept: &Kept<N>,
    arguments: [Value<'_>; N],
    read: impl FnOnce(&Row) -> T,
) -> Option<T> {
    let mut scratch: [Text; N] = std::array::from_fn(|_| Text::new(b""));
    let mut values = [Datum::from(0usize); N];
    let mut nulls = [b' ' as c_char; N];
    for (place, (argument, scratch)) in arguments.iter().zip(&mut scratch).enumerate() {
        // SAFETY: the caller's promise: the argument is of the type that the statement is prepared for.
        match unsafe { argument.datum(kept.kinds[place], scratch) } {
            Some(datum) => values[place] = datum,
            None => nulls[place] = b'n' as c_char,
        }
    }
    let mut kinds = kept.kinds;
    // SAFETY: texts, types and values outlive the calls. The connection is closed below, or by the abort of the
    // transaction after an error; a plan that is kept outlives it, and lasts as long as the session.
    let status = unsafe {
        step(|| {
            raw::SPI_connect();
            let mut plan = kept.plan.get();
            if plan.is_null() {
                plan = SPI_prepare(kept.text.as_ptr(), N as c_int, kinds.as_mut_ptr());
                if !plan.is_null() && SPI_keepplan(plan) == 0 {
                    kept.plan.set(plan);
                }
            }
            SPI_execute_plan(plan, values.as_mut_ptr(), nulls.as_ptr(), false, 0)
        })
    };
    if status < 0 {
        pgrx::error!("a statement was refused: SPI says {status}");
    }
    // SAFETY: the result stays until the connection is closed; a statement that gives none leaves no table.
    let row = unsafe {
        let table = pg_sys::SPI_tuptable;
        (!table.is_null() && pg_sys::SPI_processed > 0)
            .then(|| Row::of(*(*table).vals, (*table).tupdesc))
    };
    let read = row.map(|row| read(&row));
    // SAFETY: closes what was opened above.
    unsafe { step(|| raw::SPI_finish()) };
    read
}
