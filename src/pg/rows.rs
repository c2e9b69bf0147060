//! Rows as results: one composite value, or a set built in one go.

use super::text::Text;
use pgrx::callconv::{Arg, ArgAbi, CallCx, RetAbi};
use pgrx::pg_sys;
use std::ffi::CStr;

/// A jsonb value in memory of the call's own.
pub struct Json(pg_sys::Datum);

// SAFETY: keeps the argument's datum, which outlives the call; the SQL declaration makes it a jsonb.
unsafe impl<'fcx> ArgAbi<'fcx> for Json {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: any type's datum can be had as an AnyElement, which is not looked into.
        let element: pgrx::AnyElement = unsafe { arg.unbox_unchecked() };
        Json(element.datum())
    }
}

impl Json {
    pub(super) fn datum(&self) -> pg_sys::Datum {
        self.0
    }

    /// Whether both are the same value, whatever they were written like.
    pub fn equals(&self, other: &Json) -> bool {
        // SAFETY: compares two jsonb values, unpacking them where needed.
        unsafe {
            pg_sys::OidFunctionCall2Coll(
                pg_sys::Oid::from(pg_sys::F_JSONB_EQ),
                pg_sys::InvalidOid,
                self.0,
                other.0,
            )
            .value()
                & 1
                == 1
        }
    }

    pub(super) fn copy(datum: pg_sys::Datum) -> Json {
        // SAFETY: a jsonb value of a row whose page is pinned, copied whole.
        Json(unsafe {
            pg_sys::Datum::from(pg_sys::pg_detoast_datum_copy(
                datum.cast_mut_ptr::<pg_sys::varlena>(),
            ))
        })
    }

    /// The JSON null.
    pub fn null() -> Json {
        // SAFETY: jsonb_in parses the text, which is JSON.
        Json(unsafe {
            let read = pg_sys::Oid::from(pg_sys::F_JSONB_IN);
            let text = pg_sys::Datum::from(c"null".as_ptr());
            pg_sys::OidFunctionCall1Coll(read, pg_sys::InvalidOid, text)
        })
    }
}

/// One value of a result row.
pub enum Value<'a> {
    /// NULL.
    Null,
    /// A timestamptz, microseconds since 2000-01-01 UTC.
    Instant(i64),
    /// A bigint.
    Integer(i64),
    /// An integer.
    Small(i32),
    /// A uuid.
    Uuid([u8; 16]),
    /// An array of bigint.
    Integers(Vec<i64>),
    /// A double precision.
    Float(f64),
    /// An array of text, each of these bytes.
    Texts(Vec<Vec<u8>>),
    /// An oid, or a value of one of the types that name an object by it.
    Oid(pg_sys::Oid),
    /// A boolean.
    Bool(bool),
    /// A label of the enum type that the result column has.
    Label(&'a CStr),
    /// Text of these bytes, which the row owns.
    Owned(Vec<u8>),
    /// Text of these bytes.
    Bytes(&'a [u8]),
    /// A jsonb value.
    Json(Json),
}

impl Value<'_> {
    /// # Safety
    /// `kind` is the type of the result column, and the variant fits it.
    pub(super) unsafe fn datum(
        &self,
        kind: pg_sys::Oid,
        scratch: &mut Text,
    ) -> Option<pg_sys::Datum> {
        match self {
            Value::Null => None,
            Value::Instant(at) => Some(pg_sys::Datum::from(*at)),
            Value::Integer(value) => Some(pg_sys::Datum::from(*value)),
            Value::Small(value) => Some(pg_sys::Datum::from(*value)),
            Value::Uuid(bytes) => Some(uuid_value(bytes)),
            Value::Integers(values) => Some(array_of(values)),
            Value::Float(value) => Some(pg_sys::Datum::from(value.to_bits())),
            Value::Texts(texts) => Some(array_of_texts(texts)),
            Value::Oid(oid) => Some(pg_sys::Datum::from(*oid)),
            Value::Bool(value) => Some(pg_sys::Datum::from(*value)),
            // SAFETY: the caller's promise: the column is of an enum type.
            Value::Label(label) => Some(unsafe { enum_value(kind, label) }),
            Value::Owned(bytes) => {
                scratch.set(bytes);
                Some(scratch.datum())
            }
            Value::Bytes(bytes) => {
                scratch.set(bytes);
                Some(scratch.datum())
            }
            Value::Json(json) => Some(json.0),
        }
    }
}

