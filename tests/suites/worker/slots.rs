//! Too few slots for background processes: said once, tried again, nothing lost.

use std::time::Duration;

use pg_once_tests::background::Background;
use pg_once_tests::failure::Failure;
use pg_once_tests::session::Session;
use pg_once_tests::wait;

use crate::scene::{
    is_there, launcher, lines, lose_a_day, maintained, preloaded, processes, served,
};

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
    let mut filler = cluster.connect("postgres");
    filler.run(
        "CREATE FUNCTION pause(integer) RETURNS integer LANGUAGE sql VOLATILE PARALLEL SAFE
             AS 'SELECT $1 FROM pg_sleep(300)'; CREATE TABLE t AS SELECT generate_series(1, 10000) AS n;
         SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         SET max_parallel_workers_per_gather = 4; ALTER TABLE t SET (parallel_workers = 4)",
    );
    // A second shortage is news and said again.
    for shortages in 1..=2 {
        let query = fill(filler, &mut session);
        let leaf = lose_a_day(&mut session);
        wait::until("it says that there is no slot", || {
            lines(&cluster.log(), SAID).len() == shortages
        });
        // Rounds later it has been said once.
        assert!(!wait::poll(Duration::from_secs(4), || is_there(&mut session, &leaf)));
        assert_eq!(lines(&cluster.log(), SAID).len(), shortages, "{}", cluster.log());
        session.run(&format!("SELECT pg_cancel_backend({})", query.pid()));
        wait::until("a lost day is made again", || is_there(&mut session, &leaf));
        let (again, cancelled) = query.join();
        assert_eq!(cancelled.expect_err("it was cancelled").code, "57014");
        filler = again;
    }
    assert_eq!(launcher(&mut session), before, "the launcher has lived through it");
}

/// Runs a parallel query that lasts and keeps three of the four slots; the launcher has the fourth. Where
/// a pass had one just then, the query has two and is started anew.
fn fill(mut filler: Session, observer: &mut Session) -> Background<Result<(), Failure>> {
    for _ in 0..20 {
        let query = filler.background(|s| s.try_run("SELECT count(pause(n)) FROM t"));
        let all = || processes(observer, "parallel worker").len() == 3;
        if wait::poll(Duration::from_millis(700), all) {
            return query;
        }
        observer.run(&format!("SELECT pg_cancel_backend({})", query.pid()));
        filler = query.join().0;
    }
    panic!("no parallel query has got three workers");
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
