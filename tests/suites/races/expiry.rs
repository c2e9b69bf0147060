//! The end of a window: the key is free again, for exactly one, in today's leaf and in an older one.

use std::time::{Duration, Instant};

use pg_once_tests::clock;
use pg_once_tests::race;
use pg_once_tests::shared::{clocked, database};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[test]
fn the_window_is_fixed_and_not_extended_by_duplicates() {
    let cluster = clocked();
    let db = cluster.database();
    let start = clock::Instant::midnight(2021, 5, 5).plus(36_000.0);
    cluster.clock().set(start);
    let mut s = db.session();
    s.load();
    // A ttl of 10 s, asked every 6 s; the clock is set, so a slow machine changes nothing.
    let mut answers = Vec::new();
    for step in 0..5 {
        cluster.clock().set(start.plus(60.0 + 6.0 * f64::from(step)));
        answers.push(s.get::<bool>("SELECT once.claim_once('k', '10 seconds')"));
    }
    assert_eq!(answers, [true, false, true, false, true]);
    assert_eq!(s.leaves_of("k"), ["processed_events_20210505"], "today's leaf keeps one row a key");
}

#[test]
fn sixteen_claimers_of_an_expired_key_of_today_give_one_true_and_the_old_row_is_replaced() {
    let cluster = clocked();
    let db = cluster.database();
    let start = clock::Instant::midnight(2021, 5, 6).plus(3_600.0);
    cluster.clock().set(start);
    let mut sessions = db.sessions(16);
    sessions[0].load();
    for round in 0..10 {
        cluster.clock().set(start.plus(7_200.0 * f64::from(round)));
        for key in ["single", "batch", "rolled back"] {
            let answers = race::all(&mut sessions, |_, s| match key {
                "single" => s.claim(key),
                "batch" => s.claim_many(&["a", key, "z"])[1].1,
                _ => {
                    s.run("BEGIN");
                    let claimed = s.claim(key);
                    s.run("ROLLBACK");
                    claimed
                }
            });
            let expected = if key == "rolled back" { 16 } else { 1 };
            assert_eq!(race::trues(&answers), expected, "{key}, round {round}");
        }
        assert!(sessions[1].claim("rolled back"), "nobody kept it");
    }
    let s = &mut sessions[0];
    for key in ["single", "batch", "rolled back"] {
        assert_eq!(s.leaves_of(key), ["processed_events_20210506"], "{key}");
    }
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
    s.verify("once.processed_events", cluster.server().ships("amcheck"));
}

#[test]
fn sixteen_claimers_of_a_key_that_expired_in_an_older_leaf_give_one_true() {
    let cluster = clocked();
    let db = cluster.database();
    let start = clock::Instant::midnight(2021, 6, 1).plus(3_600.0);
    cluster.clock().set(start);
    let mut sessions = db.sessions(16);
    sessions[0].load();
    for day in 0..6 {
        cluster.clock().set(start.days(day));
        sessions[0].run("CALL once.maintain()");
        let answers = race::all(&mut sessions, |number, s| {
            if number % 2 == 0 { s.claim("k") } else { s.claim_many(&["k"])[0].1 }
        });
        assert_eq!(race::trues(&answers), 1, "day {day}");
    }
    let leaves = sessions[0].leaves_of("k");
    assert_eq!(leaves.len(), 6, "the old row stays in its older leaf: {leaves:?}");
    assert_eq!(sessions[0].overlapping("once.processed_events"), [""; 0]);
}

#[test]
fn a_claim_of_three_days_ago_still_refuses_and_after_its_window_it_does_not() {
    let cluster = clocked();
    let db = cluster.database();
    let start = clock::Instant::midnight(2021, 7, 1).plus(40_000.0);
    cluster.clock().set(start);
    let mut s = db.session();
    assert!(s.get::<bool>("SELECT once.claim_once('k', '7 days')"));
    for day in 1..7 {
        cluster.clock().set(start.days(day));
        assert!(!s.get::<bool>("SELECT once.claim_once('k', '7 days')"), "day {day}");
        assert!(!s.claim_many(&["k"])[0].1, "day {day}");
        assert_eq!(s.get::<i64>("SELECT count(*) FROM once.lookup('k')"), 1);
        s.run("CALL once.maintain()");
    }
    cluster.clock().set(start.days(7).plus(5.0));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.lookup('k')"), 0);
    assert!(s.get::<bool>("SELECT once.claim_once('k', '7 days')"));
    assert!(!s.get::<bool>("SELECT once.claim_once('k', '7 days')"));
}

