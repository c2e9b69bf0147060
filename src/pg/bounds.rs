//! Leaves of a partitioned table and the instants each covers, read from the catalog without
//! locking or opening the parent.

use pgrx::pg_sys;
use std::ffi::CStr;

/// Instants are microseconds since 2000-01-01 UTC; `from` inclusive, `to` exclusive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First instant covered.
    pub from: i64,
    /// First instant no longer covered.
    pub to: i64,
}

impl Range {
    /// Covers nothing: a default partition, or bounds that are not instants.
    const NONE: Range = Range { from: i64::MIN, to: i64::MIN };
}

unsafe extern "C-unwind" {
    // catalog/pg_inherits.h; pgrx does not bind it. Partitions being detached concurrently are left out.
    fn find_inheritance_children(parent: pg_sys::Oid, mode: pg_sys::LOCKMODE) -> *mut pg_sys::List;
    // catalog/partition.h
    fn get_partition_parent(leaf: pg_sys::Oid, even_if_detached: bool) -> pg_sys::Oid;
    fn get_default_partition_oid(parent: pg_sys::Oid) -> pg_sys::Oid;
}

/// The partitions of a table as the catalog has them now.
pub fn children(parent: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // SAFETY: guarded, because the function is declared here and may raise; the list is of oids and
    // allocated in the caller's memory context.
    unsafe {
        let list = pg_sys::ffi::pg_guard_ffi_boundary(|| {
            find_inheritance_children(parent, pg_sys::NoLock as pg_sys::LOCKMODE)
        });
        if list.is_null() {
            return Vec::new();
        }
        let cells = std::slice::from_raw_parts((*list).elements, (*list).length as usize);
        cells.iter().map(|cell| cell.oid_value).collect()
    }
}

/// The partitioned table a leaf belongs to; None for a table that is no partition or is gone.
pub fn parent(leaf: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: catalog look-ups that take any oid; the second one, guarded, is asked for a partition only.
    unsafe {
        pg_sys::get_rel_relispartition(leaf)
            .then(|| pg_sys::ffi::pg_guard_ffi_boundary(|| get_partition_parent(leaf, true)))
    }
}

/// The default partition of a partitioned table, which takes the rows that no other covers.
pub fn default_of(parent: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: guarded, because the function is declared here; a catalog look-up that takes any oid.
    let oid = unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| get_default_partition_oid(parent)) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// What a partition covers; None for a table that is no partition or is gone.
pub fn range_of(leaf: pg_sys::Oid) -> Option<Range> {
    // SAFETY: the syscache tuple is pinned while its attribute is read and copied to a C string;
    // the node tree is built in the caller's memory context.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::RELOID as i32,
            pg_sys::Datum::from(leaf),
        );
        if tuple.is_null() {
            return None;
        }
        let mut is_null = false;
        let datum = pg_sys::SysCacheGetAttr(
            pg_sys::SysCacheIdentifier::RELOID as i32,
            tuple,
            pg_sys::Anum_pg_class_relpartbound as pg_sys::AttrNumber,
            &mut is_null,
        );
        let source = (!is_null).then(|| pg_sys::text_to_cstring(datum.cast_mut_ptr()));
        pg_sys::ReleaseSysCache(tuple);
        let spec = pg_sys::stringToNode(source?).cast::<pg_sys::PartitionBoundSpec>();
        Some(read_spec(spec))
    }
}

/// # Safety
/// `spec` is a valid PartitionBoundSpec.
unsafe fn read_spec(spec: *mut pg_sys::PartitionBoundSpec) -> Range {
    // SAFETY: the caller's promise; a range bound's lists hold PartitionRangeDatum nodes, one for
    // each partition column, and stores have one.
    unsafe {
        let is_range = (*spec).strategy as u8 == b'r'; // PARTITION_STRATEGY_RANGE, an enum from 16 on
        if (*spec).is_default || !is_range {
            return Range::NONE;
        }
        match (read_end((*spec).lowerdatums), read_end((*spec).upperdatums)) {
            (Some(from), Some(to)) => Range { from, to },
            _ => Range::NONE,
        }
    }
}

/// # Safety
/// `list` is null or a list of PartitionRangeDatum nodes.
unsafe fn read_end(list: *mut pg_sys::List) -> Option<i64> {
    // SAFETY: the caller's promise; a timestamptz constant is passed by value.
    unsafe {
        if list.is_null() || (*list).length != 1 {
            return None;
        }
        let end = (*(*list).elements).ptr_value.cast::<pg_sys::PartitionRangeDatum>();
        match (*end).kind {
            pg_sys::PartitionRangeDatumKind::PARTITION_RANGE_DATUM_MINVALUE => Some(i64::MIN),
            pg_sys::PartitionRangeDatumKind::PARTITION_RANGE_DATUM_MAXVALUE => Some(i64::MAX),
            _ => {
                let value = (*end).value.cast::<pg_sys::Const>();
                let is_instant =
                    (*value).consttype == pg_sys::TIMESTAMPTZOID && !(*value).constisnull;
                is_instant.then(|| (*value).constvalue.value() as i64)
            }
        }
    }
}

/// The oid of relation `name` in `schema`, looked up there and nowhere else.
pub fn relation_in(schema: pg_sys::Oid, name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a syscache lookup by value.
    let oid = unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// The oid of a schema.
pub fn schema(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a syscache lookup by value.
    let oid = unsafe { pg_sys::get_namespace_oid(name.as_ptr(), true) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// The relation of a name in a schema.
pub fn relation(name: &CStr, schema: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a syscache lookup by value.
    let oid = unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}
