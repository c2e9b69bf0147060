//! What claims must answer, as a model in memory: invariants 1 and 2 in fifty lines.
//!
//! A claim that answered true lives in the frame of its savepoint until the transaction commits. A
//! key refuses others while its newest committed window is open, makes them wait while it is in
//! flight elsewhere, and is free otherwise. Whoever schedules the sessions keeps out of what the
//! model does not judge: instants closer than [`Oracle::MARGIN`] to the end of a window.

use std::collections::{HashMap, HashSet};

/// What is claimed: key and effect.
pub type Name = (String, String);

/// When a claim was made and until when it refuses others; seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// When the claim was made.
    pub claimed: f64,
    /// When it ends.
    pub expires: f64,
}

/// What a claim must answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// True: the key is free.
    Claimed,
    /// False: done, or being done by this very transaction.
    Duplicate,
    /// Waits for the transaction of this session.
    Waits(usize),
    /// 40001: the winner is not visible to the transaction's snapshot.
    Unserializable,
}

#[derive(Debug, Default)]
struct Transaction {
    /// How many commits the snapshot has seen, where one snapshot serves the whole transaction.
    snapshot: Option<u64>,
    /// One frame for the transaction, one for each savepoint.
    frames: Vec<HashMap<Name, Window>>,
    /// Keys that were released into an outer savepoint. PostgreSQL lets go of a subtransaction's own
    /// lock then, so whoever waits for such a key waits for the whole transaction.
    merged: HashSet<Name>,
}

/// The state of all claims.
#[derive(Debug)]
pub struct Oracle {
    /// Newest committed window of a key, and the number of the commit that brought it.
    committed: HashMap<Name, (Window, u64)>,
    commits: u64,
    open: Vec<Option<Transaction>>,
}

impl Oracle {
    /// Seconds around the end of a window in which the model does not judge.
    pub const MARGIN: f64 = 5.0;

    /// A model of so many sessions and no claims.
    pub fn new(sessions: usize) -> Oracle {
        let open = (0..sessions).map(|_| None).collect();
        Oracle { committed: HashMap::new(), commits: 0, open }
    }

    /// A session begins a transaction; `snapshot`: one snapshot serves all of it.
    pub fn begin(&mut self, session: usize, snapshot: bool) {
        assert!(self.open[session].is_none());
        let snapshot = snapshot.then_some(self.commits);
        self.open[session] =
            Some(Transaction { snapshot, frames: vec![HashMap::new()], ..Transaction::default() });
    }

    /// Savepoints the session has set; `None` outside a transaction.
    pub fn depth(&self, session: usize) -> Option<usize> {
        self.open[session].as_ref().map(|transaction| transaction.frames.len() - 1)
    }

    /// The session sets a savepoint.
    pub fn savepoint(&mut self, session: usize) {
        self.transaction(session).frames.push(HashMap::new());
    }

    /// The session rolls back to savepoint number `depth` (from 1), which stays set.
    pub fn rollback_to(&mut self, session: usize, depth: usize) {
        let frames = &mut self.transaction(session).frames;
        frames.truncate(depth);
        frames.push(HashMap::new());
    }

    /// The session releases savepoint number `depth` (from 1) and those after it.
    pub fn release(&mut self, session: usize, depth: usize) {
        let transaction = self.transaction(session);
        for frame in transaction.frames.split_off(depth) {
            if depth > 1 {
                transaction.merged.extend(frame.keys().cloned());
            }
            transaction.frames[depth - 1].extend(frame);
        }
    }

    /// Whether a waiter for this key of the session would be woken only by the end of its transaction,
    /// also when a savepoint takes the key back before.
    pub fn is_merged(&self, session: usize, name: &Name) -> bool {
        self.open[session].as_ref().is_some_and(|transaction| transaction.merged.contains(name))
    }

    /// The session commits.
    pub fn commit(&mut self, session: usize) {
        let transaction = self.open[session].take().expect("a transaction is open");
        self.commits += 1;
        for (name, window) in transaction.frames.into_iter().flatten() {
            self.committed.insert(name, (window, self.commits));
        }
    }

