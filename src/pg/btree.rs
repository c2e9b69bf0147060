//! A page of a btree on two text columns in collation "C", read where it lies. The format is btree version 4, the only
//! one that PostgreSQL 12 and later write.

use super::cpu::prefetch;
use super::lock::RowId;
use super::raw;
use pgrx::pg_sys;
use std::cmp::Ordering;

/// End of every btree page.
#[repr(C)]
pub(super) struct Tail {
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) level: u32,
    pub(super) flags: u16,
    cycle: u16,
}

pub(super) const NONE: u32 = 0;
pub(super) const LEAF: u16 = 1;
/// Deleted or half dead: only its link to the right counts.
pub(super) const IGNORE: u16 = 4 | 16;

/// Bits of an index tuple's t_info and, where ALTERNATIVE is set, of its offset number.
const HAS_NULLS: u16 = 0x8000;
const ALTERNATIVE: u16 = 0x2000;
const IS_POSTING: u16 = 0x2000;
const HAS_ADDRESS: u16 = 0x1000;
const COLUMN_COUNT: u16 = 0x0FFF;

/// What is looked for.
pub(super) struct Wanted<'a> {
    pub(super) key: &'a [u8],
    pub(super) effect: &'a [u8],
}

/// How what is looked for stands to an entry; None where that cannot be told from here.
pub(super) type Standing = Option<Ordering>;

/// What the index has of a key.
#[derive(Clone, Copy)]
pub enum Entry {
    /// No entry, dead or alive.
    Absent,
    /// The first entry is of the row here, unless that was removed meanwhile.
    Of(RowId),
    /// It cannot be told from here.
    Unknown,
}

/// A pinned and locked page.
pub(super) struct Page {
    buffer: pg_sys::Buffer,
    start: *const u8,
}

impl Page {
    /// # Safety
    /// Within a step, on an open btree; the page must be given back with `release`.
    pub(super) unsafe fn lock(rel: pg_sys::Relation, block: u32) -> Page {
        // SAFETY: the caller's promise.
        unsafe {
            let buffer = raw::ReadBuffer(rel, block);
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            Page { buffer, start: pg_sys::BufferGetPage(buffer).cast() }
        }
    }

    /// # Safety
    /// Within the step that locked it; the page is not used afterwards.
    pub(super) unsafe fn release(self) {
        // SAFETY: the caller's promise.
        unsafe { raw::UnlockReleaseBuffer(self.buffer) }
    }

    fn header(&self) -> &pg_sys::PageHeaderData {
        // SAFETY: a page starts with its header.
        unsafe { &*self.start.cast() }
    }

    pub(super) fn tail(&self) -> &Tail {
        // SAFETY: `is_sound` has checked that the special space has a tail's size.
        unsafe { &*self.start.add(self.header().pd_special as usize).cast() }
    }

    /// Whether it looks like a btree page at all.
    pub(super) fn is_sound(&self) -> bool {
        let special = self.header().pd_special as usize;
        self.header().pd_upper != 0 && special + size_of::<Tail>() == pg_sys::BLCKSZ as usize
    }

    pub(super) fn is_rightmost(&self) -> bool {
        self.tail().next == NONE
    }

    /// Number of the first entry that is not the page's upper bound.
    pub(super) fn first(&self) -> u16 {
        if self.is_rightmost() { 1 } else { 2 }
    }

