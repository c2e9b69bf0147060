//! A consumer, a backend or the server dies between any two steps: commit, the outside, complete, commit.

use pg_once_tests::cluster::Cluster;
use pg_once_tests::{race, wait};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::history::History;
use crate::scene::{Calls, overdue};

/// The steps of a consumer, and what the next one is told if it dies before each: while the lease lasts, when it is
/// over.
const DEATHS: [(&str, &str, &str); 5] = [
    ("begin", "started", "in_progress"),
    ("commit of begin", "started", "in_progress"),
    ("complete", "in_progress", "taken_over"),
    ("commit of complete", "in_progress", "taken_over"),
    ("acknowledgement", "done", "done"),
];

#[test]
fn a_consumer_that_dies_before_a_step_leaves_the_effect_to_one_other() {
    let cluster = Cluster::build().start();
    let db = cluster.database();
    let mut s = db.session();
    s.claim("load");
    for by_kill in [false, true] {
        for (place, (death, with_lease, without)) in DEATHS.into_iter().enumerate() {
            let key = format!("{death} {by_kill}");
            let mut consumer = db.session();
            let pid = consumer.pid();
            let mut fence = None;
            if place > 0 {
                consumer.run("BEGIN");
                fence = Some(consumer.begin(&key, "1 minute").held());
            }
            if place > 1 {
                consumer.run("COMMIT");
            }
            if place > 2 {
                consumer.run("BEGIN");
                assert!(consumer.complete(&key, fence.expect("it was given"), "'1'"));
            }
            if place > 3 {
                consumer.run("COMMIT");
            }
            if by_kill {
                // The server restarts, as after any backend that was killed.
                db.kill(pid);
                drop(consumer);
                s = db.session();
            } else {
                drop(consumer);
                wait::gone(&mut s, pid);
            }
            assert_eq!(s.begin(&key, "1 minute").outcome, with_lease, "died before {death}");
            overdue(&mut s, &key);
            let next = s.begin(&key, "1 minute");
            let expected = if without == "in_progress" { "taken_over" } else { without };
            assert_eq!(next.outcome, expected, "died before {death}");
            if let Some(newer) = next.fence {
                assert!(Some(newer) > fence, "{key}");
                assert!(s.complete(&key, newer, "'2'"));
            }
        }
    }
}

#[test]
fn after_crashes_of_the_server_no_fence_was_given_twice_and_no_answer_is_lost() {
    let cluster = Cluster::build().durable().start();
    let db = cluster.database();
    db.session().claim("load");
    let history = History::default();
    for round in 0..3 {
        let mut sessions = db.sessions(8);
        let done_before = history.done();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                race::all(&mut sessions, |number, s| {
                    let mut chance = StdRng::seed_from_u64(round * 100 + number as u64);
                    for n in 0.. {
                        let key = format!("r{round}-{}", n / 3);
                        let told = history.begins(s, &key, "50 milliseconds").and_then(|begun| {
                            let runs = |fence| history.runs(s, &key, fence, &mut chance);
                            begun.fence.map_or(Ok(()), runs)
                        });
                        if let Err(failure) = told {
                            let broken = ["08006", "57P01", "57P02", "57P03", "client"];
                            assert!(broken.contains(&failure.code.as_str()), "{failure}");
                            break;
                        }
                    }
                });
            });
            // By what was done and not by time: a busy machine does little in a second.
            wait::until("enough is done for a crash", || history.done() >= done_before + 40);
            cluster.crash_and_restart();
        });
        println!("round {round}: {} done", history.done());
        let mut s = db.session();
        history.check(&mut s, false);
        s.verify("once.processed_events", cluster.server().ships("amcheck"));
    }
    assert!(history.done() > 100, "{}", history.done());
}

#[test]
fn a_prepared_begin_outlives_a_crash_and_makes_others_wait() {
    let cluster = Cluster::build().durable().start();
    let db = cluster.database();
    let mut s = db.session();
    s.claim("load");
    s.run("BEGIN");
    let fence = s.begin("k", "1 hour").held();
    s.run("PREPARE TRANSACTION 'begun'");
    cluster.crash_and_restart();
    let mut s = db.session();
    s.run("SET lock_timeout = '100ms'");
    assert_eq!(s.try_begin("k", "1 minute").expect_err("it waits").code, "55P03");
    s.run("COMMIT PREPARED 'begun'");
    assert_eq!(s.begin("k", "1 minute").outcome, "in_progress");
    assert!(s.complete("k", fence, "'1'"));
}
