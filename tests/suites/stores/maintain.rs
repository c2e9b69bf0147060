//! `CALL once.maintain()`: makes days ahead, drops days that are over, and never stops a claim.

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, database};
use pg_once_tests::wait;

/// Days of the default store as offsets from the day of an instant.
fn days_from(s: &mut Session, origin: Instant) -> Vec<i64> {
    let day = |at: f64| (at / 86_400.0).floor() as i64;
    let days = s.days_of("once.processed_events");
    days.iter().map(|leaf| day(leaf.from) - day(origin.0)).collect()
}

#[test]
fn a_month_of_daily_maintenance_keeps_every_live_claim_and_no_day_too_many() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2017, 2, 10);
    cluster.clock().set(origin.plus(100.0));
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', retention => '4 days')");
    for day in 0..30 {
        // Late in the day, so that each claim outlives its day by nearly its whole window.
        cluster.clock().set(origin.days(day).plus(86_000.0));
        assert!(s.get::<bool>(&format!("SELECT once.claim_once('k{day}')")), "day {day}");
        s.run("CALL once.maintain()");
        for age in 1..=day.min(3) {
            assert!(!s.claim(&format!("k{}", day - age)), "day {day}, {age} days old");
        }
        let days = days_from(&mut s, origin);
        // Kept: the last 4 full days, yesterday's promise, today, three ahead.
        let oldest = (day - 4).max(0);
        assert_eq!(days, (oldest..=day + 3).collect::<Vec<_>>(), "day {day}");
    }
    let state: Vec<String> = s.column("SELECT DISTINCT state FROM once.partitions ORDER BY 1");
    assert_eq!(state, ["current", "future", "sealed"]);
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM once.leaf_promise"),
        8,
        "no promise without its leaf"
    );
}

#[test]
fn a_day_is_due_when_everything_in_it_has_expired_and_not_before() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2017, 5, 1);
    cluster.clock().set(origin.plus(86_390.0));
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', retention => '2 days')");
    assert!(s.get::<bool>("SELECT once.claim_once('k')"));
    // The last moment of the day plus the retention.
    for (seconds, due, kept) in
        [(2.0 * 86_400.0 + 86_395.0, false, true), (3.0 * 86_400.0 + 1.0, true, false)]
    {
        cluster.clock().set(origin.plus(seconds));
        let state: String = s.get("SELECT state FROM once.partitions ORDER BY day LIMIT 1");
        assert_eq!(state == "due", due, "{seconds}: {state}");
        s.run("CALL once.maintain()");
        assert_eq!(days_from(&mut s, origin).contains(&0), kept, "{seconds}");
    }
}

#[test]
fn a_shorter_retention_drops_no_claim_before_the_expiry_it_was_given() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2017, 6, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', retention => '7 days')");
    assert!(s.get::<bool>("SELECT once.claim_once('k', '6 days')"));
    s.run("SELECT once.alter_store('processed_events', retention => '1 day')");
    for day in 1..6 {
        cluster.clock().set(noon.days(day));
        s.run("CALL once.maintain()");
        assert!(!s.get::<bool>("SELECT once.claim_once('k', '1 day')"), "day {day}");
    }
    cluster.clock().set(noon.days(6).plus(1.0));
    assert!(s.get::<bool>("SELECT once.claim_once('k', '1 day')"));
}

#[test]
fn a_leaf_with_a_claim_that_outlives_its_promise_is_kept() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2017, 7, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', retention => '1 day')");
    s.claim("load");
    s.run(
        "INSERT INTO once.processed_events (claimed_at, expires_at, key)
         VALUES (clock_timestamp(), clock_timestamp() + interval '10 days', 'by hand')",
    );
    for day in 1..10 {
        cluster.clock().set(noon.days(day));
        s.run("CALL once.maintain()");
        assert!(days_from(&mut s, noon).contains(&0), "day {day}: the leaf is still there");
    }
    cluster.clock().set(noon.days(11));
    s.run("CALL once.maintain()");
    assert_eq!(days_from(&mut s, noon)[0], 10, "and goes when nothing in it lives");
}

