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
use crate::pg::statement::{Connection, Pile};
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
        let changes = Changes { tables: &tables, number, passed, messages: &messages };
        changes.hand_out(&was, &shape, &moved, take)?;
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
    Ok(Run { messages: messages.pile.rows(), tables, unwatched: others })
}

/// What a pass changed.
struct Changes<'a, 'c> {
    tables: &'a [Table],
    number: i32,
    passed: Passed,
    messages: &'a Messages<'c>,
}

impl Changes<'_, '_> {
    /// Hands out the differences, each with the key of its message.
    fn hand_out(
        &self,
        was: &Past,
        shape: &Shapes,
        moved: &[sequences::Position],
        take: &mut dyn FnMut(&Difference),
    ) -> Result<(), Refusal> {
        let activity = Activity::new();
        let _pinned = Settings::set(PINNED);
        let is = shapes(self.tables);
        let (pass, mut grown) = (Some(self.number), Vec::new());
        for (place, table) in self.tables.iter().enumerate() {
            if shape.get(place) != is.get(place) {
                return Err(TapFault::Replaced(table.shown()).into());
            }
            let name = table.shown();
            activity.show(&format!("once.double_tap(): pass {}: comparing {name}", self.number));
            let (mut inserted, mut keys) = (false, self.messages.keys());
            let message_of = |command| self.passed.marks.message_of(command);
            compare::since(table, was, self.passed.xid, message_of, |difference| {
                inserted |= difference.kind == Kind::Inserted;
                let message_key = keys.of(difference.message);
                take(&Difference { pass, message_key, ..*difference });
            });
            if inserted {
                grown.push(table.oid);
            }
        }
        sequences::moved(moved, &grown, |difference| take(&Difference { pass, ..*difference }));
        Ok(())
    }
}
