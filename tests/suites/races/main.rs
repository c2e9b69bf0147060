//! One key, many claimers: races, expiry, midnight, missing days, isolation levels, random schedules
//! against the model, and crashes.

mod alone_and_together;
mod anew;
mod by_hand;
mod churn;
mod clock;
mod collision;
mod crash;
mod days;
mod expiry;
mod isolation;
mod midnight;
mod missing_day;
mod mixed_batch;
mod pages;
mod queue;
mod race;
mod schedule;
mod sealed_days;
mod waiters;
