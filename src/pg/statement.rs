//! Statements run through SPI whose results may be larger than memory: kept in a [`Pile`], which spills to disk,
//! or handed out row by row. Errors are kept whole.

use super::failure::step;
pub use super::pile::{Pile, Walk};
use super::procedure::in_own_memory;
use super::{raw, unwinding};
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::ptr::null_mut;

unsafe extern "C-unwind" {
    // executor/spi.h, executor/tstoreReceiver.h, here without pgrx's guard: a step around them is one.
    fn SPI_prepare(sql: *const c_char, count: c_int, kinds: *mut Oid) -> pg_sys::SPIPlanPtr;
    fn SPI_execute_plan(
        plan: pg_sys::SPIPlanPtr,
        values: *mut Datum,
        nulls: *const c_char,
        read_only: bool,
        limit: std::ffi::c_long,
    ) -> c_int;
    fn SPI_execute_plan_extended(
        plan: pg_sys::SPIPlanPtr,
        options: *const pg_sys::SPIExecuteOptions,
    ) -> c_int;
    fn SPI_cursor_open(
        name: *const c_char,
        plan: pg_sys::SPIPlanPtr,
        values: *mut Datum,
        nulls: *const c_char,
        read_only: bool,
    ) -> pg_sys::Portal;
    fn SPI_cursor_fetch(portal: pg_sys::Portal, forward: bool, count: std::ffi::c_long);
    fn SPI_cursor_close(portal: pg_sys::Portal);
    fn CreateTuplestoreDestReceiver() -> *mut pg_sys::DestReceiver;
    fn SetTuplestoreDestReceiverParams(
        receiver: *mut pg_sys::DestReceiver,
        store: *mut pg_sys::Tuplestorestate,
        context: pg_sys::MemoryContext,
        detoast: bool,
        target: pg_sys::TupleDesc,
        complaint: *const c_char,
    );
}

/// What a pile holds in memory before it goes to disk, in kilobytes.
const PILE_KILOBYTES: i32 = 512;
/// Rows fetched at a time.
const BATCH: std::ffi::c_long = 200;

/// A connection to SPI; what is made with it goes with it. Connections close in reverse order.
pub struct Connection(());

/// One row of a result, good while it is handed out.
pub struct Row<'r> {
    values: &'r [Datum],
    nulls: &'r [bool],
}

impl Row<'_> {
    fn value(&self, column: usize) -> Option<Datum> {
        let null = self.nulls.get(column).copied().unwrap_or(true);
        if null { None } else { self.values.get(column).copied() }
    }

    /// # Safety
    /// There is room for each of its values. They are good while the row is.
    pub(super) unsafe fn fill(&self, values: *mut Datum, nulls: *mut bool) {
        // SAFETY: the caller's promise.
        unsafe {
            values.copy_from_nonoverlapping(self.values.as_ptr(), self.values.len());
            nulls.copy_from_nonoverlapping(self.nulls.as_ptr(), self.nulls.len());
        }
    }

    /// A column of type text, counted from 0.
    pub fn bytes(&self, column: usize) -> Option<&[u8]> {
        // SAFETY: the caller names a column of type text; what is unpacked lasts as long as the row.
        self.value(column).map(|datum| unsafe {
            let value = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            pgrx::varlena::varlena_to_byte_slice(value)
        })
    }

    /// The same, owned; nothing for NULL.
    pub fn owned(&self, column: usize) -> Vec<u8> {
        self.bytes(column).map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// A column of type bigint.
    pub fn integer(&self, column: usize) -> Option<i64> {
        self.value(column).map(|datum| datum.value() as i64)
    }

    /// A column of type boolean; false for NULL.
    pub fn truth(&self, column: usize) -> bool {
        self.value(column).is_some_and(|datum| datum.value() & 1 == 1)
    }

    /// A column of type tid: page, and place on it.
    pub fn place(&self, column: usize) -> Option<(u32, u16)> {
        // SAFETY: the caller names a column of type tid, which is passed by reference.
        self.value(column).map(|datum| unsafe {
            let tid = &*datum.cast_mut_ptr::<pg_sys::ItemPointerData>();
            (u32::from(tid.ip_blkid.bi_hi) << 16 | u32::from(tid.ip_blkid.bi_lo), tid.ip_posid)
        })
    }

    /// A column of type text[] of two elements.
    pub fn pair(&self, column: usize) -> Option<[Option<&[u8]>; 2]> {
        // SAFETY: the caller names a column of type text[], whose elements are unpacked as far as they have to be;
        // they last as long as the row.
        self.value(column).map(|datum| unsafe {
            let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            let (mut values, mut nulls, mut count) = (null_mut(), null_mut(), 0);
            let align = pg_sys::TYPALIGN_INT as c_char;
            let text = pg_sys::TEXTOID;
            pg_sys::deconstruct_array(
                array,
                text,
                -1,
                false,
                align,
                &mut values,
                &mut nulls,
                &mut count,
            );
            [0, 1].map(|place| {
                if place >= count as usize || *nulls.add(place) {
                    return None;
                }
                let value = pg_sys::pg_detoast_datum_packed((*values.add(place)).cast_mut_ptr());
                Some(pgrx::varlena::varlena_to_byte_slice(value))
            })
        })
    }

    /// A column of a type of 32 bits, such as xid.
    pub fn word(&self, column: usize) -> Option<u32> {
        self.value(column).map(|datum| datum.value() as u32)
    }

    /// A column of type oid.
    pub fn oid(&self, column: usize) -> Oid {
        self.value(column).map_or(pg_sys::InvalidOid, |datum| Oid::from(datum.value() as u32))
    }
}

