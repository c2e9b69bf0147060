//! A pass that dies at any step: alone, with its server, by a cancel; or beside which a row comes.

use std::time::Duration;

use pg_once_tests::cluster::{Build, Cluster};
use pg_once_tests::hang::{self, Signal};
use pg_once_tests::shared::clocked;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::scene::{LEAF, OTHER, Scene, claim, smuggle};
use crate::steps::{STEPS, go_on, much_to_do, open, stopped_at, whole};

/// A server whose processes are killed, which leaves what they have written to the system. It logs whole pages, as
/// one that may lose its power does.
fn killed() -> Build {
    Cluster::build().clocked().durable().set("fsync", "off")
}

#[test]
fn a_pass_that_is_killed_at_any_step() {
    let cluster = killed().start();
    for step in &STEPS {
        let mut scene = Scene::new(&cluster);
        let key = much_to_do(&mut scene);
        let pass = stopped_at(&mut scene, step);
        hang::kill(pass.pid());
        assert!(!pass.join().1, "it was killed");
        scene.reopen();
        open(&mut scene.dba, step);
        whole(&mut scene, &key, step.0);
    }
}

#[test]
fn a_server_that_crashes_at_any_step() {
    let cluster = killed().start();
    for (number, step) in STEPS.iter().enumerate() {
        let mut scene = Scene::new(&cluster);
        let key = much_to_do(&mut scene);
        let pass = stopped_at(&mut scene, step);
        // What the pass has written so far is in the log, or even in the files.
        scene.dba.run("SELECT pg_logical_emit_message(true, 'tests', 'flush')");
        if number % 2 == 0 {
            scene.dba.run("CHECKPOINT");
        }
        cluster.crash_and_restart();
        assert!(!pass.join().1, "it was killed");
        scene.reopen();
        open(&mut scene.dba, step);
        whole(&mut scene, &key, step.0);
    }
}

#[test]
fn a_pass_that_is_cancelled_at_any_step() {
    let cluster = clocked();
    for step in &STEPS {
        let mut scene = Scene::new(&cluster);
        let key = much_to_do(&mut scene);
        let pass = stopped_at(&mut scene, step);
        scene.dba.run(&format!("SELECT pg_cancel_backend({})", pass.pid()));
        assert!(!pass.join().1, "it was cancelled");
        open(&mut scene.dba, step);
        whole(&mut scene, &key, step.0);
    }
}

#[test]
fn a_row_and_claims_beside_a_pass_at_any_step() {
    let cluster = clocked();
    for step in &STEPS {
        let mut scene = Scene::new(&cluster);
        let key = much_to_do(&mut scene);
        let (late, free) = (scene.denied(), scene.denied() + " free");
        let pass = stopped_at(&mut scene, step);
        scene.claimer.run("SET lock_timeout = '10s'");
        assert!(claim(&mut scene.claimer, &free), "claims go on: {}", step.0);
        scene.refuses_all();
        // Where the leaf is being sealed that moment the row has to wait.
        scene.dba.run("SET lock_timeout = '150ms'");
        let came = scene.dba.try_run(&smuggle(&late)).is_ok();
        scene.dba.run("RESET lock_timeout");
        if came {
            scene.refuses(&late);
        }
        scene.refuses(&key);
        // A second pass does what it can meanwhile, and harms nothing.
        let second = scene.db.session().background(|s| s.try_run("CALL once.maintain()").is_ok());
        second.done_within(Duration::from_millis(700));
        scene.refuses_all();
        if came {
            scene.refuses(&late);
        }
        scene.refuses(&key);
        scene.dba.run(&format!("SELECT pg_terminate_backend({})", pass.pid()));
        pass.join();
        second.join();
        open(&mut scene.dba, step);
        whole(&mut scene, &key, step.0);
    }
}

