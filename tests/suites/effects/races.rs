//! Every pair of calls at the same moment, by sixteen sessions.

use std::collections::BTreeMap;

use pg_once_tests::failure::Failure;
use pg_once_tests::race;
use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

use crate::scene::{Calls, overdue};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Begin,
    Extend,
    Complete,
    CompleteOther,
    Fail,
    Claim,
}

use Call::{Begin, Claim, Complete, CompleteOther, Extend, Fail};

const ALL: [Call; 6] = [Begin, Extend, Complete, CompleteOther, Fail, Claim];

impl Call {
    /// Whether it came through, and what it answered.
    fn make(self, s: &mut Session, key: &str, fence: i64) -> Result<String, Failure> {
        match self {
            Begin => s.try_begin(key, "1 minute").map(|begun| begun.outcome),
            Extend => s.try_extend(key, fence, "1 minute").map(|ahead| ahead.to_string()),
            Complete => s.try_complete(key, fence, "'1'").map(|now| now.to_string()),
            CompleteOther => s.try_complete(key, fence, "'2'").map(|now| now.to_string()),
            Fail => s.try_fail(key, fence, "1 minute"),
            Claim => s.try_claim(key).map(|claimed| claimed.to_string()),
        }
    }
}

/// What two calls answered of one effect, an answer and how often.
type Answers = BTreeMap<(Call, String), usize>;

fn count(answers: &Answers, call: Call, answer: &str) -> usize {
    answers.get(&(call, answer.to_owned())).copied().unwrap_or(0)
}

fn judge(answers: &Answers, key: &str, s: &mut Session) {
    let all: Vec<String> = answers.iter().map(|(what, n)| format!("{what:?} x {n}")).collect();
    let all = format!("{key}: {}", all.join(", "));
    let taken = count(answers, Begin, "taken_over");
    let done = count(answers, Complete, "true") + count(answers, CompleteOther, "true");
    let failed = count(answers, Fail, "failed");
    let extended = count(answers, Extend, "true");
    assert!(taken <= 1 && done <= 1, "{all}");
    // The holder has said something, or somebody was given the effect in its place.
    assert!(taken == 0 || done + failed + extended == 0, "{all}");
    assert_eq!(count(answers, Claim, "true"), 0, "{all}");
    let stored: Option<String> = s.get(&format!("SELECT result::text FROM once.lookup('{key}')"));
    assert_eq!(stored.is_some(), done == 1, "{all}");
    let state = s.state_of(key);
    let expected = if done == 1 {
        vec![]
    } else if taken == 1 {
        vec!["running"]
    } else if failed > 0 {
        vec!["waiting"]
    } else if extended > 0 {
        vec!["running"]
    } else {
        vec!["overdue"]
    };
    assert_eq!(state, expected, "{all}");
    // A refusal needs somebody who was faster.
    let stale: usize = [Extend, Complete, CompleteOther, Fail]
        .iter()
        .map(|call| count(answers, *call, "OC008"))
        .sum();
    assert!(stale == 0 || taken + done + failed > 0, "{all}");
    let given_up = count(answers, Begin, "gave_up") + count(answers, Begin, "started");
    assert_eq!(given_up, 0, "{all}");
}

fn pairs(level: &str, rounds: usize) {
    let db = database();
    let mut admin = db.session();
    admin.claim("load");
    admin.run(&format!(
        "ALTER DATABASE {} SET default_transaction_isolation = '{level}'",
        db.name()
    ));
    let mut sessions = db.sessions(16);
    let mut seen = 0;
    for (place, one) in ALL.into_iter().enumerate() {
        for other in &ALL[place..] {
            for round in 0..rounds {
                let key = format!("{one:?} {other:?} {round}");
                let fence = loop {
                    // Under SERIALIZABLE what went before may still be in its way.
                    if let Ok(begun) = admin.try_begin(&key, "1 minute") {
                        break begun.held();
                    }
                };
                overdue(&mut admin, &key);
                let answers = race::all(&mut sessions, |number, s| {
                    let call = if number % 2 == 0 { one } else { *other };
                    (call, call.make(s, &key, fence))
                });
                let mut counted = Answers::new();
                for (call, answer) in answers {
                    let answer = answer.unwrap_or_else(|failure| failure.code);
                    assert!(
                        answer != "40P01" && (answer != "40001" || level != "read committed"),
                        "{key}: {call:?} answered {answer}"
                    );
                    *counted.entry((call, answer)).or_default() += 1;
                }
                seen += usize::from(counted.len() > 1);
                judge(&counted, &key, &mut admin);
            }
        }
    }
    assert!(seen > 20, "hardly anybody met anybody: {seen}");
}

#[test]
fn of_two_calls_at_once_under_read_committed_one_is_first() {
    pairs("read committed", 12);
}

#[test]
fn of_two_calls_at_once_under_repeatable_read_one_is_first() {
    pairs("repeatable read", 6);
}

#[test]
fn of_two_calls_at_once_under_serializable_one_is_first() {
    pairs("serializable", 6);
}

#[test]
fn of_sixteen_who_begin_at_once_one_starts_and_of_sixteen_who_find_it_overdue_one_takes_over() {
    let db = database();
    let mut admin = db.session();
    admin.claim("load");
    let mut sessions = db.sessions(16);
    for round in 0..40 {
        let key = format!("k{round}");
        for expected in ["started", "taken_over", "taken_over"] {
            let outcomes = race::all(&mut sessions, |_, s| s.begin(&key, "1 minute").outcome);
            let won = outcomes.iter().filter(|outcome| *outcome == expected).count();
            let waited = outcomes.iter().filter(|outcome| *outcome == "in_progress").count();
            assert_eq!((won, waited), (1, 15), "{outcomes:?}");
            overdue(&mut admin, &key);
        }
    }
}

#[test]
fn of_sixteen_who_find_the_window_over_one_starts_anew_and_the_old_fence_is_stale() {
    let db = database();
    let mut admin = db.session();
    admin.claim("load");
    let mut sessions = db.sessions(16);
    for round in 0..30 {
        let key = format!("k{round}");
        let fence = admin.begin(&key, "1 minute").held();
        crate::scene::expired(&mut admin, &key);
        let outcomes = race::all(&mut sessions, |number, s| match number % 4 {
            0 => s.try_complete(&key, fence, "'1'").map_or_else(|f| f.code, |now| now.to_string()),
            1 => s.try_extend(&key, fence, "1 minute").map_or_else(|f| f.code, |a| a.to_string()),
            _ => s.begin(&key, "1 minute").outcome,
        });
        let count = |what: &str| outcomes.iter().filter(|outcome| *outcome == what).count();
        assert_eq!(
            (count("started"), count("in_progress"), count("OC008")),
            (1, 7, 8),
            "{outcomes:?}"
        );
    }
}
