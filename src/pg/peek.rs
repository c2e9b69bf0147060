//! Reading when a claim was made and expires straight off its row's page, which is all that a duplicate comes down to
//! as a rule: without a scan, a slot and a snapshot made for them.
//!
//! The rule: an answer is of a row of exactly this key that is committed, or the transaction's own; whoever is replacing
//! or removing it has not committed. Everything else is no answer, and the caller searches as PostgreSQL does.

use super::btree::value;
use super::failure::step;
use super::lock::RowId;
use super::raw;
use super::relation::Relation;
use super::text::Text;
use pgrx::pg_sys;

/// When the claim was made and when it expires. For a leaf only that has its rows as made ([`super::layout::Layout`]).
pub fn window(leaf: &Relation, at: RowId, key: &Text, effect: &Text) -> Option<(i64, i64)> {
    let RowId(mut tid) = at;
    let block = u32::from(tid.ip_blkid.bi_hi) << 16 | u32::from(tid.ip_blkid.bi_lo);
    // SAFETY: the leaf is an open heap, whose blocks an index entry names; the row is read under the page's pin and
    // lock, both given back. A dirty snapshot is all zeroes but for its type (InitDirtySnapshot). Nothing in the step
    // has a destructor.
    unsafe {
        step(|| {
            let mut dirty: pg_sys::SnapshotData = std::mem::zeroed();
            dirty.snapshot_type = pg_sys::SnapshotType::SNAPSHOT_DIRTY;
            let mut row: pg_sys::HeapTupleData = std::mem::zeroed();
            let buffer = raw::ReadBuffer(leaf.raw(), block);
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let found = raw::heap_hot_search_buffer(
                &mut tid,
                leaf.raw(),
                buffer,
                &mut dirty,
                &mut row,
                std::ptr::null_mut(),
                true,
            );
            let none = pg_sys::InvalidTransactionId;
            let stands = found && dirty.xmin == none;
            let window = if stands { read(row.t_data, key, effect) } else { None };
            raw::UnlockReleaseBuffer(buffer);
            window
        })
    }
}

/// # Safety
/// A row of such a leaf, on a locked page: its first four columns are those of [`super::layout::Column`], in that order.
unsafe fn read(row: pg_sys::HeapTupleHeader, key: &Text, effect: &Text) -> Option<(i64, i64)> {
    const KEY: usize = 2 * size_of::<i64>();
    // SAFETY: the caller's promise, and the row has all four values; they begin where its header says, aligned for the
    // instants. The effect is looked at behind a key of the length that was asked for.
    unsafe {
        if !has_all_four(row) {
            return None;
        }
        let values = row.cast::<u8>().add((*row).t_hoff as usize);
        let (stored, size) = value(values.add(KEY))?;
        if stored != key.bytes() {
            return None;
        }
        let mut at = KEY + size;
        // A short value follows at once, a long one at the next multiple of four; padding is zero.
        if *values.add(at) == 0 {
            at = at.next_multiple_of(4);
        }
        let same = value(values.add(at))?.0 == effect.bytes();
        let instants = values.cast::<i64>();
        same.then(|| (*instants, *instants.add(1)))
    }
}

/// Whether a row has the values of our first four columns in itself: not one that is older than a column, whose value for
/// it the catalog has, nor a NULL that a constraint was made to overlook.
///
/// # Safety
/// A row on a locked page.
unsafe fn has_all_four(row: pg_sys::HeapTupleHeader) -> bool {
    const NONE_NULL: u8 = 0b1111;
    // SAFETY: the caller's promise; the bits of NULLs follow the fixed part of the header where a flag says so.
    unsafe {
        let count = u32::from((*row).t_infomask2) & pg_sys::HEAP_NATTS_MASK;
        let has_nulls = u32::from((*row).t_infomask) & pg_sys::HEAP_HASNULL != 0;
        let bits = row.cast::<u8>().add(std::mem::offset_of!(pg_sys::HeapTupleHeaderData, t_bits));
        count >= 4 && (!has_nulls || *bits & NONE_NULL == NONE_NULL)
    }
}
