//! Transaction control for a procedure that works in steps.

use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pg_sys;

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
