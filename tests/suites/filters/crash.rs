//! A pass that dies at any step: alone, with its server, by a cancel; or beside which a row comes.

use std::time::Duration;

use pg_once_tests::cluster::{Build, Cluster};
use pg_once_tests::hang;
use pg_once_tests::shared::clocked;

use crate::scene::{Scene, claim, smuggle};
use crate::steps::{STEPS, much_to_do, open, stopped_at, whole};

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
