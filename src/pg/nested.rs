//! Work in a subtransaction that is kept or undone as a whole, and settings that hold for a while.

use super::privilege::set_for_now;
use super::unwinding;
use pgrx::pg_sys;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs work in a subtransaction. It is undone where `keep` is false or the work fails; an error goes on once
/// that is done, so that whoever catches it finds the transaction as it was.
pub fn subtransaction<T, E>(keep: bool, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // SAFETY: inside a transaction. The subtransaction ends on every way out; context and resource owner
    // are those of before it.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::CurrentMemoryContext = context;
        let result = catch_unwind(AssertUnwindSafe(work));
        pg_sys::CurrentMemoryContext = context;
        if keep && matches!(result, Ok(Ok(_))) {
            pg_sys::ReleaseCurrentSubTransaction();
        } else {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        pg_sys::CurrentMemoryContext = context;
        pg_sys::CurrentResourceOwner = owner;
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }
}

/// While it lives, settings have other values.
pub struct Settings(i32);

impl Settings {
    /// Sets them, in order.
    pub fn set(settings: &[(&CStr, &CStr)]) -> Settings {
        // SAFETY: closed when the handle is dropped, or by the abort of the (sub)transaction.
        let nest = unsafe { pg_sys::NewGUCNestLevel() };
        for (name, value) in settings {
            set_for_now(name, value);
        }
        Settings(nest)
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        if !unwinding() {
            // SAFETY: opened once, closed once.
            unsafe { pg_sys::AtEOXact_GUC(false, self.0) };
        }
    }
}

/// What pg_stat_activity shows as the session's query; the statement itself is shown again when it is dropped.
pub struct Activity(());

impl Activity {
    /// Starts showing.
    pub fn new() -> Activity {
        Activity(())
    }

    /// Shows a line.
    pub fn show(&self, line: &str) {
        let line = CString::new(line).unwrap_or_default();
        // SAFETY: the text is copied into the session's entry.
        unsafe {
            pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, line.as_ptr())
        };
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        // SAFETY: the statement that is running, or null, which shows nothing.
        unsafe {
            let statement = pg_sys::debug_query_string;
            pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, statement);
        }
    }
}

/// Ends here where the session was told to cancel or to go away.
pub fn check_for_interrupts() {
    pgrx::check_for_interrupts!();
}
