//! What can be wrong with a double tap, a snapshot of a state or a comparison with it.

use super::words::{State, Words, words};
use pgrx::PgSqlErrorCode as Code;

/// Why there is no verdict.
#[derive(Debug)]
pub enum TapFault {
    /// The log is not one query.
    NotAQuery,
    /// The handler cannot take a message.
    Handler(String),
    /// The log lacks a column that the handler's row type has.
    Lacks {
        /// The column.
        column: String,
        /// The row type.
        kind: String,
    },
    /// No table is named.
    NothingWatched,
    /// One of the tables does not exist.
    NoTable(u32),
    /// A relation that cannot be watched, and why.
    CannotSee {
        /// Its name.
        relation: String,
        /// What keeps it from being compared.
        why: &'static str,
    },
    /// A column to ignore that no watched table has.
    NoColumn(String),
    /// A time before now was asked for.
    Earlier,
    /// The handler failed.
    Failed {
        /// In which pass.
        pass: i32,
        /// The message's number in the log.
        message: i64,
        /// Its key.
        key: String,
        /// SQLSTATE and message of the handler's error.
        error: String,
        /// Its detail and context.
        more: String,
        /// It tried to commit.
        commits: bool,
    },
    /// A watched table's rows were replaced as a whole, or its definition changed.
    Replaced(String),
    /// A snapshot of this name is there already.
    Taken(String),
    /// There is no snapshot of this name.
    NoSnapshot(String),
    /// The caller may not make tables in schema once.
    MayNotKeep,
    /// The snapshot is somebody else's.
    NotYours(String),
}

const RUNS: &str = "Nothing of the run is left.";

impl TapFault {
    /// SQLSTATE, message, detail and hint.
    pub(super) fn words(&self) -> Words {
        match self {
            TapFault::NotAQuery => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "log must be one query",
                "Its rows are the messages, in order.",
                "Pass a SELECT, such as 'SELECT * FROM message_log ORDER BY id'.",
            ),
            TapFault::Handler(why) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "the handler cannot take a message",
                why.clone(),
                "Pass a function or procedure of one argument: jsonb, or a row type whose columns the log has.",
            ),
            TapFault::Lacks { column, kind } => words(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("the log has no column {column}"),
                format!("The handler takes a row of type {kind}; columns are matched by name."),
                "Name the columns of the log as the row type has them, or let the handler take jsonb.",
            ),
            TapFault::Failed { pass, message, key, error, more, commits } => words(
                if *commits {
                    State::Known(Code::ERRCODE_INVALID_TRANSACTION_TERMINATION)
                } else {
                    State::Own(b"OC005")
                },
                format!("the handler failed on message {message} of pass {pass}"),
                format!("Key {key}. {error}{more}\n{RUNS}"),
                if *commits {
                    "A double tap is one transaction. Run a consumer that commits twice by itself, \
                     between once.snapshot() and once.compare()."
                } else {
                    "See what the handler does with that message; in pass two and later it is one that \
                     was handled before."
                },
            ),
            TapFault::NothingWatched
            | TapFault::NoTable(_)
            | TapFault::CannotSee { .. }
            | TapFault::NoColumn(_)
            | TapFault::Earlier
            | TapFault::Replaced(_) => self.about_tables(),
            _ => self.about_snapshots(),
        }
    }

    fn about_tables(&self) -> Words {
        match self {
            TapFault::NothingWatched => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "watch must name a table",
                "The state that counts is what is in the tables watched.",
                "Pass every table that the pipeline writes to, such as '{orders,stock}'.",
            ),
            TapFault::NoTable(oid) => words(
                Code::ERRCODE_UNDEFINED_TABLE,
                format!("relation with OID {oid} does not exist"),
                "It cannot be watched.",
                "Pass tables by name.",
            ),
            TapFault::CannotSee { relation, why } => words(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("{relation} cannot be watched"),
                format!("It {why}. What cannot be seen is no reason to say that nothing changed."),
                "Watch the tables that hold the rows.",
            ),
            TapFault::NoColumn(name) => words(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("no watched table has a column {name}"),
                "Columns are ignored by name: column, table.column or schema.table.column.",
                "See the tables' columns with \\d; names with capitals want double quotes.",
            ),
            TapFault::Earlier => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "later must not be negative",
                "It is how much later than it is now() shows in pass two.",
                "Leave it out, or pass a length such as '1 day'.",
            ),
            _ => words(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                match self {
                    TapFault::Replaced(table) => format!("{table} cannot be compared"),
                    _ => String::new(),
                },
                "Its definition, its partitions or its files are not what they were: TRUNCATE, ALTER TABLE and the \
                 like leave nothing behind to compare with.",
                "Let the handler use DELETE, or leave the table out of watch.",
            ),
        }
    }

    fn about_snapshots(&self) -> Words {
        match self {
            TapFault::Taken(name) => words(
                Code::ERRCODE_DUPLICATE_OBJECT,
                format!("snapshot {name} is there already"),
                "A snapshot is kept until it is dropped.",
                format!("SELECT once.drop_snapshot({name});"),
            ),
            TapFault::NoSnapshot(name) => words(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("there is no snapshot {name}"),
                "A snapshot is what once.snapshot() took of the tables it was given.",
                format!("SELECT once.snapshot({name}, '{{table,..}}');"),
            ),
            TapFault::NotYours(name) => words(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for snapshot {name}"),
                "It holds a copy of tables, which belongs to the role that took it.",
                "Compare or drop it as that role: SELECT made_by FROM once.state_snapshot.",
            ),
            _ => words(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied to keep a snapshot",
                "What is kept of the tables is kept in tables in schema once.",
                format!("GRANT USAGE, CREATE ON SCHEMA once TO {};", super::words::role()),
            ),
        }
    }
}
