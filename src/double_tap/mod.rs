//! The double tap: a log of messages handed to a handler twice, and the state after the first pass compared with the
//! state after the second; and the same comparison around a consumer outside the database.
//!
//! Rules. What cannot be seen is an error and never a pass. Nothing of a run is left, unless it is to be kept. Memory
//! does not grow with messages, rows or differences: each of them is on disk where there are many.
//!
//! - [`messages`]: the log and the handler; [`replay`]: one pass.
//! - [`tables`], [`compare`], [`sequences`], [`unwatched`]: what is compared, how, and what is not.
//! - [`report`]: the same as a text. [`kept`]: states that are kept across transactions.

pub mod compare;
pub mod kept;
pub mod messages;
pub mod replay;
pub mod report;
pub mod sequences;
pub mod tables;
pub mod unwatched;

use self::messages::Messages;
use self::replay::{Pass, Passed, ending};
use self::tables::Table;
use crate::error::{Refusal, TapFault};
use crate::pg::moved::MovedClock;
use crate::pg::nested::{self, Activity, Settings};
use crate::pg::past::Past;
use crate::pg::rows::Value;
use crate::pg::statement::{Connection, Pile, Row};
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::ffi::CStr;

/// Settings that values are compared and printed under, and that keep memory where it is.
pub const PINNED: &[(&CStr, &CStr)] = &[
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"row_security", c"off"),
    (c"TimeZone", c"UTC"),
    (c"DateStyle", c"ISO, YMD"),
    (c"IntervalStyle", c"postgres"),
    (c"extra_float_digits", c"1"),
    (c"bytea_output", c"hex"),
    (c"xmloption", c"content"),
    (c"lc_monetary", c"C"),
    (c"work_mem", c"1MB"),
    (c"hash_mem_multiplier", c"1"),
    (c"max_parallel_workers_per_gather", c"0"),
    (c"jit", c"off"),
];

/// What is different.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A row that was not there.
    Inserted,
    /// A row that is there no more.
    Deleted,
    /// A column's value.
    Changed,
    /// No state: a sequence that moved though its table got no row.
    Sequence,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Inserted, Kind::Deleted, Kind::Changed, Kind::Sequence];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Inserted => "inserted",
            Kind::Deleted => "deleted",
            Kind::Changed => "changed",
            Kind::Sequence => "sequence",
        }
    }
}

/// One difference between two states.
pub struct Difference<'r> {
    /// The pass that made it; none where a consumer outside was compared.
    pub pass: Option<i32>,
    /// The table, or the sequence.
    pub relation: Oid,
    /// The primary key, printed.
    pub key: Option<&'r [u8]>,
    /// What is different.
    pub kind: Kind,
    /// The column, of a row that was changed.
    pub column: Option<&'r [u8]>,
    /// The value before, or the row.
    pub before: Option<&'r [u8]>,
    /// The value after, or the row.
    pub after: Option<&'r [u8]>,
    /// The number of the last message that wrote the row, where that can be told.
    pub message: Option<i64>,
    /// Its key.
    pub message_key: Option<&'r [u8]>,
}

/// What is to be run.
pub struct Order<'a> {
    /// The query whose rows are the messages.
    pub log: &'a [u8],
    /// What takes one.
    pub handler: Oid,
    /// The tables that count.
    pub watch: Vec<Oid>,
    /// Columns that do not.
    pub ignore: Vec<&'a [u8]>,
    /// Whether a third pass is shuffled, by this seed.
    pub shuffle: Option<i64>,
    /// Whether what was done stays.
    pub keep: bool,
    /// How much later now() is in the passes after the first, in microseconds.
    pub later: i64,
    /// The clock.
    pub clock: fn() -> i64,
}

/// What was run.
pub struct Run {
    /// Messages in the log.
    pub messages: u64,
    /// The tables watched.
    pub tables: Vec<Table>,
    /// Other tables that a pass after the first wrote to.
    pub unwatched: Vec<Vec<u8>>,
}

/// A string as a SQL literal, byte by byte: in a server's encoding no other character has a quotation mark's byte.
pub fn literal(text: &[u8]) -> Vec<u8> {
    let mut quoted = if text.contains(&b'\\') { b" E'".to_vec() } else { b"'".to_vec() };
    for &byte in text {
        if byte == b'\'' || byte == b'\\' {
            quoted.push(byte);
        }
        quoted.push(byte);
    }
    quoted.push(b'\'');
    quoted
}

/// Runs a double tap, and hands out the differences in the order of passes, tables and messages.
pub fn run(order: &Order, mut take: impl FnMut(&Difference)) -> Result<Run, Refusal> {
    nested::subtransaction(order.keep, || tap(order, &mut take))
}

/// A table, and what says that it is still what it was.
type Shapes = Vec<Vec<u8>>;

fn shapes(tables: &[Table]) -> Shapes {
    let _pinned = Settings::set(PINNED);
    let connection = Connection::open();
    tables.iter().map(|table| table.shape(&connection)).collect()
}

