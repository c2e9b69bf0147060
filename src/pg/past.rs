//! A state of the database within a transaction, kept so that it can be read when the transaction has gone on:
//! PostgreSQL keeps every row version that a registered snapshot sees.

use super::failure::step;
use super::statement::{Pile, Plan};
use super::unwinding;
use pgrx::pg_sys;
use std::ptr::null_mut;

/// The access method of ordinary tables (pg_am.dat).
const HEAP: u32 = 2;

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

/// The transaction id that is given next.
pub fn next_xid() -> u32 {
    // SAFETY: reads shared memory under its lock; the low half is the id.
    unsafe { step(|| pg_sys::ReadNextFullTransactionId()).value as u32 }
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

/// Which command of the transaction in progress wrote a row; keeps the table open that was asked for last.
pub struct Commands(pg_sys::Relation);

impl Commands {
    /// Nothing is open yet.
    pub fn new() -> Commands {
        Commands(null_mut())
    }

    fn open(&mut self, table: pg_sys::Oid) {
        // SAFETY: what is open is so until here; a lock is kept, as of any table that is read.
        unsafe {
            if self.0.is_null() || (*self.0).rd_id != table {
                self.close();
                let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
                self.0 = step(|| pg_sys::try_table_open(table, lock));
            }
        }
    }

    fn close(&mut self) {
        let rel = std::mem::replace(&mut self.0, null_mut());
        if !rel.is_null() {
            // SAFETY: opened here, closed once.
            unsafe { step(|| pg_sys::table_close(rel, pg_sys::NoLock as pg_sys::LOCKMODE)) };
        }
    }

    /// The command that wrote the row at a place of a heap; None where another transaction did, or it is not there.
    pub fn of(&mut self, table: pg_sys::Oid, place: Option<(u32, u16)>) -> Option<u32> {
        let (page, posid) = place?;
        self.open(table);
        let rel = self.0;
        // SAFETY: the table is open and its page pinned while the row's header is read. Commands are kept for rows
        // of the transaction in progress alone.
        unsafe {
            if !rel
                .as_ref()?
                .rd_rel
                .as_ref()
                .is_some_and(|class| class.relam == pg_sys::Oid::from(HEAP))
            {
                return None;
            }
            step(|| {
                let mut tuple: pg_sys::HeapTupleData = std::mem::zeroed();
                tuple.t_self.ip_blkid.bi_hi = (page >> 16) as u16;
                tuple.t_self.ip_blkid.bi_lo = page as u16;
                tuple.t_self.ip_posid = posid;
                let mut buffer = 0;
                let any = &raw mut pg_sys::SnapshotAnyData;
                let mut command = None;
                if pg_sys::heap_fetch(rel, any, &mut tuple, &mut buffer, false) {
                    let xmin = (*tuple.t_data).t_choice.t_heap.t_xmin;
                    if pg_sys::TransactionIdIsCurrentTransactionId(xmin) {
                        command = Some(pg_sys::HeapTupleHeaderGetCmin(tuple.t_data));
                    }
                    pg_sys::ReleaseBuffer(buffer);
                }
                command
            })
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        if !unwinding() {
            self.close();
        }
    }
}
