//! What claims, answers and releases must come to, as a model in memory. One transaction at most is changing a key; who
//! wants to change it too waits for that one, and who only asks for the key is told what is committed, if that is live.

use std::collections::{HashMap, HashSet};

/// A claim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) fingerprint: Option<u8>,
    pub(crate) answer: Option<u8>,
    /// Whether its window was over at once.
    pub(crate) over: bool,
}

/// What a session does with a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    Once {
        over: bool,
    },
    Many,
    Claim {
        fingerprint: Option<u8>,
        wait: bool,
    },
    Complete(u8),
    Release,
    /// `UPDATE ... SET result WHERE result IS NULL`, past every function.
    Update(u8),
}

/// What it must come to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expected {
    Waits(usize),
    Is(String),
}

#[derive(Debug, Default)]
struct Frame {
    writes: HashMap<usize, Option<Row>>,
    releases: usize,
}

#[derive(Debug)]
struct Transaction {
    /// How many commits its one snapshot has seen.
    snapshot: Option<u64>,
    frames: Vec<Frame>,
    /// Keys whose waiters, since a savepoint was released, wait for the whole transaction.
    merged: HashSet<usize>,
}

/// The state of all keys.
#[derive(Debug)]
pub(crate) struct Model {
    committed: HashMap<usize, (Row, u64)>,
    commits: u64,
    open: Vec<Option<Transaction>>,
    pub(crate) released: usize,
}

fn is(what: impl ToString) -> Expected {
    Expected::Is(what.to_string())
}

impl Model {
    pub(crate) fn new(sessions: usize) -> Model {
        let open = (0..sessions).map(|_| None).collect();
        Model { committed: HashMap::new(), commits: 0, open, released: 0 }
    }

    pub(crate) fn begin(&mut self, n: usize, pinned: bool) {
        let snapshot = pinned.then_some(self.commits);
        let frames = vec![Frame::default()];
        self.open[n] = Some(Transaction { snapshot, frames, merged: HashSet::new() });
    }

    /// Savepoints that are set; None outside a transaction.
    pub(crate) fn depth(&self, n: usize) -> Option<usize> {
        self.open[n].as_ref().map(|open| open.frames.len() - 1)
    }

    pub(crate) fn is_pinned(&self, n: usize) -> bool {
        self.open[n].as_ref().is_some_and(|open| open.snapshot.is_some())
    }

    pub(crate) fn savepoint(&mut self, n: usize) {
        self.frames(n).push(Frame::default());
    }

    pub(crate) fn rollback_to(&mut self, n: usize, depth: usize) {
        self.frames(n).truncate(depth);
        self.frames(n).push(Frame::default());
    }

    pub(crate) fn release_savepoint(&mut self, n: usize, depth: usize) {
        let open = self.open[n].as_mut().expect("a transaction");
        for frame in open.frames.split_off(depth) {
            open.merged.extend(frame.writes.keys());
            open.frames[depth - 1].releases += frame.releases;
            open.frames[depth - 1].writes.extend(frame.writes);
        }
    }

    pub(crate) fn is_merged(&self, n: usize, key: usize) -> bool {
        self.open[n].as_ref().is_some_and(|open| open.merged.contains(&key))
    }

    pub(crate) fn commit(&mut self, n: usize) {
        self.commits += 1;
        for frame in self.open[n].take().expect("a transaction").frames {
            self.released += frame.releases;
            for (key, row) in frame.writes {
                match row {
                    Some(row) => self.committed.insert(key, (row, self.commits)),
                    None => self.committed.remove(&key),
                };
            }
        }
    }

    pub(crate) fn rollback(&mut self, n: usize) {
        self.open[n] = None;
    }

    /// Who is changing a key.
    pub(crate) fn holder(&self, key: usize) -> Option<usize> {
        (0..self.open.len()).find(|n| self.own(*n, key).is_some())
    }

