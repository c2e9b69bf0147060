//! The background process that maintains one database: connects, looks whether pg_once is there, does
//! one pass over every store, leaves a note of how it went, and leaves.

use crate::error::raise;
use crate::gucs;
use crate::maintenance::apply::Pass;
use crate::pg::note::Note;
use crate::pg::{launcher, session, worker};
use std::ffi::CStr;

/// The function of this library that the process runs.
pub const FUNCTION: &str = "pg_once_maintain";
/// What the process shows itself as.
pub const KIND: &str = "pg_once worker";
const APPLICATION: &CStr = c"pg_once worker";
/// How long it waits for a lock where the pass sets no limit of its own: other databases wait too.
const PATIENCE: &CStr = c"10s";

/// What the process is to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Task {
    /// The database.
    pub database: u32,
    /// Where to leave the note.
    pub note: u32,
}

/// How it went. A process that ended without a word has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It said nothing, or has not yet.
    Failed = 0,
    /// There is no pg_once in the database.
    NotInstalled = 1,
    /// The pass came to its end.
    Done = 2,
}

impl Task {
    /// As text that fits the 128 bytes a background worker is given.
    pub fn encode(&self) -> String {
        format!("{} {}", self.database, self.note)
    }

    fn decode(text: &str) -> Option<Task> {
        let (database, note) = text.split_once(' ')?;
        Some(Task { database: database.parse().ok()?, note: note.parse().ok()? })
    }
}

impl Outcome {
    /// What a note says.
    pub fn of(note: &Note) -> Outcome {
        match note.read() {
            1 => Outcome::NotInstalled,
            2 => Outcome::Done,
            _ => Outcome::Failed,
        }
    }
}

/// The whole life of the process.
pub fn run() {
    let Some(task) = Task::decode(&worker::order()) else { return };
    // The launcher that wanted this may be gone: the next one starts anew.
    let Some(note) = Note::of(task.note) else { return };
    worker::connect(task.database.into());
    worker::set(c"application_name", APPLICATION);
    worker::set(c"lock_timeout", PATIENCE);
    super::be_ordinary();
    launcher::show(true, "one pass over the stores");
    worker::begin();
    let outcome = if session::has_extension(c"pg_once") {
        let commit = || {
            worker::commit();
            worker::begin();
        };
        let pass = Pass {
            ahead: gucs::precreate_days(),
            away_days: gucs::away_days(),
            lock_timeout: gucs::maintenance_lock_timeout(),
            filters: gucs::filters(),
            counts_claims: gucs::track_claims(),
            force: false,
            clock: session::now,
            commit: &commit,
        };
        raise(pass.run());
        Outcome::Done
    } else {
        Outcome::NotInstalled
    };
    worker::commit();
    note.write(outcome as u32);
}
