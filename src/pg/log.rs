//! Lines for the server's log alone.

use super::failure::step;
use pgrx::pg_sys;
use std::ffi::{CString, c_char, c_int};

unsafe extern "C-unwind" {
    // utils/elog.h; pgrx keeps these to itself.
    fn errstart(level: c_int, domain: *const c_char) -> bool;
    fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
    fn errmsg_internal(format: *const c_char, ...) -> c_int;
    fn errhidestmt(hide: bool) -> c_int;
    fn errhidecontext(hide: bool) -> c_int;
}

/// Writes a line to the server's log, whatever `client_min_messages` is, without the statement and the
/// context that PostgreSQL adds to a line of this level: both quote what the client sent.
pub fn line(message: &str) {
    let Ok(message) = CString::new(message) else { return };
    // SAFETY: the calls are those of ereport(); the strings are NUL-terminated and copied, and the message
    // is an argument of the format, not the format.
    unsafe {
        step(|| {
            if errstart(pg_sys::LOG_SERVER_ONLY as c_int, std::ptr::null()) {
                errmsg_internal(c"%s".as_ptr(), message.as_ptr());
                errhidestmt(true);
                errhidecontext(true);
                errfinish(c"log.rs".as_ptr(), 0, c"line".as_ptr());
            }
        });
    }
}
