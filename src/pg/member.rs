//! Tables that belong to the extension though they were made after it: pg_dump leaves them out, and they go with
//! it.

use pgrx::pg_sys;
use std::ffi::CStr;

fn address(class: pg_sys::Oid, object: pg_sys::Oid) -> pg_sys::ObjectAddress {
    pg_sys::ObjectAddress { classId: class, objectId: object, objectSubId: 0 }
}

/// Makes a table a member of an extension.
pub fn join(table: pg_sys::Oid, extension: &CStr) {
    // SAFETY: looks the extension up, raising where it is not there, and copies both addresses.
    unsafe {
        let extension = pg_sys::get_extension_oid(extension.as_ptr(), false);
        let member = address(pg_sys::RelationRelationId, table);
        let owner = address(pg_sys::ExtensionRelationId, extension);
        let kind = pg_sys::DependencyType::DEPENDENCY_EXTENSION;
        pg_sys::recordDependencyOn(&member, &owner, kind);
    }
}

/// Makes a table a member no more, so that it can be dropped by itself.
pub fn leave(table: pg_sys::Oid) {
    // SAFETY: takes any oids.
    unsafe {
        pg_sys::deleteDependencyRecordsForClass(
            pg_sys::RelationRelationId,
            table,
            pg_sys::ExtensionRelationId,
            pg_sys::DependencyType::DEPENDENCY_EXTENSION as std::ffi::c_char,
        );
    }
}
