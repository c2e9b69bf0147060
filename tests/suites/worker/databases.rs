//! Databases that cannot or need not be maintained: none is retried in a loop, none fills the log, none
//! keeps the others from their turn.

use pg_once_tests::wait;

use crate::scene::{lines, maintained, preloaded, processes, served};

#[test]
fn databases_that_let_nobody_in_or_lack_the_extension_cost_no_line_of_log_and_no_slot() {
    let cluster = preloaded().set("max_worker_processes", "8").start();
    let mut admin = cluster.connect("postgres");
    for (name, then) in [
        ("refuses", "ALTER DATABASE refuses ALLOW_CONNECTIONS false"),
        ("nobody", "ALTER DATABASE nobody CONNECTION LIMIT 0"),
        ("model", "ALTER DATABASE model IS_TEMPLATE true"),
        ("halfway", "UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'halfway'"),
        ("bare", "SELECT"),
        ("dropped", "SELECT"),
    ] {
        if name == "bare" {
            admin.run("CREATE DATABASE bare");
        } else {
            drop(served(&cluster, name));
        }
        admin.run(then);
    }
    cluster
        .connect("dropped")
        .run("DROP EXTENSION pg_once CASCADE; DROP SCHEMA IF EXISTS once CASCADE");
    let mut session = served(&cluster, "app");
    for _ in 0..6 {
        // A round goes from one database to the next: when it was here, it has been everywhere.
        maintained(&mut session);
        let ours = processes(&mut session, "pg_once worker").len();
        assert!(ours <= 1, "{ours} processes at once");
    }
    let log = cluster.log();
    for name in ["refuses", "nobody", "model", "halfway", "bare", "dropped", "template", "pg_once"]
    {
        assert_eq!(lines(&log, name).join("\n"), "", "lines of log about {name}");
    }
}

#[test]
fn a_database_whose_process_fails_is_left_alone_for_longer_each_time() {
    let cluster = preloaded().start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE broken");
    let number: i64 = admin.get("SELECT oid::bigint FROM pg_database WHERE datname = 'broken'");
    let (here, away) = (
        cluster.folder().join(format!("data/base/{number}")),
        cluster.folder().join("data/base/away"),
    );
    let mut session = served(&cluster, "app");
    admin.run("CHECKPOINT");
    std::fs::rename(&here, &away).expect("the cluster's folder");
    let failures = || lines(&cluster.log(), "FATAL").len();
    wait::until("its process fails", || failures() > 0);
    let before = failures();
    // Ten rounds of a second at least: 2 s and 4 s of leave have passed by then, 8 s not.
    for _ in 0..10 {
        maintained(&mut session);
    }
    let more = failures() - before;
    assert!((1..=3).contains(&more), "{more} more failures in ten rounds");
    // Mended, and out of the way of whatever looks at it next.
    std::fs::rename(&away, &here).expect("the cluster's folder");
    let mut mended = cluster.connect("broken");
    mended.run("CREATE EXTENSION pg_once; SELECT once.create_store('s')");
    maintained(&mut mended);
}

#[test]
fn an_extension_that_is_dropped_and_made_again_is_noticed() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    maintained(&mut session);
    session.run("DROP TABLE once.s; DROP EXTENSION pg_once");
    let mut other = served(&cluster, "other");
    maintained(&mut other);
    maintained(&mut other);
    session.run("CREATE EXTENSION pg_once; SELECT once.create_store('s')");
    maintained(&mut session);
}

#[test]
fn what_a_database_sets_for_its_sessions_does_not_stop_its_pass() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    session.run(
        "CREATE ROLE nobody_special;
         ALTER DATABASE app SET role = 'nobody_special';
         ALTER DATABASE app SET default_transaction_read_only = on;
         ALTER DATABASE app SET default_transaction_isolation = 'serializable';
         ALTER DATABASE app SET statement_timeout = '1ms';
         ALTER DATABASE app SET lock_timeout = '1ms';
         ALTER DATABASE app SET search_path = 'nowhere'",
    );
    // This session was there before and is not concerned.
    for _ in 0..3 {
        maintained(&mut session);
    }
    assert_eq!(lines(&cluster.log(), "pg_once").join("\n"), "");
    // What is meant for the pass reaches it.
    session.run("ALTER DATABASE app SET pg_once.precreate_days = 6");
    wait::until("there are six days ahead", || {
        session.get::<i64>("SELECT count(*) FROM once.partitions WHERE state = 'future'") == 6
    });
}
