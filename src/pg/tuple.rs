//! Writing claims straight to a plain leaf: one heap row, one index entry.

use super::index::{PrimaryKey, Search};
use super::layout::COLUMNS;
use super::lock::RowId;
use super::relation::Relation;
use super::text::Text;
use pgrx::pg_sys;

/// What a claim writes.
pub struct NewRow<'a> {
    /// When the claim is made.
    pub claimed_at: i64,
    /// When it expires.
    pub expires_at: i64,
    /// The key.
    pub key: &'a Text,
    /// The effect.
    pub effect: &'a Text,
}

impl NewRow<'_> {
    /// Values and nulls in the order of [`super::layout::Column`].
    pub(super) fn values(&self) -> ([pg_sys::Datum; COLUMNS], [bool; COLUMNS]) {
        let null = pg_sys::Datum::from(0usize);
        let values = [
            pg_sys::Datum::from(self.claimed_at),
            pg_sys::Datum::from(self.expires_at),
            self.key.datum(),
            self.effect.datum(),
            null,
            null,
        ];
        (values, [false, false, false, false, true, true])
    }
}

/// What became of a replacement.
pub enum Replaced {
    /// The new row version stands.
    Done,
    /// Another transaction has locked or is changing the row: wait for it, then look again.
    Busy,
    /// The row is not what was found any more: look again.
    Changed,
}

/// A row version in memory of its own.
struct Formed(pg_sys::HeapTuple);

impl Formed {
    fn new(leaf: &Relation, row: &NewRow) -> Formed {
        let (mut values, mut nulls) = row.values();
        // SAFETY: a plain leaf has exactly these columns in this order; the values are copied.
        Formed(unsafe {
            pg_sys::heap_form_tuple((*leaf.raw()).rd_att, values.as_mut_ptr(), nulls.as_mut_ptr())
        })
    }

    fn add_to_index(&self, leaf: &Relation, index: &PrimaryKey, row: &NewRow, unchanged: bool) {
        let mut values = [row.key.datum(), row.effect.datum()];
        let mut nulls = [false; 2];
        // SAFETY: both relations are open for writing; the row version has its place in the heap.
        // A btree needs no IndexInfo, and the uniqueness check either passes or raises 23505.
        unsafe {
            pg_sys::index_insert(
                index.raw(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
                &mut (*self.0).t_self,
                leaf.raw(),
                pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES,
                unchanged,
                std::ptr::null_mut(),
            );
        }
    }
}

impl Drop for Formed {
    fn drop(&mut self) {
        if super::unwinding() {
            return;
        }
        // SAFETY: made by heap_form_tuple and freed once.
        unsafe { pg_sys::heap_freetuple(self.0) }
    }
}

/// Writes a new row to a plain leaf. The primary key is the second line of defence: a row written
/// past the claim protocol raises 23505 here.
pub fn insert(leaf: &Relation, index: &PrimaryKey, row: &NewRow) {
    let formed = Formed::new(leaf, row);
    // SAFETY: the leaf is a heap open for writing; GetCurrentCommandId marks the command as used.
    unsafe {
        let command = pg_sys::GetCurrentCommandId(true);
        pg_sys::heap_insert(leaf.raw(), formed.0, command, 0, std::ptr::null_mut());
    }
    formed.add_to_index(leaf, index, row, false);
}

/// Replaces the row a search of this leaf found by a new claim of the same key: in place where the
/// page has room (a HOT update, which leaves the index alone).
pub fn replace(leaf: &Relation, index: &PrimaryKey, old: RowId, row: &NewRow) -> Replaced {
    let formed = Formed::new(leaf, row);
    let mut old = old.0;
    // SAFETY: as in `insert`; the outputs are plain values. With wait = false nobody is waited for
    // while the key lock is held.
    let result = unsafe {
        let mut failure: pg_sys::TM_FailureData = std::mem::zeroed();
        let mut mode: pg_sys::LockTupleMode::Type = 0;
        let command = pg_sys::GetCurrentCommandId(true);
        #[cfg(not(feature = "pg15"))]
        let mut indexes: pg_sys::TU_UpdateIndexes::Type = 0;
        pg_sys::heap_update(
            leaf.raw(),
            &mut old,
            formed.0,
            command,
            std::ptr::null_mut(),
            false,
            &mut failure,
            &mut mode,
            #[cfg(not(feature = "pg15"))]
            &mut indexes,
        )
    };
    match result {
        pg_sys::TM_Result::TM_Ok => {
            // SAFETY: heap_update set the header flags of the new row version.
            let in_place = unsafe {
                u32::from((*(*formed.0).t_data).t_infomask2) & pg_sys::HEAP_ONLY_TUPLE != 0
            };
            if !in_place {
                formed.add_to_index(leaf, index, row, true);
            }
            Replaced::Done
        }
        pg_sys::TM_Result::TM_BeingModified | pg_sys::TM_Result::TM_WouldBlock => Replaced::Busy,
        _ => Replaced::Changed,
    }
}

/// Waits until nobody else holds the row the search found, by locking it. The lock is the row's own
/// and lasts to the end of the transaction, as a SELECT FOR NO KEY UPDATE's would. Whatever became
/// of the row meanwhile is for the next look to find out.
pub fn wait_for_row(leaf: &Relation, search: &Search) {
    lock_row(leaf, search, pg_sys::LockWaitPolicy::LockWaitBlock);
}

/// Whether the row could be locked without waiting.
pub(super) fn try_lock_row(leaf: &Relation, search: &Search) -> Replaced {
    match lock_row(leaf, search, pg_sys::LockWaitPolicy::LockWaitSkip) {
        pg_sys::TM_Result::TM_Ok => Replaced::Done,
        pg_sys::TM_Result::TM_WouldBlock | pg_sys::TM_Result::TM_BeingModified => Replaced::Busy,
        _ => Replaced::Changed,
    }
}

fn lock_row(
    leaf: &Relation,
    search: &Search,
    policy: pg_sys::LockWaitPolicy::Type,
) -> pg_sys::TM_Result::Type {
    // SAFETY: the leaf is open for writing; the slot is a copy of our own, dropped below; a SQL
    // function runs under an active snapshot.
    unsafe {
        let slot = pg_sys::table_slot_create(leaf.raw(), std::ptr::null_mut());
        let mut failure: pg_sys::TM_FailureData = std::mem::zeroed();
        let mut tid = (*search.slot()).tts_tid;
        let result = pg_sys::table_tuple_lock(
            leaf.raw(),
            &mut tid,
            pg_sys::GetActiveSnapshot(),
            slot,
            pg_sys::GetCurrentCommandId(false),
            pg_sys::LockTupleMode::LockTupleNoKeyExclusive,
            policy,
            0,
            &mut failure,
        );
        pg_sys::ExecDropSingleTupleTableSlot(slot);
        result
    }
}
