//! One pass: every message handed to the handler, as if each came in a transaction of its own.
//!
//! Rule: what a transaction would have of its own, a message has: the time that now() shows, settings, constraints
//! deferred to its end. What it cannot have is another transaction id.

use super::messages::Messages;
use crate::error::{Refusal, TapFault};
use crate::pg::failure::{Report, reported};
use crate::pg::moved::MovedClock;
use crate::pg::nested::{self, Activity, Settings};
use crate::pg::past;
use crate::pg::statement::{Connection, Pile, Plan, Row};
use std::cell::{Cell, RefCell};
use std::ffi::CString;

/// Between two notices, and between two lines of pg_stat_activity, in microseconds.
const NOTICE_EVERY: i64 = 5_000_000;
const SHOW_EVERY: i64 = 250_000;
/// So many messages that wrote something are remembered; of what later ones wrote it is not told which did it.
const MOST_MARKS: usize = 400_000;

/// Which commands of the transaction were which message's.
#[derive(Default)]
pub struct Marks {
    /// First command, number of the message; in order. A message that wrote nothing has none.
    starts: Vec<(u32, u32)>,
    end: u32,
}

impl Marks {
    /// The message that gave a command.
    pub fn message_of(&self, command: u32) -> Option<i64> {
        let place = self.starts.partition_point(|(first, _)| *first <= command);
        let (_, number) = self.starts.get(place.checked_sub(1)?)?;
        (command < self.end).then_some(i64::from(*number))
    }
}

/// What a pass goes by.
pub struct Pass<'a> {
    /// Which it is.
    pub number: i32,
    /// How many messages it has.
    pub messages: u64,
    /// The clock.
    pub clock: fn() -> i64,
    /// How much later than the clock now() shows, in microseconds.
    pub later: i64,
    /// Runs after each message, to end it as a commit would.
    pub ending: &'a [Plan<'a>],
}

/// What was left by a pass.
pub struct Passed {
    /// Which message gave which command.
    pub marks: Marks,
    /// The first transaction id of the pass.
    pub xid: u32,
}

impl Pass<'_> {
    /// Hands each message of the pile to the handler.
    pub fn run(
        &self,
        messages: &Messages,
        pile: &Pile,
        now: &RefCell<(MovedClock, i64)>,
    ) -> Result<Passed, Refusal> {
        let name =
            CString::new(format!("pg_once double tap, pass {}", self.number)).unwrap_or_default();
        let _named = Settings::set(&[(c"application_name", &name)]);
        let activity = Activity::new();
        let at = RefCell::new((0, Vec::new()));
        let marks = RefCell::new(Marks::default());
        let xid = Cell::new(0);
        let handed = reported(|| {
            nested::subtransaction(true, || {
                xid.set(past::own_xid());
                self.hand_out(messages, pile, now, &activity, &at, &marks)
            })
        });
        let (number, key) = at.into_inner();
        handed.map_err(|report| self.failed(number, &key, report))??;
        Ok(Passed { marks: marks.into_inner(), xid: xid.get() })
    }

    fn hand_out(
        &self,
        messages: &Messages,
        pile: &Pile,
        now: &RefCell<(MovedClock, i64)>,
        activity: &Activity,
        at: &RefCell<(i64, Vec<u8>)>,
        marks: &RefCell<Marks>,
    ) -> Result<(), Refusal> {
        let began = (self.clock)();
        let (mut noticed, mut shown, mut done) = (began, 0, 0_u64);
        pile.each(|row: &Row| -> Result<(), Refusal> {
            nested::check_for_interrupts();
            let clock = (self.clock)();
            if clock - shown > SHOW_EVERY {
                shown = clock;
                // What others see of the session bears the statement's own time.
                now.borrow_mut().0.put_back();
                activity.show(&self.progress("once.double_tap(): ", done));
            }
            if clock - noticed > NOTICE_EVERY {
                noticed = clock;
                pgrx::notice!("{}", self.progress("double tap, ", done));
            }
            {
                let (shows, last) = &mut *now.borrow_mut();
                *last = (clock + self.later).max(*last + 1);
                shows.show(*last);
            }
            {
                let (number, key) = &mut *at.borrow_mut();
                *number = row.integer(0).unwrap_or(0);
                key.clear();
                key.extend_from_slice(row.bytes(1).unwrap_or(b"NULL"));
            }
            let first = past::command();
            let message = Settings::set(&[]);
            messages.call.call(Some((row, 2)));
            for statement in self.ending {
                statement.call(None);
            }
            drop(message);
            let next = past::command();
            let marks = &mut *marks.borrow_mut();
            if next != first && marks.starts.len() < MOST_MARKS {
                marks.starts.push((first, u32::try_from(at.borrow().0).unwrap_or(u32::MAX)));
                marks.end = next;
            }
            done += 1;
            Ok(())
        })?;
        now.borrow_mut().0.put_back();
        Ok(())
    }

    fn progress(&self, word: &str, done: u64) -> String {
        format!("{word}pass {}: {done} of {} messages", self.number, self.messages)
    }

    fn failed(&self, message: i64, key: &[u8], report: Report) -> Refusal {
        TapFault::Failed {
            pass: self.number,
            message,
            key: String::from_utf8_lossy(key).into_owned(),
            commits: report.sqlstate == "2D000",
            error: format!("{}: {}", report.sqlstate, report.message),
            more: report.more,
        }
        .into()
    }
}

/// What ends a message as a commit would: constraints and triggers that were deferred have their turn. Nothing, where the
/// database has none that can be. Those that the caller has no way to name are checked at once from the second message on.
pub fn ending(connection: &Connection) -> Vec<Plan<'_>> {
    let sql = b"SELECT (SELECT count(*) FROM pg_constraint WHERE condeferrable), \
                  (SELECT string_agg(DISTINCT format('%I.%I', n.nspname, c.conname), ', ') FROM pg_constraint c \
                     JOIN pg_namespace n ON n.oid = c.connamespace \
                    WHERE c.condeferred AND has_schema_privilege(n.oid, 'USAGE') AND NOT pg_is_other_temp_schema(n.oid) \
                      AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conname = c.conname AND o.connamespace = c.connamespace \
                                         AND NOT o.condeferrable))";
    let found = connection.first(sql, |row| (row.integer(0), row.bytes(1).map(<[u8]>::to_vec)));
    let mut statements = Vec::new();
    if let Some((Some(1..), deferred)) = found {
        statements.push(connection.prepare(b"SET CONSTRAINTS ALL IMMEDIATE", &[]));
        if let Some(names) = deferred {
            let sql = [b"SET CONSTRAINTS ".as_slice(), &names, b" DEFERRED"].concat();
            statements.push(connection.prepare(&sql, &[]));
        }
    }
    statements
}
