//! Finding a key's entry in a primary key cheaply, which most claims come down to: one descent of the btree,
//! comparing bytes on its pages, without a scan, a slot or a visit to the heap.
//!
//! The rule: it says "absent" only when it has seen the one leaf page on which every entry of the key,
//! dead or alive, would have to stand, and none is there; and names an entry only of exactly that key. Whatever it
//! does not understand (entries compressed or split by their row's address, a page it did not expect, no remembered
//! root) is "unknown", and the caller searches as PostgreSQL does.
//!
//! The descent is that of Lehman and Yao as access/nbtree/README describes it: one page locked at a
//! time, moving right where a page has been split meanwhile. The page format is btree version 4, the only
//! one that PostgreSQL 12 and later write.

use super::cpu::prefetch;
use super::failure::step;
use super::index::PrimaryKey;
use super::lock::RowId;
use super::raw;
use pgrx::pg_sys;
use std::cell::Cell;
use std::cmp::Ordering;

/// Start of a btree's meta page (access/nbtree.h), of which each session keeps a copy with the index.
#[repr(C)]
struct Meta {
    magic: u32,
    version: u32,
    root: u32,
    level: u32,
    fast_root: u32,
    fast_level: u32,
}

/// End of every btree page.
#[repr(C)]
struct Tail {
    previous: u32,
    next: u32,
    level: u32,
    flags: u16,
    cycle: u16,
}

const MAGIC: u32 = 0x0005_3162;
const VERSION: u32 = 4;
const NONE: u32 = 0;
const LEAF: u16 = 1;
/// Deleted or half dead: only its link to the right counts.
const IGNORE: u16 = 4 | 16;

/// Bits of an index tuple's t_info and, where ALTERNATIVE is set, of its offset number.
const HAS_NULLS: u16 = 0x8000;
const ALTERNATIVE: u16 = 0x2000;
const IS_POSTING: u16 = 0x2000;
const HAS_ADDRESS: u16 = 0x1000;
const COLUMN_COUNT: u16 = 0x0FFF;

/// Where the last answer was found, for the next key of a sorted batch.
#[derive(Default)]
pub struct Hint {
    leaf: Cell<u32>,
}

/// What is looked for.
struct Wanted<'a> {
    key: &'a [u8],
    effect: &'a [u8],
}

/// How what is looked for stands to an entry; None where that cannot be told from here.
type Standing = Option<Ordering>;

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

/// Looks for the entry of (key, effect).
pub fn entry(index: &PrimaryKey, hint: &Hint, key: &[u8], effect: &[u8]) -> Entry {
    let wanted = Wanted { key, effect };
    // SAFETY: the index is an open btree on two text columns; pages are read under a pin and a shared
    // lock, each given back before the next is taken; nothing in the step has a destructor.
    unsafe {
        step(|| {
            let near = match hint.leaf.get() {
                NONE => last_page(index.raw()),
                block => Some(block),
            };
            let near = near.and_then(|block| look_near(index.raw(), block, &wanted));
            near.or_else(|| descend(index.raw(), hint, &wanted)).unwrap_or(Entry::Unknown)
        })
    }
}

/// A pinned and locked page.
struct Page {
    buffer: pg_sys::Buffer,
    start: *const u8,
}

impl Page {
    /// # Safety
    /// Within a step, on an open btree; the page must be given back with `release`.
    unsafe fn lock(rel: pg_sys::Relation, block: u32) -> Page {
        // SAFETY: the caller's promise.
        unsafe {
            let buffer = raw::ReadBuffer(rel, block);
            raw::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            Page { buffer, start: pg_sys::BufferGetPage(buffer).cast() }
        }
    }

    /// # Safety
    /// Within the step that locked it; the page is not used afterwards.
    unsafe fn release(self) {
        // SAFETY: the caller's promise.
        unsafe { raw::UnlockReleaseBuffer(self.buffer) }
    }

    fn header(&self) -> &pg_sys::PageHeaderData {
        // SAFETY: a page starts with its header.
        unsafe { &*self.start.cast() }
    }

    fn tail(&self) -> &Tail {
        // SAFETY: `is_sound` has checked that the special space has a tail's size.
        unsafe { &*self.start.add(self.header().pd_special as usize).cast() }
    }

    /// Whether it looks like a btree page at all.
    fn is_sound(&self) -> bool {
        let special = self.header().pd_special as usize;
        self.header().pd_upper != 0 && special + size_of::<Tail>() == pg_sys::BLCKSZ as usize
    }

    fn is_rightmost(&self) -> bool {
        self.tail().next == NONE
    }

    /// Number of the first entry that is not the page's upper bound.
    fn first(&self) -> u16 {
        if self.is_rightmost() { 1 } else { 2 }
    }

