//! Every refusal, in one place: its SQLSTATE, what happened, the detail, and what to do about it.
//! Refusals travel as values; [`raise`] turns one into a PostgreSQL error at the outer edge.

use crate::domain::key::{KeyFault, MAX_EFFECT_BYTES};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code};

/// Why a call is refused.
#[derive(Debug)]
pub enum Refusal {
    /// An argument that must have a value is NULL.
    NullArgument(&'static str),
    /// An element of the array of keys is NULL; its position counts from 1.
    NullElement(usize),
    /// The array of keys has more than one dimension.
    Dimensions(i32),
    /// The key is empty or too long.
    Key(KeyFault),
    /// The effect's name is too long.
    EffectTooLong(usize),
    /// The ttl is zero or negative.
    TtlNotPositive,
    /// The ttl is longer than the store's retention.
    TtlTooLong {
        /// The store.
        store: String,
        /// Its retention in microseconds.
        retention: i64,
    },
    /// An interval that describes a store is zero, negative or too long.
    BadInterval(&'static str),
    /// The retention is shorter than the retry horizon.
    RetentionBelowHorizon {
        /// Microseconds.
        retention: i64,
        /// Microseconds.
        horizon: i64,
    },
    /// There is no such store.
    UnknownStore(String),
    /// The name cannot be a store's.
    BadStoreName(&'static str),
    /// The caller lacks a privilege on the store.
    NoPrivilege {
        /// The store.
        store: String,
        /// INSERT or SELECT.
        right: &'static str,
    },
    /// The caller does not own the store.
    NotOwner(String),
    /// The caller may not create in schema once.
    MayNotCreate,
    /// Row-level security is in force for the caller.
    RowSecurity(String),
    /// A winner committed after the transaction's snapshot was taken.
    Invisible,
    /// A leaf has no primary key on (key, effect), or lacks a column.
    UnusableLeaf(String),
    /// A trigger on the leaf swallowed or altered the claim.
    AlteredByTrigger(String),
    /// An argument is reserved for a later version.
    NotYet(&'static str),
    /// The procedure was called where it cannot commit.
    InTransaction,
    /// The extension's own tables are not there.
    NotInstalled,
    /// The name has characters that this database's encoding does not let us handle.
    NameEncoding,
    /// A statement of ours failed in a way that has no name.
    Internal(String),
}

/// A span of time as a person reads it.
fn readable(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    let (days, hours) = (seconds / 86_400, seconds % 86_400 / 3_600);
    let (minutes, rest) = (seconds % 3_600 / 60, seconds % 60);
    let parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")];
    let said: Vec<String> =
        parts.iter().filter(|(n, _)| *n != 0).map(|(n, unit)| format!("{n} {unit}")).collect();
    if said.is_empty() { format!("{micros} microseconds") } else { said.join(" ") }
}

/// A string as a SQL literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

struct Words {
    code: Code,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
}

impl Refusal {
    fn words(&self) -> Words {
        let words = |code, message: String| Words { code, message, detail: None, hint: None };
        let hinted = |code, message: String, hint: String| Words {
            code,
            message,
            detail: None,
            hint: Some(hint),
        };
        match self {
            Refusal::NullArgument(name) => hinted(
                Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                format!("{name} must not be NULL"),
                "A NULL names nothing, so it can be neither new nor a duplicate.".into(),
            ),
            Refusal::NullElement(position) => hinted(
                Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                format!("keys must not contain NULL (element {position})"),
                "Nothing was claimed. Leave NULLs out with array_remove(keys, NULL).".into(),
            ),
            Refusal::Dimensions(n) => hinted(
                Code::ERRCODE_ARRAY_ELEMENT_ERROR,
                format!("keys must be a one-dimensional array, not one of {n} dimensions"),
                "Flatten it with ARRAY(SELECT unnest(keys)).".into(),
            ),
            Refusal::Key(KeyFault::Empty) => hinted(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "key must not be empty".into(),
                "An empty key usually means that a field of the message was missing.".into(),
            ),
            Refusal::Key(KeyFault::TooLong { len, max }) => Words {
                code: Code::ERRCODE_INVALID_PARAMETER_VALUE,
                message: "key is too long".into(),
                detail: Some(format!("The key has {len} bytes; pg_once.max_key_bytes is {max}.")),
                hint: Some("Use a shorter natural key, or a digest of at least 128 bits.".into()),
            },
            Refusal::EffectTooLong(len) => Words {
                code: Code::ERRCODE_INVALID_PARAMETER_VALUE,
                message: "effect is too long".into(),
                detail: Some(format!(
                    "The effect has {len} bytes; at most {MAX_EFFECT_BYTES} are allowed."
                )),
                hint: Some("An effect is a short name such as 'invoice'.".into()),
            },
            Refusal::TtlNotPositive => hinted(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "ttl must be positive".into(),
                "The ttl is added to the claim's time in UTC and must lead past it; NULL means the store's retention."
                    .into(),
            ),
            Refusal::TtlTooLong { store, retention } => Words {
                code: Code::ERRCODE_INVALID_PARAMETER_VALUE,
                message: "ttl is longer than the store's retention".into(),
                detail: Some(format!(
                    "Store {} keeps claims for {}.",
                    literal(store),
                    readable(*retention)
                )),
                hint: Some(format!(
                    "Raise it with SELECT once.alter_store({}, retention => '...').",
                    literal(store)
                )),
            },
            Refusal::BadInterval(name) => hinted(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("{name} must be positive and finite"),
                "Give it with a unit, such as '7 days'; a month counts as 31 days.".into(),
            ),
            Refusal::RetentionBelowHorizon { retention, horizon } => Words {
                code: Code::ERRCODE_INVALID_PARAMETER_VALUE,
                message: "retention is shorter than the retry horizon".into(),
                detail: Some(format!(
                    "Retention is {}, but a message can still be redelivered after {}.",
                    readable(*retention),
                    readable(*horizon)
                )),
                hint: Some("Leave retention out to get a multiple of the horizon.".into()),
            },
            Refusal::UnknownStore(store) => hinted(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("store {} does not exist", literal(store)),
                format!("Make it with SELECT once.create_store({}).", literal(store)),
            ),
            Refusal::BadStoreName(why) => hinted(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("store name {why}"),
                "The name is the table's name in schema once, taken as it is.".into(),
            ),
            Refusal::NoPrivilege { store, right } => hinted(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for store {}", literal(store)),
                format!("It needs {right} on the store's table in schema once."),
            ),
            Refusal::NotOwner(store) => hinted(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be owner of store {}", literal(store)),
                "Changing or dropping a store needs ownership of its table.".into(),
            ),
            Refusal::MayNotCreate => hinted(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied to create a store".into(),
                "It needs CREATE on schema once.".into(),
            ),
            Refusal::RowSecurity(store) => hinted(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("row-level security on store {} is not supported", literal(store)),
                "A key is claimed for all or for none; keep tenants apart by effect or by store."
                    .into(),
            ),
            Refusal::Invisible => hinted(
                Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "could not serialize access due to concurrent update".into(),
                "Another transaction claimed the key after this one's snapshot. Retry the transaction."
                    .into(),
            ),
            Refusal::UnusableLeaf(leaf) => Words {
                code: Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                message: format!("leaf \"{leaf}\" cannot be searched for keys"),
                detail: Some(
                    "It lacks a column of its store, or a valid primary key on (key, effect) in collation \"C\"."
                        .into(),
                ),
                hint: Some(
                    "Add the primary key, or detach the leaf if its claims no longer count.".into(),
                ),
            },
            Refusal::AlteredByTrigger(leaf) => hinted(
                Code::ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION,
                format!("a trigger on leaf \"{leaf}\" swallowed or altered the claim"),
                "A BEFORE ROW trigger must return the row with its claimed_at, expires_at, key and effect unchanged."
                    .into(),
            ),
            Refusal::NotYet(name) => words(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("{name} is reserved for a later version and must be NULL"),
            ),
            Refusal::InTransaction => hinted(
                Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
                "once.maintain() cannot run inside a transaction block".into(),
                "It commits after each step: CALL it on its own, in autocommit mode.".into(),
            ),
            Refusal::NotInstalled => hinted(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "pg_once is not installed in this database".into(),
                "Run CREATE EXTENSION pg_once.".into(),
            ),
            Refusal::NameEncoding => hinted(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "store names must be plain ASCII where the database's encoding is not UTF-8".into(),
                "Keys and effects may have any bytes all the same.".into(),
            ),
            Refusal::Internal(what) => words(Code::ERRCODE_INTERNAL_ERROR, what.clone()),
        }
    }
}

impl From<KeyFault> for Refusal {
    fn from(fault: KeyFault) -> Refusal {
        Refusal::Key(fault)
    }
}

impl From<pgrx::spi::SpiError> for Refusal {
    fn from(fault: pgrx::spi::SpiError) -> Refusal {
        Refusal::Internal(fault.to_string())
    }
}

/// Unwraps a result at the outer edge, raising a refusal as a PostgreSQL error with its own code.
pub fn raise<T>(result: Result<T, Refusal>) -> T {
    match result {
        Ok(value) => value,
        Err(refusal) => throw(&refusal),
    }
}

#[cold]
fn throw(refusal: &Refusal) -> ! {
    let words = refusal.words();
    let mut report = ErrorReport::new(words.code, words.message, "pg_once");
    if let Some(detail) = words.detail {
        report = report.set_detail(detail);
    }
    if let Some(hint) = words.hint {
        report = report.set_hint(hint);
    }
    report.report(PgLogLevel::ERROR);
    unreachable!("an error report does not return")
}
