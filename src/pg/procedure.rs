//! Transaction control for a procedure that works in steps.

use super::failure;
use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pg_sys;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How a procedure was called: not a SQL argument, but taken by the function as if it were one.
pub struct Call {
    atomic: bool,
}

impl Call {
    /// Whether the call is part of a transaction block, a function or another statement, so that it
    /// cannot commit.
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// Commits what was done so far and starts the next transaction. Only where the call is not
    /// atomic.
    pub fn commit(&self) {
        debug_assert!(!self.atomic);
        // SAFETY: a non-atomic CALL allows transaction control through SPI; the connection is closed
        // again at once, and no handle of ours may be open across it, which borrowing rules cannot
        // say: the callers commit between steps, each of which owns its handles.
        unsafe {
            pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as i32);
            pg_sys::SPI_commit();
            pg_sys::SPI_finish();
        }
    }

    /// The same, for what goes on with more than statements: those bring a snapshot of their own, anything
    /// else may ask for the one that a statement runs under.
    pub fn commit_and_go_on(&self) {
        self.commit();
        // SAFETY: called by a portal, that of CALL, which then owns the snapshot.
        unsafe { pg_sys::EnsurePortalSnapshotExists() };
    }
}

/// Runs one step of a procedure in memory of its own, which is given back when it ends: a procedure that
/// takes a million steps must not grow with them. The step may commit.
pub fn in_own_memory<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: a child of the procedure's own context, which outlives its transactions. Nothing of `T` lies
    // in it: it is Rust's. After an error the abort goes back to a context of its own.
    unsafe {
        let outer = pg_sys::CurrentMemoryContext;
        let own = pg_sys::AllocSetContextCreateInternal(
            outer,
            c"pg_once step".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        );
        pg_sys::MemoryContextSwitchTo(own);
        let value = work();
        pg_sys::MemoryContextSwitchTo(outer);
        pg_sys::MemoryContextDelete(own);
        value
    }
}

/// What a step ran into.
pub enum Failed {
    /// A lock could not be had in time.
    LockTimeout,
    /// Anything else, in words.
    Said(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Failed::LockTimeout => "it is locked by somebody",
            Failed::Said(message) => message,
        })
    }
}

/// Limits, within a step, how long the rest of it waits for any lock.
pub fn wait_at_most(millis: i32) {
    if let Ok(limit) = CString::new(format!("{millis}ms")) {
        super::privilege::set_for_now(c"lock_timeout", &limit);
    }
}

/// Runs one step of a procedure in a subtransaction, with a limit, in milliseconds, on how long it waits for
/// any lock. An error in it undoes the step and comes back; only a cancel or the end of the session goes on.
pub fn attempt<T, E: std::fmt::Display>(
    patience: i32,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, Failed> {
    // SAFETY: inside a transaction. The subtransaction ends on every way out; context and resource owner
    // are those of before it, as PL/pgSQL restores them after a block with an exception handler.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        let nest = pg_sys::NewGUCNestLevel();
        wait_at_most(patience);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::CurrentMemoryContext = context;
        let result = catch_unwind(AssertUnwindSafe(work));
        let outcome = match result {
            Ok(Ok(value)) => {
                pg_sys::ReleaseCurrentSubTransaction();
                Ok(value)
            }
            failed => {
                pg_sys::CurrentMemoryContext = context;
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
                Err(failed.map(|refused| refused.err().map_or_else(String::new, |e| e.to_string())))
            }
        };
        pg_sys::CurrentMemoryContext = context;
        pg_sys::CurrentResourceOwner = owner;
        pg_sys::AtEOXact_GUC(true, nest);
        match outcome {
            Ok(value) => Ok(value),
            Err(Ok(message)) => Err(Failed::Said(message)),
            Err(Err(payload)) => failure::survived(payload.as_ref())
                .ok_or(payload)
                .map_or_else(|payload| resume_unwind(payload), Err),
        }
    }
}

// SAFETY: reads the call context of a valid fcinfo; consumes no SQL argument.
unsafe impl<'fcx> ArgAbi<'fcx> for Call {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: FunctionCallInfo is itself a virtual argument.
        let fcinfo: pg_sys::FunctionCallInfo = unsafe { arg.unbox_unchecked() };
        // SAFETY: the context, where there is one, is a node; CALL gives a CallContext.
        let atomic = unsafe {
            let context = (*fcinfo).context;
            context.is_null()
                || (*context).type_ != pg_sys::NodeTag::T_CallContext
                || (*context.cast::<pg_sys::CallContext>()).atomic
        };
        Call { atomic }
    }

    fn is_virtual_arg() -> bool {
        true
    }
}
