//! One call in the middle of another, for every two that can meet.

use pg_once_tests::background::Background;
use pg_once_tests::failure::Failure;
use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::wait;

use crate::scene::{Calls, overdue};

/// How the one that was first ends.
const ENDINGS: [&str; 3] = ["COMMIT", "ROLLBACK", "ROLLBACK TO a; COMMIT"];

type Answer = Result<String, Failure>;

/// Makes a first call in a transaction (within a savepoint), a second one in another that must wait for it, and ends
/// the first. What the second answered.
fn meet(
    key: &str,
    fence: i64,
    ending: &str,
    first: impl FnOnce(&mut Session, &str, i64),
    second: impl FnOnce(&mut Session, &str, i64) -> Answer + Send + 'static,
    (one, other, observer): (&mut Session, Session, &mut Session),
) -> (Session, Answer) {
    one.run("BEGIN; SAVEPOINT a");
    first(one, key, fence);
    let name = key.to_owned();
    let waiting: Background<Answer> = other.background(move |s| second(s, &name, fence));
    wait::blocked(observer, waiting.pid());
    one.run(ending);
    waiting.join()
}

fn begins(s: &mut Session, key: &str, _: i64) -> Answer {
    s.try_begin(key, "1 minute").map(|begun| begun.outcome)
}

fn completes(s: &mut Session, key: &str, fence: i64) -> Answer {
    s.try_complete(key, fence, "'1'").map(|now| now.to_string())
}

fn extends(s: &mut Session, key: &str, fence: i64) -> Answer {
    s.try_extend(key, fence, "1 minute").map(|ahead| ahead.to_string())
}

fn fails(s: &mut Session, key: &str, fence: i64) -> Answer {
    s.try_fail(key, fence, "1 minute")
}

type CallOf = fn(&mut Session, &str, i64) -> Answer;

#[test]
fn whoever_is_second_waits_and_then_sees_what_the_first_has_done() {
    let db = database();
    let (mut one, mut other, mut observer) = (db.session(), db.session(), db.session());
    one.claim("load");
    // What is first, what is second, and what that answers after a commit and after a rollback.
    let pairs: [(&str, CallOf, &str, CallOf, &str, &str); 13] = [
        ("take over", begins, "begin", begins, "in_progress", "taken_over"),
        ("take over", begins, "complete", completes, "OC008", "true"),
        ("take over", begins, "extend", extends, "OC008", "true"),
        ("take over", begins, "fail", fails, "OC008", "failed"),
        ("extend", extends, "begin", begins, "in_progress", "taken_over"),
        ("extend", extends, "complete", completes, "true", "true"),
        ("extend", extends, "fail", fails, "failed", "failed"),
        ("fail", fails, "begin", begins, "in_progress", "taken_over"),
        ("fail", fails, "extend", extends, "OC008", "true"),
        ("fail", fails, "complete", completes, "true", "true"),
        ("complete", completes, "begin", begins, "done", "taken_over"),
        ("complete", completes, "fail", fails, "OC008", "failed"),
        ("complete", completes, "complete", completes, "false", "true"),
    ];
    for (first, make_first, second, make_second, after_commit, after_rollback) in pairs {
        for ending in ENDINGS {
            let key = format!("{first}, {second}, {ending}");
            let fence = one.begin(&key, "1 minute").held();
            overdue(&mut one, &key);
            let make = |s: &mut Session, key: &str, fence: i64| {
                make_first(s, key, fence).unwrap_or_else(|failure| panic!("{key}: {failure}"));
            };
            let (back, answer) =
                meet(&key, fence, ending, make, make_second, (&mut one, other, &mut observer));
            other = back;
            let expected = if ending == "COMMIT" { after_commit } else { after_rollback };
            let answer = answer.unwrap_or_else(|failure| failure.code);
            assert_eq!(answer, expected, "{key}");
            let answers: i64 = observer.get(&format!(
                "SELECT count(*) FROM once.lookup('{key}') WHERE result IS NOT NULL"
            ));
            let done = first == "complete" && ending == "COMMIT"
                || expected == "true" && second == "complete";
            assert_eq!(answers, i64::from(done), "{key}");
        }
    }
}

