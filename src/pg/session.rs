//! The session and its transaction: the clock, what is allowed in it, and its database.

use super::failure::step;
use super::raw;
use pgrx::pg_sys;
use std::ffi::CStr;

/// The clock now (not the transaction's start), microseconds since 2000-01-01 UTC.
pub fn now() -> i64 {
    // SAFETY: reads the system clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// A number that the transaction in progress shares with no other of this session.
pub fn transaction() -> u32 {
    // SAFETY: MyProc is set for as long as the backend is connected; the field is its own.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return (*pg_sys::MyProc).lxid;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return (*pg_sys::MyProc).vxid.lxid;
    }
}

/// A number that the subtransaction in progress shares with no other of its transaction.
pub fn subtransaction() -> u32 {
    // SAFETY: reads the state of the session's transaction.
    unsafe { pg_sys::GetCurrentSubTransactionId() }
}

/// Raises 25006 on a standby and in a read-only transaction, and 25000 in a parallel worker.
pub fn refuse_read_only(function: &CStr) {
    // SAFETY: the name is NUL-terminated and only read to word the message.
    unsafe {
        step(|| {
            raw::PreventCommandIfReadOnly(function.as_ptr());
            raw::PreventCommandIfParallelMode(function.as_ptr());
            raw::PreventCommandDuringRecovery(function.as_ptr());
        });
    }
}

/// What one piece of maintenance may use of memory, in bytes.
pub fn maintenance_memory() -> usize {
    // SAFETY: reads a setting of the session; kilobytes.
    unsafe { usize::try_from(pg_sys::maintenance_work_mem).unwrap_or(0) * 1024 }
}

/// A number that is no other's, from PostgreSQL's source of strong randomness.
pub fn random() -> i64 {
    let mut bytes = [0_u8; 8];
    // SAFETY: fills exactly these bytes.
    let filled = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    if !filled {
        pgrx::error!("could not generate a random number");
    }
    i64::from_le_bytes(bytes)
}

/// Whether the server is a standby, or still recovering.
pub fn in_recovery() -> bool {
    // SAFETY: reads shared state.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Whether the database's encoding is UTF-8.
pub fn is_utf8() -> bool {
    // SAFETY: reads a value of the session.
    unsafe { pg_sys::GetDatabaseEncoding() == pg_sys::pg_enc::PG_UTF8 as i32 }
}

/// The database's oid.
pub fn database() -> pg_sys::Oid {
    // SAFETY: set for as long as the backend is connected to a database.
    unsafe { pg_sys::MyDatabaseId }
}

/// Whether a database of this oid exists.
pub fn database_exists(oid: pg_sys::Oid) -> bool {
    // SAFETY: a syscache lookup.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
        let none = pg_sys::Datum::from(0usize);
        pg_sys::SearchSysCacheExists(cache, pg_sys::Datum::from(oid), none, none, none)
    }
}

/// Whether the current user is a superuser.
pub fn is_superuser() -> bool {
    // SAFETY: a syscache lookup.
    unsafe { pg_sys::superuser() }
}

/// The name of the current role, for a message.
pub fn role_name() -> String {
    // SAFETY: with no error wanted it answers null, or a NUL-terminated string in the caller's memory context.
    unsafe {
        let name = pg_sys::GetUserNameFromId(pg_sys::GetUserId(), true);
        if name.is_null() {
            return String::new();
        }
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

/// Whether an extension of this name is in the database.
pub fn has_extension(name: &CStr) -> bool {
    // SAFETY: a look-up in a transaction; the name is NUL-terminated.
    unsafe { pg_sys::get_extension_oid(name.as_ptr(), true) != pg_sys::InvalidOid }
}

/// Makes what the transaction has done so far visible to its next statement.
pub fn next_command() {
    // SAFETY: inside a transaction, outside a parallel operation.
    unsafe { pg_sys::CommandCounterIncrement() }
}

/// Keeps the prefix of our settings from being used by misspelt ones.
pub fn reserve_settings(prefix: &CStr) {
    // SAFETY: called once, from _PG_init; the name is copied.
    unsafe { pg_sys::MarkGUCPrefixReserved(prefix.as_ptr()) }
}
