//! Which stores exist, which leaves they have, and how long each must be kept.
//!
//! `cache` is what a claim reads: no lock on the parent, no SPI, stale entries thrown out by
//! invalidation. `stores` and `leaves` are what changes it: fixed statements, run as the owner. `cron` keeps jobs of
//! pg_cron, run as the caller.

pub mod audit;
pub mod away;
pub mod building;
pub mod cache;
pub mod cron;
pub mod effects;
pub mod filters;
pub mod holders;
pub mod leaves;
pub mod log;
pub mod making;
mod overflow;
pub mod pauses;
pub mod releases;
pub mod sealing;
pub mod sql;
pub mod stores;

use crate::error::Refusal;
use crate::pg::bounds;
use pgrx::pg_sys::Oid;

/// The schema everything lives in.
pub const SCHEMA: &str = "once";

/// The oid of schema once.
pub fn schema() -> Result<Oid, Refusal> {
    bounds::schema(c"once").ok_or(Refusal::NotInstalled)
}