    pub(crate) fn committed(&self, key: usize) -> Option<&Row> {
        self.committed.get(&key).map(|(row, _)| row)
    }

    fn own(&self, n: usize, key: usize) -> Option<&Option<Row>> {
        self.open[n].as_ref()?.frames.iter().rev().find_map(|frame| frame.writes.get(&key))
    }

    /// What a session must be told, and what becomes of the key where that is something.
    pub(crate) fn ask(&self, n: usize, key: usize, op: Op) -> (Expected, Option<Option<Row>>) {
        let holder = self.holder(key).filter(|holder| *holder != n);
        let own = self.own(n, key);
        let committed = self.committed.get(&key);
        let row = own.map_or(committed.map(|(row, _)| row), Option::as_ref);
        let unseen = own.is_none()
            && committed.is_some_and(|(_, commit)| {
                self.open[n]
                    .as_ref()
                    .and_then(|open| open.snapshot)
                    .is_some_and(|seen| *commit > seen)
            });
        let fresh = |fingerprint, over| Some(Some(Row { fingerprint, answer: None, over }));
        let (once, fingerprint, over, wait) = match op {
            Op::Once { over } => (true, None, over, true),
            Op::Many => (true, None, false, true),
            Op::Claim { fingerprint, wait } => (false, fingerprint, false, wait),
            _ => return self.ask_to_change(row, holder, own.is_some(), unseen, op),
        };
        let stands = row.filter(|row| own.is_some() || !row.over);
        match (stands, holder) {
            (None, Some(holder)) if wait => (Expected::Waits(holder), None),
            (None, Some(_)) => (is("in_progress"), None),
            _ if unseen => (is("40001"), None),
            (None, None) => (is(if once { "true" } else { "claimed" }), fresh(fingerprint, over)),
            (Some(_), _) if once => (is(false), None),
            (Some(row), _) => match (row.fingerprint, fingerprint) {
                (Some(stored), Some(asked)) if stored != asked => (is("mismatch"), None),
                _ => (is(format!("duplicate {:?}", row.answer)), None),
            },
        }
    }

    fn ask_to_change(
        &self,
        row: Option<&Row>,
        holder: Option<usize>,
        own: bool,
        unseen: bool,
        op: Op,
    ) -> (Expected, Option<Option<Row>>) {
        let open = row.filter(|row| row.answer.is_none());
        let with = |row: &Row, answer| Some(Some(Row { answer: Some(answer), ..row.clone() }));
        match (op, holder) {
            // By its own snapshot it has nothing to change.
            (Op::Update(_), _) if open.is_none() => (is(0), None),
            (_, Some(holder)) => (Expected::Waits(holder), None),
            (Op::Update(answer), None) => (is(1), open.and_then(|row| with(row, answer))),
            _ if unseen => (is("40001"), None),
            (Op::Release, None) => (is(row.is_some()), row.map(|_| None)),
            (Op::Complete(answer), None) => match row.filter(|row| own || !row.over) {
                None => (is("OC006"), None),
                Some(Row { answer: Some(stored), .. }) if *stored == answer => (is(false), None),
                Some(Row { answer: Some(_), .. }) => (is("OC007"), None),
                Some(row) => (is(true), with(row, answer)),
            },
            _ => unreachable!("{op:?} claims"),
        }
    }

    /// What a session has done to a key.
    pub(crate) fn did(&mut self, n: usize, key: usize, op: Op, becomes: Option<Row>) {
        let alone = self.open[n].is_none();
        if alone {
            self.begin(n, false);
        }
        let frame = self.frames(n).last_mut().expect("a frame");
        frame.writes.insert(key, becomes);
        frame.releases += usize::from(op == Op::Release);
        if alone {
            self.commit(n);
        }
    }

    fn frames(&mut self, n: usize) -> &mut Vec<Frame> {
        &mut self.open[n].as_mut().expect("a transaction").frames
    }
}