fn uuid_value(bytes: &[u8; 16]) -> pg_sys::Datum {
    // SAFETY: a uuid is sixteen bytes passed by reference, here in memory of the call's own.
    unsafe {
        let place = pg_sys::palloc(bytes.len()).cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        pg_sys::Datum::from(place)
    }
}

fn array_of(values: &[i64]) -> pg_sys::Datum {
    let mut elements: Vec<pg_sys::Datum> = values.iter().map(|&v| v.into()).collect();
    // SAFETY: elements of type bigint, which is eight bytes by value and aligned to them; they are copied.
    unsafe {
        let (elements, count) = (elements.as_mut_ptr(), elements.len() as i32);
        let kind = pg_sys::INT8OID;
        let align = pg_sys::TYPALIGN_DOUBLE as std::ffi::c_char;
        pg_sys::Datum::from(pg_sys::construct_array(elements, count, kind, 8, true, align))
    }
}

pub(super) fn array_of_texts(texts: &[Vec<u8>]) -> pg_sys::Datum {
    let texts: Vec<Text> = texts.iter().map(|bytes| Text::new(bytes)).collect();
    let mut elements: Vec<pg_sys::Datum> = texts.iter().map(Text::datum).collect();
    // SAFETY: elements of type text, which has a length of its own and is aligned to four bytes; they are copied.
    unsafe {
        let (elements, count) = (elements.as_mut_ptr(), elements.len() as i32);
        let align = pg_sys::TYPALIGN_INT as std::ffi::c_char;
        let array = pg_sys::construct_array(elements, count, pg_sys::TEXTOID, -1, false, align);
        pg_sys::Datum::from(array)
    }
}

/// The oid of a label, found by the type's own oid and never by a name.
///
/// # Safety
/// `kind` is an enum type.
unsafe fn enum_value(kind: pg_sys::Oid, label: &CStr) -> pg_sys::Datum {
    // SAFETY: enum_in parses a label of the given enum type and raises for one it does not have.
    unsafe {
        pg_sys::OidFunctionCall2Coll(
            pg_sys::Oid::from(pg_sys::F_ENUM_IN),
            pg_sys::InvalidOid,
            pg_sys::Datum::from(label.as_ptr()),
            pg_sys::Datum::from(kind),
        )
    }
}

/// One row returned as a composite value; `N` is the number of OUT columns of the SQL function.
pub struct OneRow<'a, const N: usize>(pub [Value<'a>; N]);

// SAFETY: box_ret_in_fcinfo forms the tuple by the descriptor of the function being called, whose
// columns the SQL declaration fixes.
unsafe impl<const N: usize> RetAbi for OneRow<'_, N> {
    type Item = Self;
    type Ret = Self;

    fn to_ret(self) -> Self {
        self
    }

    unsafe fn box_ret_in_fcinfo(fcinfo: pg_sys::FunctionCallInfo, row: Self) -> pg_sys::Datum {
        // SAFETY: a valid fcinfo by the trait's contract; the descriptor is blessed before use.
        unsafe {
            let mut descriptor = std::ptr::null_mut();
            pg_sys::get_call_result_type(fcinfo, std::ptr::null_mut(), &mut descriptor);
            let descriptor = pg_sys::BlessTupleDesc(descriptor);
            let mut scratch: [Text; N] = std::array::from_fn(|_| Text::unset());
            let (mut values, mut nulls) = row.fill(descriptor, &mut scratch);
            let tuple =
                pg_sys::heap_form_tuple(descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
        }
    }

    unsafe fn move_into_fcinfo_fcx(self, _fcinfo: pg_sys::FunctionCallInfo) {}

    unsafe fn fill_fcinfo_fcx(&self, _fcinfo: pg_sys::FunctionCallInfo) {}
}

impl<const N: usize> OneRow<'_, N> {
    /// # Safety
    /// The descriptor has N columns whose types fit the values.
    pub(super) unsafe fn fill(
        &self,
        descriptor: pg_sys::TupleDesc,
        scratch: &mut [Text; N],
    ) -> ([pg_sys::Datum; N], [bool; N]) {
        let mut values = [pg_sys::Datum::from(0usize); N];
        let mut nulls = [true; N];
        for (i, (value, scratch)) in self.0.iter().zip(scratch).enumerate() {
            // SAFETY: the caller's promise; attribute numbers count from 1.
            let datum = unsafe {
                let kind = pg_sys::SPI_gettypeid(descriptor, i as i32 + 1);
                value.datum(kind, scratch)
            };
            if let Some(datum) = datum {
                values[i] = datum;
                nulls[i] = false;
            }
        }
        (values, nulls)
    }
}

