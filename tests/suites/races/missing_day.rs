//! A day without a leaf: claims succeed all the same, and nobody waits for somebody's transaction.

use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::database::Database;
use pg_once_tests::race;
use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;

/// A store whose last leaf is many days before the day the clock then shows.
fn long_unattended(cluster: &Cluster, day: Instant) -> (Database<'_>, Session) {
    let db = cluster.database();
    cluster.clock().set(day.days(-20));
    let mut s = db.session();
    s.load();
    cluster.clock().set(day.plus(30_000.0));
    (db, s)
}

#[test]
fn sixteen_sessions_with_a_key_each_all_succeed_at_once_and_make_one_leaf() {
    let cluster = clocked();
    for round in 0..3 {
        let (db, mut s) = long_unattended(&cluster, Instant::midnight(2021, 9, 1).days(round));
        let mut sessions = db.sessions(16);
        let started = std::time::Instant::now();
        let answers = race::all(&mut sessions, |number, s| s.claim(&format!("k{number}")));
        assert_eq!(race::trues(&answers), 16);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
        let today: i64 = s.get("SELECT count(*) FROM once.partitions WHERE state = 'current'");
        assert_eq!(today, 1);
        let answers = race::all(&mut sessions, |number, s| s.claim(&format!("k{number}")));
        assert_eq!(race::trues(&answers), 0);
    }
}

#[test]
fn sixteen_sessions_with_one_key_give_one_true() {
    let cluster = clocked();
    for round in 0..3 {
        let (db, mut s) = long_unattended(&cluster, Instant::midnight(2021, 10, 1).days(round));
        let answers = race::all(&mut db.sessions(16), |number, s| {
            if number % 3 == 0 { s.claim_many(&["k"])[0].1 } else { s.claim("k") }
        });
        assert_eq!(race::trues(&answers), 1);
        assert_eq!(s.leaves_of("k").len(), 1);
    }
}

#[test]
fn others_do_not_wait_for_the_open_transaction_that_found_the_day_missing() {
    let cluster = clocked();
    for begin in
        ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE"]
    {
        let (db, mut first) = long_unattended(&cluster, Instant::midnight(2021, 11, 1));
        first.run(begin);
        first.run("SELECT 1; SAVEPOINT a");
        assert!(first.claim("a"), "{begin}");
        let mut second = db.session();
        second.run("SET lock_timeout = '3s'");
        assert!(second.claim("b"), "{begin}");
        assert_eq!(
            second.get::<String>("SELECT outcome::text FROM once.claim('a', wait => false)"),
            "in_progress"
        );
        first.run("ROLLBACK TO a");
        assert!(second.claim("a"), "{begin}");
        first.run("COMMIT");
        assert!(
            !first.claim("a") && !first.claim("b"),
            "{begin}: the leaf did not go with the savepoint"
        );
    }
}

#[test]
fn an_old_claim_still_refuses_on_a_day_that_had_no_leaf() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2021, 12, 1).plus(50_000.0);
    cluster.clock().set(start);
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', retention => '30 days')");
    s.days_behind();
    assert!(s.get::<bool>("SELECT once.claim_once('k')"));
    cluster.clock().set(start.days(25));
    assert!(!s.get::<bool>("SELECT once.claim_once('k')"));
    assert!(!s.claim_many(&["k"])[0].1);
    assert!(s.claim("new"));
    cluster.clock().set(start.days(31));
    assert!(s.get::<bool>("SELECT once.claim_once('k')"));
}

