//! Sessions that read or remember the state of a seal at the worst moment.

use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;
use pg_once_tests::wait;

use crate::scene::{LEAF, Scene, claim, noon, smuggle};

#[test]
fn a_leaf_sealed_anew_after_a_savepoint_took_its_row_back_is_voided_by_the_next_row_of_that_transaction()
 {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    let mut writer = scene.db.session();
    writer.run(&format!("BEGIN; SAVEPOINT a; {}; ROLLBACK TO a", smuggle("taken back")));
    // The lock went with the savepoint, so that nothing keeps the leaf from being sealed.
    scene.dba.run("CALL once.maintain()");
    assert!(crate::scene::sealed(&mut scene.dba).contains(&LEAF.to_owned()));
    assert!(claim(&mut scene.claimer, "new with the new seal"));
    writer.run(&format!("{}; COMMIT", smuggle(&key)));
    scene.refuses(&key);
    scene.sealed_anew(&key, 2);
}

#[test]
fn of_eight_rows_that_come_into_a_sealed_day_at_once_none_is_denied_when_it_is_committed() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let mut pairs: Vec<(Session, Session)> =
        (0..8).map(|_| (scene.db.session(), scene.db.session())).collect();
    let mut twice = Vec::new();
    for round in 0..25 {
        // Each of the eight claimers has the filters in its cache, and one of the eight rows is the first.
        for (n, (_, claimer)) in pairs.iter_mut().enumerate() {
            assert!(claim(claimer, &format!("warm {round} {n}")));
        }
        let start = std::sync::Barrier::new(pairs.len());
        std::thread::scope(|scope| {
            let threads: Vec<_> = pairs
                .iter_mut()
                .enumerate()
                .map(|(n, (writer, claimer))| {
                    let start = &start;
                    scope.spawn(move || {
                        let key = format!("round {round} {n}");
                        start.wait();
                        writer.run(&smuggle(&key));
                        claim(claimer, &key).then_some(key)
                    })
                })
                .collect();
            twice.extend(threads.into_iter().filter_map(|thread| thread.join().expect("it ends")));
        });
        scene.dba.run("CALL once.maintain()");
    }
    assert_eq!(twice, [""; 0]);
    assert_eq!(scene.dba.claimed_twice("once.processed_events"), [""; 0]);
}

#[test]
fn a_trigger_that_is_disabled_while_a_session_reads_the_filters_is_noticed() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    let table: String =
        scene.dba.get("SELECT max(pages_in::text) FROM once.filter WHERE NOT retired");
    let mut holder = scene.db.session();
    holder.run(&format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"));
    // It has read the seals, and waits for the pages.
    let reader = scene.db.session().background(|s| claim(s, "reads the filters"));
    wait::blocked(&mut scene.dba, reader.pid());
    scene.dba.run(&format!("ALTER TABLE {LEAF} DISABLE TRIGGER ALL; {}", smuggle(&key)));
    holder.run("ROLLBACK");
    let (mut reader, claimed) = reader.join();
    assert!(claimed);
    assert!(!claim(&mut reader, &key), "by seals that were read before");
    scene.refuses(&key);
}

#[test]
fn a_transaction_that_has_taken_nothing_in_since_a_filter_was_dropped_asks_another_one() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    let table: String =
        scene.dba.get("SELECT max(pages_in::text) FROM once.filter WHERE NOT retired");
    let mut gate = scene.db.session();
    gate.run("SELECT pg_advisory_lock(7)");
    // It asks the filters, waits for something that lets no messages in, and asks again.
    let asked = key.clone();
    let slow = scene.db.session().background(move |s| {
        s.try_run(&format!(
            "DO $$ BEGIN
                 IF NOT once.claim_once('before', '200 days') THEN RAISE 'before: refused'; END IF;
                 PERFORM pg_advisory_xact_lock_shared(7);
                 IF once.claim_once('{asked}', '200 days') THEN RAISE 'claimed again'; END IF;
                 IF NOT once.claim_once('after', '200 days') THEN RAISE 'after: refused'; END IF;
             END $$"
        ))
    });
    wait::blocked(&mut gate, slow.pid());
    scene.dba.run(&smuggle(&key));
    scene.dba.run("CALL once.maintain()");
    scene.dba.run("CALL once.maintain()");
    let there = format!("SELECT to_regclass('{table}') IS NOT NULL");
    assert!(!scene.dba.get::<bool>(&there), "nobody holds a key's lock, so it is dropped");
    // As after a checkpoint of a busy server: no page of it is in memory, and its file is gone.
    scene.dba.run("CHECKPOINT");
    gate.run("SELECT pg_advisory_unlock(7)");
    assert_eq!(slow.join().1, Ok(()));
    scene.refuses(&key);
}

#[test]
fn a_session_that_knew_none_hears_of_the_first_filter_of_a_store() {
    let cluster = clocked();
    // No day is over yet.
    let mut scene = Scene::opened(&cluster, 0);
    cluster.clock().set(noon(5));
    // All that there is to do but sealing.
    scene.dba.run("SET pg_once.filters = off");
    scene.dba.run("CALL once.maintain()");
    scene.dba.run("RESET pg_once.filters");
    assert!(claim(&mut scene.claimer, "on the 5th"), "it has the store in its cache");
    scene.dba.run("CALL once.maintain()");
    assert_eq!(crate::scene::sealed(&mut scene.dba), ["once.processed_events_20110504"]);
    let key = scene.denied();
    let mut holder = scene.db.session();
    holder.run("BEGIN; LOCK TABLE once.processed_events_20110504 IN ACCESS EXCLUSIVE MODE");
    // Who looks into the day, for want of a filter, waits.
    scene.claimer.run("SET lock_timeout = '5s'");
    assert!(claim(&mut scene.claimer, &key));
    holder.run("ROLLBACK");
    assert!(!claim(&mut scene.claimer, "day4-7"));
}
