//! The settings. Only `api` and `worker` read them; below, they are arguments.

use crate::domain::day::DAY;
use crate::domain::key::MAX_KEY_BYTES;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};

static MAX_KEY: GucSetting<i32> = GucSetting::<i32>::new(1024);
static PRECREATE_DAYS: GucSetting<i32> = GucSetting::<i32>::new(3);
static DEFAULT_RETENTION: GucSetting<i32> = GucSetting::<i32>::new(7 * 24 * 60);
static HORIZON_FACTOR: GucSetting<i32> = GucSetting::<i32>::new(3);

static TRACK_CLAIMS: GucSetting<bool> = GucSetting::<bool>::new(true);
static LOG_DUPLICATES: GucSetting<LogDuplicates> =
    GucSetting::<LogDuplicates>::new(LogDuplicates::Off);

/// Values of `pg_once.log_duplicates`.
#[derive(Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
enum LogDuplicates {
    #[name = c"off"]
    Off,
    #[name = c"sample"]
    Sample,
}

/// Minutes in a year of 366 days.
const YEAR: i32 = 366 * 24 * 60;

/// Defines the settings; called once, when the library is loaded.
pub fn define() {
    GucRegistry::define_int_guc(
        c"pg_once.max_key_bytes",
        c"Longest key a claim accepts.",
        c"Counted in bytes before any compression; a longer key is refused.",
        &MAX_KEY,
        1,
        MAX_KEY_BYTES,
        GucContext::Suset,
        GucFlags::UNIT_BYTE,
    );
    GucRegistry::define_int_guc(
        c"pg_once.precreate_days",
        c"Days for which leaves are made ahead of time.",
        c"Maintenance makes today's leaf and this many more; a claim makes a missing one itself.",
        &PRECREATE_DAYS,
        1,
        30,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"pg_once.default_retention",
        c"Retention of a store made without a retry horizon and without a retention.",
        c"A number without a unit counts minutes.",
        &DEFAULT_RETENTION,
        1,
        10 * YEAR,
        GucContext::Suset,
        GucFlags::UNIT_MIN,
    );
    GucRegistry::define_int_guc(
        c"pg_once.horizon_factor",
        c"Retention of a store is this many times its retry horizon unless chosen otherwise.",
        c"",
        &HORIZON_FACTOR,
        1,
        100,
        GucContext::Suset,
        GucFlags::default(),
    );
    define_what_is_seen();
}

fn define_what_is_seen() {
    GucRegistry::define_bool_guc(
        c"pg_once.track_claims",
        c"Counts what claims are answered, for the views once.stat_claims and once.retention_advice.",
        c"",
        &TRACK_CLAIMS,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"pg_once.log_duplicates",
        c"Writes duplicates to the server's log, without their keys.",
        c"sample: of a session's duplicates the first and each hundredth after it, at most one a second.",
        &LOG_DUPLICATES,
        GucContext::Suset,
        GucFlags::default(),
    );
}

/// `pg_once.track_claims`.
pub fn track_claims() -> bool {
    TRACK_CLAIMS.get()
}

/// `pg_once.log_duplicates`: whether it is `sample`.
pub fn sample_duplicates() -> bool {
    LOG_DUPLICATES.get() == LogDuplicates::Sample
}

/// `pg_once.max_key_bytes`.
pub fn max_key_bytes() -> usize {
    usize::try_from(MAX_KEY.get()).unwrap_or(0)
}

/// `pg_once.precreate_days`.
pub fn precreate_days() -> i32 {
    PRECREATE_DAYS.get()
}

/// `pg_once.default_retention` in microseconds.
pub fn default_retention() -> i64 {
    i64::from(DEFAULT_RETENTION.get()) * (DAY / (24 * 60))
}

/// `pg_once.horizon_factor`.
pub fn horizon_factor() -> i64 {
    i64::from(HORIZON_FACTOR.get())
}
