//! Reading a small table of ours row by row, past privileges and snapshots of the caller: what the
//! catalog of stores says must be the newest committed state whatever the isolation level.

use super::array::TextArray;
use super::relation::{Access, Relation};
use pgrx::pg_sys;

/// The columns of one row.
pub struct Row<'a> {
    values: &'a [pg_sys::Datum],
    nulls: &'a [bool],
}

impl Row<'_> {
    fn value(&self, column: usize) -> Option<pg_sys::Datum> {
        (!self.nulls[column]).then(|| self.values[column])
    }

    /// Column `column`, counted from 0, of type oid or regclass.
    pub fn oid(&self, column: usize) -> Option<pg_sys::Oid> {
        self.value(column).map(|v| pg_sys::Oid::from(v.value() as u32))
    }

    /// A column of type bigint.
    pub fn integer(&self, column: usize) -> Option<i64> {
        self.value(column).map(|v| v.value() as i64)
    }

    /// A column of type boolean.
    pub fn boolean(&self, column: usize) -> Option<bool> {
        self.value(column).map(|v| v.value() != 0)
    }

    /// A column of type timestamptz, as microseconds since 2000-01-01 UTC.
    pub fn instant(&self, column: usize) -> Option<i64> {
        self.value(column).map(|v| v.value() as i64)
    }

    /// A column of type interval: months, days, microseconds.
    pub fn interval(&self, column: usize) -> Option<(i32, i32, i64)> {
        // SAFETY: the caller names a column of type interval, which is passed by reference to a
        // fixed-size struct within the row.
        self.value(column).map(|v| unsafe {
            let interval = v.cast_mut_ptr::<pg_sys::Interval>();
            ((*interval).month, (*interval).day, (*interval).time)
        })
    }

    /// The elements of a column of type text[] without dimensions to speak of; none where one is NULL.
    pub fn texts(&self, column: usize) -> Vec<Vec<u8>> {
        let Some(datum) = self.value(column) else { return Vec::new() };
        let elements = TextArray::of_column(datum).elements().unwrap_or_default();
        elements.into_iter().map(<[u8]>::to_vec).collect()
    }
}

/// Calls `each` for every committed row of table `relid`, and for the calling transaction's own.
pub fn for_each_row(relid: pg_sys::Oid, mut each: impl FnMut(Row)) {
    let Some(table) = Relation::open(relid, Access::Read) else { return };
    // SAFETY: the table is open; snapshot and scan are given back in reverse order; the row's
    // values point into the tuple, which is valid until the next one is fetched, and `each` cannot
    // keep them.
    unsafe {
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        let scan = pg_sys::systable_beginscan(
            table.raw(),
            pg_sys::InvalidOid,
            false,
            snapshot,
            0,
            std::ptr::null_mut(),
        );
        let descriptor = (*table.raw()).rd_att;
        let count = (*descriptor).natts as usize;
        let mut values = vec![pg_sys::Datum::from(0usize); count];
        let mut nulls = vec![true; count];
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            pg_sys::heap_deform_tuple(tuple, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
            each(Row { values: &values, nulls: &nulls });
        }
        pg_sys::systable_endscan(scan);
        pg_sys::UnregisterSnapshot(snapshot);
    }
}
