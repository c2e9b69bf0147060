//! What says that nothing was added to a table since: a mark that any change of it leaves behind, and a flag
//! that is set past transactions.

use super::failure::step;
use super::relation::{Access, Relation};
use super::{raw, session};
use pgrx::pg_sys;
use std::cell::Cell;
use std::ffi::CStr;

/// A trigger as it was made, and its table's row in pg_class: anything that alters the trigger (disabling it,
/// making it anew, restoring a dump), writes the table anew, or makes it a partition again leaves another mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The trigger.
    pub trigger: pg_sys::Oid,
    /// The transaction that made or altered it last.
    pub made_by: u32,
    /// The table's file.
    pub file: pg_sys::Oid,
    /// The transaction that altered the table's row last.
    pub altered_by: u32,
}

/// Reads marks.
pub struct Marks(Relation);

impl Marks {
    /// None where there is no catalog of triggers.
    pub fn open() -> Option<Marks> {
        Relation::open(pg_sys::TriggerRelationId, Access::Read).map(Marks)
    }

    /// The mark of a table by the trigger of a name, as the catalog has it now. None where there is none.
    pub fn of(&self, table: pg_sys::Oid, trigger: &CStr) -> Option<Mark> {
        let (file, altered_by) = row_of(table)?;
        let mut keys: [pg_sys::ScanKeyData; 2] = [Default::default(); 2];
        // SAFETY: pg_trigger is open; the scan is by its unique index on table and name, whose keys live as long
        // as it; the row is read before the scan ends.
        unsafe {
            pg_sys::ScanKeyInit(
                &mut keys[0],
                pg_sys::Anum_pg_trigger_tgrelid as pg_sys::AttrNumber,
                pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
                pg_sys::Oid::from(pg_sys::F_OIDEQ).to_u32().into(),
                pg_sys::Datum::from(table),
            );
            pg_sys::ScanKeyInit(
                &mut keys[1],
                pg_sys::Anum_pg_trigger_tgname as pg_sys::AttrNumber,
                pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
                pg_sys::Oid::from(pg_sys::F_NAMEEQ).to_u32().into(),
                pg_sys::Datum::from(trigger.as_ptr()),
            );
            let scan = pg_sys::systable_beginscan(
                self.0.raw(),
                pg_sys::Oid::from(pg_sys::TriggerRelidNameIndexId),
                true,
                std::ptr::null_mut(),
                2,
                keys.as_mut_ptr(),
            );
            let row = pg_sys::systable_getnext(scan);
            let mark = (!row.is_null()).then(|| {
                let header = (*row).t_data;
                let form = header.cast::<u8>().add((*header).t_hoff as usize);
                Mark {
                    trigger: (*form.cast::<pg_sys::FormData_pg_trigger>()).oid,
                    made_by: (*header).t_choice.t_heap.t_xmin.into_inner(),
                    file,
                    altered_by,
                }
            });
            pg_sys::systable_endscan(scan);
            mark
        }
    }
}

/// The file of a table, and the transaction that altered its row in pg_class last. Statistics of the table are
/// overwritten in place there, which is no alteration.
fn row_of(table: pg_sys::Oid) -> Option<(pg_sys::Oid, u32)> {
    // SAFETY: the syscache row is pinned while it is read.
    unsafe {
        let row = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::RELOID as i32,
            pg_sys::Datum::from(table),
        );
        if row.is_null() {
            return None;
        }
        let header = (*row).t_data;
        let form = header.cast::<u8>().add((*header).t_hoff as usize);
        let file = (*form.cast::<pg_sys::FormData_pg_class>()).relfilenode;
        let altered_by = (*header).t_choice.t_heap.t_xmin.into_inner();
        pg_sys::ReleaseSysCache(row);
        Some((file, altered_by))
    }
}

thread_local! {
    /// What was flagged last, and in which transaction and subtransaction: the lock on a table that keeps its
    /// row from being deleted goes with the subtransaction that took it.
    static FLAGGED: Cell<((u32, u32), pg_sys::Oid)> =
        const { Cell::new(((0, 0), pg_sys::Oid::INVALID)) };
}

