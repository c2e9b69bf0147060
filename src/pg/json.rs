//! A `jsonb` argument, of which single values are read in their text form.

use super::rows::Json;
use super::text::Text;
use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pg_sys;
use std::ffi::CStr;
use std::marker::PhantomData;

/// A `jsonb` argument, good for the call it came with.
pub struct Jsonb<'fcx> {
    datum: pg_sys::Datum,
    call: PhantomData<&'fcx ()>,
}

// SAFETY: keeps the argument's datum; the SQL declaration makes it a jsonb.
unsafe impl<'fcx> ArgAbi<'fcx> for Jsonb<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: any type's datum can be had as an AnyElement, which is not looked into.
        let element: pgrx::AnyElement = unsafe { arg.unbox_unchecked() };
        Jsonb { datum: element.datum(), call: PhantomData }
    }
}

impl Jsonb<'_> {
    /// The value by itself, in memory of the call's own.
    pub fn whole(&self) -> Json {
        Json::copy(self.datum)
    }

    /// The same value unpacked, so that looking into it does not unpack it each time.
    pub fn unpacked(self) -> Self {
        // SAFETY: the argument is a jsonb; what is unpacked lies in the call's memory context.
        let value = unsafe { pg_sys::pg_detoast_datum(self.datum.cast_mut_ptr()) };
        Jsonb { datum: pg_sys::Datum::from(value), call: PhantomData }
    }

    /// The same value without what these steps lead to, which is there.
    pub fn without(self, steps: &[Vec<u8>]) -> Self {
        let path = super::rows::array_of_texts(steps);
        // SAFETY: a jsonb and an array of text; the answer lies in the call's memory context.
        let datum = unsafe {
            pg_sys::OidFunctionCall2Coll(
                pg_sys::Oid::from(pg_sys::F_JSONB_DELETE_PATH),
                pg_sys::InvalidOid,
                self.datum,
                path,
            )
        };
        Jsonb { datum, call: PhantomData }
    }

    /// The text form of the value that these steps lead to, as `#>` takes them; None where there is none.
    pub fn text_at(&self, steps: &[Vec<u8>]) -> Option<Vec<u8>> {
        let steps: Vec<Text> = steps.iter().map(|step| Text::new(step)).collect();
        let mut path: Vec<pg_sys::Datum> = steps.iter().map(Text::datum).collect();
        let mut is_null = true;
        // SAFETY: the datum is a jsonb; path and count belong together and outlive the call; what is
        // found is a jsonb in the call's memory context, whose text ends in a zero.
        unsafe {
            let value = self.datum.cast_mut_ptr::<pg_sys::Jsonb>();
            let (first, count) = (path.as_mut_ptr(), path.len() as i32);
            let found = pg_sys::jsonb_get_element(value, first, count, &mut is_null, false);
            if is_null {
                return None;
            }
            let found = pg_sys::pg_detoast_datum(found.cast_mut_ptr()).cast::<pg_sys::Jsonb>();
            let size = pgrx::varlena::varsize_any(found.cast()) as i32;
            let root = &raw mut (*found).root;
            let text = pg_sys::JsonbToCString(std::ptr::null_mut(), root, size);
            let bytes = CStr::from_ptr(text).to_bytes().to_vec();
            pg_sys::pfree(text.cast());
            Some(bytes)
        }
    }
}
