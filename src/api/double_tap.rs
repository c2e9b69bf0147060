//! `double_tap`, `double_tap_report`, `snapshot`, `compare`, `drop_snapshot`: whether a pipeline is ready for duplicates.
//!
//! Errors: 0A000 and 42501 from PostgreSQL where a table cannot be read whole; 22004 for a NULL argument; 22023 for a log
//! that is no query, a handler that takes no message, no table; 25006 in a read-only transaction or on a standby; 2D000
//! for a handler that commits; 42703 for an unknown column; 42704 and 42710 for a snapshot's name; 42809 for a relation
//! that is no table; 42P01 for one that does not exist; 55000 for a table that was replaced; OC005 for a handler that
//! failed.
//!
//! Privileges: USAGE on schema once, and the caller's own for everything else: SELECT on the whole of each watched table
//! (42501), and what the query and the handler do. Messages are numbered from 1; `later` is how long
//! after the pass before now() stands in the next.

use super::{given, span};
use crate::claim::arbiter;
use crate::double_tap::report::Report;
use crate::double_tap::{self, Difference, Order, Run, kept};
use crate::error::{Refusal, TapFault, raise};
use crate::pg::array::{ArrayFault, TextArray};
use crate::pg::failure::{Sql, sql};
use crate::pg::rows::{Rows, Value};
use crate::pg::session;
use pgrx::datum::Interval;
use pgrx::pg_extern;
use pgrx::pg_sys::Oid;
use std::ffi::CStr;

/// The arguments that both forms share.
struct Given<'a> {
    log: Option<&'a [u8]>,
    handler: Option<Oid>,
    watch: Option<Vec<Option<Oid>>>,
    ignore: Option<TextArray<'a>>,
    shuffle: Option<bool>,
    keep: Option<bool>,
    seed: Option<i64>,
    later: Option<Interval>,
}

impl<'a> Given<'a> {
    fn order(self) -> Result<Order<'a>, Refusal> {
        let shuffle = given(self.shuffle, "shuffle")?;
        // Short enough to be typed again.
        let seed = self.seed.unwrap_or_else(|| session::random() & 0xFFFF_FFFF);
        Ok(Order {
            log: given(self.log, "log")?,
            handler: given(self.handler, "handler")?,
            watch: tables(self.watch)?,
            ignore: names(self.ignore)?,
            shuffle: shuffle.then_some(seed),
            keep: given(self.keep, "keep")?,
            later: later(given(self.later, "later")?)?,
            clock: session::now,
        })
    }

    /// Runs it for the function of this name.
    fn run(self, function: &CStr, take: impl FnMut(&Difference)) -> (Run, Order<'a>) {
        arbiter::refuse_read_only(function);
        let order = raise(self.order());
        // Before anything can fail, so that what fails in that pass can be had again.
        if let Some(seed) = order.shuffle {
            pgrx::notice!("double tap, pass 3: shuffled by seed {seed}");
        }
        let run = raise(double_tap::run(&order, take));
        (run, order)
    }
}

fn tables(watch: Option<Vec<Option<Oid>>>) -> Result<Vec<Oid>, Refusal> {
    given(watch, "watch")?.into_iter().map(|table| given(table, "watch")).collect()
}

fn names(ignore: Option<TextArray<'_>>) -> Result<Vec<&[u8]>, Refusal> {
    given(ignore, "ignore")?.elements().map_err(|fault| match fault {
        ArrayFault::Dimensions(n) => Refusal::Dimensions(n),
        ArrayFault::NullElement(_) => Refusal::NullArgument("a column to ignore"),
    })
}

fn later(interval: Interval) -> Result<i64, Refusal> {
    let span = span(interval);
    if (span.months, span.days, span.micros) == (0, 0, 0) {
        return Ok(0);
    }
    span.length().map_err(|_| TapFault::Earlier.into())
}

/// A row of a function's result.
fn put(rows: &Rows, difference: &Difference) {
    fn text(text: Option<&[u8]>) -> Value<'_> {
        text.map_or(Value::Null, Value::Bytes)
    }
    rows.put([
        difference.pass.map_or(Value::Null, |pass| Value::Integer(i64::from(pass))),
        Value::Oid(difference.relation),
        text(difference.key),
        Value::Owned(difference.kind.word().into()),
        text(difference.column),
        text(difference.before),
        text(difference.after),
        difference.message.map_or(Value::Null, Value::Integer),
        text(difference.message_key),
    ]);
}

/// Hands a log to a handler twice; one row a difference.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)] // the arguments of the SQL function
fn double_tap(
    rows: Rows,
    log: Option<&[u8]>,
    handler: Option<Oid>,
    watch: Option<Vec<Option<Oid>>>,
    ignore: Option<TextArray>,
    shuffle: Option<bool>,
    keep: Option<bool>,
    seed: Option<i64>,
    later: Option<Interval>,
) -> Sql<()> {
    sql(|| {
        let given = Given { log, handler, watch, ignore, shuffle, keep, seed, later };
        given.run(c"once.double_tap()", |difference| put(&rows, difference));
    })
}

/// The same as one text.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)] // the arguments of the SQL function
fn double_tap_report(
    log: Option<&[u8]>,
    handler: Option<Oid>,
    watch: Option<Vec<Option<Oid>>>,
    ignore: Option<TextArray>,
    shuffle: Option<bool>,
    keep: Option<bool>,
    seed: Option<i64>,
    later: Option<Interval>,
) -> Sql<Vec<u8>> {
    sql(|| {
        let given = Given { log, handler, watch, ignore, shuffle, keep, seed, later };
        let mut report = Report::default();
        let (run, order) = given.run(c"once.double_tap_report()", |found| report.add(found));
        report.text(&run, &order)
    })
}

/// Keeps the state of tables under a name.
#[pg_extern(sql = false)]
fn snapshot(
    name: Option<&[u8]>,
    watch: Option<Vec<Option<Oid>>>,
    ignore: Option<TextArray>,
) -> Sql<()> {
    sql(|| {
        arbiter::refuse_read_only(c"once.snapshot()");
        let take = || kept::take(given(name, "name")?, &tables(watch)?, &names(ignore)?);
        raise(take());
    })
}

/// What is different since.
#[pg_extern(sql = false)]
fn compare(rows: Rows, name: Option<&[u8]>) -> Sql<()> {
    sql(|| {
        let compare = || kept::compare(given(name, "name")?, |difference| put(&rows, difference));
        raise(compare());
    })
}

/// Drops what was kept.
#[pg_extern(sql = false)]
fn drop_snapshot(name: Option<&[u8]>) -> Sql<()> {
    sql(|| {
        arbiter::refuse_read_only(c"once.drop_snapshot()");
        raise(given(name, "name").and_then(kept::drop_state));
    })
}
