//! The launcher at work: it finds the databases, shows what it does, keeps to its interval, and obeys a
//! reload.

use std::time::{Duration, Instant};

use pg_once_tests::hang::{self, Signal};
use pg_once_tests::wait;

use crate::scene::{
    is_there, launcher, lines, lose_a_day, maintained, preloaded, processes, served, sleeper,
    slow_down,
};

#[test]
fn every_database_with_the_extension_is_maintained_and_others_are_left_alone() {
    let cluster = preloaded().start();
    let mut first = served(&cluster, "first");
    let mut second = served(&cluster, "Second one");
    maintained(&mut first);
    maintained(&mut second);
    // A third, made while the launcher runs, has its turn without anybody doing anything.
    let mut third = served(&cluster, "third");
    maintained(&mut third);
    assert_eq!(lines(&cluster.log(), "pg_once").join("\n"), "");
}

#[test]
fn days_that_are_over_are_dropped_by_the_launcher() {
    // Its one claim is of long ago: by default that is a store whose consumers are away, and kept.
    let cluster = preloaded().set("autovacuum", "off").set("pg_once.away_days", "0").start();
    let mut session = served(&cluster, "app");
    session.run("SELECT once.claim_once('old', store => 's')");
    // Today's leaf becomes one of long ago, with what was promised for it.
    session.run(
        "DO $$ DECLARE today regclass; BEGIN
             SELECT leaf::regclass INTO today FROM (SELECT 'once.' || leaf AS leaf FROM once.partitions
                 WHERE store = 's' AND state = 'current') l;
             EXECUTE format('ALTER TABLE once.s DETACH PARTITION %s', today);
             EXECUTE format('UPDATE %s SET claimed_at = ''2001-02-03 04:05Z'', expires_at = ''2001-02-04Z''', today);
             EXECUTE format('ALTER TABLE once.s ATTACH PARTITION %s
                 FOR VALUES FROM (''2001-02-03 00:00Z'') TO (''2001-02-04 00:00Z'')', today);
             UPDATE once.leaf_promise SET keep_until = '2001-02-11Z' WHERE leaf = today;
             EXECUTE format('ALTER TABLE %s RENAME TO long_ago', today);
         END $$",
    );
    wait::until("the day of long ago is dropped", || !is_there(&mut session, "long_ago"));
    // And today's is there again, by the same process.
    wait::until("today has a leaf", || {
        session.get::<i64>("SELECT count(*) FROM once.partitions WHERE state = 'current'") == 1
    });
    // What it did to the catalog's tables is known to the statistics without anybody else's help.
    wait::until("the statistics know of it", || {
        session.get::<bool>(
            "SELECT n_tup_del > 0 FROM pg_stat_user_tables WHERE relid = 'once.leaf_promise'::regclass",
        )
    });
}

#[test]
fn pg_stat_activity_shows_what_launcher_and_worker_do() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    slow_down(&mut session);
    let pass = sleeper(&mut session);
    let shown = |session: &mut pg_once_tests::session::Session, kind: &str| -> String {
        session.get_with(
            "SELECT concat_ws(' | ', coalesce(datname, '-'), application_name, state, query)
               FROM pg_stat_activity WHERE backend_type = $1",
            &[&kind],
        )
    };
    assert_eq!(
        shown(&mut session, "pg_once launcher"),
        "- | pg_once launcher | active | maintaining database app"
    );
    assert_eq!(
        shown(&mut session, "pg_once worker"),
        "app | pg_once worker | active | one pass over the stores"
    );
    session.run("DROP EVENT TRIGGER slow");
    session.run(&format!("SELECT pg_terminate_backend({pass})"));
    wait::until("the launcher rests", || {
        shown(&mut session, "pg_once launcher")
            == "- | pg_once launcher | idle | waiting for the next round"
    });
}