/// A prepared statement.
pub struct Plan<'c> {
    plan: pg_sys::SPIPlanPtr,
    connection: PhantomData<&'c Connection>,
}

/// A column of a result.
pub struct ResultColumn {
    /// Its name.
    pub name: Vec<u8>,
    /// Its type.
    pub kind: Oid,
}

impl Connection {
    /// Opens one.
    pub fn open() -> Connection {
        // SAFETY: closed when the handle is dropped, or by the abort of the (sub)transaction.
        unsafe { step(|| raw::SPI_connect()) };
        Connection(())
    }

    /// Prepares a statement with parameters of these types.
    pub fn prepare(&self, sql: &[u8], kinds: &[Oid]) -> Plan<'_> {
        let text = CString::new(sql).unwrap_or_default();
        let mut kinds = kinds.to_vec();
        // SAFETY: the text and the types outlive the call; the plan lies in the connection's memory.
        let plan =
            unsafe { step(|| SPI_prepare(text.as_ptr(), kinds.len() as i32, kinds.as_mut_ptr())) };
        Plan { plan, connection: PhantomData }
    }

    /// Runs a statement, and says how many rows it was about.
    pub fn run(&self, sql: &[u8]) -> u64 {
        self.prepare(sql, &[]).call(None);
        // SAFETY: set by the call above.
        unsafe { pg_sys::SPI_processed }
    }

    /// Runs a query and keeps its rows.
    pub fn collect(&self, sql: &[u8]) -> Pile<'_> {
        self.prepare(sql, &[]).collect(null_mut())
    }

    /// Hands out the rows of a query, in memory of their own.
    pub fn each<E>(&self, sql: &[u8], take: impl FnMut(&Row) -> Result<(), E>) -> Result<(), E> {
        self.prepare(sql, &[]).each(take)
    }

    /// The same, where nothing can be said against a row.
    pub fn every(&self, sql: &[u8], take: impl FnMut(&Row)) {
        self.prepare(sql, &[]).every(take);
    }

    /// The first row of a query, read by `take`; None where it gives none.
    pub fn first<T>(&self, sql: &[u8], take: impl Fn(&Row) -> T) -> Option<T> {
        let mut found = None;
        self.every(sql, |row| {
            if found.is_none() {
                found = Some(take(row));
            }
        });
        found
    }

    /// Lets later statements of this connection read a pile as a table of this name.
    pub fn lend(&self, name: &CStr, pile: &Pile<'_>) {
        // SAFETY: relation, name and pile lie in memory of connections that outlive the statements of this
        // one: the pile is a handle of the caller's, or of a connection opened before.
        unsafe {
            let relation = pg_sys::palloc0(size_of::<pg_sys::EphemeralNamedRelationData>())
                .cast::<pg_sys::EphemeralNamedRelationData>();
            (*relation).md.name = pg_sys::pstrdup(name.as_ptr());
            (*relation).md.tupdesc = pile.descriptor;
            (*relation).md.enrtype = pg_sys::EphemeralNameRelationType::ENR_NAMED_TUPLESTORE;
            (*relation).md.enrtuples = pile.rows as f64;
            (*relation).reldata = pile.store.cast();
            step(|| pg_sys::SPI_register_relation(relation));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !unwinding() {
            // SAFETY: opened once, closed once.
            unsafe { step(|| raw::SPI_finish()) };
        }
    }
}

impl<'c> Plan<'c> {
    fn descriptor(&self) -> Option<pg_sys::TupleDesc> {
        // SAFETY: the list of a valid plan, of one element a statement.
        unsafe {
            let sources = pg_sys::SPI_plan_get_plan_sources(self.plan);
            if sources.is_null() || (*sources).length != 1 {
                return None;
            }
            let source = (*(*sources).elements).ptr_value.cast::<pg_sys::CachedPlanSource>();
            Some((*source).resultDesc).filter(|descriptor| !descriptor.is_null())
        }
    }

    /// The columns of its result; None where it is not one query.
    pub fn columns(&self) -> Option<Vec<ResultColumn>> {
        let descriptor = self.descriptor()?;
        // SAFETY: the descriptor is the plan's; names are NUL-terminated copies.
        unsafe {
            let column = |n| ResultColumn {
                name: CStr::from_ptr(pg_sys::SPI_fname(descriptor, n)).to_bytes().to_vec(),
                kind: pg_sys::SPI_gettypeid(descriptor, n),
            };
            Some((1..=(*descriptor).natts).map(column).collect())
        }
    }

