//! What a leaf looks like: where its columns are, and whether it is plain, that is, nothing but what
//! we created, so that heap and index may be written directly. Anything more (an index, a trigger, a
//! check, a generated or further column, another access method) goes through the executor.

use super::index::PrimaryKey;
use super::relation::Relation;
use pgrx::pg_sys;
use std::ffi::CStr;

/// The columns of a store, in the order in which stores are created.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// When the claim was made: the partition column.
    ClaimedAt,
    /// When it expires.
    ExpiresAt,
    /// The key.
    Key,
    /// The effect it guards.
    Effect,
    /// Digest of the request.
    Fingerprint,
    /// The stored answer.
    Result,
}

/// Number of columns of a store.
pub(super) const COLUMNS: usize = 6;

const NAMES: [(&CStr, pg_sys::Oid); COLUMNS] = [
    (c"claimed_at", pg_sys::TIMESTAMPTZOID),
    (c"expires_at", pg_sys::TIMESTAMPTZOID),
    (c"key", pg_sys::TEXTOID),
    (c"effect", pg_sys::TEXTOID),
    (c"fingerprint", pg_sys::BYTEAOID),
    (c"result", pg_sys::JSONBOID),
];

/// The attribute numbers of the columns, and whether the leaf is plain.
#[derive(Clone, Copy)]
pub struct Layout {
    numbers: [i16; COLUMNS],
    plain: bool,
    rows_as_made: bool,
}

impl Layout {
    /// Reads the layout of an open leaf; None when it lacks a column or its key indexes others.
    pub fn of(leaf: &Relation, index: &PrimaryKey) -> Option<Layout> {
        let mut numbers = [0; COLUMNS];
        for (number, (name, kind)) in numbers.iter_mut().zip(NAMES) {
            *number = find(leaf, name, kind)?;
        }
        if index.columns() != [numbers[Column::Key as usize], numbers[Column::Effect as usize]] {
            return None;
        }
        let ordered = numbers.iter().enumerate().all(|(i, &number)| number as usize == i + 1);
        let rows_as_made = ordered && columns_as_made(leaf);
        Some(Layout { numbers, plain: rows_as_made && is_plain(leaf), rows_as_made })
    }

    /// The attribute number of a column.
    pub(super) fn number(&self, column: Column) -> i16 {
        self.numbers[column as usize]
    }

    /// How many attributes a row is read up to for its two instants.
    pub(super) fn instants_end(&self) -> i32 {
        i32::from(self.number(Column::ClaimedAt).max(self.number(Column::ExpiresAt)))
    }

    /// Whether its rows begin with our columns as we made them, in a heap, whatever else the leaf carries.
    pub fn has_rows_as_made(&self) -> bool {
        self.rows_as_made
    }

    /// Whether the leaf is only what we made.
    pub fn is_plain(&self) -> bool {
        self.plain
    }
}

fn attributes(leaf: &Relation) -> impl Iterator<Item = &pg_sys::FormData_pg_attribute> {
    // SAFETY: the relation is open, and so its descriptor lives as long as the handle.
    let (descriptor, count) = unsafe {
        let descriptor = (*leaf.raw()).rd_att;
        (descriptor, (*descriptor).natts as usize)
    };
    // SAFETY: attribute i of a descriptor with more than i attributes.
    (0..count).map(move |i| unsafe { &*attribute(descriptor, i) })
}

/// # Safety
/// The descriptor has more than `i` attributes.
unsafe fn attribute(
    descriptor: pg_sys::TupleDesc,
    i: usize,
) -> *const pg_sys::FormData_pg_attribute {
    // SAFETY: the caller's promise. From 18 on the compact attributes come first.
    unsafe {
        #[cfg(feature = "pg18")]
        return pg_sys::TupleDescAttr(descriptor, i as i32);
        #[cfg(not(feature = "pg18"))]
        return (*descriptor).attrs.as_ptr().add(i);
    }
}

fn find(leaf: &Relation, name: &CStr, kind: pg_sys::Oid) -> Option<i16> {
    attributes(leaf)
        // SAFETY: an attribute's name is NUL-terminated.
        .find(|a| unsafe { CStr::from_ptr(a.attname.data.as_ptr()) } == name)
        .filter(|a| !a.attisdropped && a.atttypid == kind)
        .map(|a| a.attnum)
}

fn columns_as_made(leaf: &Relation) -> bool {
    // SAFETY: the relation is open.
    let is_heap = unsafe { (*(*leaf.raw()).rd_rel).relam == pg_sys::HEAP_TABLE_AM_OID };
    is_heap
        && attributes(leaf).take(COLUMNS).zip(0..).all(|(a, place)| {
            let required = place <= Column::Effect as usize;
            a.attnotnull == required && a.atttypmod == -1
        })
}

fn is_plain(leaf: &Relation) -> bool {
    // SAFETY: the relation is open; the pointers of its cache entry are valid or null; the index
    // list was built when the primary key was opened.
    unsafe {
        let rel = &*leaf.raw();
        let constr = (*rel.rd_att).constr;
        let only_ours =
            constr.is_null() || ((*constr).num_check == 0 && !(*constr).has_generated_stored);
        (*rel.rd_att).natts as usize == COLUMNS
            && only_ours
            && rel.trigdesc.is_null()
            && rel.rd_indexvalid
            && !rel.rd_indexlist.is_null()
            && (*rel.rd_indexlist).length == 1
    }
}

/// The further columns of a leaf: their attribute numbers.
pub(super) fn further_columns(leaf: &Relation, layout: &Layout) -> Vec<i16> {
    attributes(leaf)
        .filter(|a| !a.attisdropped && a.attgenerated == 0 && !layout.numbers.contains(&a.attnum))
        .map(|a| a.attnum)
        .collect()
}

/// The columns that a leaf had once: their attribute numbers.
pub(super) fn dropped_columns(leaf: &Relation) -> impl Iterator<Item = i16> {
    attributes(leaf).filter(|a| a.attisdropped).map(|a| a.attnum)
}

/// The attribute numbers of key, effect and expiry, if the leaf has them.
pub(super) fn key_columns(leaf: &Relation) -> Option<[i16; 3]> {
    let number = |column: Column| {
        let (name, kind) = NAMES[column as usize];
        find(leaf, name, kind)
    };
    Some([number(Column::Key)?, number(Column::Effect)?, number(Column::ExpiresAt)?])
}

/// Those of key and effect for a table that need not be open, by the catalog; 0 for one it lacks. Their types are not looked at.
pub fn key_columns_of(table: pg_sys::Oid) -> (i16, i16) {
    let number = |column: Column| {
        // SAFETY: looks up any oid and any NUL-terminated name.
        unsafe { pg_sys::get_attnum(table, NAMES[column as usize].0.as_ptr()) }
    };
    (number(Column::Key), number(Column::Effect))
}
