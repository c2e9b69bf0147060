//! Who is calling, what they may do, and doing a fixed piece of work as somebody else.

use super::unwinding;
use pgrx::pg_sys;

/// The role whose privileges count now.
pub fn current_user() -> pg_sys::Oid {
    // SAFETY: reads a value of the session.
    unsafe { pg_sys::GetUserId() }
}

/// A privilege on a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TableRight {
    /// SELECT.
    Select,
    /// INSERT.
    Insert,
    /// DELETE.
    Delete,
}

/// Whether the current user has the privilege on table `relid`.
pub fn may(relid: pg_sys::Oid, right: TableRight) -> bool {
    let mode = match right {
        TableRight::Select => pg_sys::ACL_SELECT,
        TableRight::Insert => pg_sys::ACL_INSERT,
        TableRight::Delete => pg_sys::ACL_DELETE,
    };
    // SAFETY: a syscache lookup; a table that is gone raises 42P01.
    unsafe {
        pg_sys::pg_class_aclcheck(relid, current_user(), pg_sys::AclMode::from(mode))
            == pg_sys::AclResult::ACLCHECK_OK
    }
}

/// Whether row-level security would filter what the current user does to the table.
pub fn row_security_applies(relid: pg_sys::Oid) -> bool {
    // SAFETY: a syscache lookup; with no error wanted it answers by value.
    unsafe {
        pg_sys::check_enable_rls(relid, pg_sys::InvalidOid, true)
            == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
    }
}

/// Whether the current user owns table `relid`, or has the rights of its owner.
pub fn owns(relid: pg_sys::Oid) -> bool {
    // SAFETY: a syscache lookup; a table that is gone raises 42P01.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_class_ownercheck(relid, current_user());
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::RelationRelationId, relid, current_user());
    }
}

/// Whether the current user may create in schema `schema`.
pub fn may_create_in(schema: pg_sys::Oid) -> bool {
    let mode = pg_sys::AclMode::from(pg_sys::ACL_CREATE);
    // SAFETY: a syscache lookup.
    let result = unsafe {
        #[cfg(feature = "pg15")]
        let result = pg_sys::pg_namespace_aclcheck(schema, current_user(), mode);
        #[cfg(not(feature = "pg15"))]
        let result =
            pg_sys::object_aclcheck(pg_sys::NamespaceRelationId, schema, current_user(), mode);
        result
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// While it lives, statements run as another role with nothing of the session's in their way: names
/// are looked up in pg_catalog only, and objects are made with the server's defaults.
///
/// For fixed, fully qualified statements, never for text that came from a caller.
pub struct Acting {
    user: pg_sys::Oid,
    context: i32,
    nest: i32,
}

/// Settings of the session that would change what a fixed statement means.
const NEUTRAL: [(&std::ffi::CStr, &std::ffi::CStr); 4] = [
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"default_tablespace", c""),
    (c"default_table_access_method", c"heap"),
    (c"client_min_messages", c"warning"),
];

impl Acting {
    /// Starts acting as `role`.
    pub fn as_role(role: pg_sys::Oid) -> Acting {
        // SAFETY: the old identity is read before it is replaced; both come back when this handle
        // is dropped, or by the abort of the (sub)transaction. The local-user-id flag keeps the
        // role from being switched by what runs meanwhile.
        unsafe {
            let (mut user, mut context) = (pg_sys::InvalidOid, 0);
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            let nest = pg_sys::NewGUCNestLevel();
            for (name, value) in NEUTRAL {
                set_for_now(name, value);
            }
            let mut flags = pg_sys::SECURITY_LOCAL_USERID_CHANGE;
            if role != user {
                // What runs as another role must leave nothing behind that would run as the caller.
                flags |= pg_sys::SECURITY_RESTRICTED_OPERATION;
            }
            pg_sys::SetUserIdAndSecContext(role, context | flags as i32);
            Acting { user, context, nest }
        }
    }

    /// Starts acting as oneself, with the settings made neutral.
    pub fn as_caller() -> Acting {
        Acting::as_role(current_user())
    }
}

/// Changes a setting until the nest level that was opened last is closed.
pub(super) fn set_for_now(name: &std::ffi::CStr, value: &std::ffi::CStr) {
    // SAFETY: both strings are NUL-terminated and copied.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: undoes what `as_role` did, once.
        unsafe {
            pg_sys::AtEOXact_GUC(false, self.nest);
            pg_sys::SetUserIdAndSecContext(self.user, self.context);
        }
    }
}

/// Reads one thing of a table's pg_class row; None for a table that is gone.
fn of_class<T>(relid: pg_sys::Oid, read: fn(&pg_sys::FormData_pg_class) -> T) -> Option<T> {
    // SAFETY: the syscache tuple is pinned while its fixed columns are read.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::RELOID as i32,
            pg_sys::Datum::from(relid),
        );
        if tuple.is_null() {
            return None;
        }
        let value = read(&*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>());
        pg_sys::ReleaseSysCache(tuple);
        Some(value)
    }
}

/// Whether row-level security is enabled on table `relid` at all.
pub fn has_row_security(relid: pg_sys::Oid) -> bool {
    of_class(relid, |class| class.relrowsecurity).unwrap_or(false)
}

/// The owner of table `relid`; nobody for one that is gone.
pub fn table_owner(relid: pg_sys::Oid) -> pg_sys::Oid {
    of_class(relid, |class| class.relowner).unwrap_or(pg_sys::InvalidOid)
}

/// Whether table `relid` exists.
pub fn exists(relid: pg_sys::Oid) -> bool {
    of_class(relid, |_| ()).is_some()
}

/// The owner of schema `schema`.
pub fn schema_owner(schema: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: the syscache tuple is pinned while one of its fixed columns is read.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::NAMESPACEOID as i32,
            pg_sys::Datum::from(schema),
        );
        if tuple.is_null() {
            return pg_sys::InvalidOid;
        }
        let namespace = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_namespace>();
        let owner = (*namespace).nspowner;
        pg_sys::ReleaseSysCache(tuple);
        owner
    }
}