#[test]
fn windows_of_milliseconds_under_sixteen_sessions_never_overlap() {
    let db = database();
    let mut sessions = db.sessions(16);
    sessions[0].load();
    sessions[0].run("CREATE TABLE wins (key text, claimed_at timestamptz, expires_at timestamptz)");
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let end = Instant::now() + Duration::from_secs(5);
    let maintenance = db.session().background(move |s| {
        while Instant::now() < end {
            s.run("CALL once.maintain()");
            s.run("VACUUM once.processed_events");
        }
    });
    race::all(&mut sessions, |number, s| {
        let mut random = StdRng::seed_from_u64(seed ^ number as u64);
        while Instant::now() < end {
            let (key, ms) = (random.random_range(0..5), random.random_range(1..60));
            s.run("BEGIN");
            let won: i64 = s.get(&format!(
                "WITH c AS MATERIALIZED (SELECT * FROM once.claim('k{key}', '{ms} milliseconds')),
                      w AS (INSERT INTO wins SELECT 'k{key}', claimed_at, expires_at FROM c
                             WHERE outcome = 'claimed' RETURNING 1)
                 SELECT count(*) FROM w"
            ));
            if won == 1 {
                let there: bool = s.get(&format!(
                    "SELECT count(*) > 0 AND count(*) = count(DISTINCT tableoid)
                       FROM once.processed_events WHERE key = 'k{key}'"
                ));
                assert!(
                    there,
                    "a true has its row, and the row before it in the same leaf is gone"
                );
            }
            s.run(if random.random_bool(0.3) { "ROLLBACK" } else { "COMMIT" });
        }
    });
    maintenance.join();
    let s = &mut sessions[0];
    let wins: i64 = s.get("SELECT count(*) FROM wins");
    println!("{wins} windows");
    assert!(wins > 100, "{wins} windows are too few to prove anything");
    let overlapping: Vec<String> = s.column(
        "SELECT key || ' ' || claimed_at || ' before ' || before FROM (
             SELECT key, claimed_at, lag(expires_at) OVER (PARTITION BY key ORDER BY claimed_at) AS before
               FROM wins) w WHERE claimed_at < before",
    );
    assert_eq!(overlapping, [""; 0], "seed {seed}");
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn windows_never_overlap_while_days_are_made_and_dropped_under_them() {
    let cluster = clocked();
    let db = cluster.database();
    let start = clock::Instant::midnight(2020, 7, 1);
    cluster.clock().set(start);
    let mut sessions = db.sessions(10);
    sessions[0].run("SELECT once.create_store('processed_events', retention => '2 hours')");
    sessions[0].run("CREATE TABLE wins (key text, claimed_at timestamptz, expires_at timestamptz)");
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let clock = cluster.clock();
    // Four days, however fast the machine is, and never without end.
    let (least, most) =
        (Instant::now() + Duration::from_secs(4), Instant::now() + Duration::from_secs(40));
    let goes_on = || {
        let now = Instant::now();
        now < least || clock.now() < start.days(4) && now < most
    };
    race::all(&mut sessions, |number, s| {
        let mut random = StdRng::seed_from_u64(seed ^ number as u64);
        while goes_on() {
            match number {
                // Half an hour every few milliseconds: a day passes in a fraction of a second.
                0 => {
                    clock.step(1_800.0);
                    s.run("SELECT pg_sleep(0.005)");
                }
                1 => s.run("CALL once.maintain()"),
                _ => {
                    let (key, minutes) = (random.random_range(0..5), random.random_range(1..=120));
                    s.run("BEGIN");
                    s.run(&format!(
                        "INSERT INTO wins SELECT 'k{key}', claimed_at, expires_at
                           FROM once.claim('k{key}', '{minutes} minutes') WHERE outcome = 'claimed'"
                    ));
                    s.run(if random.random_bool(0.3) { "ROLLBACK" } else { "COMMIT" });
                }
            }
        }
    });
    let s = &mut sessions[1];
    let days: f64 = (clock.now().0 - start.0) / 86_400.0;
    let wins: i64 = s.get("SELECT count(*) FROM wins");
    println!("{wins} windows in {days:.0} days");
    assert!(wins > 50 && days > 3.0, "{wins} windows in {days} days prove little");
    let overlapping: Vec<String> = s.column(
        "SELECT concat_ws(' ', key, claimed_at, 'before', before) FROM (
             SELECT key, claimed_at, lag(expires_at) OVER (PARTITION BY key ORDER BY claimed_at) AS before
               FROM wins) w WHERE claimed_at < before",
    );
    assert_eq!(overlapping, [""; 0], "seed {seed}");
    s.run("CALL once.maintain()");
    assert!(s.days_of("once.processed_events").len() <= 7, "the days that are over are gone");
}
