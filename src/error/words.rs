//! What each refusal says: SQLSTATE, message, detail and hint, always all four. Those about claims and leaves as they
//! stand are in `state`.

use super::Refusal;
use crate::domain::key::{KeyFault, MAX_EFFECT_BYTES};
use crate::pg::session;
use pgrx::PgSqlErrorCode as Code;

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
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as a quoted identifier.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The current role as a quoted identifier, for a statement that whoever may run it can paste.
pub(super) fn role() -> String {
    identifier(&session::role_name())
}

/// A refusal's SQLSTATE.
pub(super) enum State {
    /// One that PostgreSQL has.
    Known(Code),
    /// One of our own, in class OC.
    Own(&'static [u8; 5]),
}

impl From<Code> for State {
    fn from(code: Code) -> State {
        State::Known(code)
    }
}

/// What a refusal says: all four, always.
pub(super) struct Words {
    pub code: State,
    pub message: String,
    pub detail: String,
    pub hint: String,
}

pub(super) fn words(
    code: impl Into<State>,
    message: impl Into<String>,
    detail: impl Into<String>,
    hint: impl Into<String>,
) -> Words {
    Words { code: code.into(), message: message.into(), detail: detail.into(), hint: hint.into() }
}

impl Refusal {
    pub(super) fn words(&self) -> Words {
        match self {
            Refusal::NullArgument(_)
            | Refusal::NullElement(_)
            | Refusal::Dimensions(_)
            | Refusal::Key(_)
            | Refusal::EffectTooLong(_)
            | Refusal::TtlNotPositive
            | Refusal::TtlTooLong { .. }
            | Refusal::NoReason
            | Refusal::NotKeys
            | Refusal::SampleSize(_)
            | Refusal::LeaseTooLong(_)
            | Refusal::BadAttempts => self.about_arguments(),
            Refusal::BadInterval(_)
            | Refusal::BadForbid(_)
            | Refusal::RetentionBelowHorizon { .. }
            | Refusal::UnknownStore(_)
            | Refusal::BadStoreName(_)
            | Refusal::NameEncoding
            | Refusal::InTransaction(_)
            | Refusal::NotATrigger
            | Refusal::SealUpdated
            | Refusal::HoldInThePast
            | Refusal::NotInstalled => self.about_stores(),
            Refusal::NoCron | Refusal::UnknownDatabase => self.about_runners(),
            Refusal::NoPrivilege { .. }
            | Refusal::NotOwner(_)
            | Refusal::MayNotCreate
            | Refusal::RowSecurity(_) => self.about_privileges(),
            Refusal::Invisible
            | Refusal::Uncovered { .. }
            | Refusal::UnusableLeaf(_)
            | Refusal::AlteredByTrigger(_)
            | Refusal::KeptByTrigger(_)
            | Refusal::TooLate { .. }
            | Refusal::NotClaimed { .. }
            | Refusal::OtherAnswer { .. }
            | Refusal::Internal(_) => self.about_state(),
            Refusal::Fence { store, fence, fault } => fault.words(store, *fence),
            Refusal::EffectUnfinished { store } => super::fence::missing(store),
            Refusal::WrongKey { store, element, lint } => lint.words(store, *element),
            Refusal::Parts(fault) => fault.words(),
            Refusal::Source(fault) => fault.words(),
            Refusal::Tap(fault) => fault.words(),
        }
    }

