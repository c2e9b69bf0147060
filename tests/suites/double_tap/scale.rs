//! Many messages, many rows, many differences: memory stays where it is.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

/// Private memory of a backend in kB: what shared buffers cannot blur.
fn private_kb(pid: i32) -> Option<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// By how many MB a statement raises the backend's private memory at most while it runs.
fn growth(s: &mut Session, sql: &str) -> i64 {
    let (pid, ended, most) = (s.pid(), AtomicBool::new(false), AtomicI64::new(0));
    let before = private_kb(pid).expect("Linux 4.5 or later");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                most.fetch_max(private_kb(pid).unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let result = s.try_run(sql);
        ended.store(true, Ordering::Relaxed);
        result.expect("it runs");
    });
    (most.into_inner() - before) / 1024
}

#[test]
fn a_run_over_large_tables_takes_no_more_than_sixteen_megabytes_above_the_handlers_own() {
    let db = database();
    let mut s = db.session().patience(Duration::from_secs(300));
    s.run("CREATE TABLE account (id bigint PRIMARY KEY, balance numeric, note text);
           CREATE TABLE journal (what text);
           INSERT INTO account SELECT n, n, repeat('x', 60) FROM generate_series(1, 150000) n;
           INSERT INTO journal SELECT 'row ' || n FROM generate_series(1, 150000) n;
           CREATE TABLE message (id bigint, key text, payload text);
           INSERT INTO message SELECT n, 'order-' || n || ':paid', repeat('y', 300) FROM generate_series(1, 30000) n;
           CREATE FUNCTION faulty(m message) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
               UPDATE account SET balance = balance + 1 WHERE id = m.id;
               INSERT INTO journal VALUES (m.key || m.payload);
           END $$;
           ANALYZE");
    s.claim("load");
    let by_hand = "DO $$ DECLARE m message; BEGIN
        FOR i IN 1..2 LOOP FOR m IN SELECT * FROM message ORDER BY id LOOP PERFORM faulty(m); END LOOP; END LOOP; END $$";
    // Each in a backend of its own, because freed memory stays with a process.
    let measure = |sql: &str| {
        let mut s = db.session().patience(Duration::from_secs(300));
        s.run("SELECT count(*) FROM account WHERE balance < 0; BEGIN");
        let growth = growth(&mut s, sql);
        s.run("ROLLBACK");
        growth
    };
    let own = measure(by_hand);
    let tap = measure(
        "SELECT count(*) FROM once.double_tap('SELECT * FROM message ORDER BY id', 'faulty(message)', '{account,journal}')",
    );
    println!("the handler's own: {own} MB, the double tap: {tap} MB, of 60,000 differences");
    assert!(tap - own <= 16, "{own} MB by hand, {tap} MB with the double tap");
    let changed: i64 = s.get(
        "SELECT count(*) FROM once.double_tap('SELECT * FROM message ORDER BY id', 'faulty(message)', '{account,journal}')",
    );
    assert_eq!(changed, 60_000);
    s.run("SELECT once.snapshot('s', '{account,journal}'); UPDATE account SET balance = balance + 1; DELETE FROM journal");
    let compare = measure("SELECT count(*) FROM once.compare('s')");
    println!("comparing 300,000 rows that all differ: {compare} MB");
    assert!(compare <= 24, "{compare} MB");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.compare('s')"), 300_000);
}
