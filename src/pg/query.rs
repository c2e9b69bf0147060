//! A query whose rows are read as they are stored: exact bytes and instants, whatever the database's
//! encoding, with errors kept whole.

use super::failure::step;
use super::privilege::set_for_now;
use super::text::Text;
use super::{raw, unwinding};
use pgrx::pg_sys;
use std::ffi::CStr;

/// One row of a result.
pub struct Row {
    tuple: pg_sys::HeapTuple,
    descriptor: pg_sys::TupleDesc,
}

impl Row {
    pub(super) fn of(tuple: pg_sys::HeapTuple, descriptor: pg_sys::TupleDesc) -> Row {
        Row { tuple, descriptor }
    }

    fn value(&self, column: i32) -> Option<pg_sys::Datum> {
        let mut is_null = true;
        // SAFETY: tuple and descriptor are those of a result that lives while `read` hands out rows.
        let datum =
            unsafe { pg_sys::SPI_getbinval(self.tuple, self.descriptor, column, &mut is_null) };
        (!is_null).then_some(datum)
    }

    /// A column of type text, counted from 1.
    pub fn bytes(&self, column: i32) -> Option<&[u8]> {
        // SAFETY: the caller names a column of type text; what is unpacked lies in the memory of the
        // result, which outlives the row.
        self.value(column).map(|datum| unsafe {
            let value = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            pgrx::varlena::varlena_to_byte_slice(value)
        })
    }

    /// A column of type timestamptz, as microseconds since 2000-01-01 UTC.
    pub fn instant(&self, column: i32) -> Option<i64> {
        self.value(column).map(|datum| datum.value() as i64)
    }

    /// A column of type bigint.
    pub fn integer(&self, column: i32) -> Option<i64> {
        self.value(column).map(|datum| datum.value() as i64)
    }

    /// A column of type integer.
    pub fn small(&self, column: i32) -> Option<i32> {
        self.value(column).map(|datum| datum.value() as i32)
    }
}

/// Planner settings of a session that could make each query for a range of blocks read the whole table.
const BY_BLOCK: [(&CStr, &CStr); 2] = [(c"enable_tidscan", c"on"), (c"enable_seqscan", c"off")];

/// Runs one query about a range of blocks as the current user, with `$1` a text, and hands each row of its
/// result to `each`. The result is in memory until the last row was handed out.
pub fn read_blocks(query: &CStr, argument: Option<&[u8]>, mut each: impl FnMut(&Row)) {
    let argument = argument.map(Text::new);
    let mut kinds = [pg_sys::TEXTOID];
    let mut values = [argument.as_ref().map_or(pg_sys::Datum::from(0usize), Text::datum)];
    let nulls = [if argument.is_some() { b' ' } else { b'n' } as std::ffi::c_char];
    // SAFETY: the strings and arrays outlive the call; the connection is closed below, or by the abort of
    // the transaction after an error. The nest level is closed likewise.
    let (nest, status) = unsafe {
        let nest = pg_sys::NewGUCNestLevel();
        for (name, value) in BY_BLOCK {
            set_for_now(name, value);
        }
        let status = step(|| {
            raw::SPI_connect();
            raw::SPI_execute_with_args(
                query.as_ptr(),
                1,
                kinds.as_mut_ptr(),
                values.as_mut_ptr(),
                nulls.as_ptr(),
                false,
                0,
            )
        });
        (nest, status)
    };
    if status == pg_sys::SPI_OK_SELECT as i32 {
        // SAFETY: a SELECT has left its result there; it stays until the connection is closed.
        let (table, count) = unsafe { (&*pg_sys::SPI_tuptable, pg_sys::SPI_processed as usize) };
        for place in 0..count {
            // SAFETY: the result has that many rows.
            let tuple = unsafe { *table.vals.add(place) };
            each(&Row { tuple, descriptor: table.tupdesc });
        }
    }
    // SAFETY: closes what was opened above, in reverse order.
    unsafe {
        step(|| raw::SPI_finish());
        pg_sys::AtEOXact_GUC(false, nest);
    }
}

/// The type of a table's column, beneath any domain; None where the table has no such column.
pub fn column_type(table: pg_sys::Oid, name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: syscache lookups. Numbers of system columns are negative.
    unsafe {
        let number = pg_sys::get_attnum(table, name.as_ptr());
        (number > 0).then(|| pg_sys::getBaseType(pg_sys::get_atttype(table, number)))
    }
}

/// The name of a table with its schema, quoted for statements; None for one that is gone.
pub fn qualified(table: pg_sys::Oid) -> Option<Vec<u8>> {
    // SAFETY: both answer null, or a string in the caller's memory context, which outlives this call.
    let (schema, name) = unsafe {
        let schema = pg_sys::get_namespace_name(pg_sys::get_rel_namespace(table));
        let name = pg_sys::get_rel_name(table);
        if schema.is_null() || name.is_null() {
            return None;
        }
        (CStr::from_ptr(schema), CStr::from_ptr(name))
    };
    Some([&quoted(schema.to_bytes())[..], b".", &quoted(name.to_bytes())].concat())
}

/// A name as a quoted identifier. In every server encoding a byte that is a quotation mark is one.
pub fn quoted(name: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for &byte in name {
        quoted.push(byte);
        if byte == b'"' {
            quoted.push(byte);
        }
    }
    quoted.push(b'"');
    quoted
}

/// What every error says, as its context, while this lives, and on its way to the client.
pub struct Position(*mut Said);

const ROOM: usize = 400;

#[repr(C)]
struct Said {
    callback: pg_sys::ErrorContextCallback,
    text: [std::ffi::c_char; ROOM],
}

impl Position {
    /// Starts saying `text`, cut to what there is room for.
    pub fn new(text: &[u8]) -> Position {
        // SAFETY: the memory is the call's, which outlives both this handle and an error that is on its
        // way when the handle is not dropped in order: whoever catches an error takes the stack back.
        unsafe {
            let said = pg_sys::palloc0(size_of::<Said>()).cast::<Said>();
            (*said).callback = pg_sys::ErrorContextCallback {
                previous: pg_sys::error_context_stack,
                callback: Some(say),
                arg: said.cast(),
            };
            let end = text.len().min(ROOM - 1);
            let start = (&raw mut (*said).text).cast::<u8>();
            std::ptr::copy_nonoverlapping(text.as_ptr(), start, end);
            start.add(end).write(0);
            pg_sys::error_context_stack = &raw mut (*said).callback;
            Position(said)
        }
    }

    /// For an error that is about to be made, when this handle is gone.
    pub fn stay(self) {
        std::mem::forget(self);
    }
}

impl Drop for Position {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: it is the top of the stack: what was pushed later has been taken back.
        unsafe {
            pg_sys::error_context_stack = (*self.0).callback.previous;
            pg_sys::pfree(self.0.cast());
        }
    }
}

unsafe extern "C-unwind" fn say(said: *mut std::ffi::c_void) {
    // SAFETY: called while an error is made, with the pointer given in `new`; the text ends in a zero.
    unsafe { raw::say_context(&raw const (*said.cast::<Said>()).text) }
}
