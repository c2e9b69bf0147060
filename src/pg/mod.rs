//! The only unsafe code: PostgreSQL's own objects behind owned handles and safe functions.
//!
//! The rules every file here keeps:
//!
//! - A handle owns one resource and gives it back when dropped, unless a panic is under way. A
//!   PostgreSQL error reaches Rust as a panic; the transaction is then about to abort, PostgreSQL's
//!   resource owner releases everything, and a handle must not touch the server any more.
//! - Safe functions take no raw pointers: what they work on is a handle or a value.
//! - All of it runs in the backend's one thread, inside a transaction.
//!
//! Nothing here knows what a claim is, and nothing here imports another room.
#![allow(unsafe_code, ffi_unwind_calls)]

pub mod array;
pub mod bounds;
pub mod btree;
pub mod bulk;
mod cpu;
pub mod databases;
pub mod descent;
pub mod executor;
pub mod failure;
pub mod index;
pub mod inval;
pub mod json;
pub mod kept;
pub mod keys;
pub mod launcher;
pub mod layout;
pub mod lock;
pub mod log;
pub mod member;
pub mod moved;
pub mod nested;
pub mod note;
pub mod pages;
pub mod past;
pub mod peek;
pub mod pile;
pub mod privilege;
pub mod procedure;
pub mod query;
mod raw;
mod reindexed;
pub mod relation;
pub mod report;
pub mod rows;
pub mod seal;
pub mod session;
pub mod setting;
pub mod shmem;
pub mod snapshot;
pub mod sorted;
pub mod statement;
pub mod table;
pub mod text;
pub mod trigger;
pub mod tuple;
pub mod worker;

/// True while a panic unwinds: handles then leave their resource to PostgreSQL's cleanup.
fn unwinding() -> bool {
    std::thread::panicking()
}
