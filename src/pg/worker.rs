//! Running a short piece of work in a background process, in a transaction of its own.

use super::failure::sql;
use pgrx::bgworkers::{BackgroundWorkerBuilder, BackgroundWorkerStatus};
use pgrx::pg_sys;
use std::ffi::CStr;

/// Starts `function` of this library in a process connected to no database yet, and waits until it
/// has ended. `order` reaches it as [`order`]. False where no process could be had (all worker
/// slots in use, single-user mode) or the postmaster died; whether the work was done is for the
/// caller to look up.
pub fn run(name: &str, function: &str, order: &str) -> bool {
    // SAFETY: reads a value of the session.
    let pid = unsafe { pg_sys::MyProcPid };
    BackgroundWorkerBuilder::new(name)
        .set_type("pg_once")
        .set_library("pg_once")
        .set_function(function)
        .enable_spi_access()
        .set_extra(order)
        .set_notify_pid(pid)
        .load_dynamic()
        .is_ok_and(|worker| {
            !matches!(worker.wait_for_shutdown(), Err(BackgroundWorkerStatus::PostmasterDied))
        })
}

/// What the process was started to do.
pub fn order() -> String {
    pgrx::bgworkers::BackgroundWorker::get_extra().to_owned()
}

unsafe extern "C-unwind" {
    // tcop/tcopprot.h; pgrx binds it only as a Rust function.
    fn die(signal: std::ffi::c_int);
}

/// Connects the process to a database as its bootstrap superuser, ready to be cancelled as a
/// backend is: SIGTERM ends it at the next safe point, also while it waits for a lock.
pub fn connect(database: pg_sys::Oid) {
    // SAFETY: called once, first thing in a background worker; `die` is the handler backends use.
    unsafe {
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(pg_sys::SIGTERM as i32, Some(die));
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(pg_sys::SIGTERM as i32, Some(die));
        pg_sys::BackgroundWorkerUnblockSignals();
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
    }
}

/// Runs `work` in a transaction with a snapshot and commits it. An error ends the process, is
/// logged, and rolls everything back.
pub fn transaction(work: impl FnOnce()) {
    // SAFETY: the process is connected and in no transaction.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    }
    work();
    // SAFETY: closes what was opened above, in reverse order.
    unsafe {
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
        pg_sys::pgstat_report_stat(true);
    }
}

/// Sets a setting for the rest of the process.
pub fn set(name: &CStr, value: &CStr) {
    // SAFETY: both strings are NUL-terminated and copied.
    unsafe {
        pg_sys::SetConfigOption(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_SESSION,
        );
    }
}

static MAIN: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();
static RUNNING: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Whether this process is such a background process.
pub fn is_running() -> bool {
    RUNNING.load(std::sync::atomic::Ordering::Relaxed)
}

/// Says what a process of ours runs. Called when the library is loaded, in that process too.
pub fn define_main(main: fn()) {
    MAIN.get_or_init(|| main);
}

/// The entry point by which PostgreSQL starts such a process.
#[unsafe(no_mangle)]
#[pgrx::pg_guard]
pub extern "C-unwind" fn pg_once_make(_arg: pg_sys::Datum) {
    RUNNING.store(true, std::sync::atomic::Ordering::Relaxed);
    if let Some(main) = MAIN.get() {
        sql(main).or_throw();
    }
}