#[test]
fn whoever_begins_what_somebody_is_starting_waits_for_that() {
    let db = database();
    let (mut one, mut other, mut observer) = (db.session(), db.session(), db.session());
    one.claim("load");
    for ending in ENDINGS {
        let key = format!("k {ending}");
        let start = |s: &mut Session, key: &str, _: i64| {
            assert_eq!(s.begin(key, "1 minute").outcome, "started");
        };
        let (back, answer) = meet(&key, 0, ending, start, begins, (&mut one, other, &mut observer));
        other = back;
        let expected = if ending == "COMMIT" { "in_progress" } else { "started" };
        assert_eq!(answer.expect("an answer"), expected, "{key}");
        let attempt: i32 =
            observer.get(&format!("SELECT attempt FROM once.effects WHERE key = '{key}'"));
        assert_eq!(attempt, 1, "{key}");
    }
}

#[test]
fn an_effect_that_is_finished_between_the_two_looks_of_begin_is_done() {
    let db = database();
    let (mut holder, beginner, mut locker, mut observer) =
        (db.session(), db.session(), db.session(), db.session());
    let fence = holder.begin("k", "1 minute").held();
    overdue(&mut holder, "k");
    // Its first look is over when it comes to the table.
    locker.run("BEGIN; LOCK TABLE once.effect_state IN ACCESS EXCLUSIVE MODE");
    let beginning = beginner.background(|s| s.begin("k", "1 minute"));
    wait::blocked(&mut observer, beginning.pid());
    // What complete_effect writes, past the lock.
    locker.run(&format!("SELECT once.complete_effect('k', {fence}, '7'); COMMIT"));
    let (_, begun) = beginning.join();
    assert_eq!((begun.outcome.as_str(), begun.result.as_deref()), ("done", Some("7")));
}

#[test]
fn a_window_that_ends_between_the_two_looks_of_begin_is_begun_anew() {
    let db = database();
    let (mut holder, beginner, mut locker, mut observer) =
        (db.session(), db.session(), db.session(), db.session());
    let fence = holder.begin("k", "1 minute").held();
    locker.run("BEGIN; LOCK TABLE once.effect_state IN ACCESS EXCLUSIVE MODE");
    let beginning = beginner.background(|s| s.begin("k", "1 minute"));
    wait::blocked(&mut observer, beginning.pid());
    locker.run(
        "DELETE FROM once.effect_state WHERE key = 'k';
         UPDATE once.processed_events SET expires_at = clock_timestamp() WHERE key = 'k'; COMMIT",
    );
    let (mut s, begun) = beginning.join();
    assert_eq!((begun.outcome.as_str(), begun.attempt), ("started", Some(1)));
    assert!(begun.held() > fence);
    assert_eq!(s.state_of("k"), ["running"]);
}

#[test]
fn begun_and_finished_in_one_transaction_it_is_done_and_in_one_that_is_rolled_back_it_never_was() {
    let mut s = database().session();
    for (key, ending) in [("kept", "COMMIT"), ("not", "ROLLBACK")] {
        s.run("BEGIN");
        let fence = s.begin(key, "1 minute").held();
        assert_eq!(s.begin(key, "1 minute").outcome, "in_progress", "its own");
        assert!(s.complete(key, fence, "'1'"));
        assert!(!s.complete(key, fence, "'1'"));
        assert_eq!(s.begin(key, "1 minute").outcome, "done");
        s.run(ending);
    }
    assert_eq!(s.begin("kept", "1 minute").outcome, "done");
    assert_eq!(s.begin("not", "1 minute").outcome, "started");
}

#[test]
fn a_fence_whose_savepoint_was_rolled_back_is_never_given_again() {
    let mut s = database().session();
    s.run("BEGIN; SAVEPOINT a");
    let first = s.begin("k", "1 minute").held();
    s.run("ROLLBACK TO a");
    let second = s.begin("k", "1 minute").held();
    s.run("COMMIT");
    assert!(second > first);
    let failure = s.try_complete("k", first, "'1'").expect_err("it was never given");
    assert_eq!(failure.code, "OC008");
    assert!(s.complete("k", second, "'1'"));
}