/// A set of rows, stored as the executor will read them (materialised, spilling to disk beyond
/// work_mem), so that a row costs a copy and not a call.
pub struct RowSet<'a, const N: usize>(Box<dyn Iterator<Item = [Value<'a>; N]> + 'a>);

impl<'a, const N: usize> RowSet<'a, N> {
    /// The rows that an iterator gives, taken after the function has returned.
    pub fn new(rows: impl Iterator<Item = [Value<'a>; N]> + 'a) -> RowSet<'a, N> {
        RowSet(Box::new(rows))
    }
}

// SAFETY: as for OneRow; the function is declared RETURNS TABLE and so is called where a
// ReturnSetInfo is given, which InitMaterializedSRF checks.
unsafe impl<const N: usize> RetAbi for RowSet<'_, N> {
    type Item = Self;
    type Ret = Self;

    fn to_ret(self) -> Self {
        self
    }

    unsafe fn check_fcinfo_and_prepare(fcinfo: pg_sys::FunctionCallInfo) -> CallCx {
        // SAFETY: a valid fcinfo by the trait's contract. Refuses, before anything is claimed, a
        // caller that cannot take a set.
        unsafe {
            pg_sys::InitMaterializedSRF(fcinfo, 0);
            CallCx::WrappedFn(pg_sys::CurrentMemoryContext)
        }
    }

    unsafe fn box_ret_in_fcinfo(fcinfo: pg_sys::FunctionCallInfo, rows: Self) -> pg_sys::Datum {
        // SAFETY: InitMaterializedSRF put store and descriptor into the ReturnSetInfo.
        unsafe {
            let info = (*fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            let (store, descriptor) = ((*info).setResult, (*info).setDesc);
            let mut scratch: [Text; N] = std::array::from_fn(|_| Text::unset());
            for row in rows.0 {
                let (mut values, mut nulls) = OneRow(row).fill(descriptor, &mut scratch);
                pg_sys::tuplestore_putvalues(
                    store,
                    descriptor,
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                );
                pgrx::check_for_interrupts!();
            }
            (*fcinfo).isnull = true;
            pg_sys::Datum::from(0usize)
        }
    }

    unsafe fn move_into_fcinfo_fcx(self, _fcinfo: pg_sys::FunctionCallInfo) {}

    unsafe fn fill_fcinfo_fcx(&self, _fcinfo: pg_sys::FunctionCallInfo) {}
}

/// The result of a function that gives rows one by one while it runs: stored as they come, beyond work_mem on
/// disk, and kept even where the work that they tell of is undone. Not a SQL argument, but taken by the function as
/// if it were one.
pub struct Rows {
    store: *mut pg_sys::Tuplestorestate,
    descriptor: pg_sys::TupleDesc,
}

impl Rows {
    /// Adds a row; `N` is the number of columns of the SQL function.
    pub fn put<const N: usize>(&self, row: [Value<'_>; N]) {
        let mut scratch: [Text; N] = std::array::from_fn(|_| Text::unset());
        // SAFETY: the SQL declaration fixes the columns; the row is copied.
        unsafe {
            let (mut values, mut nulls) = OneRow(row).fill(self.descriptor, &mut scratch);
            let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, values, nulls);
        }
    }
}

// SAFETY: consumes no SQL argument. InitMaterializedSRF refuses a caller that cannot take a set; store and
// descriptor live as long as the statement, and the store's file belongs to the resource owner of the call.
unsafe impl<'fcx> ArgAbi<'fcx> for Rows {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: FunctionCallInfo is itself a virtual argument.
        let fcinfo: pg_sys::FunctionCallInfo = unsafe { arg.unbox_unchecked() };
        // SAFETY: as above.
        unsafe {
            pg_sys::InitMaterializedSRF(fcinfo, 0);
            let info = (*fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            Rows { store: (*info).setResult, descriptor: (*info).setDesc }
        }
    }

    fn is_virtual_arg() -> bool {
        true
    }
}
