//! The house rules, read off the source: who imports whom, where unsafe code is, how files begin and
//! how long they are, and that the SQL script and the library name the same functions. The pure part
//! of the extension is compiled in here, so that its own tests run without a server.

// The extension uses more of it than its tests do.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../src/domain/mod.rs"]
mod domain;

mod bench;
mod layers;
mod manifest;
mod script;
mod source;
mod spotted;
mod text;
