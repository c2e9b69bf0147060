//! Giving a claim up, so that its message may be processed again: the row goes in the caller's transaction, and who did
//! it, when and why is written down in the same.

use super::arbiter::{Act, Arbiter, Standing};
use super::{Settings, Terms, check};
use crate::catalog::{cache, effects, making, releases};
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::privilege::TableRight;
use crate::pg::statement::Connection;
use crate::pg::text::Text;
use crate::pg::tuple::Replaced;
use crate::stats::Kind;

/// What is released, apart from the key.
#[derive(Clone, Copy)]
pub struct Release<'a> {
    /// The store's name.
    pub store: &'a [u8],
    /// Why.
    pub reason: &'a [u8],
}

/// Takes the claim of a key away, its window over or not; false where there is none.
pub fn release(
    key: &[u8],
    effect: &[u8],
    what: Release,
    settings: &Settings,
) -> Result<bool, Refusal> {
    check(key, effect, settings)?;
    if what.reason.is_empty() {
        return Err(Refusal::NoReason);
    }
    if what.store == making::DEFAULT_STORE.as_bytes() && cache::find(what.store)?.is_none() {
        return Ok(false);
    }
    let terms = Terms { store: what.store, effect, ttl: None, event_time: None, wait: true };
    let mut arbiter = Arbiter::new(&terms, settings).needing(TableRight::Delete);
    let removed = arbiter.act(&Text::new(key), true, None, |standing: Standing| {
        let had_answer = standing.leaf.found_result().is_some();
        Ok(match standing.leaf.remove()? {
            Replaced::Done => Act::Done((standing.claimed_at, standing.expires_at, had_answer)),
            other => Act::Not(other),
        })
    })?;
    let Some((claimed_at, expires_at, had_answer)) = removed else { return Ok(false) };
    arbiter.count(Kind::Released);
    // The claim's row before the effect's, as everywhere.
    if let Some(store) = cache::find(what.store)? {
        effects::Subject { store: store.table, effect, key }.forget(claimed_at)?;
    }
    let claim = releases::Claim { key, effect, claimed_at, expires_at, had_answer };
    releases::write(what.store, what.reason, &claim)?;
    Ok(true)
}

/// How often progress is told, in microseconds.
const TELL_EVERY: Instant = 5_000_000;

/// Releases every key that a query gives; how many there were. `tell` is told of progress.
pub fn release_many(
    query: &[u8],
    effect: &[u8],
    what: Release,
    settings: &Settings,
    tell: impl Fn(i64, i64),
) -> Result<i64, Refusal> {
    if what.reason.is_empty() {
        return Err(Refusal::NoReason);
    }
    let connection = Connection::open();
    let keys = connection.prepare(query, &[]);
    let columns = keys.columns().unwrap_or_default();
    let are_texts = columns.iter().all(|column| column.kind == pgrx::pg_sys::TEXTOID);
    if !(1..=2).contains(&columns.len()) || !are_texts {
        return Err(Refusal::NotKeys);
    }
    let (mut seen, mut released, mut told) = (0, 0, (settings.clock)());
    keys.each(|row| {
        let named = if columns.len() == 2 { row.bytes(1) } else { Some(effect) };
        let key = row.bytes(0).ok_or(Refusal::NullArgument("key"))?;
        let effect = named.ok_or(Refusal::NullArgument("effect"))?;
        released += i64::from(release(key, effect, what, settings)?);
        seen += 1;
        let now = (settings.clock)();
        if now - told >= TELL_EVERY {
            told = now;
            tell(seen, released);
        }
        pgrx::check_for_interrupts!();
        Ok::<(), Refusal>(())
    })?;
    Ok(released)
}