#[test]
fn leaves_that_are_written_anew_moved_and_taken_out_beside_a_pass_that_goes_on_at_any_step() {
    let cluster = clocked();
    let place = cluster.folder().join("beside");
    if !place.exists() {
        std::fs::create_dir(&place).expect("the cluster's folder");
        pg_once_tests::account::hand_over(&place);
        let mut s = cluster.connect("postgres");
        s.run(&format!("CREATE TABLESPACE beside LOCATION '{}'", place.display()));
    }
    const LAST: &str = "once.processed_events_20110504";
    let bounds = "FOR VALUES FROM ('2011-05-02 00:00+00') TO ('2011-05-03 00:00+00')";
    let rewritten = [
        format!("VACUUM FULL {LEAF}"),
        format!("CLUSTER {OTHER} USING processed_events_20110503_pkey"),
        format!("ALTER TABLE {LAST} SET TABLESPACE beside"),
    ];
    let taken_out = [
        format!(
            "ALTER TABLE once.processed_events DETACH PARTITION {LEAF};
             INSERT INTO {LEAF} SELECT (jsonb_populate_record(l, '{{\"key\": \"came while detached\"}}')).*
                 FROM {LEAF} l WHERE key = 'day2-1';
             ALTER TABLE once.processed_events ATTACH PARTITION {LEAF} {bounds}"
        ),
        format!(
            "CREATE TEMP TABLE kept AS SELECT * FROM {OTHER}; TRUNCATE {OTHER}; INSERT INTO {OTHER} SELECT * FROM kept"
        ),
        format!("ALTER TABLE {LAST} DISABLE TRIGGER ALL; ALTER TABLE {LAST} ENABLE TRIGGER ALL"),
    ];
    let mut done = 0;
    for step in &STEPS {
        for statements in [&rewritten[..], &taken_out[..]] {
            let mut scene = Scene::new(&cluster);
            let key = much_to_do(&mut scene);
            let pass = stopped_at(&mut scene, step);
            let mut said: Vec<&str> = Vec::new();
            for statement in statements {
                // Where the pass has the leaf locked it has to wait; then it is none of this.
                let mut s = scene.db.session();
                s.run("SET lock_timeout = '100ms'");
                match s.try_run(statement) {
                    Ok(()) => said.push(statement),
                    Err(failure) => assert_eq!(failure.code, "55P03", "{statement}: {failure}"),
                }
            }
            done += said.len();
            scene.refuses(&key);
            scene.refuses_all();
            println!("{}, beside it {} statements", step.0, said.len());
            assert!(go_on(&mut scene.dba, pass), "the pass failed");
            let late = scene.denied();
            scene.refuses(&key);
            scene.refuses_all();
            // Whether that row came: only where the leaf could be taken out.
            if said.contains(&taken_out[0].as_str()) {
                scene.refuses("came while detached");
            }
            scene.dba.run(&smuggle(&late));
            scene.refuses(&late);
            open(&mut scene.dba, step);
            whole(&mut scene, &key, step.0);
        }
    }
    println!("{done} statements beside a pass");
    assert!(done > STEPS.len() * 4, "{done}");
}

#[test]
fn a_pass_that_stands_still_anywhere_while_rows_come_and_are_asked_for() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (mut passes, mut rounds, mut beside) = (Some(scene.db.session()), 0, 0);
    let mut sessions = Some((scene.db.session(), scene.db.session()));
    // Until rows came and were asked for beside a pass that stood still often enough.
    while beside < 25 && rounds < 500 {
        rounds += 1;
        // So that there is something to seal, to read and to merge.
        let (early, late) = (scene.denied(), scene.denied());
        scene.dba.run(&smuggle(&early));
        let (writer, claimer) = sessions.take().expect("both came back");
        let pass = passes.take().expect("it came back");
        let pass = pass.background(|s| s.run("CALL once.maintain()"));
        std::thread::sleep(Duration::from_micros(random.random_range(0..25_000)));
        hang::signal(pass.pid(), Signal::STOP);
        // It may stand still with something in hand that everybody needs; then these go on when it does.
        let row = smuggle(&late);
        let writer = writer.background(move |s| s.run(&row));
        writer.done_within(Duration::from_millis(150));
        let came = writer.done();
        let keys = [early.clone(), late.clone()];
        let claimer = claimer.background(move |s| keys.map(|key| claim(s, &key)));
        claimer.done_within(Duration::from_millis(150));
        beside += usize::from(came && claimer.done() && !pass.done());
        hang::signal(pass.pid(), Signal::CONT);
        let (claimer, [first, second]) = claimer.join();
        assert!(!first, "round {rounds}: {early}");
        assert!(!came || !second, "round {rounds}: {late}");
        sessions = Some((writer.join().0, claimer));
        passes = Some(pass.join().0);
        if second {
            // Claimed before it came, which an INSERT does not ask about: it has two rows now.
            scene.dba.run(&format!("DELETE FROM once.processed_events WHERE key = '{late}'"));
        } else {
            scene.refuses(&late);
        }
        scene.refuses(&early);
        scene.refuses_all();
        scene
            .dba
            .run(&format!("DELETE FROM once.processed_events WHERE key IN ('{early}', '{late}')"));
    }
    println!("in {beside} of {rounds} rounds all of it went by beside the pass");
    assert_eq!(beside, 25);
}

#[test]
fn a_page_that_cannot_be_read_fails_claims_until_the_next_pass_and_denies_nothing() {
    use std::io::Write;
    let cluster = killed().start();
    let mut scene = Scene::new(&cluster);
    let table: String = scene.dba.get("SELECT pages_in::text FROM once.filter WHERE NOT retired");
    let path: String = scene.dba.get(&format!("SELECT pg_relation_filepath('{table}')"));
    let data: String = scene.dba.get("SHOW data_directory");
    cluster.stop("fast");
    let file = std::path::Path::new(&data).join(path);
    let mut file = std::fs::OpenOptions::new().write(true).open(file).expect("the filter's file");
    file.write_all(&[0xFF; 64]).expect("written");
    drop(file);
    cluster.start();
    scene.reopen();
    let failed = scene.dba.fails("SELECT once.claim_once('day2-1', '200 days')");
    assert_eq!(failed.code, "XX001", "{failed:?}");
    scene.dba.run("CALL once.maintain()");
    scene.refuses_all();
    let key = scene.denied();
    scene.dba.run(&crate::scene::smuggle(&key));
    scene.refuses(&key);
}
