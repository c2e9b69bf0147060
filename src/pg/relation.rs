//! Opened tables. A leaf may vanish between a cached list and its lock: opening answers that as a
//! value, never as an error.

use super::failure::step;
use super::pages::File;
use super::{raw, unwinding};
use pgrx::pg_sys;

/// What an opened table may be used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// AccessShareLock, given back when the handle is dropped.
    Read,
    /// RowExclusiveLock, kept to the end of the transaction, as every writer keeps it.
    Write,
}

impl Access {
    pub(super) fn mode(self) -> pg_sys::LOCKMODE {
        match self {
            Access::Read => pg_sys::AccessShareLock as pg_sys::LOCKMODE,
            Access::Write => pg_sys::RowExclusiveLock as pg_sys::LOCKMODE,
        }
    }

    pub(super) fn closing_mode(self) -> pg_sys::LOCKMODE {
        match self {
            Access::Read => self.mode(),
            Access::Write => pg_sys::NoLock as pg_sys::LOCKMODE,
        }
    }
}

/// The answer to opening without waiting.
pub enum Opened<T> {
    /// Here it is.
    Open(T),
    /// Somebody holds or awaits a conflicting lock.
    Busy,
    /// It does not exist any more.
    Gone,
}

/// An open table and the lock it was opened with.
pub struct Relation {
    rel: pg_sys::Relation,
    access: Access,
}

impl Relation {
    /// Opens a table, waiting for its lock. None when it is gone.
    pub fn open(relid: pg_sys::Oid, access: Access) -> Option<Relation> {
        // SAFETY: try_table_open takes any oid and answers NULL for a relation that is gone.
        let rel = unsafe { step(|| raw::try_table_open(relid, access.mode())) };
        // Made only where there is a relation to be closed again.
        if rel.is_null() { None } else { Some(Relation { rel, access }) }
    }

    /// Opens a table only if its lock can be had at once.
    pub fn try_open(relid: pg_sys::Oid, access: Access) -> Opened<Relation> {
        // SAFETY: as in `open`; the lock is released again where there is no relation.
        unsafe {
            if !pg_sys::ConditionalLockRelationOid(relid, access.mode()) {
                return Opened::Busy;
            }
            let rel = pg_sys::try_table_open(relid, pg_sys::NoLock as pg_sys::LOCKMODE);
            if rel.is_null() {
                pg_sys::UnlockRelationOid(relid, access.mode());
                return Opened::Gone;
            }
            Opened::Open(Relation { rel, access })
        }
    }

    /// The open relation, good while the handle lives.
    pub(super) fn raw(&self) -> pg_sys::Relation {
        self.rel
    }

    /// What it was opened for.
    pub(super) fn access(&self) -> Access {
        self.access
    }

    /// Whether it is an ordinary table, which alone can be a leaf: a partitioned or foreign table has no
    /// rows of its own to look at.
    pub fn is_ordinary(&self) -> bool {
        // SAFETY: the relation is open.
        unsafe { (*(*self.rel).rd_rel).relkind == pg_sys::RELKIND_RELATION as std::ffi::c_char }
    }

    /// Whether it was opened to be written to.
    pub fn is_for_writing(&self) -> bool {
        self.access == Access::Write
    }

    /// The table's oid.
    pub fn oid(&self) -> pg_sys::Oid {
        // SAFETY: the relation is open.
        unsafe { (*self.rel).rd_id }
    }

    /// True while not a single row version was ever stored in the table's file. Asked of ordinary
    /// tables only: any other would count as empty.
    pub fn is_empty(&self) -> bool {
        // SAFETY: the relation is open; one without storage answers 0.
        unsafe {
            pg_sys::RelationGetNumberOfBlocksInFork(self.rel, pg_sys::ForkNumber::MAIN_FORKNUM) == 0
        }
    }

    /// True where VACUUM does not give empty pages at the end back, so that a table that was
    /// written to once does not become empty again under the same name.
    pub fn keeps_its_pages(&self) -> bool {
        // SAFETY: the relation is open; an ordinary table's options are StdRdOptions.
        unsafe {
            let options = (*self.rel).rd_options.cast::<pg_sys::StdRdOptions>();
            !options.is_null() && truncation_is_off(&*options)
        }
    }

    /// Where the table's rows are stored, as long as nothing is heard about the table.
    pub fn file(&self) -> TableFile {
        // SAFETY: the relation is open.
        unsafe {
            #[cfg(feature = "pg15")]
            return TableFile((*self.rel).rd_node);
            #[cfg(not(feature = "pg15"))]
            return TableFile((*self.rel).rd_locator);
        }
    }

    /// The table's name, for messages.
    pub fn name(&self) -> String {
        // SAFETY: the relation is open, and a name is NUL-terminated.
        unsafe {
            std::ffi::CStr::from_ptr((*(*self.rel).rd_rel).relname.data.as_ptr())
                .to_string_lossy()
                .into_owned()
        }
    }
}

/// The file of a table, to be asked for its size without opening the table, and so without a lock.
#[derive(Clone, Copy)]
pub struct TableFile(File);

impl TableFile {
    /// As [`Relation::is_empty`], of a table that was open in this session and about which nothing was heard since:
    /// its relation cache entry then keeps the file open. A file that is done with has no pages either, be the table
    /// dropped or its rows in another file; word of that is out before the pages go, and has been taken in when this
    /// returns true. So the caller looks afterwards whether it still goes by this file.
    pub fn is_empty(&self) -> bool {
        // SAFETY: the address is that of a permanent table's file; a file that cannot be read raises. Messages may be
        // taken in wherever a lock may be taken. Nothing in the step has a destructor.
        unsafe {
            step(|| {
                let storage = raw::smgropen(self.0, SHARED);
                let empty = raw::smgrnblocks(storage, pg_sys::ForkNumber::MAIN_FORKNUM) == 0;
                if empty {
                    raw::AcceptInvalidationMessages();
                }
                empty
            })
        }
    }
}

/// The owner of a file that is not a temporary table's.
const SHARED: i32 = -1;

fn truncation_is_off(options: &pg_sys::StdRdOptions) -> bool {
    #[cfg(feature = "pg18")]
    return options.vacuum_truncate_set && !options.vacuum_truncate;
    #[cfg(not(feature = "pg18"))]
    return !options.vacuum_truncate;
}

impl Drop for Relation {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: opened by this handle under this resource owner, closed once.
        unsafe { step(|| raw::table_close(self.rel, self.access.closing_mode())) }
    }
}
