//! A `text[]` argument, or a column of that type, as exact bytes.

use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pg_sys;
use std::marker::PhantomData;

/// A `text[]` argument, good for the call it came with.
pub struct TextArray<'fcx> {
    datum: pg_sys::Datum,
    call: PhantomData<&'fcx ()>,
}

/// Why an array cannot be a list of keys.
pub enum ArrayFault {
    /// It has this many dimensions.
    Dimensions(i32),
    /// The element at this position, counted from 1, is NULL.
    NullElement(usize),
}

// SAFETY: keeps the argument's datum; the SQL declaration makes it a text[].
unsafe impl<'fcx> ArgAbi<'fcx> for TextArray<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: any type's datum can be had as an AnyElement, which is not looked into.
        let element: pgrx::AnyElement = unsafe { arg.unbox_unchecked() };
        TextArray { datum: element.datum(), call: PhantomData }
    }
}

impl<'fcx> TextArray<'fcx> {
    /// The value of a column that the caller knows to be of type text[], good while its row is.
    pub(super) fn of_column(datum: pg_sys::Datum) -> TextArray<'fcx> {
        TextArray { datum, call: PhantomData }
    }

    /// The elements in order. The lower bound does not matter; an empty array gives an empty list.
    pub fn elements(&self) -> Result<Vec<&'fcx [u8]>, ArrayFault> {
        // SAFETY: the argument is a text[]; detoasting copies where it must, into the call's memory
        // context, and element values point into the detoasted array: both last as long as the call.
        unsafe {
            let raw =
                pg_sys::pg_detoast_datum(self.datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            match (*raw).ndim {
                0 => return Ok(Vec::new()),
                1 => {}
                dimensions => return Err(ArrayFault::Dimensions(dimensions)),
            }
            let (mut values, mut nulls, mut count) =
                (std::ptr::null_mut(), std::ptr::null_mut(), 0);
            pg_sys::deconstruct_array(
                raw,
                pg_sys::TEXTOID,
                -1,
                false,
                pg_sys::TYPALIGN_INT as std::ffi::c_char,
                &mut values,
                &mut nulls,
                &mut count,
            );
            let count = count as usize;
            let mut elements = Vec::with_capacity(count);
            for i in 0..count {
                if *nulls.add(i) {
                    return Err(ArrayFault::NullElement(i + 1));
                }
                let value = (*values.add(i)).cast_mut_ptr();
                // Elements are stored uncompressed and inline, but nothing forbids the contrary.
                let value = pg_sys::pg_detoast_datum_packed(value);
                elements.push(pgrx::varlena::varlena_to_byte_slice(value));
            }
            pg_sys::pfree(values.cast());
            pg_sys::pfree(nulls.cast());
            Ok(elements)
        }
    }
}
