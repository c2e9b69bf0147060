//! Holding answers against the model, waking those who wait, and the comparison at the end.

use std::time::Duration;

use pg_once_tests::oracle::{Answer, Name};
use pg_once_tests::wait;

use super::{Claimed, KEYS, SESSIONS, Schedule};

impl Schedule<'_> {
    /// Holds the answer against the model and tells the model. Whoever waited for a transaction that failed
    /// is woken by the caller, once it has told the model every answer it has.
    pub(super) fn judge(&mut self, n: usize, name: &Name, expected: Answer, answer: Claimed) {
        self.tally.count(expected);
        match (expected, answer) {
            (Answer::Claimed, Ok(Some(window))) => {
                assert!((window.claimed - self.now()).abs() < 4.0, "claimed at {window:?}");
                self.oracle.claimed(n, name, window);
            }
            (Answer::Duplicate | Answer::Waits(_), Ok(None)) => {}
            (Answer::Unserializable, Err(failure)) if failure.code == "40001" => {
                self.run(n, "ROLLBACK");
                self.oracle.rollback(n);
            }
            (expected, answer) => {
                panic!("session {n}, {name:?}: expected {expected:?}, got {answer:?}")
            }
        }
    }

    /// After something ended: every waiter whose key is no longer in flight elsewhere gets its
    /// answer; of several on one free key exactly one, whichever, gets it.
    pub(super) fn wake(&mut self) {
        loop {
            let now = self.now();
            let free: Vec<usize> = self
                .waiting
                .iter()
                .filter(|(n, (name, _))| {
                    !matches!(self.oracle.ask(**n, name, now), Answer::Waits(_))
                })
                .map(|(n, _)| *n)
                .collect();
            if free.is_empty() {
                break;
            }
            let first = || free.iter().find(|n| self.waiting[n].1.done()).copied();
            assert!(
                wait::poll(Duration::from_secs(30), || first().is_some()),
                "no waiter of {free:?} wakes"
            );
            let done: Vec<usize> =
                free.iter().filter(|n| self.waiting[n].1.done()).copied().collect();
            self.collect(done);
        }
        // Whoever still has to wait does.
        let pids: Vec<i32> =
            self.waiting.values().map(|(_, background)| background.pid()).collect();
        for pid in pids {
            wait::blocked(&mut self.observer, pid);
        }
    }

    /// Takes the answers of waiters that are done; those that were claimed first, because they are
    /// what the others were refused for.
    fn collect(&mut self, mut done: Vec<usize>) {
        let mut answers = Vec::new();
        while let Some(n) = done.pop() {
            let (name, background) = self.waiting.remove(&n).expect("it waits");
            let (session, answer) = background.join();
            self.sessions[n] = Some(session);
            answers.push((n, name, answer));
            if done.is_empty() {
                done.extend(self.missing_winner(&answers));
            }
        }
        self.tally.woken += answers.len();
        answers.sort_by_key(|(_, _, answer)| !matches!(answer, Ok(Some(_))));
        for (n, name, answer) in answers {
            let expected = self.oracle.ask(n, &name, self.now());
            self.say(format!("{n}: woke with {answer:?}, expected {expected:?}"));
            assert!(!matches!(expected, Answer::Waits(_)), "session {n} woke though it must wait");
            self.judge(n, &name, expected, answer);
        }
    }

    /// Who was refused, or sent away with 40001, on a free key lost to another waiter on it, who has its answer by then even if it has
    /// not reached us yet.
    fn missing_winner(&mut self, answers: &[(usize, Name, Claimed)]) -> Option<usize> {
        let now = self.now();
        let has_winner = |name: &Name| {
            answers.iter().any(|(_, other, answer)| other == name && matches!(answer, Ok(Some(_))))
        };
        let (_, name, _) = answers.iter().find(|(n, name, answer)| {
            let free = matches!(self.oracle.ask(*n, name, now), Answer::Claimed);
            !matches!(answer, Ok(Some(_))) && free && !has_winner(name)
        })?;
        let won = || {
            let others = self.waiting.iter().filter(|(_, (other, _))| other == name);
            others.filter(|(_, (_, background))| background.done()).map(|(n, _)| *n).next()
        };
        wait::poll(Duration::from_secs(30), || won().is_some());
        won()
    }

    /// Ends every transaction, by commit or rollback, and with them every wait.
    pub(super) fn end_all(&mut self) {
        while let Some(n) =
            (0..SESSIONS).find(|n| self.sessions[*n].is_some() && self.oracle.depth(*n).is_some())
        {
            self.finish(n);
        }
        assert!(self.waiting.is_empty(), "nobody holds anything, but somebody waits");
    }

    /// Ends what is open and compares every key with the model.
    pub(super) fn close(&mut self) {
        self.end_all();
        while self.oracle.unsure(self.now()) {
            self.cluster.clock().step(4.0);
        }
        let now = self.now();
        for key in 0..KEYS {
            for effect in ["", "stock"] {
                let name = (format!("k{key}"), effect.to_owned());
                let live = self.oracle.live(&name, now).is_some();
                let seen: i64 = self
                    .observer
                    .get_with("SELECT count(*) FROM once.lookup($1, $2)", &[&name.0, &name.1]);
                assert_eq!(seen, i64::from(live), "{name:?} at the end");
            }
        }
        assert_eq!(self.observer.claimed_twice("once.processed_events"), [""; 0]);
        assert_eq!(self.observer.overlapping("once.processed_events"), [""; 0]);
        self.observer.verify("once.processed_events", self.cluster.server().ships("amcheck"));
    }
}
