//! Storing the answer of a claim. A stand-in, until claims have answers of their own.

use crate::catalog::cache::Store;
use crate::catalog::effects::Subject;
use crate::catalog::sql;
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::kept;
use crate::pg::privilege::{self, Acting};
use crate::pg::rows::{Json, Value};
use pgrx::pg_sys::{JSONBOID, TEXTOID, TIMESTAMPTZOID};
use std::ffi::CString;

/// What became of it.
pub(super) enum Stored {
    /// It is there now.
    Now,
    /// The same was there.
    Same,
    /// Another is there, or the claim is gone.
    Not,
}

/// Stores the answer with the claim made at an instant.
pub(super) fn store_answer(
    store: &Store,
    subject: &Subject,
    claimed_at: Instant,
    result: &Json,
) -> Result<Stored, Refusal> {
    let _acting = Acting::as_role(privilege::table_owner(store.table));
    let text = format!(
        "UPDATE {} SET result = $4 WHERE claimed_at = $1 AND key = $2 AND effect = $3 AND result IS NULL \
         RETURNING true",
        sql::named(store.table)?.qualified
    );
    let text = CString::new(text).unwrap_or_default();
    let kinds = [TIMESTAMPTZOID, TEXTOID, TEXTOID, JSONBOID];
    let values = [
        Value::Instant(claimed_at),
        Value::Bytes(subject.key),
        Value::Bytes(subject.effect),
        Value::JsonOf(result),
    ];
    if kept::run_once(&text, kinds, values, |_| ()).is_some() {
        return Ok(Stored::Now);
    }
    let text = format!(
        "SELECT result = $4 FROM {} WHERE claimed_at = $1 AND key = $2 AND effect = $3",
        sql::named(store.table)?.qualified
    );
    let text = CString::new(text).unwrap_or_default();
    let values = [
        Value::Instant(claimed_at),
        Value::Bytes(subject.key),
        Value::Bytes(subject.effect),
        Value::JsonOf(result),
    ];
    let is_same = kept::run_once(&text, kinds, values, |row| row.truth(1)) == Some(true);
    Ok(if is_same { Stored::Same } else { Stored::Not })
}