    /// Runs it with one parameter, a column of a row, or none; its result is thrown away.
    pub fn call(&self, argument: Option<(&Row, usize)>) {
        let value = argument.and_then(|(row, column)| row.value(column));
        let mut values = [value.unwrap_or(Datum::from(0usize))];
        let nulls = [if value.is_some() { b' ' } else { b'n' } as c_char];
        // SAFETY: the plan was prepared for one parameter of that type, or for none.
        unsafe {
            let status = step(|| {
                let status =
                    SPI_execute_plan(self.plan, values.as_mut_ptr(), nulls.as_ptr(), false, 0);
                pg_sys::SPI_freetuptable(pg_sys::SPI_tuptable);
                status
            });
            if status < 0 {
                pgrx::error!("a statement was refused: SPI says {status}");
            }
        }
    }

    /// Runs it without parameters and hands out its rows, in memory of their own.
    pub fn each<E>(&self, mut take: impl FnMut(&Row) -> Result<(), E>) -> Result<(), E> {
        // SAFETY: no name and no parameters; closed below, or by the abort of the transaction.
        let portal = unsafe {
            step(|| {
                SPI_cursor_open(std::ptr::null(), self.plan, null_mut(), std::ptr::null(), false)
            })
        };
        loop {
            // SAFETY: the portal is open.
            let count = unsafe {
                step(|| SPI_cursor_fetch(portal, true, BATCH));
                pg_sys::SPI_processed as usize
            };
            in_own_memory(|| {
                // SAFETY: a fetch has left its rows there; they are freed below.
                let table = unsafe { &*pg_sys::SPI_tuptable };
                // SAFETY: the descriptor is the result's.
                let width = unsafe { (*table.tupdesc).natts as usize };
                let (mut values, mut nulls) = (vec![Datum::from(0usize); width], vec![true; width]);
                for place in 0..count {
                    // SAFETY: the result has that many rows, each of that width.
                    unsafe {
                        pg_sys::heap_deform_tuple(
                            *table.vals.add(place),
                            table.tupdesc,
                            values.as_mut_ptr(),
                            nulls.as_mut_ptr(),
                        );
                    }
                    take(&Row { values: &values, nulls: &nulls })?;
                }
                Ok(())
            })?;
            // SAFETY: the rows of the last fetch, no longer used.
            unsafe { pg_sys::SPI_freetuptable(pg_sys::SPI_tuptable) };
            if count == 0 {
                break;
            }
        }
        // SAFETY: opened above.
        unsafe { step(|| SPI_cursor_close(portal)) };
        Ok(())
    }

    /// The same, where nothing can be said against a row.
    pub fn every(&self, mut take: impl FnMut(&Row)) {
        let read: Result<(), std::convert::Infallible> = self.each(|row| {
            take(row);
            Ok(())
        });
        let Ok(()) = read;
    }

    /// The columns of its result, in memory of the connection.
    pub(super) fn columns_copied(&self) -> pg_sys::TupleDesc {
        let Some(descriptor) = self.descriptor() else {
            pgrx::error!("a query that gives no rows was to be kept");
        };
        // SAFETY: the descriptor is the plan's.
        unsafe { pg_sys::CreateTupleDescCopy(descriptor) }
    }

    /// Runs it, and keeps its rows. Under a snapshot of before, where one is given.
    pub(super) fn collect(&self, past: pg_sys::Snapshot) -> Pile<'c> {
        let descriptor = self.columns_copied();
        // SAFETY: the store is made in the connection's memory, its file belongs to the resource owner that
        // is current now; the receiver writes to it while the query runs. The snapshot is registered.
        unsafe {
            let store = pg_sys::tuplestore_begin_heap(true, false, PILE_KILOBYTES);
            step(|| {
                let receiver = CreateTuplestoreDestReceiver();
                let context = pg_sys::CurrentMemoryContext;
                SetTuplestoreDestReceiverParams(
                    receiver,
                    store,
                    context,
                    false,
                    null_mut(),
                    std::ptr::null(),
                );
                let options = pg_sys::SPIExecuteOptions {
                    dest: receiver,
                    read_only: !past.is_null(),
                    ..std::mem::zeroed()
                };
                if !past.is_null() {
                    pg_sys::PushActiveSnapshot(past);
                }
                SPI_execute_plan_extended(self.plan, &options);
                if !past.is_null() {
                    pg_sys::PopActiveSnapshot();
                }
            });
            Pile { store, descriptor, rows: pg_sys::SPI_processed, connection: PhantomData }
        }
    }
}

/// The row in a slot.
pub(super) fn row_of<'r>(slot: *mut pg_sys::TupleTableSlot) -> Row<'r> {
    // SAFETY: the slot holds a tuple, whose attributes are unpacked here into its own arrays.
    unsafe {
        let width = (*(*slot).tts_tupleDescriptor).natts;
        pg_sys::slot_getsomeattrs_int(slot, width);
        let width = width as usize;
        Row {
            values: std::slice::from_raw_parts((*slot).tts_values, width),
            nulls: std::slice::from_raw_parts((*slot).tts_isnull, width),
        }
    }
}
