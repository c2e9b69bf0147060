//! What is stored with a claim: the answer, which duplicates are given, and the digest of the request it was made for.
//!
//! An answer is written once: into the row of the claim that stands, which keeps its key and its window, and never
//! over another answer.

use super::arbiter::{Act, Arbiter, Standing};
use super::{Settings, Terms, check};
use crate::catalog::{cache, making};
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

/// Stores the answer of a claim: true where it is stored now, false where it was there already.
pub fn complete(
    key: &[u8],
    effect: &[u8],
    store: &[u8],
    answer: &Json,
    settings: &Settings,
) -> Result<bool, Refusal> {
    check(key, effect, settings)?;
    let not_claimed = || Refusal::NotClaimed { store: shown(store) };
    if store == making::DEFAULT_STORE.as_bytes() && cache::find(store)?.is_none() {
        return Err(not_claimed());
    }
    let terms = Terms { store, effect, ttl: None, event_time: None, wait: true };
    let mut arbiter = Arbiter::new(&terms, settings).needing(TableRight::Insert);
    let (key, effect) = (Text::new(key), Text::new(effect));
    let done = arbiter.act(&key, false, |standing: Standing| {
        if let Some(stored) = standing.leaf.found_result() {
            return match stored.equals(answer) {
                true => Ok(Act::Done(false)),
                false => Err(Refusal::OtherAnswer { store: shown(store) }),
            };
        }
        Ok(match standing.leaf.complete((&key, &effect), answer)? {
            Replaced::Done => Act::Done(true),
            other => Act::Not(other),
        })
    })?;
    let stored = done.ok_or_else(not_claimed)?;
    if stored {
        arbiter.count(Kind::Completed);
    }
    Ok(stored)
}
