//! Tables whose rows fill a page each and never change: written once from the first block on, read by block,
//! past snapshots, straight from the shared buffers.
//!
//! A reader holds no lock on such a table, which would cost more than the reading. It reads while it holds the lock
//! of a key, after it has made sure that the table is still in use; whoever drops one has said so before, and
//! waits until nobody holds a key's lock who held it then ([`super::lock::wait_for_deciders`]).

use super::cpu::prefetch;
use super::failure::step;
use super::raw;
use super::relation::{Access, Relation};
use pgrx::pg_sys;
use std::cell::Cell;

/// PostgreSQL's address of a table's file.
#[cfg(feature = "pg15")]
pub(super) type File = pg_sys::RelFileNode;
/// PostgreSQL's address of a table's file.
#[cfg(not(feature = "pg15"))]
pub(super) type File = pg_sys::RelFileLocator;

/// A table of pages, to be read.
pub struct Pages {
    file: File,
    /// Where each page was in the buffers last, which spares looking that up: four bytes a page, a two-thousandth
    /// of what is read.
    last: Vec<Cell<pg_sys::Buffer>>,
}

impl Pages {
    /// Finds the file of a table that has at least so many blocks; None where it has not, or is gone.
    pub fn find(table: pg_sys::Oid, blocks: u32) -> Option<Pages> {
        let table = Relation::open(table, Access::Read)?;
        // SAFETY: the relation is open.
        unsafe {
            let rel = table.raw();
            let heap = table.is_ordinary() && (*(*rel).rd_rel).relam == pg_sys::HEAP_TABLE_AM_OID;
            let logged = (*(*rel).rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT;
            let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
            if !heap || !logged || pg_sys::RelationGetNumberOfBlocksInFork(rel, fork) < blocks {
                return None;
            }
            #[cfg(feature = "pg15")]
            let file = (*rel).rd_node;
            #[cfg(not(feature = "pg15"))]
            let file = (*rel).rd_locator;
            Some(Pages { file, last: vec![Cell::new(NOWHERE); blocks as usize] })
        }
    }
}

/// Reads blocks of tables of pages: `each` is given what was asked for and the row's bytes, none where the block
/// holds no such row. The caller keeps the tables from being dropped meanwhile. `each` may not raise or panic.
pub fn read<'a>(
    blocks: impl Iterator<Item = (usize, &'a Pages, u32)>,
    mut each: impl FnMut(usize, &[u8]),
) {
    // SAFETY: the tables are there; a pin keeps a page's row where it is. Nothing in the step has a destructor: the
    // closure is the caller's.
    unsafe {
        step(|| {
            for (asked, pages, block) in blocks {
                let buffer = pages.pin(block);
                each(asked, row_of(pg_sys::BufferGetPage(buffer).cast()));
                raw::ReleaseBuffer(buffer);
            }
        });
    }
}

/// Has what will be read of a block fetched into the processor's caches: what says where its row is, and the row's
/// bytes so far before its end. Only a hint: of a block that is not where it was last nothing useful comes.
pub fn expect(pages: &Pages, block: u32, depth: usize) {
    let recent = pages.last.get(block as usize).map_or(NOWHERE, Cell::get);
    if recent > NOWHERE {
        let place = recent as usize - 1;
        // SAFETY: both are set for as long as the backend is connected; addresses are only made of them.
        let (buffers, blocks) = unsafe { (pg_sys::BufferDescriptors, pg_sys::BufferBlocks) };
        prefetch(buffers.wrapping_add(place).cast());
        let size = pg_sys::BLCKSZ as usize;
        let page = blocks.cast::<u8>().wrapping_add(place * size);
        prefetch(page);
        prefetch(page.wrapping_add(size - 1));
        prefetch(page.wrapping_add(size - depth));
    }
}

const NOWHERE: pg_sys::Buffer = pg_sys::InvalidBuffer as pg_sys::Buffer;

impl Pages {
    /// # Safety
    /// Within a step; the table is there.
    unsafe fn pin(&self, block: u32) -> pg_sys::Buffer {
        let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
        let last = self.last.get(block as usize);
        let recent = last.map_or(NOWHERE, Cell::get);
        // SAFETY: the caller's promise. A buffer that holds another page by now says so.
        unsafe {
            if recent != NOWHERE && raw::ReadRecentBuffer(self.file, fork, block, recent) {
                return recent;
            }
            let mode = pg_sys::ReadBufferMode::RBM_NORMAL;
            let none = std::ptr::null_mut();
            let buffer = raw::ReadBufferWithoutRelcache(self.file, fork, block, mode, none, true);
            if let Some(last) = last {
                last.set(buffer);
            }
            buffer
        }
    }
}

/// The value of the first row of a page, nothing where there is none of the kind.
///
/// # Safety
/// The page is pinned for as long as the value is used.
unsafe fn row_of<'a>(page: *const u8) -> &'a [u8] {
    const FIRST: usize = std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp);
    // SAFETY: the caller's promise; everything is checked against the page's size before it is read.
    unsafe {
        let header = &*page.cast::<pg_sys::PageHeaderData>();
        if (header.pd_lower as usize) < FIRST + size_of::<pg_sys::ItemIdData>() {
            return &[];
        }
        let item = &*page.add(FIRST).cast::<pg_sys::ItemIdData>();
        let (at, len) = (item.lp_off() as usize, item.lp_len() as usize);
        let whole = at + len <= pg_sys::BLCKSZ as usize;
        if item.lp_flags() != pg_sys::LP_NORMAL || !whole || len < VALUE {
            return &[];
        }
        std::slice::from_raw_parts(page.add(at + VALUE), len - VALUE)
    }
}