#[test]
fn a_leaf_that_a_dba_attached_is_never_dropped() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2017, 8, 10).plus(43_200.0);
    cluster.clock().set(noon);
    let mut s = db.session();
    s.claim("load");
    s.run(
        "CREATE TABLE once.attic (LIKE once.processed_events INCLUDING ALL, PRIMARY KEY (key, effect));
         ALTER TABLE once.processed_events ATTACH PARTITION once.attic
             FOR VALUES FROM ('2017-07-01 00:00:00+00') TO ('2017-08-01 00:00:00+00')",
    );
    cluster.clock().set(noon.days(200));
    s.run("CALL once.maintain()");
    let leaves: i64 = s.get("SELECT count(*) FROM once.partitions WHERE leaf = 'attic'");
    assert_eq!(leaves, 1, "nobody promised anything for it");
}

#[test]
fn maintenance_does_not_run_inside_a_transaction_block() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("BEGIN");
    assert_eq!(s.fails("CALL once.maintain()").code, "25001");
    s.run("ROLLBACK");
    s.run("CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL once.maintain(); END $$");
    assert_eq!(s.fails("SELECT f()").code, "25001");
    s.run("DO $$ BEGIN CALL once.maintain(); END $$");
}

#[test]
fn a_drop_that_a_long_reader_keeps_away_holds_up_nobody_and_is_made_up_for() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2017, 9, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', retention => '1 day')");
    s.claim("load");
    cluster.clock().set(noon.days(5));
    let mut reader = db.session();
    reader.run("BEGIN; SELECT count(*) FROM once.processed_events");
    let maintenance = db.session().background(|s| s.run("CALL once.maintain()"));
    // Claims, readers and newcomers go on for as long as maintenance tries.
    let (mut claims, mut slowest) = (0, 0.0_f64);
    while !maintenance.done() || claims < 20 {
        let mut s = db.session();
        s.run("SET lock_timeout = '1s'");
        let started = std::time::Instant::now();
        assert!(s.claim(&format!("k{claims}")));
        s.run("SELECT count(*) FROM once.processed_events");
        slowest = slowest.max(started.elapsed().as_secs_f64());
        claims += 1;
    }
    maintenance.join();
    assert!(slowest < 1.0, "a claim and a read took {slowest} s");
    assert!(days_from(&mut s, noon).contains(&0), "the reader kept it");
    reader.run("COMMIT");
    s.run("CALL once.maintain()");
    assert!(!days_from(&mut s, noon).contains(&0));
}

#[test]
fn a_vacuum_in_the_way_neither_fails_maintenance_nor_stops_claims() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2017, 10, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', retention => '1 day')");
    s.claim("load");
    cluster.clock().set(noon.days(4));
    let mut vacuum = db.session();
    // What VACUUM holds on the leaf, for as long as the test likes.
    vacuum.run("BEGIN; LOCK TABLE once.processed_events_20171001 IN SHARE UPDATE EXCLUSIVE MODE");
    s.run("CALL once.maintain()");
    assert!(s.claim("k"));
    assert_eq!(
        days_from(&mut s, noon)[..2],
        [0, 3],
        "the day in use is kept, the others are dropped"
    );
    vacuum.run("COMMIT");
    s.run("CALL once.maintain()");
    assert_eq!(days_from(&mut s, noon)[0], 3);
}

#[test]
fn readers_claims_and_drops_meet_without_a_deadlock() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2016, 1, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut sessions = db.sessions(6);
    sessions[0].run("SELECT once.create_store('processed_events', retention => '1 hour')");
    let day = std::sync::atomic::AtomicI64::new(0);
    let over = std::sync::atomic::AtomicBool::new(false);
    let clock = cluster.clock();
    pg_once_tests::race::all(&mut sessions, |number, s| {
        use std::sync::atomic::Ordering::SeqCst;
        let mut n = 0;
        let begun = std::time::Instant::now();
        // Bounded, should the one that ends it fail.
        while !over.load(SeqCst) && begun.elapsed().as_secs() < 60 {
            match number {
                // One moves the days on and drops, one more drops beside it.
                0 => {
                    clock.set(noon.days(day.fetch_add(1, SeqCst) + 1));
                    s.run("CALL once.maintain()");
                    over.store(n >= 30, SeqCst);
                }
                1 => s.run("CALL once.maintain()"),
                2 => drop(s.get::<i64>("SELECT count(*) FROM once.processed_events")),
                3 => s.run("BEGIN; SELECT count(*) FROM once.processed_events WHERE key = 'x'; SELECT pg_sleep(0.01); COMMIT"),
                _ => assert!(s.claim(&format!("k{number}-{n}"))),
            }
            n += 1;
        }
    });
    let s = &mut sessions[0];
    s.run("CALL once.maintain()");
    let days = s.days_of("once.processed_events").len();
    assert!(days <= 6, "{days} days are left of 30");
}

