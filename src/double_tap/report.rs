//! What a double tap found, as one text: the verdict first, then each table and column with how many rows, three examples,
//! what usually does that, and what to do about it.
//!
//! Rule: of each table and column a count and three short examples are kept, however many rows there are.

use super::tables::{Sort, Table};
use super::{Difference, Kind, Order, Run, literal};
use crate::pg::query::{qualified, quoted};
use crate::pg::text::clip;
use pgrx::pg_sys::Oid;
use std::collections::BTreeMap;

/// Examples of each table and column.
const EXAMPLES: usize = 3;
/// Bytes that are shown of a value.
const SHOWN: usize = 70;

/// What belongs together: state before warnings, then by pass and relation.
type Place = (bool, Option<i32>, u32, Kind, Option<Vec<u8>>);

#[derive(Default)]
struct Entry {
    count: u64,
    examples: Vec<Vec<u8>>,
    /// Somebody's name was among the values.
    named: bool,
}

/// A report that is being made.
#[derive(Default)]
pub struct Report(BTreeMap<Place, Entry>);

impl Report {
    /// Takes a difference in.
    pub fn add(&mut self, difference: &Difference) {
        let column = difference.column.map(<[u8]>::to_vec);
        let warning = difference.kind == Kind::Sequence;
        let place =
            (warning, difference.pass, difference.relation.to_u32(), difference.kind, column);
        let entry = self.0.entry(place).or_default();
        entry.count += 1;
        let ours = b"pg_once double tap";
        entry.named |= difference.after.is_some_and(|v| v.windows(ours.len()).any(|w| w == ours));
        if entry.examples.len() < EXAMPLES {
            entry.examples.push(example(difference));
        }
    }

    /// The text.
    pub fn text(&self, run: &Run, order: &Order) -> Vec<u8> {
        let mut text = self.verdict(run, order);
        for ((_, pass, relation, kind, column), entry) in &self.0 {
            let table = run.tables.iter().find(|table| table.oid.to_u32() == *relation);
            let name = bare(&qualified(Oid::from(*relation)).unwrap_or_default());
            text.extend_from_slice(b"\n\n");
            text.extend_from_slice(&name);
            if let Some(column) = column {
                text.extend_from_slice(&[b", column ", &bare(&quoted(column))[..]].concat());
            }
            let pass = pass.map_or_else(String::new, |pass| format!(" in pass {pass}"));
            text.extend_from_slice(format!(": {}{pass}", counted(*kind, entry.count)).as_bytes());
            for example in &entry.examples {
                text.extend_from_slice(b"\n    ");
                text.extend_from_slice(example);
            }
            let sort = table
                .zip(column.as_ref())
                .map_or(Sort::Other, |(table, column)| sort(table, column));
            let (cause, remedy) =
                why(*kind, sort, entry.named || column.as_deref().is_some_and(tells_who));
            text.extend_from_slice(
                format!("\n  usual cause: {cause}\n  remedy: {remedy}").as_bytes(),
            );
            if let (Kind::Changed, Some(column)) = (kind, column) {
                let ignore =
                    literal(&[b"{", &name[..], b".", &bare(&quoted(column)), b"}"].concat());
                text.extend_from_slice(b"\n  only if a redelivery may change it: ignore => ");
                text.extend_from_slice(ignore.trim_ascii_start());
            }
        }
        text
    }

    /// What it comes to, in the first lines. Names go as the bytes that they are.
    fn verdict(&self, run: &Run, order: &Order) -> Vec<u8> {
        let state = |(place, _): &(&Place, &Entry)| !place.0;
        let changes: u64 = self.0.iter().filter(state).map(|(_, entry)| entry.count).sum();
        let warnings = self.0.iter().filter(|place| !state(place)).count() as u64;
        let plural = |n: u64, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let mut text = if changes == 0 { "READY: " } else { "NOT READY: " }.to_owned();
        text += &plural(run.messages, "message");
        text += ", delivered again,";
        if let Some(seed) = order.shuffle {
            text += &format!(" and twice more in an order shuffled by seed {seed},");
        }
        text += &match changes {
            0 => " changed nothing.".to_owned(),
            _ => format!(" made {}.", plural(changes, "difference")),
        };
        if run.messages == 0 {
            text += "\nThe log is empty, so that this says nothing.";
        }
        if warnings > 0 {
            text += &format!("\nWith {}, below.", plural(warnings, "warning"));
        }
        let tables: Vec<&[u8]> = run.tables.iter().map(|table| table.name.as_slice()).collect();
        let stays =
            if order.keep { "; what was done stays." } else { "; everything was rolled back." };
        let mut text = text.into_bytes();
        text.extend([b"\nWatched: ", &tables.join(&b", "[..])[..], stays.as_bytes()].concat());
        if !run.unwatched.is_empty() {
            text.extend(b"\nAlso written by a message that was handled before, but not watched: ");
            text.extend([&run.unwatched.join(&b", "[..])[..], b"."].concat());
        }
        text
    }
}

