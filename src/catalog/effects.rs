//! The rows of unfinished effects. They are written with the owner's rights, after the caller's own on the store were
//! looked at.
//!
//! The rule: no row is locked to be looked at. Whoever changes one names what they have seen of it, and where it is
//! another by then nothing is changed and they look again. So whoever is told to wait, or that it is done, has
//! written nothing.

use super::{schema, sql};
use crate::domain::day::{DAY, Instant};
use crate::domain::lease::{State, Unfinished};
use crate::error::Refusal;
use crate::pg::bounds::{self, Range};
use crate::pg::kept::Kept;
use crate::pg::privilege::{self, Acting};
use crate::pg::query::Row;
use crate::pg::relation::{Access, Relation};
use crate::pg::rows::Value;
use pgrx::pg_sys::{INT8OID, OIDOID, Oid, REGCLASSOID, TEXTOID, TIMESTAMPTZOID};

/// Whose row it is.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The store's table.
    pub store: Oid,
    /// The effect.
    pub effect: &'a [u8],
    /// The key.
    pub key: &'a [u8],
}

/// A claim and who it was given to.
#[derive(Clone, Copy)]
pub struct Given {
    /// When the claim was made.
    pub claimed_at: Instant,
    /// When it expires, pauses left out.
    pub expires_at: Instant,
    /// Now.
    pub now: Instant,
    /// Until when the lease is.
    pub lease_until: Instant,
}

thread_local! {
    static FIND: Kept<3> = const { Kept::new(
        c"SELECT s.claimed_at, s.state, s.fence, s.attempt, s.lease_until, s.retry_at, \
                 (SELECT p.max_attempts FROM once.store_policy p WHERE p.store = $1) \
            FROM once.effect_state s WHERE s.store = $1 AND s.effect = $2 AND s.key = $3",
        [REGCLASSOID, TEXTOID, TEXTOID],
    ) };
    static START: Kept<8> = const { Kept::new(
        c"INSERT INTO once.effect_state AS s (store, effect, key, claimed_at, expires_at, since, lease_until, state, \
                      fence, attempt, holder, application_name) \
          VALUES ($1, $2, $3, $4, $5, $6, $7, 'running', nextval('once.effect_fence'), 1, pg_get_userbyid($8), \
                  current_setting('application_name')) \
          ON CONFLICT (store, effect, key) DO UPDATE SET claimed_at = excluded.claimed_at, \
             expires_at = excluded.expires_at, since = excluded.since, lease_until = excluded.lease_until, \
             state = excluded.state, fence = excluded.fence, attempt = 1, holder = excluded.holder, \
             application_name = excluded.application_name, retry_at = NULL, shown_at = NULL, error = NULL \
          RETURNING s.fence",
        [REGCLASSOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, OIDOID],
    ) };
    static TAKE: Kept<10> = const { Kept::new(
        c"UPDATE once.effect_state SET state = 'running', fence = nextval('once.effect_fence'), attempt = attempt + 1, \
                 since = $8, lease_until = $9, retry_at = NULL, holder = pg_get_userbyid($10), \
                 application_name = current_setting('application_name') \
           WHERE store = $1 AND effect = $2 AND key = $3 AND fence = $4 AND state = $5 \
             AND lease_until IS NOT DISTINCT FROM $6 AND retry_at IS NOT DISTINCT FROM $7 \
          RETURNING fence, attempt",
        [REGCLASSOID, TEXTOID, TEXTOID, INT8OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
         TIMESTAMPTZOID, OIDOID],
    ) };
    static GIVE_UP: Kept<8> = const { Kept::new(
        c"UPDATE once.effect_state SET state = 'gave_up', since = $8, lease_until = NULL, retry_at = NULL \
           WHERE store = $1 AND effect = $2 AND key = $3 AND fence = $4 AND state = $5 \
             AND lease_until IS NOT DISTINCT FROM $6 AND retry_at IS NOT DISTINCT FROM $7 \
          RETURNING true",
        [REGCLASSOID, TEXTOID, TEXTOID, INT8OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID],
    ) };
    static EXTEND: Kept<5> = const { Kept::new(
        c"UPDATE once.effect_state SET lease_until = $5 \
           WHERE store = $1 AND effect = $2 AND key = $3 AND fence = $4 AND state = 'running' RETURNING true",
        [REGCLASSOID, TEXTOID, TEXTOID, INT8OID, TIMESTAMPTZOID],
    ) };
    static FAIL: Kept<9> = const { Kept::new(
        c"UPDATE once.effect_state SET state = $6, error = $9, lease_until = NULL, \
                 retry_at = CASE WHEN $6 = 'failed' THEN $7 END, \
                 since = CASE WHEN state = $6 THEN since ELSE $8 END \
           WHERE store = $1 AND effect = $2 AND key = $3 AND fence = $4 AND state = $5 RETURNING true",
        [REGCLASSOID, TEXTOID, TEXTOID, INT8OID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID],
    ) };
    static FINISH: Kept<4> = const { Kept::new(
        c"DELETE FROM once.effect_state WHERE store = $1 AND effect = $2 AND key = $3 AND fence = $4 RETURNING true",
        [REGCLASSOID, TEXTOID, TEXTOID, INT8OID],
    ) };
    static NEWEST: Kept<3> = const { Kept::new(
        c"SELECT true FROM once.effect_state WHERE store = $1 AND effect = $2 AND key = $3 FOR UPDATE",
        [REGCLASSOID, TEXTOID, TEXTOID],
    ) };
    static FORGET: Kept<4> = const { Kept::new(
        c"DELETE FROM once.effect_state WHERE store = $1 AND effect = $2 AND key = $3 AND claimed_at = $4",
        [REGCLASSOID, TEXTOID, TEXTOID, TIMESTAMPTZOID],
    ) };
}

