//! The harness: everything a test needs that runs against a PostgreSQL server it may hurt.
//!
//! It keeps three rules. Every server is private (Unix socket only, a short folder of its own, an
//! ordinary user) and is gone when the test process is, however that ended. Nothing sleeps to be
//! ready: it polls for the condition, and every wait is bounded. What hangs fails with the locks
//! and the activity of the server printed.
//!
//! - [`server`]: which PostgreSQL the tests run against
//! - [`account`]: the ordinary user that servers run as
//! - [`warden`]: what is left when a test process dies is stopped and removed
//! - [`cluster`], [`standby`], [`pooler`], [`clock`]: servers, and their clock
//! - [`database`], [`shared`]: one database a test on a cluster shared by a binary
//! - [`session`], [`failure`], [`background`]: a connection, its errors, a statement that waits
//! - [`filters`]: the same tests with filters, without, and with half of the days sealed
//! - [`look`]: what a store and the catalog say
//! - [`tools`]: programs and packages of other kinds of clients
//! - [`hang`], [`wait`], [`race`]: bounded waiting, and many sessions at once
//! - [`oracle`]: what claims must answer, as a model in memory

pub mod account;
pub mod background;
pub mod clock;
pub mod cluster;
pub mod database;
pub mod failure;
pub mod filters;
pub mod hang;
pub mod look;
pub mod oracle;
pub mod pooler;
pub mod race;
pub mod retention;
pub mod server;
pub mod session;
pub mod shared;
pub mod standby;
pub mod tools;
pub mod wait;
pub mod warden;
