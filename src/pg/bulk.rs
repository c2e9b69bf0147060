//! Writing many claims of one call to a plain leaf: their heap rows together, one WAL record a page
//! instead of one a row, then their index entries in the order they come in.
//!
//! PostgreSQL's own COPY does the same. Memory for it is this handle's, and empty again after every
//! call of [`insert`].

use super::failure::step;
use super::index::PrimaryKey;
use super::relation::Relation;
use super::tuple::{NewRow, add_to_index};
use super::{raw, unwinding};
use pgrx::pg_sys;
use std::cell::OnceCell;

/// How many rows are written together at most. About a page full; more would save nothing worth having
/// and hold as many more locks on keys.
pub const ROOM: usize = 64;

/// Where the rows of one call go: remembers the last page, so that many rows fill it without looking for
/// room each time. Belongs to one leaf and is dropped before it.
pub struct Bulk {
    state: pg_sys::BulkInsertState,
    rows: OnceCell<Rows>,
}

/// What rows are formed in.
struct Rows {
    context: pg_sys::MemoryContext,
    slots: [*mut pg_sys::TupleTableSlot; ROOM],
}

impl Bulk {
    /// For a call that will insert many rows.
    pub fn new() -> Bulk {
        // SAFETY: allocated in the call's memory context.
        let state = unsafe { pg_sys::GetBulkInsertState() };
        Bulk { state, rows: OnceCell::new() }
    }

    pub(super) fn state(&self) -> pg_sys::BulkInsertState {
        self.state
    }
}

impl Rows {
    fn new(leaf: &Relation) -> Rows {
        // SAFETY: the leaf is open, and its descriptor stays with the slots until they are dropped, before
        // the leaf is closed; context and slots are this handle's own.
        unsafe {
            let context = pg_sys::AllocSetContextCreateInternal(
                pg_sys::CurrentMemoryContext,
                c"pg_once rows".as_ptr(),
                pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            );
            let kind = &raw const pg_sys::TTSOpsHeapTuple;
            let descriptor = (*leaf.raw()).rd_att;
            let slots = std::array::from_fn(|_| pg_sys::MakeSingleTupleTableSlot(descriptor, kind));
            Rows { context, slots }
        }
    }
}

/// Writes new rows, [`ROOM`] of them at most. The primary key is the second line of defence: a row written
/// past the claim protocol raises 23505 here.
pub fn insert(leaf: &Relation, index: &PrimaryKey, rows: &[NewRow], bulk: &Bulk) {
    let Rows { context, slots } = bulk.rows.get_or_init(|| Rows::new(leaf));
    let mut slots = *slots;
    let count = rows.len().min(ROOM);
    // SAFETY: a plain leaf is a heap with exactly these columns in this order, open for writing. Each slot
    // owns the row formed for it until it is cleared, and all of them are before their memory is
    // emptied. After an error nobody looks at the slots again but their end, which frees what they own.
    unsafe {
        step(|| {
            let outer = pg_sys::MemoryContextSwitchTo(*context);
            for (row, slot) in rows.iter().zip(slots) {
                let (values, nulls) = row.values();
                let formed =
                    raw::heap_form_tuple((*leaf.raw()).rd_att, values.as_ptr(), nulls.as_ptr());
                raw::ExecStoreHeapTuple(formed, slot, true);
            }
            let command = raw::GetCurrentCommandId(true);
            let (first, many) = (slots.as_mut_ptr(), count as std::ffi::c_int);
            raw::heap_multi_insert(leaf.raw(), first, many, command, 0, bulk.state);
            for (row, slot) in rows.iter().zip(slots) {
                add_to_index(leaf, index, row.id(), &mut (*slot).tts_tid, false);
            }
            for slot in &slots[..count] {
                raw::clear(*slot);
            }
            pg_sys::MemoryContextSwitchTo(outer);
            raw::MemoryContextReset(*context);
        });
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: each was made by this handle and is given back once, the state with the pin it may hold.
        unsafe {
            step(|| {
                if let Some(Rows { context, slots }) = self.rows.get() {
                    for slot in slots {
                        raw::ExecDropSingleTupleTableSlot(*slot);
                    }
                    raw::MemoryContextDelete(*context);
                }
                raw::FreeBulkInsertState(self.state);
            });
        }
    }
}
