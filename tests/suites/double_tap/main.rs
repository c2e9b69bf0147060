//! The double tap: what a second delivery changes is found, what it does not change is not, nothing is left of a run, and
//! what cannot be seen is an error.

mod changing;
mod drivers;
mod faults;
mod foreign;
mod handlers;
mod rights;
mod runs;
mod scale;
mod scene;
mod seen;
mod snapshots;
mod values;
