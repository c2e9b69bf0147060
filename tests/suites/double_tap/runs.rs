//! A run leaves nothing behind, whatever ends it, and shows where it is.

use std::time::Duration;

use pg_once_tests::shared::database;
use pg_once_tests::wait;

use crate::scene::{SHOP, call, handler, refused, tapped};

#[test]
fn everything_is_rolled_back_unless_it_is_to_be_kept() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.claim("load");
    handler(
        &mut s,
        "INSERT INTO audit VALUES (m.key); PERFORM once.claim_once(m.key); CREATE TEMP TABLE IF NOT EXISTS tt (a int); PERFORM set_config('my.x', 'y', false)",
    );
    let found = tapped(&mut s, "audit", ", shuffle => true");
    assert_eq!(found.len(), 12);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM audit"), 0);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 1);
    assert!(s.get::<bool>(
        "SELECT to_regclass('tt') IS NULL AND coalesce(current_setting('my.x', true), '') = ''"
    ));
    tapped(&mut s, "audit", ", keep => true");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM audit"), 8);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 5);
    // What is in the transaction already is seen, and stays.
    s.run("BEGIN; INSERT INTO message VALUES (5, 'order-5', 1); INSERT INTO audit VALUES ('mine')");
    assert_eq!(tapped(&mut s, "audit", "").len(), 5);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM audit"), 9);
    s.run("COMMIT");
}

#[test]
fn differences_are_found_at_every_isolation_level_and_in_whatever_calls_it() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    handler(
        &mut s,
        "INSERT INTO orders (id) VALUES (m.id) ON CONFLICT (id) DO UPDATE SET times = orders.times + 1",
    );
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        s.run(&format!("BEGIN ISOLATION LEVEL {level}"));
        let found = tapped(&mut s, "orders", ", shuffle => true");
        assert_eq!(found.len(), 8, "{level}: {found:?}");
        s.run("ROLLBACK");
    }
    let counted: i64 = s.get(&format!("SELECT count(*) FROM generate_series(1, 2) g CROSS JOIN LATERAL (SELECT g, t.* FROM {} t) x", call("orders", "")));
    assert_eq!(counted, 8);
    s.run(&format!("CREATE FUNCTION ready() RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM {}; RETURN n; EXCEPTION WHEN OTHERS THEN RETURN -1; END $$", call("orders", "")));
    assert_eq!(s.get::<i64>("SELECT ready()"), 4);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM orders"), 0);
    s.run("BEGIN READ ONLY");
    assert_eq!(refused(&mut s, &call("orders", "")).code, "25006");
    s.run("ROLLBACK");
}

#[test]
fn a_run_shows_where_it_is_and_ends_at_once_when_it_is_cancelled() {
    let db = database();
    let (mut s, mut other) = (db.session().patience(Duration::from_secs(120)), db.session());
    s.run(SHOP);
    s.run("INSERT INTO message SELECT n, 'k' || n, 1 FROM generate_series(5, 100000) n");
    handler(&mut s, "PERFORM pg_sleep(0.01); INSERT INTO audit VALUES (m.key)");
    let pid = s.pid();
    let shown = format!("SELECT query LIKE 'once.double_tap(): pass 1: %% of 100000 messages' FROM pg_stat_activity WHERE pid = {pid}").replace("%%", "%");
    let named = format!(
        "SELECT application_name = 'pg_once double tap, pass 1' FROM pg_stat_activity WHERE pid = {pid}"
    );
    let run = std::thread::spawn(move || {
        let failure = refused(&mut s, &call("audit", ""));
        (s, failure)
    });
    wait::until("the run shows where it is", || other.get::<bool>(&shown));
    assert!(other.get::<bool>(&named));
    let began = std::time::Instant::now();
    other.run(&format!("SELECT pg_cancel_backend({pid})"));
    let (mut s, failure) = run.join().expect("the run");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(failure.code, "57014");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM audit"), 0);
    assert!(s.get::<bool>("SELECT now() <= clock_timestamp()"));
    // Nor does its clock stay with the session that others see.
    s.run(&format!(
        "DELETE FROM message WHERE id > 4; BEGIN; DO $$ BEGIN PERFORM * FROM {}; END $$",
        call("audit", "")
    ));
    handler(&mut s, "NULL");
    s.run(&format!("DO $$ BEGIN PERFORM * FROM {}; PERFORM pg_stat_clear_snapshot(); ASSERT (SELECT query_start < clock_timestamp() FROM pg_stat_activity WHERE pid = pg_backend_pid()); END $$; COMMIT", call("audit", "")));
    let query: String = other.get(&format!("SELECT query FROM pg_stat_activity WHERE pid = {pid}"));
    assert!(!query.contains("pass 1"), "{query}");
}

#[test]
fn others_see_the_run_begin_when_it_did_whatever_now_shows_its_messages() {
    let db = database();
    let (mut s, mut other) = (db.session().patience(Duration::from_secs(60)), db.session());
    s.run(SHOP);
    handler(&mut s, "PERFORM pg_sleep(0.5); INSERT INTO audit VALUES (m.key)");
    let began: String = s.get("SELECT clock_timestamp()::text");
    let pid = s.pid();
    let run = std::thread::spawn(move || tapped(&mut s, "audit", "").len());
    wait::until("pass 2 shows where it is", || {
        other.get::<bool>(&format!(
            "SELECT query LIKE '%pass 2: %' FROM pg_stat_activity WHERE pid = {pid}"
        ))
    });
    assert!(other.get::<bool>(&format!(
        "SELECT query_start BETWEEN '{began}' AND '{began}'::timestamptz + interval '2 s'
           FROM pg_stat_activity WHERE pid = {pid}"
    )));
    assert_eq!(run.join().expect("the run"), 4);
}
