//! The promise: for one (store, effect, key), among committed transactions, at most one claim
//! succeeds per validity window.
//!
//! `answer` is what is stored with a claim, `arbiter` is the protocol for one key, `batch` the same for many, `import` brings over what another
//! table says was processed, `lint` says which keys look wrong, `lookup` is a look that claims nothing, `release` gives a claim up, `window` which leaves can hold a live
//! claim.

pub mod answer;
pub mod arbiter;
pub mod batch;
pub mod import;
pub mod lint;
pub mod lookup;
pub mod release;
pub mod window;

use crate::domain::day::{Day, Instant};
use crate::domain::key::{self, MAX_EFFECT_BYTES};
use crate::domain::window::Span;
use crate::error::Refusal;
use crate::stats::{Kind, Wanted};
use std::ffi::CStr;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key is the caller's: do the work in this transaction.
    Claimed,
    /// Done already.
    Duplicate,
    /// Another transaction holds the key and has not ended; only where waiting was not wanted.
    InProgress,
    /// The message is older than what the store still remembers; only where its time was given.
    TooLate,
    /// Done already, for another request under the same key.
    Mismatch,
}

impl Outcome {
    /// The label of the SQL enum once.outcome.
    pub fn label(self) -> &'static CStr {
        match self {
            Outcome::Claimed => c"claimed",
            Outcome::Duplicate => c"duplicate",
            Outcome::InProgress => c"in_progress",
            Outcome::TooLate => c"too_late",
            Outcome::Mismatch => c"mismatch",
        }
    }

    /// As what it is counted.
    fn kind(self) -> Kind {
        match self {
            Outcome::Claimed => Kind::Claimed,
            Outcome::Duplicate => Kind::Duplicate,
            Outcome::InProgress => Kind::InProgress,
            Outcome::TooLate => Kind::TooLate,
            Outcome::Mismatch => Kind::Mismatch,
        }
    }
}

/// The whole answer: the outcome, and the window of the claim that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What became of the claim.
    pub outcome: Outcome,
    /// When the standing claim was made and when it expires; None where there is none to speak of.
    pub window: Option<(Instant, Instant)>,
}

impl Answer {
    /// An outcome without a claim that stands.
    fn without_claim(outcome: Outcome) -> Answer {
        Answer { outcome, window: None }
    }
}

/// Settings a claim needs, read by the caller.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Longest key in bytes.
    pub max_key_bytes: usize,
    /// Retention of the default store when it is made.
    pub default_retention: i64,
    /// Days for which leaves are made ahead.
    pub precreate_days: i32,
    /// Whole days without a claim, beyond what is usual, after which a store counts as away; 0 is never.
    pub away_days: i32,
    /// Whether a message older than what the store remembers is refused.
    pub refuse_late: bool,
    /// Whether the filters of sealed days are asked.
    pub use_filters: bool,
    /// The clock: microseconds since 2000-01-01 UTC.
    pub clock: fn() -> Instant,
    /// What is done about keys that look wrong; None is nothing.
    pub lint: Option<lint::Level>,
    /// What is counted and logged of the answers.
    pub measured: Wanted,
}

impl Settings {
    /// The UTC day now.
    pub fn today(&self) -> Day {
        Day::of((self.clock)())
    }
}

/// What is claimed, apart from the key.
pub struct Terms<'a> {
    /// The store's name.
    pub store: &'a [u8],
    /// The effect's name.
    pub effect: &'a [u8],
    /// The window; None means the store's retention.
    pub ttl: Option<Span>,
    /// When what the message tells of happened, where that is known.
    pub event_time: Option<Instant>,
    /// Whether to wait for a transaction that holds the key.
    pub wait: bool,
}

/// Refuses a key or effect that cannot be claimed.
pub fn check(key: &[u8], effect: &[u8], settings: &Settings) -> Result<(), Refusal> {
    key::check(key, settings.max_key_bytes)?;
    check_effect(effect)
}

/// Refuses an effect that is too long.
pub fn check_effect(effect: &[u8]) -> Result<(), Refusal> {
    if effect.len() > MAX_EFFECT_BYTES {
        return Err(Refusal::EffectTooLong(effect.len()));
    }
    Ok(())
}
