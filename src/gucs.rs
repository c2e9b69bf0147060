//! The settings. Only `api` and `worker` read them; below, they are arguments.

use crate::domain::day::DAY;
use crate::domain::key::MAX_KEY_BYTES;
use crate::domain::names::Names;
use crate::pg::setting;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};
use std::ffi::CString;
use std::time::Duration;

static MAX_KEY: GucSetting<i32> = GucSetting::<i32>::new(1024);
static PRECREATE_DAYS: GucSetting<i32> = GucSetting::<i32>::new(3);
static DEFAULT_RETENTION: GucSetting<i32> = GucSetting::<i32>::new(7 * 24 * 60);
static HORIZON_FACTOR: GucSetting<i32> = GucSetting::<i32>::new(3);
static AWAY_DAYS: GucSetting<i32> = GucSetting::<i32>::new(1);
static LOCK_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(100);
static FILTERS: GucSetting<bool> = GucSetting::<bool>::new(true);
static LATE_POLICY: GucSetting<LatePolicy> = GucSetting::<LatePolicy>::new(LatePolicy::Refuse);

/// What becomes of a message that is older than what its store still remembers.
#[derive(Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
pub enum LatePolicy {
    /// It is too late: nobody can say whether it was processed.
    #[name = c"refuse"]
    Refuse,
    /// It is claimed as if it were new.
    #[name = c"claim"]
    Claim,
}

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

static LINT_KEYS: GucSetting<LintKeys> = GucSetting::<LintKeys>::new(LintKeys::Off);

/// Values of `pg_once.lint_keys`.
#[derive(Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
pub enum LintKeys {
    /// Nobody looks.
    #[name = c"off"]
    Off,
    /// A line in the server's log.
    #[name = c"log"]
    Log,
    /// A warning.
    #[name = c"warning"]
    Warning,
    /// An error.
    #[name = c"error"]
    Error,
}

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
        c"pg_once.away_days",
        c"Whole UTC days without a claim, beyond what is usual for a store, after which its consumers count as away.",
        c"While they are, windows that guard against redelivery stand still and nothing is dropped; 0 turns it off.",
        &AWAY_DAYS,
        0,
        366,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"pg_once.maintenance_lock_timeout",
        c"How long dropping a leaf waits for its locks at a time.",
        c"Readers of a whole store may wait as long behind it, claims never do; a number without a unit counts milliseconds.",
        &LOCK_TIMEOUT,
        1,
        60_000,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_bool_guc(
        c"pg_once.filters",
        c"Whether filters of days that are over are made and asked.",
        c"Off: a claim looks its key up in every live day, and maintenance seals none.",
        &FILTERS,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"pg_once.late_policy",
        c"What becomes of a message whose event_time is older than what its store still remembers.",
        c"refuse: it is answered too_late, because nobody can tell whether it was processed; claim: it is claimed as if it were new.",
        &LATE_POLICY,
        GucContext::Userset,
        GucFlags::default(),
    );
    define_what_is_seen();
    define_who_runs_it();
}

fn define_who_runs_it() {
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

fn define_what_is_seen() {
    GucRegistry::define_enum_guc(
        c"pg_once.lint_keys",
        c"What a claim does about a key that is certainly wrong, or of a kind that its store forbids.",
        c"log and warning: at most one line a minute and session, without the key; error: OC002, each time.",
        &LINT_KEYS,
        GucContext::Userset,
        GucFlags::default(),
    );
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

/// `pg_once.lint_keys`.
pub fn lint_keys() -> LintKeys {
    LINT_KEYS.get()
}

/// `pg_once.away_days`.
pub fn away_days() -> i32 {
    AWAY_DAYS.get()
}

/// `pg_once.maintenance_lock_timeout` in milliseconds.
pub fn maintenance_lock_timeout() -> i32 {
    LOCK_TIMEOUT.get()
}

/// `pg_once.filters`.
pub fn filters() -> bool {
    FILTERS.get()
}

/// `pg_once.late_policy`.
pub fn late_policy() -> LatePolicy {
    LATE_POLICY.get()
}

/// `pg_once.track_claims`.
pub fn track_claims() -> bool {
    TRACK_CLAIMS.get()
}

/// `pg_once.log_duplicates`: whether it is `sample`.
pub fn sample_duplicates() -> bool {
    LOG_DUPLICATES.get() == LogDuplicates::Sample
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