#[test]
fn an_absurd_row_or_ttl_makes_no_days_without_end() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    assert_eq!(s.fails("SELECT once.claim_once('k', '50000 years')").code, "22023");
    let by_hand = "INSERT INTO once.processed_events (claimed_at, expires_at, key) VALUES ";
    assert_eq!(
        s.fails(&format!("{by_hand} ('9999-12-31', 'infinity', 'far')")).code,
        "23514",
        "no leaf for it"
    );
    s.run(&format!("{by_hand} (clock_timestamp(), '9999-12-31', 'long')"));
    s.run("SET statement_timeout = '10s'");
    let before: i64 = s.get("SELECT count(*) FROM once.partitions");
    s.run("CALL once.maintain()");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.partitions"), before);
    assert!(!s.claim("long"));
}

#[test]
fn maintenance_makes_the_days_ahead_of_every_store_the_caller_owns_and_no_others() {
    let db = database();
    let (a, b) = (db.role("a"), db.role("b"));
    let mut admin = db.session();
    admin.run(&format!("GRANT USAGE, CREATE ON SCHEMA once TO {a}, {b}"));
    db.session_of(&a).run("SELECT once.create_store('of_a')");
    db.session_of(&b).run("SELECT once.create_store('of_b')");
    admin.run("ALTER SYSTEM RESET ALL");
    admin.run(&format!("ALTER ROLE {a} SET pg_once.precreate_days = 6"));
    db.session_of(&a).run("CALL once.maintain()");
    let days =
        |s: &mut Session| -> Vec<i32> { s.column("SELECT days FROM once.stores ORDER BY store") };
    assert_eq!(days(&mut admin), [7, 4]);
    admin.run("SET pg_once.precreate_days = 8");
    admin.run("CALL once.maintain()");
    assert_eq!(days(&mut admin), [9, 9], "a superuser owns them all");
}

#[test]
fn two_runs_at_once_do_no_harm() {
    let db = database();
    let mut sessions = db.sessions(6);
    sessions[0].claim("load");
    for ahead in 4..12 {
        pg_once_tests::race::all(&mut sessions, |number, s| {
            s.run(&format!("SET pg_once.precreate_days = {ahead}"));
            if number < 4 {
                s.run("CALL once.maintain()");
            } else {
                assert!(s.claim(&format!("k{number}-{ahead}")));
            }
        });
        let days = sessions[0].days_of("once.processed_events");
        assert_eq!(days.len(), ahead + 1);
        assert!(days.windows(2).all(|pair| pair[0].to == pair[1].from), "{days:?}");
    }
    wait::until("nothing of ours is left running", || {
        sessions[0].get::<i64>("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pg_once%' AND datname = current_database()") == 0
    });
}

#[test]
fn what_is_known_of_a_store_dropped_by_hand_is_forgotten() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('here'), once.create_store('gone')");
    s.run("DROP TABLE once.gone");
    s.run("CALL once.maintain()");
    for table in ["store_policy", "leaf_promise"] {
        let orphans = format!(
            "SELECT count(*) FROM once.{table} t WHERE NOT EXISTS \
             (SELECT FROM pg_class WHERE oid = t.store)"
        );
        assert_eq!(s.get::<i64>(&orphans), 0, "{table}");
    }
    assert!(s.get::<bool>("SELECT once.claim_once('k', store => 'here')"));
}

#[test]
fn a_pass_by_somebody_who_owns_no_store_says_so() {
    let db = database();
    let (other, mut admin) = (db.role("other"), db.session());
    admin.claim("load");
    admin.run(&format!("GRANT USAGE ON SCHEMA once TO {other}"));
    let said = |role: &str| {
        let mut psql = db.cluster().client("psql");
        psql.args(["-X", "-d", db.name(), "-U", role, "-c", "CALL once.maintain()"]);
        let output = psql.output().expect("psql runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&other).contains("there is no store that the current role owns"));
    // And a step that does something says what.
    admin.run("SET pg_once.precreate_days = 3");
    admin.run(&format!(
        "ALTER ROLE postgres IN DATABASE {} SET pg_once.precreate_days = 5",
        db.name()
    ));
    let steps = said("postgres");
    assert_eq!(steps.matches("NOTICE:  processed_events: made the leaf of").count(), 2, "{steps}");
}
