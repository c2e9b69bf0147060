//! What the catalog knows of a store's pauses: holds that somebody asked for, and absences that maintenance
//! found. See [`crate::domain::pause`] for what a pause does.

use super::log::{self, Action, Entry};
use super::{cache, schema, sql, stores};
use crate::domain::day::Instant;
use crate::domain::pause::Pauses;
use crate::error::Refusal;
use crate::pg::privilege::{self, Acting};
use crate::pg::{bounds, inval, table};
use pgrx::pg_sys::Oid;

/// A store's pauses.
#[derive(Clone, Default)]
pub struct StorePauses {
    /// Those that hold every window.
    holds: Pauses,
    /// Holds and absences by what windows they stop: those at least so long, shortest first.
    guarded: Vec<(i64, Pauses)>,
    /// Every one.
    pub all: Pauses,
    /// Since when an absence lasts that is not over.
    pub away_since: Option<Instant>,
    /// When the last absence that is known began, over or not.
    pub last_away: Option<Instant>,
}

impl StorePauses {
    /// The pauses that stop a window of this length: an absence stops those that guarded against redelivery
    /// when it was found, whatever has been decided about the store since.
    pub fn that_stop(&self, length: i64) -> &Pauses {
        let guarded = self.guarded.iter().rev().find(|(guard, _)| *guard <= length);
        guarded.map_or(&self.holds, |(_, pauses)| pauses)
    }
}

/// The pauses of a store as the catalog has them now.
pub fn of(store: Oid) -> Result<StorePauses, Refusal> {
    let pauses = bounds::relation_in(schema()?, c"store_pause").ok_or(Refusal::NotInstalled)?;
    let (mut holds, mut all, mut absences) = (Vec::new(), Vec::new(), Vec::new());
    let (mut away_since, mut last_away) = (None, None);
    table::for_each_row(pauses, |row| {
        let Some(span) = row.instant(1).zip(row.instant(2)) else { return };
        if row.oid(0) != Some(store) {
            return;
        }
        all.push(span);
        if row.boolean(3) == Some(true) {
            holds.push(span);
            return;
        }
        let guard = row.interval(6).map(|(months, days, rest)| sql::length(months, days, rest));
        absences.push((guard.unwrap_or(0), span));
        last_away = last_away.max(Some(span.0));
        if span.1 == Instant::MAX {
            away_since = Some(span.0);
        }
    });
    absences.sort_unstable();
    let guarded = absences.iter().enumerate().map(|(place, &(guard, _))| {
        let spans = absences[..=place].iter().map(|&(_, span)| span);
        (guard, Pauses::new(holds.iter().copied().chain(spans).collect()))
    });
    let guarded = guarded.collect();
    let (holds, all) = (Pauses::new(holds), Pauses::new(all));
    Ok(StorePauses { holds, guarded, all, away_since, last_away })
}

/// Begins a hold, or changes the one in force.
pub fn hold(
    name: &str,
    reason: &[u8],
    clock: fn() -> Instant,
    until: Instant,
) -> Result<(), Refusal> {
    let store = stores::owned_to_change(name)?;
    let now = clock();
    if until <= now {
        return Err(Refusal::HoldInThePast);
    }
    let by = privilege::current_user();
    let until_text = {
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        let changed = sql::get::<bool>(
            "UPDATE once.store_pause SET until = $3, reason = convert_from($4, getdatabaseencoding()), \
                    made_by = pg_get_userbyid($5) \
              WHERE store = $1 AND is_hold AND until > $2 RETURNING true",
            &[store.into(), sql::instant(now)?, sql::instant(until)?, reason.into(), by.into()],
        )?;
        if changed.is_none() {
            sql::run(
                "INSERT INTO once.store_pause (store, since, until, is_hold, reason, made_by) \
                 VALUES ($1, $2, $3, true, convert_from($4, getdatabaseencoding()), pg_get_userbyid($5))",
                &[store.into(), sql::instant(now)?, sql::instant(until)?, reason.into(), by.into()],
            )?;
        }
        sql::get::<Vec<u8>>(
            "SELECT convert_to(format('until %s: %s', CASE WHEN isfinite($1) THEN to_char($1 AT TIME ZONE 'UTC', \
                    'YYYY-MM-DD HH24:MI:SS UTC') ELSE 'further notice' END, \
                    convert_from($2, getdatabaseencoding())), getdatabaseencoding())",
            &[sql::instant(until)?, reason.into()],
        )?
    };
    changed(store, Action::Hold, &until_text.unwrap_or_default())
}

/// Ends every pause in force. False where there was none.
pub fn unhold(name: &str, clock: fn() -> Instant) -> Result<bool, Refusal> {
    let store = stores::owned_to_change(name)?;
    let now = clock();
    let ended = {
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        // One that begins later, after a clock that went back, cannot end now: it goes.
        sql::get::<i64>(
            "WITH gone AS (DELETE FROM once.store_pause WHERE store = $1 AND since >= $2 RETURNING true), \
                  ended AS (UPDATE once.store_pause SET until = $2 \
                             WHERE store = $1 AND since < $2 AND until > $2 RETURNING true) \
             SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM ended)",
            &[store.into(), sql::instant(now)?],
        )?
    };
    let any = ended.is_some_and(|count| count > 0);
    if any {
        changed(store, Action::Unhold, "windows run on")?;
    }
    Ok(any)
}

/// Writes an absence down; one that is not over ends at the end of time. Called under the definition lock.
pub fn record_away(store: Oid, since: Instant, until: Instant) -> Result<(), Refusal> {
    let Some(policy) = cache::policy_of(store)? else { return Ok(()) };
    let by = privilege::current_user();
    {
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        sql::run(
            "INSERT INTO once.store_pause (store, since, until, is_hold, reason, made_by, guards) \
             VALUES ($1, $2, $3, false, 'no claims for longer than usual', pg_get_userbyid($4), $5) \
             ON CONFLICT (store, is_hold, since) DO UPDATE SET until = excluded.until",
            &[
                store.into(),
                sql::instant(since)?,
                sql::instant(until)?,
                by.into(),
                sql::interval(policy.guard())?,
            ],
        )?;
    }
    let action = if until == Instant::MAX { Action::Away } else { Action::Back };
    let detail = sql::get::<String>(
        "SELECT pg_catalog.format('no claims from %s UTC to %s', \
                pg_catalog.to_char($1 AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), \
                CASE WHEN pg_catalog.isfinite($2) \
                     THEN pg_catalog.to_char($2 AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC') ELSE 'now' END)",
        &[sql::instant(since)?, sql::instant(until)?],
    )?;
    changed(store, action, &detail.unwrap_or_default())
}

/// Forgets pauses that were over before `oldest`, the first instant the store still has a leaf for.
pub fn forget_before(store: Oid, oldest: Instant) -> Result<(), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    sql::run(
        "DELETE FROM once.store_pause WHERE store = $1 AND until <= $2",
        &[store.into(), sql::instant(oldest)?],
    )
}

fn changed<T: AsRef<[u8]> + ?Sized>(store: Oid, action: Action, detail: &T) -> Result<(), Refusal> {
    log::write(store, &Entry::of(action, detail))?;
    inval::announce(store);
    crate::pg::session::next_command();
    Ok(())
}