    fn about_arguments(&self) -> Words {
        match self {
            Refusal::NullArgument(name) => words(
                Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                format!("{name} must not be NULL"),
                "A NULL names nothing, so it can be neither new nor a duplicate.",
                format!("Pass a value for {name}, or leave it out where it has a default."),
            ),
            Refusal::NullElement(position) => words(
                Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "keys must not contain NULL",
                format!("Element {position} is NULL. Nothing was claimed."),
                "Leave NULLs out with array_remove(keys, NULL).",
            ),
            Refusal::Dimensions(n) => words(
                Code::ERRCODE_ARRAY_ELEMENT_ERROR,
                "keys must be a one-dimensional array",
                format!("The array has {n} dimensions. Nothing was claimed."),
                "Flatten it with ARRAY(SELECT unnest(keys)).",
            ),
            Refusal::Key(KeyFault::Empty) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "key must not be empty",
                "An empty key would make one intent of every message that lacks one.",
                "See whether the field that the key is built from is missing from the message.",
            ),
            Refusal::Key(KeyFault::TooLong { len, max }) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "key is too long",
                format!("The key has {len} bytes; pg_once.max_key_bytes is {max}."),
                "Use a shorter natural key, or a digest of at least 128 bits.",
            ),
            Refusal::EffectTooLong(len) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "effect is too long",
                format!("The effect has {len} bytes; at most {MAX_EFFECT_BYTES} are allowed."),
                "An effect is a short name such as 'invoice'.",
            ),
            Refusal::SampleSize(most) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("sample must be between 1 and {most}"),
                "It is about how many keys are looked at; pages are read whole.",
                "Leave it out for 10000, which tells a share of 1 % from none.",
            ),
            Refusal::LeaseTooLong(window) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "lease is longer than the window",
                format!(
                    "The window is {}, after which the key can be claimed anew.",
                    readable(*window)
                ),
                "A lease is about as long as one attempt takes, a minute perhaps; extend_effect makes it longer.",
            ),
            Refusal::BadAttempts => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "max_attempts must not be negative",
                "It is how often an effect is begun before it is given up.",
                "Pass 0 for no limit.",
            ),
            Refusal::NoReason => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "reason must not be empty",
                "It is written down in once.release_log, for whoever asks why something was processed twice.",
                "Say why, such as 'replay after incident 17'.",
            ),
            Refusal::NotKeys => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "query must be one query that gives keys",
                "Its columns are a key, or a key and an effect, of type text.",
                "Pass such as 'SELECT key FROM once.billing WHERE ...'.",
            ),
            Refusal::TtlNotPositive => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "ttl must be positive",
                "The ttl is added to the time of the claim in UTC and must lead past it.",
                "Give it as an interval such as '7 days', or NULL for the store's retention.",
            ),
            other => {
                let (store, retention) = match other {
                    Refusal::TtlTooLong { store, retention } => (store.as_str(), *retention),
                    _ => ("", 0),
                };
                words(
                    Code::ERRCODE_INVALID_PARAMETER_VALUE,
                    "ttl is longer than the store's retention",
                    format!("Store {} keeps claims for {}.", literal(store), readable(retention)),
                    format!(
                        "Raise it with SELECT once.alter_store({}, retention => '...').",
                        literal(store)
                    ),
                )
            }
        }
    }

    fn about_stores(&self) -> Words {
        match self {
            Refusal::BadInterval(name) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("{name} must be positive and finite"),
                "A month counts as 31 days, so that every length is fixed.",
                "Give it with a unit, such as '7 days'.",
            ),
            Refusal::BadForbid(why) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "forbid must be a list of kinds of keys",
                why.clone(),
                "The kinds are uuidv4, time_based, hash and natural; '{}' forbids none.",
            ),
            Refusal::RetentionBelowHorizon { retention, horizon } => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "retention is shorter than the retry horizon",
                format!(
                    "Retention is {}, but a message can still be redelivered after {}.",
                    readable(*retention),
                    readable(*horizon)
                ),
                "Give a retention that covers the horizon; once.create_store without one takes a multiple of it.",
            ),
            Refusal::UnknownStore(store) => words(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("store {} does not exist", literal(store)),
                "A store is a partitioned table in schema once that once.create_store made.",
                format!("Make it with SELECT once.create_store({}).", literal(store)),
            ),
            Refusal::BadStoreName(why) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("store name {why}"),
                "The name is the table's name in schema once, taken as it is.",
                "Choose a name of 1 to 63 bytes.",
            ),
            Refusal::NameEncoding => words(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "names of stores, their columns and their owners must be plain ASCII in this database",
                "The database's encoding is not UTF-8.",
                "Choose ASCII names; keys and effects may have any bytes all the same.",
            ),
            Refusal::HoldInThePast => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "a hold must end in the future",
                "It begins now and lasts until the instant given.",
                "Leave until out to hold until once.unhold() is called.",
            ),
            Refusal::InTransaction(procedure) => words(
                Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
                format!("{procedure} cannot run inside a transaction block"),
                "It commits after each step.",
                "CALL it on its own, in autocommit mode.",
            ),
            Refusal::NotATrigger => words(
                Code::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "once.void_filter() works only as the trigger that maintenance makes",
                "It fires before a row is inserted into, or updated in, the leaf of a day that is over.",
                "There is no need to call it or to make such a trigger.",
            ),
            Refusal::SealUpdated => words(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "rows of once.leaf_seal cannot be changed",
                "A row that has come into the day, or comes at this moment, would be denied by its filter.",
                "DELETE the row: the day is looked into, and the next pass of maintenance seals it anew.",
            ),
            _ => words(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "pg_once is not installed in this database",
                "Schema once or a table of the extension is missing.",
                "Run CREATE EXTENSION pg_once.",
            ),
        }
    }

    fn about_runners(&self) -> Words {
        match self {
            Refusal::UnknownDatabase => words(
                Code::ERRCODE_INVALID_CATALOG_NAME,
                "the database to maintain does not exist",
                "A job would fail each time it is due.",
                "Pass its name as pg_database has it, or leave it out for this database.",
            ),
            _ => words(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "pg_cron is not installed in this database",
                "pg_cron keeps the jobs of all databases in one, which cron.database_name names.",
                "Call it there, as once.schedule(database => 'the one to maintain'); both extensions have to \
                 be there. Or do without pg_cron: shared_preload_libraries = 'pg_once', or any scheduler \
                 that runs CALL once.maintain().",
            ),
        }
    }

    fn about_privileges(&self) -> Words {
        let code = Code::ERRCODE_INSUFFICIENT_PRIVILEGE;
        match self {
            Refusal::NoPrivilege { store, right } => words(
                code,
                format!("permission denied for store {}", literal(store)),
                format!("It needs {right} on the store's table."),
                format!("GRANT {right} ON once.{} TO {};", identifier(store), role()),
            ),
            Refusal::NotOwner(store) => words(
                code,
                format!("must be owner of store {}", literal(store)),
                "Changing or dropping a store needs ownership of its table.",
                format!(
                    "Ask the owner: SELECT owner FROM once.stores WHERE store = {};",
                    literal(store)
                ),
            ),
            Refusal::RowSecurity(store) => words(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("row-level security on store {} is not supported", literal(store)),
                "A key is claimed for all or for none.",
                "Keep tenants apart by effect or by store.",
            ),
            _ => words(
                code,
                "permission denied to create a store",
                "A store is a table in schema once.",
                format!("GRANT USAGE, CREATE ON SCHEMA once TO {};", role()),
            ),
        }
    }
}