/// Sets the flag of every row of `flags` that is about `table`: its first column, a boolean, where the second,
/// an oid, is that. At once, whatever becomes of this transaction, for every session and after any crash.
/// Calls `tell` with the third column, an oid, of those that were not set. When this returns, of each flag
/// somebody has told, be it this session or another. False where there is no such row, which must then be told
/// of otherwise: somebody may still go by one that was there.
///
/// Such rows are inserted and deleted, never updated, so that no newer version can miss the flag. `tell` runs
/// with a page locked: it must not raise, read or wait.
pub fn flag(flags: pg_sys::Oid, table: pg_sys::Oid, mut tell: impl FnMut(pg_sys::Oid)) -> bool {
    let now = ((session::transaction(), session::subtransaction()), table);
    if FLAGGED.with(Cell::get) == now {
        return true;
    }
    let Some(rel) = Relation::open(flags, Access::Write) else { return false };
    let mut found = false;
    // SAFETY: the table is open; snapshot and scan are given back in reverse order; the row is pinned while it
    // is read, and its address stays its own as long as its table's writers are locked out, as the caller's
    // lock on `table` does: it is deleted under a lock that conflicts.
    unsafe {
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        let none = pg_sys::InvalidOid;
        let scan =
            pg_sys::systable_beginscan(rel.raw(), none, false, snapshot, 0, std::ptr::null_mut());
        loop {
            let row = pg_sys::systable_getnext(scan);
            if row.is_null() {
                break;
            }
            let header = (*row).t_data;
            let form = &*header.cast::<u8>().add((*header).t_hoff as usize).cast::<Flagged>();
            if form.table == table {
                found = true;
                set(&rel, (*row).t_self, table, form.flag != 0, &mut tell);
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::UnregisterSnapshot(snapshot);
    }
    FLAGGED.with(|flagged| flagged.set(now));
    found
}

/// The first columns of a row with a flag.
#[repr(C)]
struct Flagged {
    flag: u8,
    table: pg_sys::Oid,
    about: pg_sys::Oid,
}

/// Overwrites the flag of one row on its page, logged as PostgreSQL logs pages of extensions, so that a
/// crash, a standby and a restore all have it. It is told while the page is still locked; so whoever finds the
/// flag set and has had the page's lock since knows that it was told.
///
/// # Safety
/// The row is there.
unsafe fn set(
    rel: &Relation,
    at: pg_sys::ItemPointerData,
    table: pg_sys::Oid,
    is_set: bool,
    tell: &mut impl FnMut(pg_sys::Oid),
) {
    const ITEMS: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp);
    let rel = rel.raw();
    let mode = if is_set { pg_sys::BUFFER_LOCK_SHARE } else { pg_sys::BUFFER_LOCK_EXCLUSIVE };
    // SAFETY: the page is pinned and locked, exclusively where it is changed; the row's place on it is looked
    // up under that lock, because VACUUM may move it there. Nothing in the step has a destructor.
    unsafe {
        step(|| {
            let block = u32::from(at.ip_blkid.bi_hi) << 16 | u32::from(at.ip_blkid.bi_lo);
            let buffer = raw::ReadBuffer(rel, block);
            raw::LockBuffer(buffer, mode as i32);
            if !is_set {
                let change = raw::GenericXLogStart(rel);
                let page = raw::GenericXLogRegisterBuffer(change, buffer, 0).cast::<u8>();
                let place = ITEMS + (at.ip_posid as usize - 1) * size_of::<pg_sys::ItemIdData>();
                let item = &*page.add(place).cast::<pg_sys::ItemIdData>();
                let row = page.add(item.lp_off() as usize);
                let head = (*row.cast::<pg_sys::HeapTupleHeaderData>()).t_hoff as usize;
                let form = row.add(head).cast::<Flagged>();
                let is_it = item.lp_flags() == pg_sys::LP_NORMAL && (*form).table == table;
                if is_it && (*form).flag == 0 {
                    let about = (*form).about;
                    (*form).flag = 1;
                    raw::GenericXLogFinish(change);
                    tell(about);
                } else {
                    raw::GenericXLogAbort(change);
                }
            }
            raw::UnlockReleaseBuffer(buffer);
        });
    }
}
