//! The launcher: one process a server, connected to no database. Once every
//! `pg_once.maintenance_interval` it goes round the databases and has each maintained by a process of
//! its own, one after the other.
//!
//! It is never more often at work than the interval says, however often it is woken. A database whose
//! process fails is left alone for longer each time; the process itself has said in the log why. What
//! goes wrong in the launcher ends it, and the server starts it again.

use super::pass::{self, Outcome, Task};
use crate::domain::backoff::Backoff;
use crate::domain::names::Names;
use crate::gucs;
use crate::pg::databases::{self, Database};
use crate::pg::launcher::{self, Started};
use crate::pg::note::Note;
use crate::pg::worker;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const FUNCTION: &str = "pg_once_launch";
const KIND: &str = "pg_once launcher";
/// How long the server waits before it starts a launcher anew that has ended.
const AGAIN: Duration = Duration::from_secs(5);
/// How often it looks whether somebody wants the database alone in which a process is at work. Whoever
/// does waits 5 s at most.
const GLANCE: Duration = Duration::from_millis(250);
/// Longest sleep where there is nothing to do.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Has the server start the launcher, where this is the time to say so.
pub fn register() {
    if launcher::may_register() {
        launcher::register(KIND, FUNCTION, AGAIN);
    }
}

/// What it remembers from round to round.
struct Memory {
    note: Note,
    backoff: Backoff,
    /// Whether the last attempt to have a process found none.
    out_of_slots: bool,
    /// Names in the setting that no database has, said once each.
    unknown: BTreeSet<Vec<u8>>,
}

/// What became of the visit to a database.
enum Visit {
    /// Its process came to its end.
    Ended(Outcome),
    /// Somebody wants it alone.
    GaveWay,
    /// No process could be had.
    NoSlot,
    /// The launcher has been told to end.
    Stop,
}

/// The whole life of the process.
pub fn run() {
    launcher::begin();
    worker::set(c"application_name", c"pg_once launcher");
    // Nothing in a session's defaults may end it.
    worker::set(c"lock_timeout", c"0");
    worker::lift_transaction_timeout();
    let mut memory = Memory {
        note: Note::new(),
        backoff: Backoff::default(),
        out_of_slots: false,
        unknown: BTreeSet::new(),
    };
    while memory.round() && rest() {}
    launcher::end();
}

/// Sleeps until the next round is due, by settings that may change meanwhile. False where the process has
/// been told to end.
fn rest() -> bool {
    let since = Instant::now();
    launcher::show(false, "waiting for the next round");
    loop {
        let left = match gucs::maintenance_interval() {
            Some(interval) => interval.saturating_sub(since.elapsed()),
            None => DAY,
        };
        if left.is_zero() {
            return true;
        }
        if !launcher::wait(left) {
            return false;
        }
    }
}

impl Memory {
    /// Visits each database once. False where the process has been told to end.
    fn round(&mut self) -> bool {
        if gucs::maintenance_interval().is_none() {
            return true;
        }
        let databases = databases::all();
        self.backoff
            .keep(|number| databases.iter().any(|database| database.oid.to_u32() == number));
        let names = gucs::databases();
        self.say_unknown(&names, &databases);
        for database in databases.iter().filter(|database| database.is_open) {
            let number = database.oid.to_u32();
            if !names.has(&database.name) || !self.backoff.is_due(number, Instant::now()) {
                continue;
            }
            match self.visit(database) {
                Visit::Stop => return false,
                Visit::NoSlot => return true,
                Visit::GaveWay => {}
                Visit::Ended(Outcome::Failed) => {
                    let usual = gucs::maintenance_interval().unwrap_or(DAY);
                    self.backoff.failed(number, Instant::now(), usual);
                }
                Visit::Ended(_) => self.backoff.succeeded(number),
            }
        }
        true
    }

    /// Has one database maintained and waits until that is over.
    fn visit(&mut self, database: &Database) -> Visit {
        if databases::is_wanted_alone(database.oid) {
            return Visit::GaveWay;
        }
        let name = String::from_utf8_lossy(&database.name);
        self.note.write(Outcome::Failed as u32);
        let task = Task { database: database.oid.to_u32(), note: self.note.handle() };
        let worker = launcher::start(pass::KIND, pass::KIND, pass::FUNCTION, &task.encode());
        let Some(worker) = worker else {
            if !std::mem::replace(&mut self.out_of_slots, true) {
                pgrx::warning!(
                    "pg_once: no background process can be had for database \"{name}\": all \
                     max_worker_processes are in use; maintenance tries again in the next round"
                );
            }
            return Visit::NoSlot;
        };
        self.out_of_slots = false;
        launcher::show(true, &format!("maintaining database {name}"));
        self.watch(&worker, database)
    }

    fn watch(&self, worker: &Started, database: &Database) -> Visit {
        let mut gives_way = false;
        while !worker.has_ended() {
            if !launcher::wait(GLANCE) {
                worker.terminate();
                return Visit::Stop;
            }
            if !gives_way && databases::is_wanted_alone(database.oid) {
                gives_way = true;
                worker.terminate();
            }
        }
        match Outcome::of(&self.note) {
            Outcome::Failed if gives_way => Visit::GaveWay,
            outcome => Visit::Ended(outcome),
        }
    }

    fn say_unknown(&mut self, names: &Names, databases: &[Database]) {
        let is_there = |name: &Vec<u8>| databases.iter().any(|database| database.name == *name);
        let listed = match names {
            Names::All => &[][..],
            Names::These(names) => names,
        };
        let unknown: BTreeSet<_> = listed.iter().filter(|name| !is_there(name)).cloned().collect();
        for name in unknown.difference(&self.unknown) {
            let name = String::from_utf8_lossy(name);
            pgrx::warning!("pg_once.databases names a database that does not exist: \"{name}\"");
        }
        self.unknown = unknown;
    }
}
