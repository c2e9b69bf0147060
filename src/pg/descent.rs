//! Finding a key's entry in a primary key cheaply, which most claims come down to: one descent of the btree,
//! comparing bytes on its pages, without a scan, a slot or a visit to the heap.
//!
//! The rule: it says "absent" only when it has seen the one leaf page on which every entry of the key,
//! dead or alive, would have to stand, and none is there; and names an entry only of exactly that key. Whatever it
//! does not understand (entries compressed or split by their row's address, a page it did not expect, no remembered
//! root) is "unknown", and the caller searches as PostgreSQL does.
//!
//! The descent is that of Lehman and Yao as access/nbtree/README describes it: one page locked at a
//! time, moving right where a page has been split meanwhile. What a page looks like: [`super::btree`].

use super::btree::{Entry, IGNORE, LEAF, NONE, Page, Wanted};
use super::failure::step;
use super::index::PrimaryKey;
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

const MAGIC: u32 = 0x0005_3162;
const VERSION: u32 = 4;
/// Where the last answer was found, for the next key of a sorted batch.
#[derive(Default)]
pub struct Hint {
    leaf: Cell<u32>,
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
