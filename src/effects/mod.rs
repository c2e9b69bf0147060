//! Effects outside the database: a claim with a lease, and a fence that tells its holder from those before.
//!
//! An effect that was begun and is not finished has a row in once.effect_state. It counts only while the claim that
//! it was begun with stands, which it names by the instant that claim was made at. `begin` gives effects out, `hold`
//! is what their holder does, `stand` looks at claims.
//!
//! The order in which locks are taken, the same in every call: the lock on the key's number (within
//! [`claim::arbiter`](crate::claim::arbiter) only, and nothing is waited for under it), the claim's row, the effect's
//! row. To extend and to fail touch the effect's row alone. See docs/decisions/0035-effects.md.

mod begin;
mod hold;
mod stand;

pub use self::begin::{Wanted, begin};
pub use self::hold::{Held, complete, extend, fail};
