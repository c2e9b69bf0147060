//! The settings. Only `api` and `worker` read them; below, they are arguments.

use crate::domain::day::DAY;
use crate::domain::key::MAX_KEY_BYTES;
use crate::domain::names::Names;
use crate::pg::setting;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use std::ffi::CString;
use std::time::Duration;

static MAX_KEY: GucSetting<i32> = GucSetting::<i32>::new(1024);
static PRECREATE_DAYS: GucSetting<i32> = GucSetting::<i32>::new(3);
static DEFAULT_RETENTION: GucSetting<i32> = GucSetting::<i32>::new(7 * 24 * 60);
static HORIZON_FACTOR: GucSetting<i32> = GucSetting::<i32>::new(3);

static MAINTENANCE_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(600);
static DATABASES: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));

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
    GucRegistry::define_int_guc(
        c"pg_once.maintenance_interval",
        c"Pause between two rounds of the launcher, which maintains the stores of every database.",
        c"Takes shared_preload_libraries = 'pg_once'. A number without a unit counts seconds; 0 stops the rounds.",
        &MAINTENANCE_INTERVAL,
        0,
        24 * 60 * 60,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    setting::define_list(
        c"pg_once.databases",
        c"Databases that the launcher maintains, separated by commas; empty or * for all that have the extension.",
        c"Names are taken as they are; one with spaces or commas in it stands in double quotes.",
        &DATABASES,
        |list| Names::parse(list).map(|_| ()),
    );
}

/// `pg_once.maintenance_interval`; None where the launcher has nothing to do.
pub fn maintenance_interval() -> Option<Duration> {
    let seconds = u64::try_from(MAINTENANCE_INTERVAL.get()).unwrap_or(0);
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// `pg_once.databases`. What cannot be read was refused when it was set.
pub fn databases() -> Names {
    let list = DATABASES.get().unwrap_or_default();
    Names::parse(list.to_bytes()).unwrap_or(Names::All)
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
