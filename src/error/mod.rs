//! Every refusal, in one place: its SQLSTATE, what happened, the detail, and what to do about it.
//! `words` has what each says. Refusals travel as values; [`raise`] turns one into a PostgreSQL error at the outer edge.

mod fence;
mod lint;
mod parts;
mod source;
mod state;
mod tap;
mod words;

pub use self::fence::FenceFault;
pub use self::lint::KeyLint;
pub use self::parts::PartsFault;
pub use self::source::SourceFault;
pub use self::tap::TapFault;
use self::words::{State, Words};
use crate::domain::key::KeyFault;
use pgrx::PgLogLevel;
use pgrx::pg_sys::panic::ErrorReport;

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
    /// No leaf covers this instant, and none can be made.
    Uncovered {
        /// The store.
        store: String,
        /// The UTC day.
        day: crate::domain::day::Day,
    },
    /// A leaf has no primary key on (key, effect), or lacks a column.
    UnusableLeaf(String),
    /// A trigger on the leaf swallowed or altered the claim.
    AlteredByTrigger(String),
    /// A trigger on this leaf kept a claim that was released.
    KeptByTrigger(String),
    /// The message is older than what the store still remembers.
    TooLate {
        /// The store.
        store: String,
    },
    /// There is no claim to be given an answer.
    NotClaimed {
        /// The store.
        store: String,
    },
    /// Another answer is stored with the claim.
    OtherAnswer {
        /// The store.
        store: String,
    },
    /// The key is that of an effect that is not finished.
    EffectUnfinished {
        /// The store.
        store: String,
    },
    /// A claim is to be released without a reason.
    NoReason,
    /// A query gives no keys.
    NotKeys,
    /// A hold would end before it begins.
    HoldInThePast,
    /// The procedure was called where it cannot commit.
    InTransaction(&'static str),
    /// once.void_filter() was called otherwise than before the insert or update of a row.
    NotATrigger,
    /// Somebody wants to change a seal.
    SealUpdated,
    /// A key is certainly wrong, or of a kind that its store forbids.
    WrongKey {
        /// The store.
        store: String,
        /// Which of an array, counted from 1.
        element: Option<usize>,
        /// What is wrong with it.
        lint: KeyLint,
    },
    /// A fence is not that of whoever holds the effect.
    Fence {
        /// The store.
        store: String,
        /// The fence.
        fence: i64,
        /// What became of the effect.
        fault: FenceFault,
    },
    /// A lease is longer than the window.
    LeaseTooLong(i64),
    /// The number of attempts is negative.
    BadAttempts,
    /// A sample is to be of less than one key, or of more than this many.
    SampleSize(i32),
    /// What a store is to forbid cannot be read.
    BadForbid(String),
    /// No key can be made of these parts.
    Parts(PartsFault),
    /// Claims cannot be imported from there.
    Source(SourceFault),
    /// There is no verdict on a pipeline.
    Tap(TapFault),
    /// The extension's own tables are not there.
    NotInstalled,
    /// pg_cron is not in this database.
    NoCron,
    /// There is no database of this name.
    UnknownDatabase,
    /// The name has characters that this database's encoding does not let us handle.
    NameEncoding,
    /// A statement of ours failed in a way that has no name.
    Internal(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Words { message, detail, .. } = self.words();
        write!(f, "{message}: {detail}")
    }
}

impl From<PartsFault> for Refusal {
    fn from(fault: PartsFault) -> Refusal {
        Refusal::Parts(fault)
    }
}

impl From<SourceFault> for Refusal {
    fn from(fault: SourceFault) -> Refusal {
        Refusal::Source(fault)
    }
}

impl From<TapFault> for Refusal {
    fn from(fault: TapFault) -> Refusal {
        Refusal::Tap(fault)
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

/// Says a refusal as a warning, for what is let pass all the same.
pub fn warn(refusal: &Refusal) {
    let words = refusal.words();
    let code = pgrx::PgSqlErrorCode::ERRCODE_WARNING;
    let report = ErrorReport::new(code, words.message, "pg_once")
        .set_detail(words.detail)
        .set_hint(words.hint);
    report.report(PgLogLevel::WARNING);
}

#[cold]
fn throw(refusal: &Refusal) -> ! {
    let words = refusal.words();
    match words.code {
        State::Own(code) => {
            crate::pg::report::error(code, &words.message, &words.detail, &words.hint)
        }
        State::Known(code) => {
            let report = ErrorReport::new(code, words.message, "pg_once")
                .set_detail(words.detail)
                .set_hint(words.hint);
            report.report(PgLogLevel::ERROR);
            unreachable!("an error report does not return")
        }
    }
}
