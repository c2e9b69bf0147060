//! Settings whose value is checked by a function of ours when they are set.

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::OnceLock;

/// Judges a list; what is wrong with it comes back as a sentence.
pub type Judge = fn(&[u8]) -> Result<(), &'static CStr>;

/// What judges a list of names.
static JUDGE: OnceLock<Judge> = OnceLock::new();

/// Defines a setting that is a list of names, read from the server's configuration alone.
pub fn define_list(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<Option<CString>>,
    judge: Judge,
) {
    JUDGE.get_or_init(|| judge);
    let flags = GucFlags::from_bits_retain(pg_sys::GUC_LIST_INPUT as i32);
    // SAFETY: called once, from _PG_init; the hook has the signature of a string's check hook.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            name,
            short,
            long,
            setting,
            GucContext::Sighup,
            flags,
            Some(check),
            None,
            None,
        );
    }
}

/// Runs in whatever process reads the configuration, the postmaster included.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn check(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: a check hook is given a pointer to a NUL-terminated string or to NULL; the sentence is
    // static, and PostgreSQL only reads it.
    unsafe {
        if (*value).is_null() {
            return true;
        }
        match JUDGE.get().map(|judge| judge(CStr::from_ptr(*value).to_bytes())) {
            Some(Err(why)) => {
                pg_sys::GUC_check_errdetail_string = why.as_ptr().cast_mut();
                false
            }
            _ => true,
        }
    }
}