/// Where the bytes of the value begin in a row without NULLs: behind the row's header and the value's own. Neither is
/// looked at, because each is a line of memory of its own; bytes that are no page of a filter say so themselves.
const VALUE: usize = 24 + 4;

/// Writes a new table's pages.
pub struct Writer {
    table: Relation,
    next: u32,
    value: Vec<u8>,
}

impl Writer {
    /// Opens a table of one bytea column, stored plain, that was made in this transaction. None where it is
    /// gone.
    pub fn open(table: pg_sys::Oid) -> Option<Writer> {
        Some(Writer { table: Relation::open(table, Access::Write)?, next: 0, value: Vec::new() })
    }

    /// Writes the next page. False where it did not come to lie in the next block.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        pgrx::check_for_interrupts!();
        self.value.clear();
        self.value.extend([0; 4]);
        self.value.extend(bytes);
        let (rel, value) = (self.table.raw(), self.value.as_mut_ptr());
        let len = self.value.len() as i32;
        // Frozen: nobody sees the table before this transaction commits, and nothing in it ever changes.
        let options = pg_sys::HEAP_INSERT_FROZEN | pg_sys::HEAP_INSERT_SKIP_FSM;
        // SAFETY: the table is open for writing and has one column, of type bytea; the value is copied.
        let (block, offset) = unsafe {
            pgrx::varlena::set_varsize_4b(value.cast(), len);
            step(|| {
                let (values, nulls) = ([pg_sys::Datum::from(value)], [false]);
                let row = raw::heap_form_tuple((*rel).rd_att, values.as_ptr(), nulls.as_ptr());
                let command = raw::GetCurrentCommandId(true);
                raw::heap_insert(rel, row, command, options as i32, std::ptr::null_mut());
                let at = (*row).t_self;
                raw::heap_freetuple(row);
                (u32::from(at.ip_blkid.bi_hi) << 16 | u32::from(at.ip_blkid.bi_lo), at.ip_posid)
            })
        };
        let expected = self.next;
        self.next += 1;
        (block, offset) == (expected, 1)
    }
}
