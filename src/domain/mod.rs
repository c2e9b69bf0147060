//! Pure values: keys, days, windows. No PostgreSQL, no clock, no settings; everything here can be
//! tested without a server, and nothing here imports another room.

pub mod age;
pub mod audit;
pub mod backoff;
pub mod canonical;
pub mod counted;
pub mod day;
pub mod figures;
pub mod filter;
pub mod joining;
pub mod json_path;
pub mod key;
pub mod kind;
pub mod lease;
pub mod names;
pub mod naming;
pub mod pause;
pub mod shown;
pub mod window;
pub mod wrong;
