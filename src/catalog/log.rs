//! The maintenance log: every leaf made and dropped, every drop put off, every hold and absence, with who did
//! it. Bounded: a pass forgets all but the newest entries.

use super::{schema, sql};
use crate::domain::day::{Day, Instant};
use crate::error::Refusal;
use crate::pg::privilege::{self, Acting};
use pgrx::pg_sys::Oid;

/// How many entries are kept.
const KEPT: i64 = 10_000;

/// What happened, as the log words it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A leaf was made.
    Create,
    /// A leaf was sealed and has a filter.
    Seal,
    /// A leaf was dropped.
    Drop,
    /// A drop was put off because the leaf is in use.
    Postpone,
    /// A leaf that is due is kept: it holds a claim that outlives its promise.
    Keep,
    /// A hold began, or was changed.
    Hold,
    /// Holds and absences were ended.
    Unhold,
    /// The store was found without claims for longer than usual.
    Away,
    /// Claims came again.
    Back,
    /// The clock is not to be believed: nothing was dropped.
    Doubt,
    /// Somebody said that it is.
    Force,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Seal => "seal",
            Action::Drop => "drop",
            Action::Postpone => "postpone",
            Action::Keep => "keep",
            Action::Hold => "hold",
            Action::Unhold => "unhold",
            Action::Away => "away",
            Action::Back => "back",
            Action::Doubt => "doubt",
            Action::Force => "force",
        }
    }
}

/// One entry.
pub struct Entry<'a> {
    /// What happened.
    pub action: Action,
    /// The leaf's day.
    pub day: Option<Day>,
    /// Claims concerned.
    pub rows: Option<i64>,
    /// How long it took, in microseconds.
    pub took: Option<i64>,
    /// In words, as bytes of the database's encoding.
    pub detail: &'a [u8],
}

impl Entry<'_> {
    /// An entry of which there is nothing more to say.
    pub fn of<T: AsRef<[u8]> + ?Sized>(action: Action, detail: &T) -> Entry<'_> {
        Entry { action, day: None, rows: None, took: None, detail: detail.as_ref() }
    }
}

/// Writes an entry about a store, in the current transaction, in the current user's name.
pub fn write(store: Oid, entry: &Entry) -> Result<(), Refusal> {
    let by = privilege::current_user();
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    let took = entry.took.map(|micros| sql::interval(micros.max(1))).transpose()?;
    sql::run(
        "INSERT INTO once.maintenance_log (store, action, day, rows, took, detail, made_by, runner) \
         SELECT relname, $2, $3::date, $4, $5, convert_from($6, getdatabaseencoding()), pg_get_userbyid($7), \
                coalesce(nullif(current_setting('application_name'), ''), \
                         (SELECT backend_type FROM pg_stat_get_activity(pg_backend_pid())), '') \
           FROM pg_class WHERE oid = $1",
        &[
            store.into(),
            entry.action.word().into(),
            entry.day.map(Day::bound).map(|bound| bound[..10].to_owned()).into(),
            entry.rows.into(),
            took.unwrap_or_else(|| None::<pgrx::datum::Interval>.into()),
            entry.detail.into(),
            by.into(),
        ],
    )
}

/// The same, unless an entry like it is less than an hour old: a pass finds the same thing every time.
pub fn write_once_an_hour(store: Oid, entry: &Entry) -> Result<(), Refusal> {
    let said = {
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        sql::get::<bool>(
            "SELECT true FROM once.maintenance_log l JOIN pg_class c ON c.relname = l.store \
              WHERE c.oid = $1 AND l.action = $2 AND l.day IS NOT DISTINCT FROM $3::date \
                AND l.at BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp() LIMIT 1",
            &[
                store.into(),
                entry.action.word().into(),
                entry.day.map(Day::bound).map(|bound| bound[..10].to_owned()).into(),
            ],
        )?
    };
    if said.is_some() { Ok(()) } else { write(store, entry) }
}

/// Whether an entry since an instant tells this of something, which its detail begins with.
pub fn tells_of(store: Oid, action: Action, what: &str, since: Instant) -> Result<bool, Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    let told = sql::get::<bool>(
        "SELECT true FROM once.maintenance_log l JOIN pg_class c ON c.relname = l.store \
          WHERE c.oid = $1 AND l.action = $2 AND starts_with(l.detail, $3 || ' ') \
            AND l.at BETWEEN $4 AND clock_timestamp() LIMIT 1",
        &[store.into(), action.word().into(), what.into(), sql::instant(since)?],
    )?;
    Ok(told.is_some())
}

/// Forgets all but the newest entries.
pub fn prune() -> Result<(), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    sql::run(
        "DELETE FROM once.maintenance_log WHERE at < \
         (SELECT at FROM once.maintenance_log ORDER BY at DESC OFFSET $1 LIMIT 1)",
        &[KEPT.into()],
    )
}
