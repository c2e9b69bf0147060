//! `begin_effect`, `extend_effect`, `complete_effect`, `fail_effect`, `window_end`: effects outside the database.
//!
//! Each needs INSERT on the store, and SELECT to be given the answer of one that is done; `window_end` is part of views.
//! Leases and retries are intervals, cut at the end of the claim's window. Errors: those of claim (src/api/claims.rs), and 22023 for
//! a lease that is not positive, a retry_after that is negative, and for a lease longer than the window; OC008 for a stale
//! fence; 22004 for a NULL argument; 40001 where an old snapshot does not show what the fence has come to.

use super::keys::uuid_of;
use super::{given, settings, span};
use crate::catalog::pauses;
use crate::claim::{Terms, arbiter};
use crate::domain::day::Instant;
use crate::domain::window::{Span, SpanFault};
use crate::effects::{self, Held, Wanted};
use crate::error::{Refusal, raise};
use crate::pg::failure::{Sql, sql};
use crate::pg::json::Jsonb;
use crate::pg::rows::{Json, OneRow, Value};
use crate::pg::text::clip;
use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::pg_extern;
use pgrx::pg_sys::Oid;

/// How much of what fail_effect is told is kept, in bytes.
const MOST_SAID: usize = 8192;

/// Claims the key of an effect for as long as a lease.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)] // the arguments of the SQL function
fn begin_effect(
    key: Option<&[u8]>,
    lease: Option<Interval>,
    ttl: Option<Interval>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
    fingerprint: Option<&[u8]>,
    event_time: Option<TimestampWithTimeZone>,
) -> Sql<OneRow<'static, 6>> {
    let begin = || {
        let (key, effect) = (given(key, "key")?, given(effect, "effect")?);
        let terms = Terms {
            store: given(store, "store")?,
            effect,
            ttl: ttl.map(span),
            event_time: event_time.map(i64::from),
            wait: true,
        };
        let lease = positive(given(lease, "lease")?, "lease")?;
        let begun = effects::begin(&Wanted { key, terms, lease, fingerprint }, &settings())?;
        let of_an_effect = begun.outcome.is_of_an_effect();
        let downstream = of_an_effect.then(|| Value::Uuid(uuid_of(effect, key)));
        Ok([
            Value::Label(begun.outcome.label()),
            begun.fence.map_or(Value::Null, Value::Integer),
            begun.attempt.map_or(Value::Null, Value::Small),
            downstream.unwrap_or(Value::Null),
            begun.result.map_or(Value::Null, Value::Json),
            begun.until.map_or(Value::Null, Value::Instant),
        ])
    };
    sql(|| {
        arbiter::refuse_read_only(c"once.begin_effect()");
        OneRow(raise(begin()))
    })
}

/// Lets the lease of an effect end so long from now.
#[pg_extern(sql = false)]
fn extend_effect(
    key: Option<&[u8]>,
    fence: Option<i64>,
    lease: Option<Interval>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
) -> Sql<TimestampWithTimeZone> {
    let extend = || {
        let settings = settings();
        let lease = positive(given(lease, "lease")?, "lease")?;
        effects::extend(&held(key, fence, effect, store, &settings)?, lease)
    };
    sql(|| {
        arbiter::refuse_read_only(c"once.extend_effect()");
        instant(raise(extend()))
    })
}

/// Says that an effect is done.
#[pg_extern(sql = false)]
fn complete_effect(
    key: Option<&[u8]>,
    fence: Option<i64>,
    result: Option<Jsonb<'_>>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
) -> Sql<bool> {
    let complete = || {
        let settings = settings();
        let result = result.map_or_else(Json::null, |result| result.whole());
        effects::complete(&held(key, fence, effect, store, &settings)?, &result)
    };
    sql(|| {
        arbiter::refuse_read_only(c"once.complete_effect()");
        raise(complete())
    })
}

/// Says that an attempt has failed.
#[pg_extern(sql = false)]
fn fail_effect(
    key: Option<&[u8]>,
    fence: Option<i64>,
    error: Option<&[u8]>,
    retry_after: Option<Interval>,
    effect: Option<&[u8]>,
    store: Option<&[u8]>,
) -> Sql<&'static str> {
    let fail = || {
        let settings = settings();
        let error = clip(given(error, "error")?, MOST_SAID);
        let after = span(given(retry_after, "retry_after")?);
        let after = if after == NOTHING { 0 } else { length(after, "retry_after")? };
        let state = effects::fail(&held(key, fence, effect, store, &settings)?, error, after)?;
        Ok(state.label())
    };
    sql(|| {
        arbiter::refuse_read_only(c"once.fail_effect()");
        raise(fail())
    })
}

/// When the window of a claim ends, pauses taken into account.
#[pg_extern(sql = false)]
fn window_end(
    store: Oid,
    claimed_at: TimestampWithTimeZone,
    expires_at: TimestampWithTimeZone,
) -> Sql<TimestampWithTimeZone> {
    sql(|| instant(raise(pauses::of(store)).end_of(claimed_at.into(), expires_at.into())))
}

fn instant(at: Instant) -> TimestampWithTimeZone {
    TimestampWithTimeZone::try_from(at)
        .unwrap_or_else(|_| raise(Err(Refusal::Internal("an instant beyond time".to_owned()))))
}

const NOTHING: Span = Span { months: 0, days: 0, micros: 0 };

fn held<'a>(
    key: Option<&'a [u8]>,
    fence: Option<i64>,
    effect: Option<&'a [u8]>,
    store: Option<&'a [u8]>,
    settings: &'a crate::claim::Settings,
) -> Result<Held<'a>, Refusal> {
    Ok(Held {
        key: given(key, "key")?,
        fence: given(fence, "fence")?,
        effect: given(effect, "effect")?,
        store: given(store, "store")?,
        settings,
    })
}

/// The length of a span that must be positive.
fn positive(interval: Interval, name: &'static str) -> Result<i64, Refusal> {
    length(span(interval), name)
}

fn length(span: Span, name: &'static str) -> Result<i64, Refusal> {
    match span.length() {
        Ok(length) => Ok(length),
        Err(SpanFault::NotPositive | SpanFault::TooLong) => Err(Refusal::BadInterval(name)),
    }
}
