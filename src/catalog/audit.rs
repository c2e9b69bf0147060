//! Reading some of a store's keys, and what was found about them, effect by effect.
//!
//! The rule: pages are chosen at random over all of a store's days, so that what is read does not grow with the store.
//! Nothing that is written down, or said, has a key in it.

use super::{schema, sql};
use crate::domain::audit::{Counted, Finding, Portrait, Tally};
use crate::domain::day::{DAY, Instant};
use crate::error::Refusal;
use crate::pg::privilege::{self, Acting, TableRight};
use crate::stats::{self, layout};
use pgrx::pg_sys::Oid;
use pgrx::spi::Spi;
use std::collections::BTreeMap;

/// Rows a page is taken to have where no ANALYZE has counted them.
const DENSITY: f64 = 70.0;
/// At least so many pages are read, because neighbours in a page are alike; and a leaf that had fewer when it was
/// analysed says nothing of how many rows a page has.
const FEWEST: f64 = 30.0;
/// Keys that a pass looks at.
const SAMPLE: i32 = 10_000;
/// How often it does.
const EVERY: Instant = DAY * 5 / 6;
/// Effects that a pass writes down at most.
const KEPT: usize = 100;

/// What is known of the keys of one effect.
pub struct Audited {
    /// The effect.
    pub effect: Vec<u8>,
    /// What its keys look like.
    pub portrait: Portrait,
    /// What was counted.
    pub counted: Counted,
    /// What is to be said.
    pub findings: Vec<Finding>,
}

/// Looks at about `sample` keys of a store as `role`: one entry an effect, those that were counted but are not in the
/// sample included. `counts` says whether claims are counted now.
pub fn look(
    store: Oid,
    role: Oid,
    sample: i32,
    counts: bool,
    now: Instant,
) -> Result<Vec<Audited>, Refusal> {
    let mut tallies = read(store, role, sample)?;
    let entries: BTreeMap<Vec<u8>, Counted> = stats::rows()
        .into_iter()
        .filter(|entry| entry.store == Some(store))
        .filter_map(|entry| {
            let counted = Counted::Since {
                claimed: entry.count(layout::OUTCOMES),
                duplicates: entry.count(layout::OUTCOMES + 1),
                in_progress: entry.count(layout::OUTCOMES + 2),
                time: now.saturating_sub(entry.since),
            };
            Some((entry.effect?, counted))
        })
        .collect();
    for effect in entries.keys() {
        if !tallies.contains_key(effect) {
            tallies.insert(effect.clone(), Tally::default());
        }
    }
    let counted = |effect: &[u8]| match entries.get(effect) {
        _ if !stats::is_available() => Counted::Unavailable,
        Some(counted) => *counted,
        None if counts => Counted::Nothing,
        None => Counted::Off,
    };
    Ok(tallies
        .into_iter()
        .map(|(effect, tally)| {
            let counted = counted(&effect);
            let (portrait, findings) = (tally.portrait(), tally.findings(counted));
            Audited { effect, portrait, counted, findings }
        })
        .collect())
}

fn read(store: Oid, role: Oid, sample: i32) -> Result<BTreeMap<Vec<u8>, Tally>, Refusal> {
    let _acting = Acting::as_role(role);
    let pages = sql::look::<f64>(
        "SELECT sum(pg_relation_size(inhrelid)) / current_setting('block_size')::float8 \
           FROM pg_inherits WHERE inhparent = $1",
        &[store.into()],
    )?;
    let density = sql::look::<f64>(
        "SELECT sum(c.reltuples)::float8 / sum(c.relpages) FROM pg_inherits i \
           JOIN pg_class c ON c.oid = i.inhrelid \
          WHERE i.inhparent = $1 AND c.reltuples > 0 AND c.relpages >= $2",
        &[store.into(), FEWEST.into()],
    )?;
    let wanted = (f64::from(sample) / density.unwrap_or(DENSITY).max(1.0)).max(FEWEST);
    let percent = (100.0 * wanted / pages.unwrap_or(0.0).max(1.0)).min(100.0);
    let mut tallies: BTreeMap<Vec<u8>, Tally> = BTreeMap::new();
    let query = format!(
        "SELECT convert_to(effect, getdatabaseencoding()), convert_to(key, getdatabaseencoding()) \
           FROM {} TABLESAMPLE SYSTEM ({percent:.6})",
        sql::named(store)?.qualified
    );
    Spi::connect(|client| {
        for row in client.select(&query, None, &[])? {
            let (effect, key) = (row.get::<Vec<u8>>(1)?, row.get::<Vec<u8>>(2)?);
            if let Some((effect, key)) = effect.zip(key) {
                tallies.entry(effect).or_default().add(&key);
            }
        }
        Ok::<_, Refusal>(())
    })?;
    Ok(tallies)
}

/// Whether nobody has looked at a store's keys for a day.
pub fn is_due(store: Oid, now: Instant) -> Result<bool, Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    let last = sql::get::<pgrx::datum::TimestampWithTimeZone>(
        "SELECT max(seen_at) FROM once.key_audit WHERE store = $1",
        &[store.into()],
    )?;
    // A clock that has gone back looks again.
    Ok(!last.is_some_and(|last| (0..EVERY).contains(&(now - Instant::from(last)))))
}

/// Looks at a store's keys as its owner; None where it is gone, or the owner has taken that from themselves: a pass
/// would say so every minute, and once.audit_keys says it to whoever asks.
pub fn look_as_owner(
    store: Oid,
    counts: bool,
    now: Instant,
) -> Result<Option<Vec<Audited>>, Refusal> {
    if !privilege::exists(store) {
        return Ok(None);
    }
    let owner = privilege::table_owner(store);
    if !may_read(store, owner) {
        return Ok(None);
    }
    look(store, owner, SAMPLE, counts, now).map(Some)
}

fn may_read(store: Oid, role: Oid) -> bool {
    let _acting = Acting::as_role(role);
    privilege::may(store, TableRight::Select) && !privilege::row_security_applies(store)
}

/// Writes down what somebody has to look at, for once.health, in place of what was found before.
pub fn keep(store: Oid, mut audited: Vec<Audited>, now: Instant) -> Result<(), Refusal> {
    let warning = |one: &Audited| {
        let words = one.findings.iter().filter(|finding| finding.is_warning);
        words.map(|finding| finding.words.as_str()).collect::<Vec<_>>().join("; ")
    };
    audited.sort_by_key(|one| (warning(one).is_empty(), std::cmp::Reverse(one.portrait.sampled)));
    let worth = audited.iter().filter(|one| !warning(one).is_empty()).count();
    // One at least, which says when.
    audited.truncate(worth.clamp(1, KEPT));
    // In one order, so that two passes at once do not wait for each other in a circle.
    audited.sort_by(|a, b| a.effect.cmp(&b.effect));
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    for one in &audited {
        let words = Some(warning(one)).filter(|words| !words.is_empty());
        sql::run(
            "INSERT INTO once.key_audit AS a (store, effect, finding, since, seen_at) \
             VALUES ($1, convert_from($2, getdatabaseencoding()), $3, $4, $4) \
             ON CONFLICT (store, effect) DO UPDATE SET finding = excluded.finding, seen_at = excluded.seen_at, \
             since = CASE WHEN a.finding IS NULL THEN excluded.since ELSE a.since END",
            &[store.into(), one.effect.clone().into(), words.into(), sql::instant(now)?],
        )?;
    }
    sql::run(
        "DELETE FROM once.key_audit WHERE store = $1 AND seen_at <> $2",
        &[store.into(), sql::instant(now)?],
    )
}
