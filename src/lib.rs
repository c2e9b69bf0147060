//! Placeholder while the rooms are being built.
::pgrx::pg_module_magic!(name, version);
