//! What is stored with a claim: the answer, which duplicates are given, and the digest of the request it was made for.
//!
//! An answer is written once: into the row of the claim that stands, which keeps its key and its window, and never
//! over another answer.

use super::arbiter::{Act, Arbiter, Standing, unknown};
use super::{Settings, Terms, check};
use crate::catalog::{cache, effects, making};
use crate::domain::day::Instant;
use crate::domain::shown::shown;
use crate::error::Refusal;
use crate::pg::privilege::TableRight;
use crate::pg::rows::Json;
use crate::pg::text::{self, Text};
use crate::pg::tuple::Replaced;
use crate::stats::Kind;

/// Bytes of the digest that are kept. It is compared with one other only, so that two requests pass for the same by
/// chance once in 2^128; who makes two of his own that do gets the answer to one of them, which is his.
const DIGEST_BYTES: usize = 16;

/// What is kept of a fingerprint.
pub fn digest(fingerprint: &[u8]) -> Text {
    let digest = text::sha256(fingerprint);
    Text::new(&digest[..DIGEST_BYTES.min(digest.len())])
}

/// What became of an answer.
pub enum Stored {
    /// It is stored now, with the claim made at this instant.
    Now(Instant),
    /// The same was there.
    Same,
    /// Another is there.
    Other,
    /// No claim stands, or another than the one meant.
    Unclaimed,
}

/// Stores the answer of a claim: true where it is stored now, false where the same was there already. Not of a claim
/// that an unfinished effect was begun with: its answer is its holder's to give.
pub fn complete(
    key: &[u8],
    effect: &[u8],
    store: &[u8],
    answer: &Json,
    settings: &Settings,
) -> Result<bool, Refusal> {
    check(key, effect, settings)?;
    let made_at = match self::store(key, effect, store, (answer, None), settings)? {
        Stored::Now(made_at) => made_at,
        Stored::Same => return Ok(false),
        Stored::Other => return Err(Refusal::OtherAnswer { store: shown(store) }),
        Stored::Unclaimed => return Err(Refusal::NotClaimed { store: shown(store) }),
    };
    // Asked with the claim's row in hand: whoever finishes or takes over an effect has it first as well, and an effect
    // that was begun in the meantime is begun with another claim.
    let table = cache::find(store)?.ok_or_else(|| unknown(store))?.table;
    let subject = effects::Subject { store: table, effect, key };
    if subject.is_unfinished(made_at)? {
        return Err(Refusal::EffectUnfinished { store: shown(store) });
    }
    Ok(true)
}

/// Stores an answer with the claim that stands; where it is said when that was made, with that one only.
pub fn store(
    key: &[u8],
    effect: &[u8],
    store: &[u8],
    (answer, made_at): (&Json, Option<Instant>),
    settings: &Settings,
) -> Result<Stored, Refusal> {
    if store == making::DEFAULT_STORE.as_bytes() && cache::find(store)?.is_none() {
        return Ok(Stored::Unclaimed);
    }
    let terms = Terms { store, effect, ttl: None, event_time: None, wait: true };
    let mut arbiter = Arbiter::new(&terms, settings).needing(TableRight::Insert);
    let (key, effect) = (Text::new(key), Text::new(effect));
    let done = arbiter.act(&key, false, made_at, |standing: Standing| {
        if made_at.is_some_and(|made_at| made_at != standing.claimed_at) {
            return Ok(Act::Done(Stored::Unclaimed));
        }
        if let Some(stored) = standing.leaf.found_result() {
            let is_same = stored.equals(answer);
            return Ok(Act::Done(if is_same { Stored::Same } else { Stored::Other }));
        }
        Ok(match standing.leaf.complete((&key, &effect), answer)? {
            Replaced::Done => Act::Done(Stored::Now(standing.claimed_at)),
            other => Act::Not(other),
        })
    })?;
    let stored = done.unwrap_or(Stored::Unclaimed);
    // Where it is said which claim is meant, the caller counts what it has done.
    if let (Stored::Now(_), None) = (&stored, made_at) {
        arbiter.count(Kind::Completed);
    }
    Ok(stored)
}