    /// Number after the last entry.
    pub(super) fn end(&self) -> u16 {
        let items = std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp) as u16;
        self.header().pd_lower.saturating_sub(items) / size_of::<pg_sys::ItemIdData>() as u16 + 1
    }

    fn id(&self, number: u16) -> &pg_sys::ItemIdData {
        // SAFETY: numbers below `end` have a line pointer.
        unsafe {
            let items = self.start.add(std::mem::offset_of!(pg_sys::PageHeaderData, pd_linp));
            &*items.cast::<pg_sys::ItemIdData>().add(number as usize - 1)
        }
    }

    fn item(&self, number: u16) -> *const u8 {
        // SAFETY: a line pointer points into its page.
        unsafe { self.start.add(self.id(number).lp_off() as usize) }
    }

    /// The block that an entry of an upper page leads to.
    pub(super) fn child(&self, number: u16) -> u32 {
        // SAFETY: an index tuple starts with an item pointer.
        unsafe {
            let tid = &*self.item(number).cast::<pg_sys::ItemPointerData>();
            u32::from(tid.ip_blkid.bi_hi) << 16 | u32::from(tid.ip_blkid.bi_lo)
        }
    }

    /// How what is wanted stands to entry `number`.
    pub(super) fn standing(&self, number: u16, wanted: &Wanted) -> Standing {
        // SAFETY: the entry is an index tuple on a locked page.
        unsafe { standing(self.item(number), wanted) }
    }

    /// The first entry from `first` on that is not below what is wanted, by halving.
    pub(super) fn lower_bound(&self, wanted: &Wanted) -> Option<u16> {
        let (mut low, mut high) = (self.first(), self.end());
        let cold = self.tail().flags & LEAF != 0;
        let mut until_warm = 0;
        while low < high {
            if cold && until_warm == 0 {
                self.warm(low, high);
                until_warm = 3;
            }
            until_warm -= 1;
            let middle = low + (high - low) / 2;
            match self.standing(middle, wanted)? {
                Ordering::Greater => low = middle + 1,
                _ => high = middle,
            }
        }
        Some(low)
    }

    /// Has the entries fetched that the next three halvings may look at, all at once: a leaf page is hardly ever in
    /// the processor's caches, and waiting for one after the other was a tenth of a claim.
    fn warm(&self, low: u16, high: u16) {
        let middle = |low: u16, high: u16| low + high.saturating_sub(low) / 2;
        let half = middle(low, high);
        let (left, right) = (middle(low, half), middle(half + 1, high));
        let next = [
            half,
            left,
            right,
            middle(low, left),
            middle(left + 1, half),
            middle(half + 1, right),
            middle(right + 1, high),
        ]
        .map(|number| number.min(high - 1));
        for number in next {
            prefetch(std::ptr::from_ref(self.id(number)).cast());
        }
        for number in next {
            prefetch(self.item(number));
        }
    }

    /// On a leaf that must hold the key: its first entry there.
    pub(super) fn entry(&self, wanted: &Wanted) -> Option<Entry> {
        let at = self.lower_bound(wanted)?;
        if at == self.end() || self.standing(at, wanted)? != Ordering::Equal {
            return Some(Entry::Absent);
        }
        self.row(at).map(Entry::Of)
    }

    /// The row of an entry of a leaf, where it has one and is not known to be dead.
    fn row(&self, number: u16) -> Option<RowId> {
        // SAFETY: an index tuple on a locked page.
        let tuple = unsafe { &*self.item(number).cast::<pg_sys::IndexTupleData>() };
        let alive = self.id(number).lp_flags() == pg_sys::LP_NORMAL;
        (alive && tuple.t_info & ALTERNATIVE == 0).then_some(RowId(tuple.t_tid))
    }
}

/// # Safety
/// `item` is an index tuple of an index on two text columns, on a locked page.
unsafe fn standing(item: *const u8, wanted: &Wanted) -> Standing {
    // SAFETY: the caller's promise; without nulls the first value follows the header of eight bytes.
    unsafe {
        let tuple = &*item.cast::<pg_sys::IndexTupleData>();
        let number = tuple.t_tid.ip_posid;
        let is_whole = tuple.t_info & ALTERNATIVE == 0 || number & IS_POSTING != 0;
        let (columns, address) =
            if is_whole { (2, true) } else { (number & COLUMN_COUNT, number & HAS_ADDRESS != 0) };
        if tuple.t_info & HAS_NULLS != 0 {
            return None;
        }
        // What an upper entry has lost of its columns counts as lower than everything.
        if columns == 0 {
            return Some(Ordering::Greater);
        }
        let data = item.add(size_of::<pg_sys::IndexTupleData>());
        let (key, size) = value(data)?;
        let by_key = wanted.key.cmp(key);
        if by_key != Ordering::Equal || columns == 1 {
            return Some(by_key.then(Ordering::Greater));
        }
        let mut at = data.add(size);
        // A short value follows at once, a long one at the next multiple of four; padding is zero.
        if *at == 0 {
            at = at.add((4 - size % 4) % 4);
        }
        let (effect, _) = value(at)?;
        let by_effect = wanted.effect.cmp(effect);
        match by_effect {
            // An upper entry that was cut before the row's address stands below all of its equals.
            Ordering::Equal if !address => Some(Ordering::Greater),
            other => Some(other),
        }
    }
}

/// The bytes and the whole size of a text value; None where it is compressed or stored elsewhere.
///
/// # Safety
/// `at` is a value of type text in a tuple.
pub(super) unsafe fn value<'a>(at: *const u8) -> Option<(&'a [u8], usize)> {
    let at = at.cast::<pg_sys::varlena>();
    // SAFETY: the caller's promise.
    unsafe {
        if pgrx::varlena::varatt_is_1b_e(at) || pgrx::varlena::varatt_is_4b_c(at) {
            return None;
        }
        Some((pgrx::varlena::varlena_to_byte_slice(at), pgrx::varlena::varsize_any(at)))
    }
}