#[test]
fn a_reload_changes_the_interval_at_once_both_ways() {
    let cluster = preloaded().set("pg_once.maintenance_interval", "1d").start();
    let mut session = served(&cluster, "app");
    launcher(&mut session);
    wait::until("the first round is over", || {
        session.get::<bool>(
            "SELECT state = 'idle' FROM pg_stat_activity WHERE backend_type = 'pg_once launcher'",
        )
    });
    let leaf = lose_a_day(&mut session);
    assert!(!wait::poll(Duration::from_secs(3), || is_there(&mut session, &leaf)), "a day is long");
    session.run("ALTER SYSTEM SET pg_once.maintenance_interval = '1s'");
    session.run("SELECT pg_reload_conf()");
    wait::until("a lost day is made again", || is_there(&mut session, &leaf));
    // 0 stops the rounds, and the launcher stays.
    session.run("ALTER SYSTEM SET pg_once.maintenance_interval = 0");
    session.run("SELECT pg_reload_conf()");
    let launcher = launcher(&mut session);
    wait::until("the launcher rests", || {
        session.get::<bool>(
            "SELECT state = 'idle' FROM pg_stat_activity WHERE backend_type = 'pg_once launcher'",
        )
    });
    let leaf = lose_a_day(&mut session);
    assert!(!wait::poll(Duration::from_secs(3), || is_there(&mut session, &leaf)), "0 means never");
    assert!(hang::alive(launcher));
    session.run("ALTER SYSTEM RESET pg_once.maintenance_interval");
    session.run("ALTER SYSTEM SET pg_once.maintenance_interval = '1s'");
    session.run("SELECT pg_reload_conf()");
    wait::until("a lost day is made again", || is_there(&mut session, &leaf));
    assert_eq!(processes(&mut session, "pg_once launcher"), [launcher], "the same process");
}

#[test]
fn a_storm_of_signals_makes_nobody_work_more_often_than_the_interval_says() {
    let cluster = preloaded()
        .set("pg_once.maintenance_interval", "2s")
        .set("pg_once.databases", "app")
        .set("log_min_messages", "debug1")
        .start();
    let mut session = served(&cluster, "app");
    maintained(&mut session);
    let launcher = launcher(&mut session);
    let started =
        || lines(&cluster.log(), "starting background worker process \"pg_once worker\"").len();
    let (before, began) = (started(), Instant::now());
    let mut signals = 0;
    while began.elapsed() < Duration::from_secs(9) {
        hang::signal(launcher, Signal::HUP);
        hang::signal(launcher, Signal::USR1);
        signals += 2;
        std::thread::sleep(Duration::from_millis(10));
    }
    let passes = started() - before;
    // 9 s have room for five pauses of 2 s, the one under way included, and for three whole ones even on a
    // machine that is late each time.
    assert!((2..=5).contains(&passes), "{passes} passes in 9 s and {signals} signals");
    assert!(hang::alive(launcher), "the launcher is not there any more");
    maintained(&mut session);
}

#[test]
fn the_memory_of_the_launcher_does_not_grow_from_round_to_round() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    let launcher = launcher(&mut session);
    let mut used = |rounds: usize| -> u64 {
        for _ in 0..rounds {
            maintained(&mut session);
        }
        let before = lines(&cluster.log(), "Grand total").len();
        session.run(&format!("SELECT pg_log_backend_memory_contexts({launcher})"));
        wait::until("it says what it uses", || lines(&cluster.log(), "Grand total").len() > before);
        let log = cluster.log();
        let line = lines(&log, "Grand total").last().copied().expect("just seen").to_owned();
        let used = line.split("; ").last().and_then(|part| part.split_whitespace().nth_back(1));
        used.and_then(|used| used.parse().ok()).unwrap_or_else(|| panic!("no number in {line}"))
    };
    let few = used(3);
    let many = used(12);
    eprintln!("{few} bytes after 3 rounds, {many} after 15");
    // One allocation forgotten in each visit to one of two databases would be 576 bytes.
    assert!(many < few + 200, "{few} bytes after 3 rounds, {many} after 15");
}
