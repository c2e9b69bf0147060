//! Snapshots: which row versions a search sees.

use super::failure::step;
use pgrx::pg_sys;

/// How a search looks at rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Also what transactions in flight have written, so that their rows can be waited for.
    Dirty,
    /// What the calling statement sees.
    Statement,
}

/// A snapshot at an address that does not move, because scans keep a pointer to it.
pub(super) struct SearchSnapshot {
    /// Owned; a raw pointer because PostgreSQL writes through a copy of it.
    dirty: *mut pg_sys::SnapshotData,
    view: View,
}

impl SearchSnapshot {
    pub(super) fn new(view: View) -> SearchSnapshot {
        // SAFETY: a dirty snapshot is all zeroes but for its type (InitDirtySnapshot); the other
        // fields are written by HeapTupleSatisfiesDirty before they are read.
        let mut dirty: Box<pg_sys::SnapshotData> = Box::new(unsafe { std::mem::zeroed() });
        dirty.snapshot_type = pg_sys::SnapshotType::SNAPSHOT_DIRTY;
        SearchSnapshot { dirty: Box::into_raw(dirty), view }
    }

    pub(super) fn raw(&self) -> pg_sys::Snapshot {
        match self.view {
            View::Dirty => self.dirty,
            // SAFETY: a SQL function always runs under an active snapshot.
            View::Statement => unsafe { pg_sys::GetActiveSnapshot() },
        }
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.view == View::Dirty
    }

    /// The transaction in flight that wrote the row version found last.
    pub(super) fn written_by(&self) -> Option<pg_sys::TransactionId> {
        // SAFETY: the snapshot is this value's own.
        let xmin = unsafe { (*self.dirty).xmin };
        (xmin != pg_sys::InvalidTransactionId).then_some(xmin)
    }

    /// The transaction in flight that is replacing or removing the row version found last, which is committed then.
    pub(super) fn changed_by(&self) -> Option<pg_sys::TransactionId> {
        // SAFETY: the snapshot is this value's own.
        let xmax = unsafe { (*self.dirty).xmax };
        (xmax != pg_sys::InvalidTransactionId).then_some(xmax)
    }
}

impl Drop for SearchSnapshot {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw in `new`, freed once; the scan that used it has ended, or is
        // never run again because its transaction aborts.
        drop(unsafe { Box::from_raw(self.dirty) });
    }
}

/// True under REPEATABLE READ and SERIALIZABLE: one snapshot for the whole transaction.
pub fn is_pinned() -> bool {
    // SAFETY: reads a setting of the transaction in progress.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// While it lives, "what the calling statement sees" is what has committed until it was made, and what this
/// transaction did; in a transaction of one snapshot still that one.
pub struct Fresh(());

impl Fresh {
    /// Takes the snapshot.
    pub fn take() -> Fresh {
        // SAFETY: inside a transaction; popped when the handle is dropped, or by the abort of the (sub)transaction.
        unsafe {
            step(|| {
                pg_sys::CommandCounterIncrement();
                pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            });
        }
        Fresh(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if super::unwinding() {
            return;
        }
        // SAFETY: pushed once, popped once, in reverse order.
        unsafe { pg_sys::PopActiveSnapshot() };
    }
}
