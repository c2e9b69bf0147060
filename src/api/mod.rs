//! SQL in, SQL out: each function checks its arguments, calls one function below, and maps what
//! comes back. The SQL declarations, with their comments, are in `sql/`; a function here reads its
//! arguments as that script declares them.
//!
//! Text arguments arrive as bytes: keys are exact bytes in every database encoding.

mod answers;
mod audit;
mod claims;
mod double_tap;
mod effects;
mod filters;
mod holds;
mod import;
mod keys;
mod maintenance;
mod schedule;
mod statistics;
mod stores;

use crate::claim::Settings;
use crate::claim::lint::Level;
use crate::domain::window::Span;
use crate::error::Refusal;
use crate::gucs;
use crate::pg::session;
use crate::stats::Wanted;
use pgrx::datum::Interval;

/// The settings a claim needs, as they are now.
fn settings() -> Settings {
    Settings {
        max_key_bytes: gucs::max_key_bytes(),
        default_retention: gucs::default_retention(),
        precreate_days: gucs::precreate_days(),
        away_days: gucs::away_days(),
        refuse_late: gucs::late_policy() == gucs::LatePolicy::Refuse,
        use_filters: gucs::filters(),
        clock: session::now,
        lint: match gucs::lint_keys() {
            gucs::LintKeys::Off => None,
            gucs::LintKeys::Log => Some(Level::Log),
            gucs::LintKeys::Warning => Some(Level::Warning),
            gucs::LintKeys::Error => Some(Level::Error),
        },
        measured: Wanted { counts: gucs::track_claims(), samples: gucs::sample_duplicates() },
    }
}

/// An argument that must not be NULL.
fn given<T>(argument: Option<T>, name: &'static str) -> Result<T, Refusal> {
    argument.ok_or(Refusal::NullArgument(name))
}

/// An interval argument as a span.
fn span(interval: Interval) -> Span {
    Span { months: interval.months(), days: interval.days(), micros: interval.micros() }
}