#[test]
fn a_role_with_insert_alone_finds_the_day_made_for_the_owner() {
    let cluster = clocked();
    let db = cluster.database();
    let (owner, app) = (db.role("owner"), db.role("app"));
    let start = Instant::midnight(2022, 1, 10).plus(50_000.0);
    cluster.clock().set(start);
    let mut admin = db.session();
    admin.run(&format!(
        "GRANT USAGE, CREATE ON SCHEMA once TO {owner}; GRANT USAGE ON SCHEMA once TO {app}"
    ));
    db.session_of(&owner).run(&format!(
        "SELECT once.create_store('processed_events'); GRANT INSERT ON once.processed_events TO {app}"
    ));
    cluster.clock().set(start.days(15));
    let mut s = db.session_of(&app);
    assert!(s.claim("k"));
    assert!(!s.claim("k"));
    let made = admin.rows(
        "SELECT pg_get_userbyid(c.relowner)::text, c.relacl::text = p.relacl::text, c.relpersistence::text
           FROM once.partitions v JOIN pg_class c ON c.oid = format('once.%I', v.leaf)::regclass
           JOIN pg_class p ON p.oid = 'once.processed_events'::regclass WHERE v.state = 'current'",
        &[],
    );
    assert_eq!(made.len(), 1);
    assert_eq!(
        (made[0].get::<_, String>(0), made[0].get(1), made[0].get::<_, String>(2)),
        (owner, true, "p".into())
    );
}

#[test]
fn a_transaction_that_has_the_parent_locked_itself_still_claims() {
    let cluster = clocked();
    for mode in ["ACCESS SHARE", "ROW EXCLUSIVE", "SHARE", "ACCESS EXCLUSIVE"] {
        let (db, mut s) = long_unattended(&cluster, Instant::midnight(2022, 3, 1));
        s.run(&format!("BEGIN; LOCK TABLE once.processed_events IN {mode} MODE"));
        assert!(s.claim("k"), "{mode}");
        s.run("COMMIT");
        assert!(!db.session().claim("k"), "{mode}");
    }
}

#[test]
fn a_leaf_dropped_by_hand_is_made_again() {
    let cluster = clocked();
    let db = cluster.database();
    cluster.clock().set(Instant::midnight(2022, 4, 1).plus(50_000.0));
    let mut sessions = db.sessions(16);
    sessions[0].load();
    race::all(&mut sessions, |number, s| s.claim(&format!("before {number}")));
    db.session().run("DROP TABLE once.processed_events_20220401");
    let answers = race::all(&mut sessions, |number, s| s.claim(&format!("after {number}")));
    assert_eq!(race::trues(&answers), 16);
    let answers = race::all(&mut sessions, |number, s| s.claim(&format!("after {number}")));
    assert_eq!(race::trues(&answers), 0);
    assert_eq!(db.session().own_claims(), 16);
}

#[test]
fn days_with_a_claimer_that_comes_and_goes_are_made_while_others_race() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2022, 6, 1).plus(3_600.0);
    cluster.clock().set(start);
    let mut sessions = db.sessions(16);
    sessions[0].load();
    for jump in 1..=8 {
        // Beyond what was made ahead, every time.
        cluster.clock().set(start.days(jump * 5));
        let answers = race::all(&mut sessions, |number, s| {
            s.run("BEGIN");
            let own = s.claim(&format!("own {jump} {number}"));
            let one = s.claim(&format!("one {jump}"));
            s.run(if number % 4 == 0 { "ROLLBACK" } else { "COMMIT" });
            assert!(own, "day {jump}");
            one && number % 4 != 0
        });
        assert!(race::trues(&answers) == 1, "day {jump}: {answers:?}");
        sessions[0].run("CALL once.maintain()");
    }
}

#[test]
fn without_a_single_background_process_a_claim_makes_the_day_itself() {
    let cluster = Cluster::build().clocked().set("max_worker_processes", "0").start();
    let start = Instant::midnight(2022, 8, 1).plus(50_000.0);
    cluster.clock().set(start);
    let db = cluster.database();
    let mut s = db.session();
    assert!(s.claim("k"), "the store itself is made");
    cluster.clock().set(start.days(12));
    let answers = race::all(&mut db.sessions(16), |number, s| s.claim(&format!("k{number}")));
    assert_eq!(race::trues(&answers), 16);
    cluster.clock().set(start.days(24));
    let answers = race::all(&mut db.sessions(16), |_, s| s.claim("one"));
    assert_eq!(race::trues(&answers), 1);
    cluster.clock().set(start.days(36));
    s.run("BEGIN");
    assert!(s.claim("in a transaction"));
    s.run("ROLLBACK");
    assert!(s.claim("in a transaction"));
    assert!(!s.claim("in a transaction"));
}
