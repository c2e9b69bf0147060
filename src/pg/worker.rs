//! Running a short piece of work in a background process, in a transaction of its own.

use super::failure::sql;
use pgrx::bgworkers::{BackgroundWorkerBuilder, BackgroundWorkerStatus};
use pgrx::pg_sys;
use std::ffi::{CStr, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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
    fn die(signal: c_int);
}

/// Has the process end at the next safe point when it gets a signal, as a backend does.
///
/// # Safety
/// In a background worker that has not unblocked its signals yet.
pub(super) unsafe fn die_by(signal: u32) {
    // SAFETY: the contract; `die` is the handler that backends use.
    unsafe { handle(signal, die) };
}

/// Sets the handler of a signal.
///
/// # Safety
/// As above; the handler does nothing but what a handler may.
pub(super) unsafe fn handle(signal: u32, handler: unsafe extern "C-unwind" fn(c_int)) {
    // SAFETY: the contract.
    unsafe {
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(signal as c_int, Some(handler));
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(signal as c_int, Some(handler));
    }
}

/// Connects the process to a database as its bootstrap superuser, ready to be cancelled as a
/// backend is: SIGTERM ends it at the next safe point, also while it waits for a lock.
pub fn connect(database: pg_sys::Oid) {
    // SAFETY: called once, first thing in a background worker.
    unsafe {
        die_by(pg_sys::SIGTERM);
        pg_sys::BackgroundWorkerUnblockSignals();
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
    }
}

/// Starts a transaction with a snapshot. An error in it ends the process, is logged, and rolls
/// everything back.
pub fn begin() {
    // SAFETY: the process is connected and in no transaction.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    }
}

/// Commits it, and makes what it did known to the statistics.
pub fn commit() {
    // SAFETY: closes what `begin` opened, in reverse order; no handle of ours may be open across it, which
    // borrowing rules cannot say: the callers commit between steps, each of which owns its handles.
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

/// Takes away the limit on how long a transaction may last, where the server has one.
pub fn lift_transaction_timeout() {
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    set(c"transaction_timeout", c"0");
}

static MAINS: OnceLock<Mains> = OnceLock::new();
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether this process was started by a claim.
pub fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed)
}

/// What the processes of ours do, each for its whole life.
pub struct Mains {
    /// Makes what a claim needs.
    pub make: fn(),
    /// Starts those that maintain.
    pub launch: fn(),
    /// Maintains one database.
    pub maintain: fn(),
}

/// Says what the processes do. Called when the library is loaded, in those processes too.
pub fn define_mains(mains: Mains) {
    MAINS.get_or_init(|| mains);
}

fn live(which: fn(&Mains) -> fn()) {
    if let Some(main) = MAINS.get().map(which) {
        sql(main).or_throw();
    }
}

/// The entry point of a process that a claim starts.
#[unsafe(no_mangle)]
#[pgrx::pg_guard]
pub extern "C-unwind" fn pg_once_make(_arg: pg_sys::Datum) {
    RUNNING.store(true, Ordering::Relaxed);
    live(|mains| mains.make);
}

/// The entry point of the launcher.
#[unsafe(no_mangle)]
#[pgrx::pg_guard]
pub extern "C-unwind" fn pg_once_launch(_arg: pg_sys::Datum) {
    live(|mains| mains.launch);
}

/// The entry point of a process that the launcher starts.
#[unsafe(no_mangle)]
#[pgrx::pg_guard]
pub extern "C-unwind" fn pg_once_maintain(_arg: pg_sys::Datum) {
    live(|mains| mains.maintain);
}
