//! Waiting until whoever changed the indexes of a table last has told every session.
//!
//! A transaction is seen to be committed a moment before it says what it changed, and it says it in pieces. Within
//! that moment the indexes of a table, read from the catalog, and an index as this session remembers it may not
//! belong together: after REINDEX CONCURRENTLY the new primary key is remembered as one that is not valid yet.

use super::raw;
use super::relation::Relation;
use pgrx::pg_sys;

/// Waits for the transactions that wrote the catalog's rows of a table's indexes, and takes in what they told. They
/// have committed and wait for nobody, so that this is short; as a rule they ended long ago.
pub(super) fn settle(table: &Relation) {
    for xid in writers(table) {
        // SAFETY: any transaction id may be waited for but the caller's own, which `writers` leaves out.
        unsafe {
            let no_row = std::ptr::null_mut();
            pg_sys::XactLockTableWait(
                xid,
                std::ptr::null_mut(),
                no_row,
                pg_sys::XLTW_Oper::XLTW_None,
            );
        }
    }
    // SAFETY: allowed wherever a lock may be taken inside a transaction.
    unsafe { raw::AcceptInvalidationMessages() }
}

/// The transactions that wrote the rows of the table's indexes in pg_index as they are committed now.
fn writers(table: &Relation) -> Vec<pg_sys::TransactionId> {
    let mut writers = Vec::new();
    // SAFETY: the scan is by the catalog's index on the table's oid, whose key lives as long as it; a row's header is
    // read before the next one is fetched; snapshot, scan and catalog are given back in reverse order.
    unsafe {
        let catalog = pg_sys::table_open(
            pg_sys::IndexRelationId,
            pg_sys::AccessShareLock as pg_sys::LOCKMODE,
        );
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_index_indrelid as pg_sys::AttrNumber,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::Oid::from(pg_sys::F_OIDEQ).to_u32().into(),
            pg_sys::Datum::from(table.oid()),
        );
        let index = pg_sys::Oid::from(pg_sys::IndexIndrelidIndexId);
        let scan = pg_sys::systable_beginscan(catalog, index, true, snapshot, 1, &mut key);
        loop {
            let row = pg_sys::systable_getnext(scan);
            if row.is_null() {
                break;
            }
            let writer = (*(*row).t_data).t_choice.t_heap.t_xmin;
            let normal = writer >= pg_sys::FirstNormalTransactionId;
            if normal && !pg_sys::TransactionIdIsCurrentTransactionId(writer) {
                writers.push(writer);
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::UnregisterSnapshot(snapshot);
        pg_sys::table_close(catalog, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
    }
    writers
}
