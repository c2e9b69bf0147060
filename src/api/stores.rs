//! `create_store`, `alter_store`, `drop_store`, `leaf_day`.
//!
//! Errors: 22004 for a NULL name; 22023 for a name, an interval or a kind of keys that cannot be; 42501 without
//! CREATE on schema once, or without ownership; 42704 for an unknown store; 42P07 for a name that is
//! taken; 25006 in a read-only transaction or on a standby.

use super::{given, settings, span};
use crate::catalog::leaves;
use crate::catalog::stores::{self, Policy};
use crate::claim::arbiter;
use crate::domain::day::Day;
use crate::domain::kind::Kinds;
use crate::domain::shown::shown;
use crate::domain::window;
use crate::error::{Refusal, raise};
use crate::gucs;
use crate::pg::array::{ArrayFault, TextArray};
use crate::pg::bounds;
use crate::pg::failure::{Sql, sql};
use crate::pg::rows::{OneRow, RowSet, Value};
use crate::pg::session;
use pgrx::datum::{Date, Interval};
use pgrx::pg_extern;
use pgrx::pg_sys::Oid;

/// Makes a store. Its retention is `retention`, or else `pg_once.horizon_factor` times
/// `retry_horizon`, or else `pg_once.default_retention`; one below the horizon is refused.
#[pg_extern(sql = false)]
fn create_store(
    name: Option<&[u8]>,
    retry_horizon: Option<Interval>,
    retention: Option<Interval>,
    note: Option<&[u8]>,
    forbid: Option<TextArray<'_>>,
    max_attempts: Option<i32>,
) -> Sql<Oid> {
    let create = || {
        let name = store_name(name, "name")?;
        let horizon = length(retry_horizon, "retry_horizon")?;
        let factor = gucs::horizon_factor();
        let chosen = length(retention, "retention")?;
        let retention = window::choose(chosen, horizon, factor, gucs::default_retention());
        window::cover(retention, horizon)
            .map_err(|horizon| Refusal::RetentionBelowHorizon { retention, horizon })?;
        let policy = Policy {
            retention: Some(retention),
            retry_horizon: horizon,
            note,
            forbid: kinds(forbid)?,
            max_attempts: attempts(max_attempts)?,
        };
        let settings = settings();
        stores::create(&name, &policy, retention, settings.today(), settings.precreate_days)
    };
    sql(|| {
        arbiter::refuse_read_only(c"once.create_store()");
        raise(create())
    })
}

/// Changes what is given; NULL leaves a thing as it is.
#[pg_extern(sql = false)]
fn alter_store(
    name: Option<&[u8]>,
    retry_horizon: Option<Interval>,
    retention: Option<Interval>,
    note: Option<&[u8]>,
    forbid: Option<TextArray<'_>>,
    max_attempts: Option<i32>,
) -> Sql<()> {
    let alter = || {
        let policy = Policy {
            retention: length(retention, "retention")?,
            retry_horizon: length(retry_horizon, "retry_horizon")?,
            note,
            forbid: kinds(forbid)?,
            max_attempts: attempts(max_attempts)?,
        };
        stores::alter(&store_name(name, "name")?, &policy, session::now, gucs::away_days())
    };
    sql(|| {
        arbiter::refuse_read_only(c"once.alter_store()");
        raise(alter());
    })
}

/// Drops a store with every claim in it.
#[pg_extern(sql = false)]
fn drop_store(name: Option<&[u8]>) -> Sql<()> {
    sql(|| {
        arbiter::refuse_read_only(c"once.drop_store()");
        raise(store_name(name, "name").and_then(|name| stores::drop_store(&name)));
    })
}

/// The UTC day a leaf covers; NULL for a table that is no leaf of one day.
#[pg_extern(sql = false)]
fn leaf_day(leaf: Oid) -> Option<Date> {
    let range = bounds::range_of(leaf).filter(|range| range.from != i64::MIN)?;
    let day = Day::of(range.from);
    let whole = range.from == day.start() && range.to == day.end();
    whole.then(|| Date::saturating_from_raw(day.0))
}

/// Until when each leaf of a store may hold a live claim.
#[pg_extern(sql = false)]
fn kept_until(store: Oid) -> Sql<RowSet<'static, 2>> {
    sql(|| {
        let leaves = raise(leaves::live_until(store));
        RowSet::new(leaves.into_iter().map(|(leaf, at)| [Value::Oid(leaf), Value::Instant(at)]))
    })
}

/// When the first and the last claim of a leaf expire, for whoever may read the store.
#[pg_extern(sql = false)]
fn leaf_expiries(leaf: Oid) -> Sql<OneRow<'static, 2>> {
    sql(|| {
        let (oldest, newest) = raise(leaves::expiries(leaf)).unzip();
        OneRow([oldest, newest].map(|at| at.map_or(Value::Null, Value::Instant)))
    })
}

/// A name as a string. Where the database's encoding is not UTF-8 only ASCII is one.
pub(super) fn store_name(name: Option<&[u8]>, argument: &'static str) -> Result<String, Refusal> {
    match std::str::from_utf8(given(name, argument)?) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(Refusal::NameEncoding),
    }
}

fn kinds(labels: Option<TextArray<'_>>) -> Result<Option<Kinds>, Refusal> {
    let Some(labels) = labels else { return Ok(None) };
    let labels = labels.elements().map_err(|fault| {
        Refusal::BadForbid(match fault {
            ArrayFault::Dimensions(n) => format!("The array has {n} dimensions."),
            ArrayFault::NullElement(position) => format!("Element {position} is NULL."),
        })
    })?;
    let read = |kinds: Kinds, label: &[u8]| {
        let said = || format!("'{}' is none.", shown(label));
        kinds.and_labelled(label).ok_or_else(|| Refusal::BadForbid(said()))
    };
    labels.into_iter().try_fold(Kinds::NONE, read).map(Some)
}

fn attempts(most: Option<i32>) -> Result<Option<i32>, Refusal> {
    if most.is_some_and(|most| most < 0) { Err(Refusal::BadAttempts) } else { Ok(most) }
}

fn length(interval: Option<Interval>, name: &'static str) -> Result<Option<i64>, Refusal> {
    let length = |i| span(i).length().map_err(|_| Refusal::BadInterval(name));
    interval.map(length).transpose()
}
