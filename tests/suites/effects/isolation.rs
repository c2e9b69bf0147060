//! Transactions of one snapshot: 40001 where it is too old to know, never a wrong answer.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

use crate::scene::{Calls, overdue};

/// What happens after the snapshot was taken; the key is k and its effect is overdue. The fence to show then.
type Change = fn(&mut Session, i64) -> i64;

fn nothing(_: &mut Session, fence: i64) -> i64 {
    fence
}

fn taken_over(s: &mut Session, _: i64) -> i64 {
    s.begin("k", "1 minute").held()
}

fn finished(s: &mut Session, fence: i64) -> i64 {
    assert!(s.complete("k", fence, "'1'"));
    fence
}

fn failed(s: &mut Session, fence: i64) -> i64 {
    assert_eq!(s.fail("k", fence, "1 minute"), "failed");
    fence
}

fn extended(s: &mut Session, fence: i64) -> i64 {
    assert!(s.try_extend("k", fence, "1 minute").expect("a good fence"));
    fence
}

#[test]
fn a_snapshot_that_is_older_than_what_happened_is_a_serialization_failure() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let changes: [(&str, Change); 5] = [
            ("nothing", nothing),
            ("taken over", taken_over),
            ("finished", finished),
            ("failed", failed),
            ("extended", extended),
        ];
        for (name, change) in changes {
            for call in ["begin", "extend", "complete", "fail"] {
                let db = database();
                let (mut old, mut s) = (db.session(), db.session());
                let first = s.begin("k", "1 minute").held();
                overdue(&mut s, "k");
                old.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM pg_class"));
                let fence = change(&mut s, first);
                let answer = match call {
                    "begin" => old.try_begin("k", "1 minute").map(|begun| begun.outcome),
                    "extend" => old.try_extend("k", fence, "1 minute").map(|_| "yes".to_owned()),
                    "complete" => old.try_complete("k", fence, "'1'").map(|now| now.to_string()),
                    _ => old.try_fail("k", fence, "1 minute"),
                };
                let answer = answer.unwrap_or_else(|failure| failure.code);
                let expected = match (name, call) {
                    ("nothing", "begin") => "taken_over",
                    ("nothing", "extend") => "yes",
                    ("nothing", "complete") => "true",
                    ("nothing", _) => "failed",
                    _ => "40001",
                };
                assert_eq!(answer, expected, "{level}: {name}, then {call}");
            }
        }
    }
}

#[test]
fn what_began_after_the_snapshot_is_a_serialization_failure_and_no_stale_fence() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let db = database();
        let (mut old, mut s) = (db.session(), db.session());
        s.claim("load");
        for call in ["begin", "extend", "complete", "fail"] {
            old.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM pg_class"));
            let fence = s.begin(call, "1 minute").held();
            let answer = match call {
                "begin" => old.try_begin(call, "1 minute").map(|_| ()),
                "extend" => old.try_extend(call, fence, "1 minute").map(|_| ()),
                "complete" => old.try_complete(call, fence, "'1'").map(|_| ()),
                _ => old.try_fail(call, fence, "1 minute").map(|_| ()),
            };
            assert_eq!(answer.expect_err("an old snapshot").code, "40001", "{level} {call}");
            old.run("ROLLBACK");
        }
        old.run(&format!("BEGIN ISOLATION LEVEL {level}"));
        let failure = old.try_complete("nobody", 7, "'1'").expect_err("never begun");
        assert_eq!(failure.code, "OC008", "{level}");
        old.run("ROLLBACK");
    }
}