fn tap(order: &Order, take: &mut dyn FnMut(&Difference)) -> Result<Run, Refusal> {
    let watched = || {
        let _pinned = Settings::set(PINNED);
        tables::watched(&order.watch, &order.ignore)
    };
    // What is refused is refused before anything runs.
    watched()?;
    // Dropped after the clock is back, so that it shows the statement with its own time.
    let _activity = Activity::new();
    let connection = Connection::open();
    let messages = Messages::read(&connection, order.log, order.handler)?;
    let ending = {
        let _pinned = Settings::set(PINNED);
        ending(&connection)
    };
    let mut found = connection.collect(
        b"SELECT NULL::int8, NULL::oid, NULL::text, NULL::int8, NULL::text, NULL::text, NULL::text, NULL::int8, NULL::int8 LIMIT 0",
    );
    let now = RefCell::new((MovedClock::new(), i64::MIN));
    let play = |number: i32, later: i64, pile: &Pile| {
        let (messages_in, clock) = (pile.rows(), order.clock);
        Pass { number, messages: messages_in, clock, later, ending: &ending }
            .run(&messages, pile, &now)
    };
    let mut others = Vec::new();
    play(1, 0, &messages.pile)?;
    // What the handler makes of the tables with the first message is what is compared; from here on they stay.
    let tables = watched()?;
    for number in 2..=(if order.shuffle.is_some() { 3 } else { 2 }) {
        let (was, shape) = (Past::now(), shapes(&tables));
        let moved = sequences::positions(&tables);
        let counted = unwatched::written(&tables);
        let passed = match order.shuffle {
            Some(seed) if number == 3 => {
                let pinned = Settings::set(PINNED);
                let (reader, sql) = messages.shuffled(seed);
                let pile = reader.collect(&sql);
                drop(pinned);
                play(number, order.later, &pile)?
            }
            _ => play(number, order.later, &messages.pile)?,
        };
        let mut changes = Changes { tables: &tables, number, passed, found: &mut found };
        changes.compare(&was, &shape, &moved)?;
        for table in unwatched::more(&counted, unwatched::written(&tables)) {
            if !others.contains(&table) {
                let name = String::from_utf8_lossy(&table);
                pgrx::notice!(
                    "double tap, pass {number}: {name} was written to, but is not watched"
                );
                others.push(table);
            }
        }
    }
    drop(now);
    hand_over(&messages.pile, &found, take);
    Ok(Run { messages: messages.pile.rows(), tables, unwatched: others })
}

/// What a pass changed.
struct Changes<'a, 'c> {
    tables: &'a [Table],
    number: i32,
    passed: Passed,
    found: &'a mut Pile<'c>,
}

impl Changes<'_, '_> {
    fn compare(
        &mut self,
        was: &Past,
        shape: &Shapes,
        moved: &[sequences::Position],
    ) -> Result<(), Refusal> {
        let activity = Activity::new();
        let _pinned = Settings::set(PINNED);
        let is = shapes(self.tables);
        let mut grown = Vec::new();
        for (place, table) in self.tables.iter().enumerate() {
            if shape.get(place) != is.get(place) {
                return Err(TapFault::Replaced(table.shown()).into());
            }
            let name = table.shown();
            activity.show(&format!("once.double_tap(): pass {}: comparing {name}", self.number));
            let mut inserted = false;
            compare::since(table, was, self.passed.xid, |row| {
                inserted |= row.difference.kind == Kind::Inserted;
                let message = row.command.and_then(|command| self.passed.marks.message_of(command));
                put(self.found, self.number, place, &Difference { message, ..row.difference });
                Ok::<_, Refusal>(())
            })?;
            if inserted {
                grown.push(table.oid);
            }
        }
        sequences::moved(moved, &grown, |difference| {
            put(self.found, self.number, usize::MAX, difference)
        });
        Ok(())
    }
}

fn put(found: &mut Pile, pass: i32, place: usize, difference: &Difference) {
    fn text(text: Option<&[u8]>) -> Value<'_> {
        text.map_or(Value::Null, Value::Bytes)
    }
    found.put([
        Value::Integer(i64::from(pass)),
        Value::Oid(difference.relation),
        text(difference.key),
        Value::Integer(difference.kind as i64),
        text(difference.column),
        text(difference.before),
        text(difference.after),
        difference.message.map_or(Value::Null, Value::Integer),
        Value::Integer(i64::try_from(place).unwrap_or(i64::MAX)),
    ]);
}

/// Hands out what was found, each with the key of its message.
fn hand_over(messages: &Pile, found: &Pile, take: &mut dyn FnMut(&Difference)) {
    let _pinned = Settings::set(PINNED);
    let connection = Connection::open();
    connection.lend(c"pg_once_messages", messages);
    connection.lend(c"pg_once_found", found);
    let sql = b"SELECT f.pass, f.relation, f.key, f.kind, f.name, f.was, f.became, f.message, m.key \
                  FROM pg_once_found AS f (pass, relation, key, kind, name, was, became, message, place) \
                  LEFT JOIN pg_once_messages AS m (number, key, message) ON m.number = f.message \
                 ORDER BY f.pass, f.place, f.message, f.key COLLATE \"C\", f.kind, f.name COLLATE \"C\", f.relation";
    let given: Result<(), std::convert::Infallible> = connection.each(sql, |row: &Row| {
        let kind = row.integer(3).and_then(|kind| usize::try_from(kind).ok());
        take(&Difference {
            pass: row.integer(0).and_then(|pass| i32::try_from(pass).ok()),
            relation: row.oid(1),
            key: row.bytes(2),
            kind: kind.and_then(|kind| Kind::ALL.get(kind).copied()).unwrap_or(Kind::Changed),
            column: row.bytes(4),
            before: row.bytes(5),
            after: row.bytes(6),
            message: row.integer(7),
            message_key: row.bytes(8),
        });
        Ok(())
    });
    let Ok(()) = given;
}