fn acting() -> Result<Acting, Refusal> {
    Ok(Acting::as_role(privilege::schema_owner(schema()?)))
}

fn instant(at: Option<Instant>) -> Value<'static> {
    at.map_or(Value::Null, Value::Instant)
}

impl<'a> Subject<'a> {
    fn values(&self) -> [Value<'a>; 3] {
        [Value::Oid(self.store), Value::Bytes(self.effect), Value::Bytes(self.key)]
    }

    /// The row as it was seen: what is changed only where it is still so.
    fn as_seen(&self, seen: &Unfinished) -> [Value<'a>; 7] {
        let [store, effect, key] = self.values();
        let state = Value::Bytes(seen.state.label().as_bytes());
        let (lease, retry) = (instant(seen.lease_until), instant(seen.retry_at));
        [store, effect, key, Value::Integer(seen.fence), state, lease, retry]
    }

    /// The row, as what has committed until now, and this transaction, have left it.
    pub fn find(&self) -> Result<Option<Unfinished>, Refusal> {
        let _acting = acting()?;
        let read = |row: &Row| {
            Some(Unfinished {
                claimed_at: row.instant(1)?,
                state: State::of(row.bytes(2)?)?,
                fence: row.integer(3)?,
                attempt: row.small(4)?,
                lease_until: row.instant(5),
                retry_at: row.instant(6),
                max_attempts: row.small(7),
            })
        };
        match FIND.with(|find| find.run(self.values(), read)) {
            Some(None) => Err(Refusal::Internal("a row of once.effect_state".to_owned())),
            found => Ok(found.flatten()),
        }
    }

    /// Writes down that the effect is begun with a claim of this transaction. The fence.
    pub fn start(&self, given: &Given) -> Result<i64, Refusal> {
        let by = privilege::current_user();
        let _acting = acting()?;
        let [store, effect, key] = self.values();
        let values = [
            store,
            effect,
            key,
            Value::Instant(given.claimed_at),
            Value::Instant(given.expires_at),
            Value::Instant(given.now),
            Value::Instant(given.lease_until),
            Value::Oid(by),
        ];
        let fence = START.with(|start| start.run(values, |row| row.integer(1))).flatten();
        fence.ok_or_else(|| Refusal::Internal("a trigger on once.effect_state".to_owned()))
    }

    /// Gives the effect to the caller, if it is still as it was seen. Its fence and which attempt it is.
    pub fn take_over(
        &self,
        seen: &Unfinished,
        now: Instant,
        lease_until: Instant,
    ) -> Result<Option<(i64, i32)>, Refusal> {
        let by = privilege::current_user();
        let _acting = acting()?;
        let [store, effect, key, fence, state, lease, retry] = self.as_seen(seen);
        let (now, until) = (Value::Instant(now), Value::Instant(lease_until));
        let values = [store, effect, key, fence, state, lease, retry, now, until, Value::Oid(by)];
        let read = |row: &Row| row.integer(1).zip(row.small(2));
        Ok(TAKE.with(|take| take.run(values, read)).flatten())
    }

    /// Gives the effect up, if it is still as it was seen.
    pub fn give_up(&self, seen: &Unfinished, now: Instant) -> Result<bool, Refusal> {
        let _acting = acting()?;
        let [store, effect, key, fence, state, lease, retry] = self.as_seen(seen);
        let values = [store, effect, key, fence, state, lease, retry, Value::Instant(now)];
        Ok(GIVE_UP.with(|give_up| give_up.run(values, |_| ())).is_some())
    }

    /// Lets the lease end at an instant, if the fence still is the last.
    pub fn extend(&self, fence: i64, lease_until: Instant) -> Result<bool, Refusal> {
        let _acting = acting()?;
        let [store, effect, key] = self.values();
        let values = [store, effect, key, Value::Integer(fence), Value::Instant(lease_until)];
        Ok(EXTEND.with(|extend| extend.run(values, |_| ())).is_some())
    }

