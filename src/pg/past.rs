//! A state of the database within a transaction, kept so that it can be read when the transaction has gone on:
//! PostgreSQL keeps every row version that a registered snapshot sees.

use super::failure::step;
use super::statement::{Pile, Plan};
use super::unwinding;
use pgrx::pg_sys;

/// What is visible at one point of the transaction.
pub struct Past(pg_sys::Snapshot);

impl Past {
    /// What the next statement would see.
    pub fn now() -> Past {
        // SAFETY: the snapshot is copied, because under REPEATABLE READ the transaction has one whose
        // command moves on with it; the copy is registered with the current resource owner.
        unsafe {
            step(|| {
                pg_sys::CommandCounterIncrement();
                pg_sys::PushCopiedSnapshot(pg_sys::GetTransactionSnapshot());
                pg_sys::UpdateActiveSnapshotCommandId();
                let kept = pg_sys::RegisterSnapshot(pg_sys::GetActiveSnapshot());
                pg_sys::PopActiveSnapshot();
                Past(kept)
            })
        }
    }

    /// Runs a query as of then, and keeps its rows.
    pub fn collect<'c>(&self, plan: &Plan<'c>) -> Pile<'c> {
        plan.collect(self.0)
    }
}

impl Drop for Past {
    fn drop(&mut self) {
        if !unwinding() {
            // SAFETY: registered once with the resource owner that is current again, unregistered once.
            unsafe { pg_sys::UnregisterSnapshot(self.0) };
        }
    }
}

/// The transaction id of the current subtransaction, given now if it had none.
pub fn own_xid() -> u32 {
    // SAFETY: inside a transaction that may write.
    unsafe { step(|| pg_sys::GetCurrentTransactionId()).into_inner() }
}

/// Whether a transaction id is that of the transaction in progress, or of a part of it.
pub fn is_own(xid: u32) -> bool {
    // SAFETY: looks at the session's own transaction.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(pg_sys::TransactionId::from(xid)) }
}

/// The number of the transaction's next command.
pub fn command() -> u32 {
    // SAFETY: reads the state of the session's transaction.
    unsafe { pg_sys::GetCurrentCommandId(false) }
}
