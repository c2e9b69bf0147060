//! The databases of the server, looked at from a process that is connected to none.

use pgrx::pg_sys;
use std::ffi::CStr;

/// A row of pg_database.
pub struct Database {
    /// Its number.
    pub oid: pg_sys::Oid,
    /// Its name, in whatever encoding it was given.
    pub name: Vec<u8>,
    /// Whether ordinary sessions may connect to it, and it is no template.
    pub is_open: bool,
}

/// Every database there is, as the newest committed state has it.
pub fn all() -> Vec<Database> {
    let mut found = Vec::new();
    in_transaction(|| {
        // SAFETY: in a transaction; the table is open while it is scanned; a row's fixed columns are read
        // before the next one is fetched, and its name is copied.
        unsafe {
            let mode = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
            let table = pg_sys::table_open(pg_sys::DatabaseRelationId, mode);
            let scan = pg_sys::table_beginscan_catalog(table, 0, std::ptr::null_mut());
            loop {
                let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
                if tuple.is_null() {
                    break;
                }
                let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
                found.push(Database {
                    oid: row.oid,
                    name: CStr::from_ptr(row.datname.data.as_ptr()).to_bytes().to_owned(),
                    // A limit of 0 lets nobody in; -1 is none; -2 marks what a DROP left half done.
                    is_open: row.datallowconn
                        && !row.datistemplate
                        && (row.datconnlimit > 0 || row.datconnlimit == -1),
                });
            }
            pg_sys::table_endscan(scan);
            pg_sys::table_close(table, mode);
        }
    });
    found
}

/// Whether somebody is dropping, renaming, moving or copying the database, which every session in it
/// holds up.
pub fn is_wanted_alone(database: pg_sys::Oid) -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        locktag_field3: database.to_u32(),
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    in_transaction(|| {
        // SAFETY: the tag is a plain value that LockAcquire copies. It is the lock that a session takes
        // while it connects, which those who want the database alone keep out; the transaction's end
        // releases it.
        unsafe {
            let mode = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
            pg_sys::LockAcquire(&tag, mode, false, true)
                == pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
        }
    })
}

/// Does a piece of work in a transaction of its own, for which no database is needed. An error in it
/// ends the process.
fn in_transaction<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the process is in no transaction, and shared catalogs can be read without a database.
    unsafe {
        pg_sys::StartTransactionCommand();
        let result = work();
        pg_sys::CommitTransactionCommand();
        result
    }
}