    /// Writes down that the attempt failed, if the effect is still in the state it was seen in.
    pub fn fail(
        &self,
        seen: &Unfinished,
        now: Instant,
        retry_at: Instant,
        error: &[u8],
    ) -> Result<bool, Refusal> {
        let _acting = acting()?;
        let [store, effect, key] = self.values();
        let values = [
            store,
            effect,
            key,
            Value::Integer(seen.fence),
            Value::Bytes(seen.state.label().as_bytes()),
            Value::Bytes(seen.failed().label().as_bytes()),
            Value::Instant(retry_at),
            Value::Instant(now),
            Value::Bytes(error),
        ];
        Ok(FAIL.with(|fail| fail.run(values, |_| ())).is_some())
    }

    /// The effect is finished, if the fence still is the last.
    pub fn finish(&self, fence: i64) -> Result<bool, Refusal> {
        let _acting = acting()?;
        let [store, effect, key] = self.values();
        let values = [store, effect, key, Value::Integer(fence)];
        Ok(FINISH.with(|finish| finish.run(values, |_| ())).is_some())
    }

    /// Whether an effect that was begun with the claim of this instant is unfinished. Where nothing was ever begun that
    /// costs no look at all.
    pub fn is_unfinished(&self, claimed_at: Instant) -> Result<bool, Refusal> {
        let table = bounds::relation(c"effect_state", schema()?);
        let is_unused = table
            .and_then(|table| Relation::open(table, Access::Read))
            .is_none_or(|table| table.is_empty());
        Ok(!is_unused && self.find()?.is_some_and(|found| found.claimed_at == claimed_at))
    }

    /// The effect is nobody's any more: the claim that it was begun with, made at this instant, is released.
    pub fn forget(&self, claimed_at: Instant) -> Result<(), Refusal> {
        let _acting = acting()?;
        let [store, effect, key] = self.values();
        let values = [store, effect, key, Value::Instant(claimed_at)];
        FORGET.with(|forget| forget.run(values, |_| ()));
        Ok(())
    }

    /// Raises 40001 where the row was changed since the snapshot of a transaction that has only one.
    pub fn require_newest(&self) -> Result<(), Refusal> {
        let _acting = acting()?;
        NEWEST.with(|newest| newest.run(self.values(), |_| ()));
        Ok(())
    }
}

/// How long an effect whose window is over is kept after a pass has seen it.
pub const SHOWN_FOR: Instant = DAY;

/// Writes down, for effects whose windows are over, that a pass has seen them: from now on they are kept for a day.
/// How many there were that none had seen before. A mark of the future is a clock's that has gone back.
pub fn show(store: Oid, now: Instant) -> Result<i64, Refusal> {
    let _acting = acting()?;
    // Whoever has a row locked is at work on it.
    let shown = sql::get::<i64>(
        "WITH shown AS ( \
             UPDATE once.effect_state SET shown_at = $2 WHERE ctid = ANY (ARRAY( \
                 SELECT ctid FROM once.effect_state \
                  WHERE store = $1 AND expires_at <= $2 AND (shown_at IS NULL OR shown_at > $2) \
                    AND once.window_end(store, claimed_at, expires_at) <= $2 FOR UPDATE SKIP LOCKED)) \
             RETURNING true) \
         SELECT count(*) FROM shown",
        &[store.into(), sql::instant(now)?],
    )?;
    Ok(shown.unwrap_or(0))
}

/// How many unfinished effects were begun in a span of time, and how many of them keep their day from being dropped.
pub fn unfinished(store: Oid, range: Range, now: Instant) -> Result<(i64, i64), Refusal> {
    let _acting = acting()?;
    let count = |which: &str| -> Result<i64, Refusal> {
        let query = format!(
            "SELECT count(*) FROM once.effect_state \
              WHERE store = $1 AND claimed_at >= $2 AND claimed_at < $3 AND {which}"
        );
        let shown_before = sql::instant(now.saturating_sub(SHOWN_FOR))?;
        let (from, to) = (sql::instant(range.from)?, sql::instant(range.to)?);
        let counted = sql::get::<i64>(&query, &[store.into(), from, to, shown_before])?;
        Ok(counted.unwrap_or(0))
    };
    Ok((count("$4 IS NOT NULL")?, count("(shown_at IS NULL OR shown_at > $4)")?))
}

/// Forgets the unfinished effects that were begun in a span of time, whose day goes.
pub fn forget(store: Oid, range: Range) -> Result<(), Refusal> {
    let _acting = acting()?;
    sql::run(
        "DELETE FROM once.effect_state WHERE store = $1 AND claimed_at >= $2 AND claimed_at < $3",
        &[store.into(), sql::instant(range.from)?, sql::instant(range.to)?],
    )
}

/// Forgets unfinished effects of days that are there no more, as when somebody has dropped one by hand.
pub fn forget_before(store: Oid, oldest: Instant, now: Instant) -> Result<i64, Refusal> {
    let _acting = acting()?;
    let gone = sql::get::<i64>(
        "WITH gone AS (DELETE FROM once.effect_state WHERE store = $1 AND claimed_at < $2 AND shown_at <= $3 \
                       RETURNING true) SELECT count(*) FROM gone",
        &[store.into(), sql::instant(oldest)?, sql::instant(now.saturating_sub(SHOWN_FOR))?],
    )?;
    Ok(gone.unwrap_or(0))
}
