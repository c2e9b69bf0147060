//! pg_once: exactly-once processing inside PostgreSQL.
//!
//! A deduplication key is written in the transaction of the effect it guards, so that both commit
//! or vanish together. The rooms, from the top down; imports run downward only:
//!
//! - [`api`], [`worker`]: SQL in and out; the background process.
//! - [`claim`], [`effects`], [`maintenance`], [`double_tap`]: who wins a key; who runs what lies outside the
//!   database; which days come and go; whether a pipeline is ready for duplicates.
//! - [`storage`], [`catalog`]: rows in leaves; which stores and leaves exist.
//! - [`stats`]: what was answered, counted.
//! - [`gucs`], [`error`]: settings; refusals.
//! - [`domain`], [`pg`]: pure values; PostgreSQL behind owned handles, the only unsafe code.

mod api;
mod catalog;
mod claim;
mod domain;
mod double_tap;
mod effects;
mod error;
mod gucs;
mod maintenance;
mod pg;
mod stats;
mod storage;
mod worker;

::pgrx::pg_module_magic!(name, version);

/// Runs when the library is loaded, in every process that loads it. Needs no preload.
#[pgrx::pg_guard]
pub extern "C-unwind" fn _PG_init() {
    gucs::define();
    stats::prepare();
    pg::session::reserve_settings(c"pg_once");
    worker::define();
}
