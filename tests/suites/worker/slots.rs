//! Too few slots for background processes: said once, tried again, nothing lost.

use pg_once_tests::wait;

use crate::scene::{is_there, launcher, lines, lose_a_day, maintained, preloaded, served};

const SAID: &str = "no background process can be had for database";

#[test]
fn without_a_free_slot_it_says_so_once_and_is_at_work_when_one_is_free() {
    let cluster = preloaded()
        .set("max_worker_processes", "4")
        .set("max_parallel_workers", "4")
        .set("max_logical_replication_workers", "0")
        .set("pg_once.databases", "app")
        .start();
    let mut session = served(&cluster, "app");
    maintained(&mut session);
    let before = launcher(&mut session);
    // A parallel query that lasts keeps three of them; the launcher has the fourth.
    let mut filler = cluster.connect("postgres");
    filler.run(
        "CREATE FUNCTION pause(integer) RETURNS integer LANGUAGE sql VOLATILE PARALLEL SAFE
             AS 'SELECT $1 FROM pg_sleep(300)'; CREATE TABLE t AS SELECT generate_series(1, 10000) AS n;
         SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         SET max_parallel_workers_per_gather = 4; ALTER TABLE t SET (parallel_workers = 4)",
    );
    let filler = filler.background(|s| s.try_run("SELECT count(pause(n)) FROM t"));
    wait::until("the slots are in use", || {
        session.get::<i64>(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'",
        ) == 3
    });
    let leaf = lose_a_day(&mut session);
    wait::until("it says that there is no slot", || !lines(&cluster.log(), SAID).is_empty());
    // Several rounds later it has been said once.
    let later = std::time::Instant::now();
    assert!(!wait::poll(std::time::Duration::from_secs(4), || is_there(&mut session, &leaf)));
    assert!(later.elapsed().as_secs() >= 4);
    assert_eq!(lines(&cluster.log(), SAID).len(), 1, "{}", cluster.log());
    session.run(&format!("SELECT pg_cancel_backend({})", filler.pid()));
    wait::until("a lost day is made again", || is_there(&mut session, &leaf));
    let (_, cancelled) = filler.join();
    assert_eq!(cancelled.expect_err("it was cancelled").code, "57014");
    assert_eq!(launcher(&mut session), before, "the launcher has lived through it");
    // A second shortage is said again: it is news.
    assert_eq!(lines(&cluster.log(), SAID).len(), 1);
}

#[test]
fn a_server_with_no_slot_at_all_starts_and_claims_work() {
    let cluster = preloaded()
        .set("max_worker_processes", "0")
        .set("max_logical_replication_workers", "0")
        .start();
    cluster.connect("postgres").run("CREATE DATABASE app");
    let mut session = cluster.connect("app");
    session.run("CREATE EXTENSION pg_once");
    assert!(session.claim("k") && !session.claim("k"));
    session.run("CALL once.maintain()");
    assert_eq!(lines(&cluster.log(), "too many background workers").len(), 1, "{}", cluster.log());
}
