//! x
use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::{shared, wait};
use std::time::Instant as T;
#[test]
fn clock() {
    let t = T::now();
    let c = shared::clocked();
    eprintln!("clocked start {:?}", t.elapsed());
    let mut s = c.connect("postgres");
    for base in
        [Instant::midnight(2031, 3, 1).plus(-1.0), Instant::midnight(2026, 1, 1), Instant::today()]
    {
        c.clock().set(base);
        let a: f64 = s.get("SELECT extract(epoch from clock_timestamp())::float8");
        eprintln!("{:?} {:?} {}", base, c.clock().now(), a - base.0);
        let a: String = s.get("SELECT (clock_timestamp() at time zone 'UTC')::text");
        eprintln!("{a}");
        let t = T::now();
        s.run("select pg_sleep(0.5)");
        eprintln!("slept {:?}", t.elapsed());
        s.run("set statement_timeout='200ms'");
        let e = s.fails("select pg_sleep(100)");
        s.run("reset all");
        eprintln!("{e}");
    }
}
#[test]
fn dbs() {
    let t = T::now();
    let c = shared::cluster();
    eprintln!("start {:?}", t.elapsed());
    c.connect("postgres").run("create database tpl");
    for st in ["wal_log", "file_copy"] {
        let t = T::now();
        for _ in 0..10 {
            let _ = c.create(&format!("template tpl strategy {st}"));
        }
        eprintln!("10 dbs {st} {:?}", t.elapsed());
    }
    let t = T::now();
    for i in 1..10 {
        c.connect("postgres").run(&format!("drop database t{i}"));
    }
    eprintln!("9 drops {:?}", t.elapsed());
}
#[test]
fn crash() {
    let c = Cluster::build().durable().start();
    let mut s = c.connect("postgres");
    s.run("create table t(i int); insert into t values (1)");
    let t = T::now();
    let b = s.background(|s| s.try_run("select pg_sleep(100)"));
    let mut o = c.connect("postgres");
    wait::until("x", || {
        o.get::<i64>(
            "select count(*) from pg_stat_activity where query ~ 'sleep' and pid<>pg_backend_pid()",
        ) == 1
    });
    c.crash_and_restart();
    eprintln!("{:?} {:?}", b.join().1, t.elapsed());
    let mut s = c.connect("postgres");
    eprintln!("{}", s.get::<i32>("select i from t"));
    let b = s
        .patience(std::time::Duration::from_secs(2))
        .background(|s| s.try_run("select pg_sleep(100)"));
    eprintln!("{:?} {:?}", b.join().1, t.elapsed());
}
