//! Passes under other settings than usual, and stores of somebody who may little.

use pg_once_tests::shared::clocked;

use crate::scene::{LEAF, OTHER, Scene, claim, sealed, smuggle};

#[test]
fn a_pass_under_every_isolation_level_reads_what_was_committed_before_the_seal() {
    let cluster = clocked();
    for level in ["repeatable read", "serializable"] {
        let mut scene = Scene::new(&cluster);
        scene.dba.run(&format!("SET default_transaction_isolation = '{level}'"));
        for _ in 0..3 {
            let key = scene.denied();
            scene.db.session().run(&smuggle(&key));
            scene.dba.run("CALL once.maintain()");
            assert_eq!(sealed(&mut scene.dba), [LEAF, OTHER], "{level}");
            scene.refuses(&key);
            scene.refuses_all();
        }
        scene.claimer.run(&format!("SET default_transaction_isolation = '{level}'"));
        let key = scene.denied();
        scene.db.session().run(&smuggle(&key));
        scene.refuses(&key);
    }
}

#[test]
fn an_old_snapshot_of_a_claimer_changes_nothing() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let (key, new) = (scene.denied(), scene.denied());
    scene.claimer.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM once.stores");
    scene.dba.run(&smuggle(&key));
    // As without filters: a winner that the snapshot does not show is an error, and neither answer.
    let claimed =
        scene.claimer.try_get::<bool>("SELECT once.claim_once($1::text, '200 days')", &[&key]);
    assert_eq!(claimed.expect_err("the winner is not visible").code, "40001");
    scene.claimer.run("ROLLBACK");
    scene.refuses(&key);
    assert!(claim(&mut scene.claimer, &new));
}

#[test]
fn the_store_of_a_role_that_owns_nothing_else_is_sealed_by_its_owner() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let owner = scene.db.role("owner");
    scene.dba.run(&format!("GRANT USAGE, CREATE ON SCHEMA once TO {owner}"));
    let mut theirs = scene.db.session_of(&owner);
    cluster.clock().set(crate::scene::noon(2));
    theirs.run("SELECT once.create_store('theirs', retention => '200 days')");
    let claim_theirs = "SELECT once.claim_once($1, '200 days', store => 'theirs')";
    assert!(theirs.get_with::<bool>(claim_theirs, &[&"old"]));
    cluster.clock().set(crate::scene::noon(4));
    theirs.run("CALL once.maintain()");
    let count = "SELECT count(*) FROM once.sealed_leaves('once.theirs')";
    assert_eq!(scene.dba.get::<i64>(count), 2, "the 2nd, and the 3rd that was made ahead");
    // Whoever may insert voids it without knowing.
    let clerk = scene.db.role("clerk");
    scene.dba.run(&format!(
        "GRANT USAGE ON SCHEMA once TO {clerk}; GRANT INSERT ON once.theirs TO {clerk}"
    ));
    let mut clerk = scene.db.session_of(&clerk);
    assert!(!clerk.get_with::<bool>(claim_theirs, &[&"old"]));
    clerk.run(
        "INSERT INTO once.theirs (claimed_at, expires_at, key, effect)
         VALUES ('2011-05-02 10:00+00', '2011-11-01 00:00+00', 'by the clerk', '')",
    );
    assert_eq!(scene.dba.get::<i64>(count), 1);
    for s in [&mut theirs, &mut clerk] {
        assert!(!s.get_with::<bool>(claim_theirs, &[&"by the clerk"]));
        assert!(s.get_with::<bool>(claim_theirs, &[&format!("new {}", s.pid())]));
    }
}
