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
    /// All of them: what a leaf goes by.
    pub all: Pauses,
    /// For each length of window from which on some pause counts, in order: the pauses that count for it.
    by_length: Vec<(i64, Pauses)>,
    /// Since when an absence lasts that is not over.
    pub away_since: Option<Instant>,
    /// When the last absence that is known began, over or not.
    pub last_away: Option<Instant>,
}

/// A pause: from when to when, and how long a window must be to stand still in it.
type Span = (Instant, Instant, i64);

impl StorePauses {
    fn new(spans: &[Span], away_since: Option<Instant>, last_away: Option<Instant>) -> StorePauses {
        let counting = |length: i64| {
            let counts = spans.iter().filter(|(_, _, guard)| *guard <= length);
            Pauses::new(counts.map(|&(since, until, _)| (since, until)).collect())
        };
        let mut lengths: Vec<i64> = spans.iter().map(|&(_, _, guard)| guard).collect();
        lengths.sort_unstable();
        lengths.dedup();
        StorePauses {
            all: counting(i64::MAX),
            by_length: lengths.into_iter().map(|length| (length, counting(length))).collect(),
            away_since,
            last_away,
        }
    }

    /// These, and an absence since an instant that is not over.
    pub fn and_away(&self, since: Instant, guard: i64) -> StorePauses {
        let mut pauses = self.clone();
        let span = (since, Instant::MAX);
        pauses.all = pauses.all.with(span);
        let below = self.counting_for(guard);
        if !pauses.by_length.iter().any(|(length, _)| *length == guard) {
            pauses.by_length.push((guard, below));
            pauses.by_length.sort_unstable_by_key(|(length, _)| *length);
        }
        for (_, known) in pauses.by_length.iter_mut().filter(|(length, _)| *length >= guard) {
            *known = known.with(span);
        }
        pauses
    }

    fn counting_for(&self, length: i64) -> Pauses {
        let known = self.by_length.iter().rev().find(|(guard, _)| *guard <= length);
        known.map(|(_, pauses)| pauses.clone()).unwrap_or_default()
    }

    /// When the window of a claim ends.
    pub fn end_of(&self, claimed_at: Instant, expires_at: Instant) -> Instant {
        let length = expires_at.saturating_sub(claimed_at);
        let counts = self.by_length.iter().rev().find(|(guard, _)| *guard <= length);
        counts.map_or(expires_at, |(_, pauses)| pauses.end(claimed_at, expires_at))
    }
}

/// The pauses of a store as the catalog has them now.
pub fn of(store: Oid) -> Result<StorePauses, Refusal> {
    let pauses = bounds::relation_in(schema()?, c"store_pause").ok_or(Refusal::NotInstalled)?;
    let mut spans: Vec<Span> = Vec::new();
    let (mut away_since, mut last_away) = (None, None);
    table::for_each_row(pauses, |row| {
        let Some((since, until)) = row.instant(1).zip(row.instant(2)) else { return };
        if row.oid(0) != Some(store) {
            return;
        }
        let (months, days, micros) = row.interval(4).unwrap_or_default();
        spans.push((since, until, sql::length_or_zero(months, days, micros)));
        if row.boolean(3) == Some(true) {
            return;
        }
        last_away = last_away.max(Some(since));
        if until == Instant::MAX {
            away_since = Some(since);
        }
    });
    Ok(StorePauses::new(&spans, away_since, last_away))
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

/// Holds that have ended by themselves and of which the log does not tell yet: writes that down, and answers it in
/// words.
pub fn tell_ended(store: Oid, now: Instant) -> Result<Vec<String>, Refusal> {
    let ended = {
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        sql::strings(
            "SELECT format('the hold of %s ended by itself at %s', \
                    to_char(h.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC'), \
                    to_char(h.until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC')) \
               FROM once.store_pause h JOIN pg_class c ON c.oid = h.store \
              WHERE h.store = $1 AND h.is_hold AND h.until <= $2 AND NOT EXISTS ( \
                    SELECT FROM once.maintenance_log l \
                     WHERE l.store = c.relname AND l.action = 'unhold' AND l.at >= h.until) ORDER BY h.since",
            &[store.into(), sql::instant(now)?],
        )?
    };
    for words in &ended {
        log::write(store, &Entry::of(Action::Unhold, words))?;
    }
    Ok(ended)
}

/// Writes an absence down; one that is not over ends at the end of time. Called under the definition lock.
///
/// With it goes how long a window must be to stand still in it, as things are now: a window that an absence has
/// stretched stays so, whatever the retention or the horizon become.
pub fn record_away(store: Oid, since: Instant, until: Instant) -> Result<(), Refusal> {
    let Some(policy) = cache::policy_of(store)? else { return Ok(()) };
    let by = privilege::current_user();
    {
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        sql::run(
            "INSERT INTO once.store_pause (store, since, until, is_hold, guard, reason, made_by) \
             VALUES ($1, $2, $3, false, $5, 'no claims for longer than usual', pg_get_userbyid($4)) \
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
