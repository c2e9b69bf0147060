//! What a statement failed with, as a client sees it.

use postgres::Error;

/// The error of a statement: the parts a client may rely on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// SQLSTATE; `08006` where the connection broke.
    pub code: String,
    /// Primary message.
    pub message: String,
    /// DETAIL, empty where there is none.
    pub detail: String,
    /// HINT, empty where there is none.
    pub hint: String,
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Failure {
        match error.as_db_error() {
            Some(db) => Failure {
                code: db.code().code().to_owned(),
                message: db.message().to_owned(),
                detail: db.detail().unwrap_or_default().to_owned(),
                hint: db.hint().unwrap_or_default().to_owned(),
            },
            None => Failure {
                code: if error.is_closed() || is_broken(error) { "08006" } else { "client" }
                    .to_owned(),
                message: describe(error),
                detail: String::new(),
                hint: String::new(),
            },
        }
    }
}

fn is_broken(error: &Error) -> bool {
    use std::error::Error as _;
    error.source().is_some_and(|source| source.is::<std::io::Error>())
}

fn describe(error: &Error) -> String {
    use std::error::Error as _;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.code, self.message)?;
        if !self.detail.is_empty() {
            write!(out, "\nDETAIL: {}", self.detail)?;
        }
        if !self.hint.is_empty() {
            write!(out, "\nHINT: {}", self.hint)?;
        }
        Ok(())
    }
}
