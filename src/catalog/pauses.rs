//! What the catalog knows of a store's pauses: holds that somebody asked for, and absences that maintenance
//! found. See [`crate::domain::pause`] for what a pause does.

use super::log::{self, Action, Entry};
use super::{schema, sql, stores};
use crate::domain::day::Instant;
use crate::domain::pause::Pauses;
use crate::error::Refusal;
use crate::pg::privilege::{self, Acting};
use crate::pg::{bounds, inval, lock, table};
use pgrx::pg_sys::Oid;

/// A store's pauses.
#[derive(Clone, Default)]
pub struct StorePauses {
    /// Those that hold every window.
    pub holds: Pauses,
    /// Holds and absences, which stop the windows that guard against redelivery.
    pub all: Pauses,
    /// Since when an absence lasts that is not over.
    pub away_since: Option<Instant>,
    /// When the last absence that is known began, over or not.
    pub last_away: Option<Instant>,
}

/// The pauses of a store as the catalog has them now.
pub fn of(store: Oid) -> Result<StorePauses, Refusal> {
    let pauses = bounds::relation_in(schema()?, c"store_pause").ok_or(Refusal::NotInstalled)?;
    let (mut holds, mut all) = (Vec::new(), Vec::new());
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
        last_away = last_away.max(Some(span.0));
        if span.1 == Instant::MAX {
            away_since = Some(span.0);
        }
    });
    let (holds, all) = (Pauses::new(holds), Pauses::new(all));
    Ok(StorePauses { holds, all, away_since, last_away })
}

/// Begins a hold, or changes the one in force.
pub fn hold(name: &str, reason: &[u8], now: Instant, until: Instant) -> Result<(), Refusal> {
    let store = stores::owned(name)?;
    if until <= now {
        return Err(Refusal::HoldInThePast);
    }
    lock::hold_definition(store);
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
        sql::get::<String>(
            "SELECT format('until %s: %s', CASE WHEN isfinite($1) THEN to_char($1 AT TIME ZONE 'UTC', \
                    'YYYY-MM-DD HH24:MI:SS UTC') ELSE 'further notice' END, \
                    convert_from($2, getdatabaseencoding()))",
            &[sql::instant(until)?, reason.into()],
        )?
    };
    changed(store, Action::Hold, &until_text.unwrap_or_default())
}

/// Ends every pause in force. False where there was none.
pub fn unhold(name: &str, now: Instant) -> Result<bool, Refusal> {
    let store = stores::owned(name)?;
    lock::hold_definition(store);
    let ended = {
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        sql::run(
            "DELETE FROM once.store_pause WHERE store = $1 AND since >= $2",
            &[store.into(), sql::instant(now)?],
        )?;
        sql::get::<i64>(
            "WITH ended AS (UPDATE once.store_pause SET until = $2 WHERE store = $1 AND until > $2 \
                            RETURNING true) SELECT count(*) FROM ended",
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
    let by = privilege::current_user();
    {
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        sql::run(
            "INSERT INTO once.store_pause (store, since, until, is_hold, reason, made_by) \
             VALUES ($1, $2, $3, false, 'no claims for longer than usual', pg_get_userbyid($4)) \
             ON CONFLICT (store, is_hold, since) DO UPDATE SET until = excluded.until",
            &[store.into(), sql::instant(since)?, sql::instant(until)?, by.into()],
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

fn changed(store: Oid, action: Action, detail: &str) -> Result<(), Refusal> {
    log::write(store, &Entry::of(action, detail))?;
    inval::announce(store);
    crate::pg::session::next_command();
    Ok(())
}
