//! What is wrong with the parts that a key is to be made of.

use super::words::{Words, words};
use crate::domain::canonical::ValueFault;
use crate::domain::joining::JoinFault;
use crate::domain::json_path::PathFault;
use pgrx::PgSqlErrorCode as Code;

/// Why no key can be made. Positions count from 1; a path is as the caller wrote it.
#[derive(Debug)]
pub enum PartsFault {
    /// The parts cannot be joined.
    Join(JoinFault),
    /// An element of this argument is NULL.
    Null {
        /// `part` or `path`.
        what: &'static str,
        /// Which.
        position: usize,
    },
    /// This argument has more than one dimension.
    Dimensions(&'static str, i32),
    /// A path cannot be read.
    Path(String, PathFault),
    /// The payload has nothing at this path.
    Missing(String),
    /// It has a null there.
    NullField(String),
    /// What is there cannot be written as part of a key.
    Value(String, ValueFault),
}

const ONE_OF_MANY: &str =
    "Every message that lacks it would be one intent, and all but the first a duplicate.";

impl PartsFault {
    /// SQLSTATE, message, detail and hint.
    pub(super) fn words(&self) -> Words {
        match self {
            PartsFault::Join(JoinFault::NoParts) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "a key needs at least one part",
                "The list of parts is empty.",
                "Pass what names the intent, such as an order's id and the event.",
            ),
            PartsFault::Join(JoinFault::Blank) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "key must not be empty",
                "There is nothing in any of its parts.",
                "See whether the field that the key is built from is missing from the message.",
            ),
            PartsFault::Null { what, position } => words(
                Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                format!("{what} {position} of the key is NULL"),
                ONE_OF_MANY,
                match *what {
                    "path" => "Pass the path of a field, such as order.id, or leave it out.",
                    _ => {
                        "Pass a value for it; where it may be absent on purpose, say so with coalesce(.., '')."
                    }
                },
            ),
            PartsFault::Dimensions(argument, n) => words(
                Code::ERRCODE_ARRAY_ELEMENT_ERROR,
                format!("{argument} of a key must be a one-dimensional array"),
                format!("The array has {n} dimensions."),
                "Flatten it with ARRAY(SELECT unnest(..)).",
            ),
            PartsFault::Path(path, PathFault { at, expected }) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("path \"{path}\" cannot be read"),
                format!("At byte {at}, {expected} was expected."),
                "Write order.id, items[0].sku, or [\"name.with.dots\"].id.",
            ),
            PartsFault::Missing(path) => words(
                Code::ERRCODE_SQL_JSON_MEMBER_NOT_FOUND,
                format!("the payload has no field \"{path}\""),
                ONE_OF_MANY,
                "See whether the message is of another kind, or its fields have other names.",
            ),
            PartsFault::NullField(path) => words(
                Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                format!("field \"{path}\" of the payload is null"),
                ONE_OF_MANY,
                "Choose fields that every message of the kind has.",
            ),
            PartsFault::Value(path, ValueFault::TooDeep) => words(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("field \"{path}\" of the payload is nested too deep for a key"),
                "Arrays and objects may lie in each other a hundred deep.",
                "Choose the fields within it that name the intent.",
            ),
            PartsFault::Value(path, ValueFault::Malformed) => words(
                Code::ERRCODE_INTERNAL_ERROR,
                format!("field \"{path}\" of the payload could not be read"),
                "It was not written as jsonb is.",
                "This is a bug.",
            ),
        }
    }
}
