//! What is wrong with a table that claims are to be imported from.

use super::words::{Words, words};
use pgrx::PgSqlErrorCode as Code;

/// Why nothing can be imported.
#[derive(Debug)]
pub enum SourceFault {
    /// It is a view, a foreign table or the like, or has such a part.
    NotATable(String),
    /// It is the store itself, or shares a leaf with it.
    TheStore(String),
    /// Row-level security would hide rows from the caller.
    RowSecurity(String),
    /// It has no such column.
    NoColumn(String),
    /// The column of times holds something else.
    NotATime(String),
    /// The column of times has no time zone, and none is given.
    WhichZone(String),
    /// A time zone is given for a column that needs none.
    NeedlessZone(String),
    /// Both a column of effects and an effect are given.
    TwoEffects,
    /// The size of a batch is out of range.
    BatchSize(i32),
    /// It was rewritten while it was read.
    Moved(String),
}

impl SourceFault {
    /// SQLSTATE, message, detail and hint.
    pub(super) fn words(&self) -> Words {
        match self {
            SourceFault::NotATable(source) => words(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("cannot import claims from {source}"),
                "A source is read page by page: a table, a partitioned table of such, or a materialized view.",
                "Make one of it with CREATE MATERIALIZED VIEW .. AS SELECT .. and import that.",
            ),
            SourceFault::TheStore(source) => words(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("cannot import claims from {source} into itself"),
                "The source is the store's table or has one of its leaves.",
                "Name the table that holds the keys processed so far.",
            ),
            SourceFault::RowSecurity(source) => words(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("row-level security on {source} would leave out rows"),
                "A key that is left out would be processed again.",
                "Import as a role that the policies do not apply to.",
            ),
            SourceFault::NoColumn(column) => words(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("column {column} does not exist in the source"),
                "Names of columns are taken verbatim: no quotes, capitals count.",
                "See the source's columns with \\d.",
            ),
            SourceFault::NotATime(column) => words(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("column {column} must be a timestamp"),
                "When a key was processed decides until when it refuses.",
                "Import a materialized view that computes a timestamptz.",
            ),
            SourceFault::WhichZone(column) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("column {column} has no time zone, so time_zone must be given"),
                "Read in the wrong zone, windows would end hours early.",
                "Pass the zone the source's times are in, such as time_zone => 'UTC'.",
            ),
            SourceFault::NeedlessZone(column) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("time_zone must be NULL, because column {column} has a time zone"),
                "A timestamptz is an instant as it stands.",
                "Leave time_zone out.",
            ),
            SourceFault::TwoEffects => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "effect and effect_column cannot both be given",
                "Either all rows have one effect, or each row names its own.",
                "Leave one of them out.",
            ),
            SourceFault::BatchSize(size) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "batch_size must be between 1 and 1000000",
                format!("It is {size}: about so many rows are read and committed together."),
                "Leave it out; smaller batches make claims of their keys wait for less long.",
            ),
            SourceFault::Moved(source) => words(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{source} was rewritten while claims were imported from it"),
                "TRUNCATE, VACUUM FULL, CLUSTER or ALTER TABLE gave rows other places; some may not have been read.",
                "CALL it again: what was imported stays, and is passed over.",
            ),
        }
    }
}
