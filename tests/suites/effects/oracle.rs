//! Random schedules of many consumers, whose leases are so short that they are always being taken over.

use pg_once_tests::race;
use pg_once_tests::shared::database;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::history::History;
use crate::scene::Calls;

fn seed() -> u64 {
    let given = std::env::var("PG_ONCE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| rand::rng().random());
    println!("PG_ONCE_SEED={seed}");
    seed
}

fn schedule(level: &str) {
    let (seed, db) = (seed(), database());
    db.session().claim("load");
    db.session().run(&format!(
        "ALTER DATABASE {} SET default_transaction_isolation = '{level}'",
        db.name()
    ));
    let history = History::default();
    let mut sessions = db.sessions(16);
    race::all(&mut sessions, |number, s| {
        let mut chance = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
        for turn in 0..60 {
            let key = format!("k{}", turn / 6 * 2 + chance.random_range(0..2));
            // What was rolled back was never told to anybody.
            match chance.random_range(0..10) {
                0 => {
                    s.run("BEGIN");
                    let _ = s.try_begin(&key, "40 milliseconds");
                    s.run("ROLLBACK");
                    continue;
                }
                1 => {
                    s.run("BEGIN; SAVEPOINT a");
                    let _ = s.try_begin(&key, "40 milliseconds");
                    // What it has read can make it fail at its end, with nothing written.
                    if let Err(failure) = s.try_run("ROLLBACK TO a; COMMIT") {
                        assert!(level == "serializable" && failure.code == "40001", "{failure}");
                    }
                    continue;
                }
                _ => {}
            }
            let outcome = history.begins(s, &key, "40 milliseconds").and_then(|begun| {
                begun.fence.map_or(Ok(()), |fence| history.runs(s, &key, fence, &mut chance))
            });
            if let Err(failure) = outcome {
                assert!(level != "read committed" && failure.code == "40001", "{key}: {failure}");
            }
        }
    });
    println!("{level}: {} effects done", history.done());
    assert!(history.done() >= 5, "{}", history.done());
    let mut s = db.session();
    history.check(&mut s, true);
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn sixteen_consumers_under_read_committed_agree_on_who_did_what() {
    schedule("read committed");
}

#[test]
fn sixteen_consumers_under_repeatable_read_agree_on_who_did_what() {
    schedule("repeatable read");
}

#[test]
fn sixteen_consumers_under_serializable_agree_on_who_did_what() {
    schedule("serializable");
}
