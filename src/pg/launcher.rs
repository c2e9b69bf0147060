//! The process that starts others: registered when the server starts, connected to no database, asleep
//! most of the time.

use super::worker::die_by;
use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::pg_sys;
use std::ffi::{CString, c_int};
use std::time::Duration;

unsafe extern "C-unwind" {
    // postmaster/interrupt.h; pgrx binds it only as a Rust function.
    fn SignalHandlerForConfigReload(signal: c_int);
}

/// Whether the server is starting and loads this library for every process it will have. Not while
/// pg_upgrade runs it.
pub fn may_register() -> bool {
    // SAFETY: reads two values of the process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress && !pg_sys::IsBinaryUpgrade }
}

/// Has the server start `function` of this library once it is a primary that lets sessions in, and
/// again some time after it has ended, however it did.
pub fn register(name: &str, function: &str, again: Duration) {
    BackgroundWorkerBuilder::new(name)
        .set_library("pg_once")
        .set_function(function)
        // Sets the start as well: a standby has none, and a promotion starts it at once.
        .enable_spi_access()
        .set_restart_time(Some(again))
        .load();
}

/// Makes the process ready: it may be told to end and to read its settings anew, and it sees the shared
/// catalogs.
pub fn begin() {
    extern "C-unwind" fn ignore(_signal: c_int) {}
    // SAFETY: called once, first thing in a background worker; the handlers are those of PostgreSQL, and
    // one that does nothing: there is no statement here that somebody could want to cancel.
    unsafe {
        die_by(pg_sys::SIGTERM);
        super::worker::handle(pg_sys::SIGHUP, SignalHandlerForConfigReload);
        super::worker::handle(pg_sys::SIGINT, ignore);
        pg_sys::BackgroundWorkerUnblockSignals();
        pg_sys::BackgroundWorkerInitializeConnection(std::ptr::null(), std::ptr::null(), 0);
    }
}

/// Sleeps until something happens, or for `longest`. False where the process has been told to end.
pub fn wait(longest: Duration) -> bool {
    let millis =
        i64::try_from(longest.as_millis()).unwrap_or(i64::MAX).clamp(1, i64::from(i32::MAX));
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: waits on the process's own latch; the flags are set by the handlers above, which wake it.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, events as c_int, millis, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ResetLatch(pg_sys::MyLatch);
        if (&raw const pg_sys::ProcDiePending).read_volatile() != 0 {
            return false;
        }
        pgrx::check_for_interrupts!();
        if (&raw const pg_sys::ConfigReloadPending).read_volatile() != 0 {
            (&raw mut pg_sys::ConfigReloadPending).write_volatile(0);
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
    true
}

/// Ends the process; the server starts it again some time later.
pub fn end() {
    // SAFETY: what the process has is given back by PostgreSQL's own exit.
    unsafe { pg_sys::proc_exit(1) };
}

/// A process that was started and is not known to have ended.
pub struct Started(*mut pg_sys::BackgroundWorkerHandle);

/// Starts `function` of this library in a process; `order` reaches it. None where all of the server's
/// slots for such processes are in use.
pub fn start(name: &str, kind: &str, function: &str, order: &str) -> Option<Started> {
    // SAFETY: reads a value of the process.
    let me = unsafe { pg_sys::MyProcPid };
    let builder = BackgroundWorkerBuilder::new(name)
        .set_type(kind)
        .set_library("pg_once")
        .set_function(function)
        .enable_spi_access()
        .set_extra(order)
        .set_notify_pid(me);
    let mut worker = pg_sys::BackgroundWorker::from(&builder);
    let mut handle = std::ptr::null_mut();
    // SAFETY: both point to values of this frame; the handle is set where the answer is true.
    let registered = unsafe { pg_sys::RegisterDynamicBackgroundWorker(&mut worker, &mut handle) };
    // Made only where there is a handle to be given back.
    if registered { Some(Started(handle)) } else { None }
}

impl Started {
    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        let mut pid = 0;
        // SAFETY: the handle is valid for as long as this value.
        let status = unsafe { pg_sys::GetBackgroundWorkerPid(self.0, &mut pid) };
        status == pg_sys::BgwHandleStatus::BGWH_STOPPED
    }

    /// Has the server end it, also before it has begun.
    pub fn terminate(&self) {
        // SAFETY: as above.
        unsafe { pg_sys::TerminateBackgroundWorker(self.0) };
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if super::unwinding() {
            return;
        }
        // SAFETY: the handle was allocated for us and is not used again.
        unsafe { pg_sys::pfree(self.0.cast()) };
    }
}

/// Shows in pg_stat_activity what the process does.
pub fn show(at_work: bool, what: &str) {
    let state = if at_work {
        pg_sys::BackendState::STATE_RUNNING
    } else {
        pg_sys::BackendState::STATE_IDLE
    };
    let what = CString::new(what).unwrap_or_default();
    // SAFETY: the text is NUL-terminated and copied.
    unsafe { pg_sys::pgstat_report_activity(state, what.as_ptr()) };
}
