//! A PostgreSQL error on its way through Rust, kept whole.
//!
//! pgrx rebuilds an error it has caught from the parts it knows; a SQLSTATE of somebody's own (a
//! trigger's), the constraint's name and the context are lost. What a claim may run into is caught here
//! instead: the error travels as a panic, so that handles are dropped in order, and is thrown again as
//! it was at the edge of the SQL function.

use super::procedure::Failed;
use pgrx::PgSqlErrorCode;
use pgrx::callconv::{CallCx, RetAbi};
use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use std::any::Any;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

unsafe extern "C-unwind" {
    // utils/elog.h, here without pgrx's guard: it is to jump to whoever called the SQL function.
    fn ReThrowError(error: *mut pg_sys::ErrorData) -> !;
}

/// A caught error, in memory that lasts as long as the transaction.
pub struct Failure(*mut pg_sys::ErrorData);

// SAFETY: a panic's payload must be Send; the backend has one thread.
unsafe impl Send for Failure {}

/// Runs one step of calls into PostgreSQL under one guard: an error raised in it becomes a panic that
/// carries a [`Failure`].
///
/// # Safety
/// As for the calls made in it; and no value with a destructor may be alive within it where an error
/// can be raised, because the jump out of `calls` runs no destructors.
pub(super) unsafe fn step<T>(calls: impl FnOnce() -> T) -> T {
    // SAFETY: the backend has one thread. The jump target is taken back before this function
    // returns or panics; what `calls` wrote before a jump is not looked at.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let outer_target = pg_sys::PG_exception_stack;
        let outer_notes = pg_sys::error_context_stack;
        let mut result = MaybeUninit::uninit();
        let jumped = cee_scape::call_with_sigsetjmp(false, |target| {
            pg_sys::PG_exception_stack = std::ptr::from_ref(target).cast_mut().cast();
            result.write(calls());
            0
        });
        pg_sys::PG_exception_stack = outer_target;
        pg_sys::error_context_stack = outer_notes;
        if jumped == 0 {
            return result.assume_init();
        }
        // Where it outlives whatever is undone on its way: a subtransaction, an SPI connection.
        pg_sys::CurrentMemoryContext = pg_sys::TopTransactionContext;
        let error = pg_sys::CopyErrorData();
        pg_sys::CurrentMemoryContext = context;
        pg_sys::FlushErrorState();
        // Without the panic hook: nothing is to be printed or traced.
        resume_unwind(Box::new(Failure(error)))
    }
}

/// The result of a SQL function: its value, or the error it ran into.
pub struct Sql<T>(Result<T, Failure>);

/// Runs the body of a SQL function, holding an error from a [`step`] until every value of it is
/// dropped.
pub fn sql<T>(body: impl FnOnce() -> T) -> Sql<T> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => Sql(Ok(value)),
        Err(payload) => match payload.downcast::<Failure>() {
            Ok(failure) => Sql(Err(*failure)),
            // Any other panic is pgrx's to report.
            Err(payload) => resume_unwind(payload),
        },
    }
}

impl<T> Sql<T> {
    /// The value, or the error thrown again: for an entry point that is no SQL function. Nothing of
    /// Rust's may be waiting to be dropped in its caller.
    pub fn or_throw(self) -> T {
        match self.0 {
            Ok(value) => value,
            Err(failure) => throw(failure),
        }
    }
}

fn throw(failure: Failure) -> ! {
    // SAFETY: the error was copied by `step`; ReThrowError takes a copy again and jumps.
    unsafe { ReThrowError(failure.0) }
}

// SAFETY: everything is left to the value's own implementation; an error is thrown where nothing but
// pgrx's plain frames is left to jump over.
unsafe impl<T: RetAbi> RetAbi for Sql<T> {
    type Item = T::Item;
    type Ret = Result<T::Ret, Failure>;

    unsafe fn check_fcinfo_and_prepare(fcinfo: pg_sys::FunctionCallInfo) -> CallCx {
        // SAFETY: the trait's contract.
        unsafe { T::check_fcinfo_and_prepare(fcinfo) }
    }

    fn to_ret(self) -> Self::Ret {
        self.0.map(T::to_ret)
    }

    unsafe fn box_ret_in_fcinfo(fcinfo: pg_sys::FunctionCallInfo, ret: Self::Ret) -> pg_sys::Datum {
        match ret {
            // SAFETY: the trait's contract.
            Ok(ret) => unsafe { T::box_ret_in_fcinfo(fcinfo, ret) },
            Err(failure) => throw(failure),
        }
    }

    unsafe fn move_into_fcinfo_fcx(self, _fcinfo: pg_sys::FunctionCallInfo) {}

    unsafe fn fill_fcinfo_fcx(&self, _fcinfo: pg_sys::FunctionCallInfo) {}
}

/// What a caught panic is, where it is an error that a step of a procedure may survive: not a cancel, not the
/// end of the session, not a bug in Rust.
pub(super) fn survived(payload: &(dyn Any + Send)) -> Option<Failed> {
    let failed = |code: i32, message: String| match code {
        _ if code == PgSqlErrorCode::ERRCODE_QUERY_CANCELED as i32
            || code == PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN as i32 =>
        {
            None
        }
        _ if code == PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE as i32 => Some(Failed::LockTimeout),
        _ => Some(Failed::Said(message)),
    };
    if let Some(Failure(error)) = payload.downcast_ref::<Failure>() {
        // SAFETY: the error was copied by `step` into memory of the transaction; a message is
        // NUL-terminated or null.
        return unsafe {
            let message = (**error).message;
            let text = if message.is_null() { c"" } else { CStr::from_ptr(message) };
            failed((**error).sqlerrcode, text.to_string_lossy().into_owned())
        };
    }
    match payload.downcast_ref::<CaughtError>()? {
        CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => {
            failed(report.sql_error_code() as i32, report.message().to_owned())
        }
        CaughtError::RustPanic { .. } => None,
    }
}

/// What an error said, where it came from a [`step`].
pub struct Report {
    /// Its SQLSTATE.
    pub sqlstate: String,
    /// Its message.
    pub message: String,
    /// Its detail and its context, as far as there are any, a line each.
    pub more: String,
}

/// Runs work and hands back an error that a step of it ran into, still to be cleaned up after by the abort of the
/// (sub)transaction. A cancel and the end of the session go on.
pub fn reported<T>(work: impl FnOnce() -> T) -> Result<T, Report> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        if survived(payload.as_ref()).is_none() {
            resume_unwind(payload);
        }
        let Some(Failure(error)) = payload.downcast_ref::<Failure>() else {
            resume_unwind(payload)
        };
        // SAFETY: the error was copied by `step` into memory of the transaction; its texts are
        // NUL-terminated or null.
        unsafe {
            let text = |text: *mut std::ffi::c_char| {
                if text.is_null() {
                    String::new()
                } else {
                    CStr::from_ptr(text).to_string_lossy().into_owned()
                }
            };
            let code = (**error).sqlerrcode;
            // Six bits a character, the first lowest (MAKE_SQLSTATE in utils/elog.h).
            let sqlstate =
                (0..5).map(|n| char::from(((code >> (6 * n)) & 0x3F) as u8 + b'0')).collect();
            let more = [text((**error).detail), text((**error).context)];
            let more = more
                .iter()
                .filter(|part| !part.is_empty())
                .map(|part| format!("\n{part}"))
                .collect();
            Report { sqlstate, message: text((**error).message), more }
        }
    })
}