/// Quoted names, without the quotation marks where none are needed.
fn bare(names: &[u8]) -> Vec<u8> {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.\"".contains(b);
    let needed =
        !names.iter().all(plain) || names.windows(2).any(|w| w[0] == b'"' && w[1].is_ascii_digit());
    names.iter().copied().filter(|b| needed || *b != b'"').collect()
}

fn sort(table: &Table, column: &[u8]) -> Sort {
    table.columns.iter().find(|known| known.name == column).map_or(Sort::Other, |known| known.sort)
}

fn tells_who(column: &[u8]) -> bool {
    let name = String::from_utf8_lossy(column).to_lowercase();
    name.ends_with("_by")
        || ["worker", "consumer", "host", "user", "pid"].iter().any(|who| name.contains(who))
}

fn counted(kind: Kind, count: u64) -> String {
    let rows = if count == 1 { "row" } else { "rows" };
    match kind {
        Kind::Sequence => "warning: moved, though its table got no row".to_owned(),
        other => format!("{count} {rows} {}", other.word()),
    }
}

fn example(difference: &Difference) -> Vec<u8> {
    let value = |value: Option<&[u8]>| match value {
        None => b"NULL".to_vec(),
        Some(value) if clip(value, SHOWN).len() == value.len() => value.to_vec(),
        Some(value) => [clip(value, SHOWN), b".."].concat(),
    };
    let mut text = Vec::new();
    if let (Some(key), Kind::Changed) = (difference.key, difference.kind) {
        text.extend_from_slice(&[&value(Some(key))[..], b": "].concat());
    }
    let (before, after) = (value(difference.before), value(difference.after));
    match difference.kind {
        Kind::Inserted => text.extend_from_slice(&after),
        Kind::Deleted => text.extend_from_slice(&before),
        _ => text.extend_from_slice(&[&before[..], b" -> ", &after].concat()),
    }
    if let Some(message) = difference.message {
        let key = value(difference.message_key);
        text.extend_from_slice(
            &[format!("  (message {message}, ").as_bytes(), &key, b")"].concat(),
        );
    }
    text
}

/// What usually does that, and what to do about it.
fn why(kind: Kind, sort: Sort, who: bool) -> (&'static str, &'static str) {
    match (kind, sort) {
        (Kind::Inserted, _) => (
            "a row appended without a claim",
            "IF once.claim_once(key, '7 days') THEN .. the insert .. END IF, or a primary key from the message and ON CONFLICT DO NOTHING",
        ),
        (Kind::Deleted, _) => (
            "a row taken away by a message that had been handled before",
            "claim the message first, and do nothing where once.claim_once() says false",
        ),
        (Kind::Sequence, _) => (
            "a number drawn before it was known that the row is there (ON CONFLICT DO NOTHING does that)",
            "none is needed where numbers may have gaps; else claim before the insert",
        ),
        (Kind::Changed, Sort::Time) => (
            "a time taken at processing: now(), a default, a trigger",
            "take it from the message, or write it only with the row's first insert; or claim first",
        ),
        _ if who => (
            "who processed the message: a created_by, a worker's or a session's name",
            "write it only with the row's first insert (ON CONFLICT DO NOTHING), or claim first",
        ),
        (Kind::Changed, Sort::Number) => (
            "a counter or a sum that every delivery adds to",
            "claim first: add only where once.claim_once() says true; or compute it from the rows that were counted",
        ),
        (Kind::Changed, Sort::Uuid) => (
            "an identifier made up at processing",
            "derive it from the message's key, so that every attempt makes the same",
        ),
        _ => (
            "a value that depends on when, by whom or how often a message is processed",
            "take it from the message, or claim first",
        ),
    }
}
