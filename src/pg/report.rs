//! Raising an error whose SQLSTATE is our own: pgrx raises only those it has a name for.

use super::failure::step;
use pgrx::pg_sys;
use std::ffi::{CStr, CString, c_char};

unsafe extern "C-unwind" {
    // utils/elog.h, here without pgrx's guard: the step around it is one.
    fn ThrowErrorData(error: *mut pg_sys::ErrorData);
}

/// Raises an error with a SQLSTATE of five characters, digits or capital letters.
pub fn error(sqlstate: &[u8; 5], message: &str, detail: &str, hint: &str) -> ! {
    let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
    let (message, detail, hint) = (text(message), text(detail), text(hint));
    let at = |text: &CStr| -> *mut c_char { text.as_ptr().cast_mut() };
    // Six bits a character, the first lowest (MAKE_SQLSTATE in utils/elog.h).
    let code = sqlstate.iter().rev().fold(0, |code, &c| code << 6 | (i32::from(c) - 48) & 0x3F);
    // SAFETY: a zeroed ErrorData is one with nothing said; the strings live until it is copied by the
    // call, which raises and does not return.
    unsafe {
        let mut data: pg_sys::ErrorData = std::mem::zeroed();
        data.elevel = pgrx::PgLogLevel::ERROR as i32;
        data.sqlerrcode = code;
        data.message = at(&message);
        data.detail = at(&detail);
        data.hint = at(&hint);
        data.assoc_context = pg_sys::CurrentMemoryContext;
        step(|| ThrowErrorData(&mut data));
    }
    unreachable!("an error that was raised does not return")
}