    /// The session rolls back.
    pub fn rollback(&mut self, session: usize) {
        self.open[session] = None;
    }

    /// Whether the session's open transaction holds the key.
    pub fn holds(&self, session: usize, name: &Name) -> bool {
        let frames = self.open[session].as_ref().map(|transaction| &transaction.frames);
        frames.is_some_and(|frames| frames.iter().any(|frame| frame.contains_key(name)))
    }

    /// What a claim of this session must answer now.
    pub fn ask(&self, session: usize, name: &Name, now: f64) -> Answer {
        let holder = (0..self.open.len()).find(|other| self.holds(*other, name));
        match holder {
            Some(holder) if holder == session => return Answer::Duplicate,
            Some(holder) => return Answer::Waits(holder),
            None => {}
        }
        match self.committed.get(name) {
            Some((window, commit)) if window.expires > now => {
                let snapshot = self.open[session].as_ref().and_then(|t| t.snapshot);
                match snapshot {
                    Some(seen) if *commit > seen => Answer::Unserializable,
                    _ => Answer::Duplicate,
                }
            }
            _ => Answer::Claimed,
        }
    }

    /// A claim of this session answered true.
    pub fn claimed(&mut self, session: usize, name: &Name, window: Window) {
        match &mut self.open[session] {
            Some(transaction) => {
                let frame = transaction.frames.last_mut().expect("a transaction has a frame");
                frame.insert(name.clone(), window);
            }
            None => {
                self.commits += 1;
                self.committed.insert(name.clone(), (window, self.commits));
            }
        }
    }

    /// The committed window of a key that is open now.
    pub fn live(&self, name: &Name, now: f64) -> Option<Window> {
        self.committed.get(name).map(|(window, _)| *window).filter(|window| window.expires > now)
    }

    /// Whether some window ends so close to now that the model cannot judge.
    pub fn unsure(&self, now: f64) -> bool {
        self.committed.values().any(|(window, _)| (window.expires - now).abs() < Oracle::MARGIN)
    }

    fn transaction(&mut self, session: usize) -> &mut Transaction {
        self.open[session].as_mut().expect("a transaction is open")
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Oracle, Window};

    const HOUR: Window = Window { claimed: 0.0, expires: 3600.0 };

    #[test]
    fn a_savepoint_rolled_back_frees_the_key_and_one_released_does_not() {
        let name = ("k".to_owned(), String::new());
        let mut oracle = Oracle::new(2);
        oracle.begin(0, false);
        oracle.savepoint(0);
        oracle.claimed(0, &name, HOUR);
        assert_eq!(oracle.ask(0, &name, 1.0), Answer::Duplicate);
        assert_eq!(oracle.ask(1, &name, 1.0), Answer::Waits(0));
        oracle.rollback_to(0, 1);
        assert_eq!(oracle.ask(1, &name, 1.0), Answer::Claimed);
        oracle.claimed(0, &name, HOUR);
        oracle.release(0, 1);
        assert_eq!((oracle.depth(0), oracle.ask(1, &name, 1.0)), (Some(0), Answer::Waits(0)));
        oracle.commit(0);
        assert_eq!(oracle.ask(1, &name, 1.0), Answer::Duplicate);
        assert_eq!(oracle.ask(1, &name, 3601.0), Answer::Claimed);
    }

    #[test]
    fn a_winner_after_the_snapshot_is_an_error_and_one_before_it_a_duplicate() {
        let name = ("k".to_owned(), String::new());
        let mut oracle = Oracle::new(2);
        oracle.begin(0, true);
        oracle.claimed(1, &name, HOUR);
        assert_eq!(oracle.ask(0, &name, 1.0), Answer::Unserializable);
        oracle.rollback(0);
        oracle.begin(0, true);
        assert_eq!(oracle.ask(0, &name, 1.0), Answer::Duplicate);
    }
}
