//! Reading the keys of a whole leaf, past privileges and row-level security.

use super::layout;
use super::relation::Relation;
use pgrx::pg_sys;

/// How many rows are read between two looks for a cancel.
const ROUND: u64 = 1_000;

/// Calls `each` with key, effect and expiry of every committed row of an open leaf. False where it has no such columns,
/// or no rows of its own.
pub fn for_each_key(leaf: &Relation, mut each: impl FnMut(&[u8], &[u8], i64)) -> bool {
    let columns = layout::key_columns(leaf).filter(|_| leaf.is_ordinary());
    let Some([key, effect, expiry]) = columns else { return false };
    // SAFETY: the leaf is open; snapshot and scan are given back in reverse order; a row's values point into
    // it, or to copies of them that are freed, and `each` cannot keep them.
    unsafe {
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        let scan = pg_sys::systable_beginscan(
            leaf.raw(),
            pg_sys::InvalidOid,
            false,
            snapshot,
            0,
            std::ptr::null_mut(),
        );
        let descriptor = (*leaf.raw()).rd_att;
        let count = (*descriptor).natts as usize;
        let mut values = vec![pg_sys::Datum::from(0usize); count];
        let mut nulls = vec![true; count];
        let mut rows = 0;
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            rows += 1;
            if rows % ROUND == 0 {
                pgrx::check_for_interrupts!();
            }
            pg_sys::heap_deform_tuple(tuple, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
            let [key, effect, expiry] = [key, effect, expiry].map(|n| values[n as usize - 1]);
            let (key, effect) = (Packed::new(key), Packed::new(effect));
            each(key.bytes(), effect.bytes(), expiry.value() as i64);
        }
        pg_sys::systable_endscan(scan);
        pg_sys::UnregisterSnapshot(snapshot);
    }
    true
}

/// A text value, decompressed where it was stored compressed.
pub(super) struct Packed {
    stored: *mut pg_sys::varlena,
    plain: *mut pg_sys::varlena,
}

impl Packed {
    /// # Safety
    /// A text value that lives as long as this.
    pub(super) unsafe fn new(value: pg_sys::Datum) -> Packed {
        // SAFETY: the caller's promise. A value that is stored as it is comes back as itself.
        unsafe {
            let stored = value.cast_mut_ptr::<pg_sys::varlena>();
            Packed { stored, plain: pg_sys::pg_detoast_datum_packed(stored) }
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the value is whole and lives as long as this.
        unsafe { pgrx::varlena::varlena_to_byte_slice(self.plain) }
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        if self.plain != self.stored && !super::unwinding() {
            // SAFETY: a copy that was made for this value.
            unsafe { pg_sys::pfree(self.plain.cast()) }
        }
    }
}
