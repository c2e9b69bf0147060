//! `pg_once.lint_keys`: keys that are certainly wrong, or that their store forbids, are said at the claim.
//!
//! The rule: off it is one branch, on the claimer's settings. Otherwise no more than one line a minute and session,
//! and no key in any; an error is raised each time, before anything is waited for or claimed.

use super::arbiter::require;
use super::{Settings, Terms};
use crate::catalog::cache;
use crate::domain::day::{DAY, Instant};
use crate::domain::kind::{Kinds, kinds};
use crate::domain::shown::shown;
use crate::domain::wrong::wrong;
use crate::error::{KeyLint, Refusal, warn};
use crate::pg::log;
use crate::pg::privilege::TableRight;
use std::cell::Cell;

/// What is done about such a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A line in the server's log.
    Log,
    /// A warning.
    Warning,
    /// An error.
    Error,
}

/// Between two lines of a session.
const PAUSE: u64 = (DAY / (24 * 60)).unsigned_abs();

thread_local! {
    static SAID: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Looks at the keys of one call.
pub fn lint(keys: &[&[u8]], terms: &Terms, settings: &Settings) -> Result<(), Refusal> {
    match settings.lint {
        None => Ok(()),
        Some(level) => look(level, keys, terms, settings),
    }
}

#[cold]
fn look(level: Level, keys: &[&[u8]], terms: &Terms, settings: &Settings) -> Result<(), Refusal> {
    let now = (settings.clock)();
    let pauses = SAID.with(Cell::get).is_some_and(|said| now.abs_diff(said) < PAUSE);
    if level != Level::Error && pauses {
        return Ok(());
    }
    let mut forbidden = Kinds::NONE;
    // A store that is not there yet forbids nothing, and the claim says what there is to be said of it.
    if let Some(store) = cache::find(terms.store)? {
        require(&store, TableRight::Insert)?;
        forbidden = store.forbid;
    }
    let Some((place, lint)) = keys.iter().enumerate().find_map(|(place, key)| {
        let of_kind = || {
            let kinds = kinds(key);
            kinds.within(forbidden).then_some(KeyLint::Forbidden(kinds))
        };
        Some((place, wrong(key).map(KeyLint::Wrong).or_else(of_kind)?))
    }) else {
        return Ok(());
    };
    let store = shown(terms.store);
    let element = (keys.len() > 1).then_some(place + 1);
    let refusal = Refusal::WrongKey { store, element, lint };
    match level {
        Level::Error => return Err(refusal),
        Level::Warning => warn(&refusal),
        Level::Log => {
            log::line(&format!("pg_once: {refusal} (effect \"{}\")", shown(terms.effect)))
        }
    }
    SAID.with(|said| said.set(Some(now)));
    Ok(())
}