    /// Number after the last entry.
    fn end(&self) -> u16 {
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
    fn child(&self, number: u16) -> u32 {
        // SAFETY: an index tuple starts with an item pointer.
        unsafe {
            let tid = &*self.item(number).cast::<pg_sys::ItemPointerData>();
            u32::from(tid.ip_blkid.bi_hi) << 16 | u32::from(tid.ip_blkid.bi_lo)
        }
    }

    /// How what is wanted stands to entry `number`.
    fn standing(&self, number: u16, wanted: &Wanted) -> Standing {
        // SAFETY: the entry is an index tuple on a locked page.
        unsafe { standing(self.item(number), wanted) }
    }

    /// The first entry from `first` on that is not below what is wanted, by halving.
    fn lower_bound(&self, wanted: &Wanted) -> Option<u16> {
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
    fn entry(&self, wanted: &Wanted) -> Option<Entry> {
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

/// The last leaf page, where the session's last insert went to it: PostgreSQL remembers it for keys that grow, and
/// what they need is looked up where they will be inserted.
///
/// # Safety
/// The index is open.
unsafe fn last_page(rel: pg_sys::Relation) -> Option<u32> {
    // SAFETY: the caller's promise; an index whose file is not open has no such page.
    unsafe {
        let storage = (*rel).rd_smgr;
        let block = if storage.is_null() { NOWHERE } else { (*storage).smgr_targblock };
        (block != NOWHERE).then_some(block)
    }
}

const NOWHERE: u32 = pg_sys::InvalidBlockNumber;

/// The answer if the leaf page remembered is certainly the one that must hold the key.
///
/// # Safety
/// Within a step, on an open btree.
unsafe fn look_near(rel: pg_sys::Relation, block: u32, wanted: &Wanted) -> Option<Entry> {
    // SAFETY: the caller's promise; the page is given back.
    unsafe {
        let page = Page::lock(rel, block);
        let inside = page.is_sound()
            && page.tail().flags & (LEAF | IGNORE) == LEAF
            && page.first() < page.end()
            && page.standing(page.first(), wanted) == Some(Ordering::Greater)
            && (page.is_rightmost() || page.standing(1, wanted) == Some(Ordering::Less));
        let answer = if inside { page.entry(wanted) } else { None };
        page.release();
        answer
    }
}

/// The answer by a descent from the remembered root.
///
/// # Safety
/// Within a step, on an open btree.
unsafe fn descend(rel: pg_sys::Relation, hint: &Hint, wanted: &Wanted) -> Option<Entry> {
    // SAFETY: the caller's promise; every page is given back before the next is taken and at the end.
    unsafe {
        let meta = (*rel).rd_amcache.cast::<Meta>();
        if meta.is_null() || (*meta).magic != MAGIC || (*meta).version < VERSION {
            return None;
        }
        let mut block = (*meta).fast_root;
        if block == NONE {
            return None;
        }
        let mut page = Page::lock(rel, block);
        // The remembered root may be one no more: as a root it has the level remembered and no
        // neighbours.
        let mut known = page.is_sound() && {
            let tail = page.tail();
            tail.flags & IGNORE == 0
                && tail.level == (*meta).fast_level
                && tail.previous == NONE
                && tail.next == NONE
        };
        let mut answer = None;
        while known {
            let next = match step_from(&page, wanted) {
                Some(Step::Answer(found)) => {
                    hint.leaf.set(block);
                    answer = Some(found);
                    break;
                }
                Some(Step::To(next)) => next,
                None => break,
            };
            page.release();
            block = next;
            page = Page::lock(rel, block);
            known = page.is_sound();
        }
        page.release();
        answer
    }
}

enum Step {
    /// Look at this page next.
    To(u32),
    /// What there is of the key.
    Answer(Entry),
}

/// What a page on the way says.
fn step_from(page: &Page, wanted: &Wanted) -> Option<Step> {
    let tail = page.tail();
    if tail.flags & IGNORE != 0 {
        return (!page.is_rightmost()).then_some(Step::To(tail.next));
    }
    if !page.is_rightmost() {
        // Equal to a bound with a row's address: entries may stand on both sides of it.
        match page.standing(1, wanted)? {
            Ordering::Greater => return Some(Step::To(tail.next)),
            Ordering::Equal => return None,
            Ordering::Less => {}
        }
    }
    if tail.flags & LEAF != 0 {
        return page.entry(wanted).map(Step::Answer);
    }
    let at = page.lower_bound(wanted)?;
    if at < page.end() && page.standing(at, wanted)? == Ordering::Equal {
        return None;
    }
    // The entry before the first that is not below: the first of a page stands for everything lower.
    (at > page.first()).then(|| Step::To(page.child(at - 1)))
}
