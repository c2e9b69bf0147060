//! A default partition that somebody attached, with rows of a day that is not there: the day is made and its rows
//! are in it, keys stay claimed on the way, and what stands in the way holds up nobody else.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use pg_once_tests::database::Database;
use pg_once_tests::hang::{self, Signal};
use pg_once_tests::race::{self, End};
use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::wait;

/// A store with today and tomorrow alone, a default partition and two neighbours.
fn store(db: &Database<'_>) -> Session {
    let mut s = db.session();
    s.run("SET pg_once.precreate_days = 1; SELECT once.create_store('processed_events', retry_horizon => '2 days')");
    s.run("SELECT once.create_store('zebra', retry_horizon => '2 days')");
    s.run("CREATE TABLE once.rest PARTITION OF once.processed_events (PRIMARY KEY (key, effect)) DEFAULT");
    s
}

/// Rows of a day to come, written by hand; an expired one among them.
fn rows_ahead(s: &mut Session, days: i32, prefix: &str, count: i32) {
    s.run(&format!(
        "INSERT INTO once.processed_events (claimed_at, expires_at, key, result)
         SELECT d, d + interval '1 day', '{prefix}' || g, '{{}}'
           FROM generate_series(1, {count}) g,
                (SELECT ((now() AT TIME ZONE 'UTC')::date + {days} + time '11:00') AT TIME ZONE 'UTC' AS d) d"
    ));
}

fn left(s: &mut Session) -> i64 {
    s.get("SELECT count(*) FROM once.rest")
}

/// What a pass says that makes so many days ahead.
fn pass(db: &Database<'_>, ahead: i32) -> String {
    let mut psql = db.cluster().client("psql");
    psql.args(["-X", "-d", db.name(), "-c"])
        .arg(format!("SET pg_once.precreate_days = {ahead}"))
        .args(["-c", "CALL once.maintain()"]);
    let output = psql.output().expect("psql runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn rows_of_days_to_come_move_into_their_leaves_and_others_stay() {
    let db = database();
    let mut s = store(&db);
    s.run("ALTER TABLE once.processed_events ADD COLUMN size integer GENERATED ALWAYS AS (length(key)) STORED, ADD COLUMN note text DEFAULT 'none'");
    rows_ahead(&mut s, 2, "one", 1);
    rows_ahead(&mut s, 3, "two", 2);
    rows_ahead(&mut s, 40, "far", 1);
    rows_ahead(&mut s, -9, "past", 1);
    s.run("UPDATE once.rest SET note = 'kept' WHERE key LIKE 'two%'");
    let steps = pass(&db, 3);
    assert!(steps.contains(", with 1 claim of the default partition"), "{steps}");
    assert!(steps.contains(", with 2 claims of the default partition"), "{steps}");
    assert!(!steps.contains("WARNING"), "{steps}");
    assert_eq!(left(&mut s), 2, "of days that no leaf is made for");
    for key in ["one1", "two1", "two2", "far1"] {
        assert!(!s.claim(key), "{key}");
        let known: i64 = s.get_with("SELECT count(*) FROM once.lookup($1)", &[&key]);
        assert_eq!(known, 1, "{key}");
    }
    assert_eq!(s.leaves_of("two1")[0], s.leaves_of("two2")[0]);
    assert_ne!(s.leaves_of("one1"), ["rest"]);
    let whole: Vec<String> = s.column(
        "SELECT key || size || note || result FROM once.processed_events WHERE key LIKE 'two%' ORDER BY 1",
    );
    assert_eq!(whole, ["two14kept{}", "two24kept{}"]);
    let log: Vec<i64> = s.column("SELECT rows FROM once.maintenance_log WHERE detail = 'with claims that were in the default partition' ORDER BY day");
    assert_eq!(log, [1, 2]);
    let tables: i64 =
        s.get("SELECT count(*) FROM pg_class WHERE relnamespace = 'once'::regnamespace AND relpersistence = 'u'");
    assert_eq!(tables, 0, "nothing is left of the way");
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
    s.verify("once.processed_events", false);
}

#[test]
fn keys_stay_claimed_while_their_rows_move() {
    let db = database();
    let mut sessions = db.sessions(6);
    let mut s = store(&db);
    let keys = 40;
    let lookups = AtomicUsize::new(0);
    for round in 2..=30 {
        rows_ahead(&mut s, round, &format!("r{round}-"), keys);
        let over = AtomicBool::new(false);
        race::all(&mut sessions, |number, s| match number {
            0 => {
                let _end = End(&over);
                s.run(&format!("SET pg_once.precreate_days = {round}"));
                s.run("CALL once.maintain()");
            }
            1 => {
                let all: Vec<String> = (1..=keys).map(|g| format!("r{round}-{g}")).collect();
                let all: Vec<&str> = all.iter().map(String::as_str).collect();
                while !over.load(SeqCst) {
                    assert!(s.claim_many(&all).iter().all(|(_, claimed)| !claimed), "{round}");
                }
            }
            2 => {
                while !over.load(SeqCst) {
                    let found: i64 =
                        s.get(&format!("SELECT count(*) FROM once.lookup('r{round}-{keys}')"));
                    assert_eq!(found, 1, "round {round}: a look-up missed a live claim");
                    lookups.fetch_add(1, SeqCst);
                }
            }
            _ => {
                for n in 0.. {
                    if over.load(SeqCst) {
                        break;
                    }
                    let key = format!("r{round}-{}", n % keys + 1);
                    assert!(!s.claim(&key), "round {round}: {key} was claimed twice");
                }
            }
        });
        assert_eq!(left(&mut s), 0, "round {round}");
    }
    println!("{lookups:?} look-ups");
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
}

#[test]
fn a_default_partition_in_use_delays_the_day_and_no_claim_and_the_log_names_the_session() {
    let db = database();
    let mut s = store(&db);
    rows_ahead(&mut s, 2, "k", 3);
    let mut reader = db.session();
    reader.run("BEGIN; SELECT count(*) FROM once.rest");
    let over = AtomicBool::new(false);
    let slowest = std::thread::scope(|scope| {
        let claims = scope.spawn(|| {
            let mut s = db.session();
            s.run("SET lock_timeout = '1s'");
            let (mut n, mut slowest) = (0, Duration::ZERO);
            while !over.load(SeqCst) {
                let asked = std::time::Instant::now();
                assert!(s.claim(&format!("new{n}")) && !s.claim("k1"));
                slowest = slowest.max(asked.elapsed());
                n += 1;
            }
            assert!(n > 20, "{n}");
            slowest
        });
        let steps = {
            let _end = End(&over);
            pass(&db, 3)
        };
        let said = format!("the default partition is in use by backend {}", reader.pid());
        assert!(steps.contains(&said), "{steps}");
        claims.join().expect("no claim failed")
    });
    println!("the slowest two claims beside it took {slowest:?}");
    let days: Vec<i32> = s.column("SELECT days FROM once.stores ORDER BY store");
    assert_eq!(days, [3, 4], "the neighbour has its days");
    let log: Vec<String> = s.column(
        "SELECT detail FROM once.maintenance_log WHERE action = 'postpone' AND day = (now() AT TIME ZONE 'UTC')::date + 2",
    );
    assert_eq!(log, [format!("the default partition is in use by backend {}", reader.pid())]);
    reader.run("COMMIT");
    pass(&db, 3);
    assert_eq!(left(&mut s), 0);
    assert!(!s.claim("k1"));
    let days: Vec<i32> = s.column("SELECT days FROM once.stores ORDER BY store");
    assert_eq!(days, [5, 4], "and the default partition");
}

#[test]
fn a_default_partition_of_another_owner_is_emptied_by_the_stores_owner() {
    let db = database();
    let owner = db.role("owner");
    let mut admin = db.session();
    admin.run(&format!("GRANT USAGE, CREATE ON SCHEMA once TO {owner}"));
    admin.run(&format!("ALTER ROLE {owner} SET pg_once.precreate_days = 1"));
    let mut s = db.session_of(&owner);
    s.run("SELECT once.create_store('processed_events')");
    admin.run(&format!("ALTER ROLE {owner} SET pg_once.precreate_days = 2"));
    admin.run("CREATE TABLE once.rest PARTITION OF once.processed_events (PRIMARY KEY (key, effect)) DEFAULT");
    admin.run(&format!("REVOKE CREATE ON SCHEMA once FROM {owner}"));
    rows_ahead(&mut admin, 2, "k", 2);
    let mut psql = db.cluster().client("psql");
    let output = psql
        .args(["-X", "-d", db.name(), "-U", &owner, "-c", "CALL once.maintain()"])
        .output()
        .expect("psql runs");
    let steps = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(steps.contains("with 2 claims of the default partition"), "{steps}");
    assert_eq!(left(&mut admin), 0);
    assert!(!s.claim("k1") && !s.claim("k2"));
    let of: String = admin.get("SELECT DISTINCT tableowner::text FROM pg_tables WHERE schemaname = 'once' AND tablename LIKE 'processed_events%'");
    assert_eq!(of, owner);
}

#[test]
fn a_trigger_that_swallows_a_row_on_its_way_stops_the_move_and_loses_nothing() {
    let db = database();
    let mut s = store(&db);
    rows_ahead(&mut s, 2, "k", 3);
    s.run(
        "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN IF new.key = 'k2' THEN RETURN NULL; END IF; RETURN new; END $$",
    );
    s.run("CREATE TRIGGER swallow BEFORE INSERT ON once.processed_events FOR EACH ROW EXECUTE FUNCTION swallow()");
    let steps = pass(&db, 2);
    assert!(steps.contains("swallowed or altered the claim"), "{steps}");
    assert_eq!(left(&mut s), 3);
    assert!((1..=3).all(|g| !s.claim(&format!("k{g}"))));
    s.run("DROP TRIGGER swallow ON once.processed_events");
    pass(&db, 2);
    assert_eq!(left(&mut s), 0);
}

#[test]
fn who_waits_for_the_default_partition_finds_the_key_where_it_went() {
    let db = database();
    let mut s = store(&db);
    rows_ahead(&mut s, 2, "k", 1);
    // As a pass does it, and held open in the middle.
    let mut dba = db.session();
    let leaf = "CREATE TABLE once.moved (LIKE once.processed_events INCLUDING ALL, PRIMARY KEY (key, effect));
         ALTER TABLE once.processed_events ATTACH PARTITION once.moved FOR VALUES FROM (%L) TO (%L)";
    dba.run("BEGIN; LOCK TABLE ONLY once.processed_events IN SHARE UPDATE EXCLUSIVE MODE; LOCK TABLE once.rest");
    dba.run("CREATE TEMP TABLE aside AS SELECT * FROM once.rest; DELETE FROM once.rest");
    dba.run(&format!(
        "DO $do$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date + 2; BEGIN EXECUTE format($f${leaf}$f$, \
         d::timestamp AT TIME ZONE 'UTC', (d + 1)::timestamp AT TIME ZONE 'UTC'); END $do$"
    ));
    dba.run("INSERT INTO once.moved SELECT * FROM aside");
    let claim = db.session().background(|s| s.claim("k1"));
    let lookup =
        db.session().background(|s| s.get::<i64>("SELECT count(*) FROM once.lookup('k1')"));
    wait::blocked(&mut s, claim.pid());
    wait::blocked(&mut s, lookup.pid());
    dba.run("COMMIT");
    assert!(!claim.join().1);
    assert_eq!(lookup.join().1, 1, "its snapshot shows the row where it was");
}

#[test]
fn a_claimer_that_stands_still_at_any_point_of_its_search_finds_a_key_that_moves_meanwhile() {
    let db = database();
    let mut s = store(&db);
    rows_ahead(&mut s, 2, "k", 1);
    s.run("CREATE TABLE once.moved (LIKE once.processed_events INCLUDING ALL, PRIMARY KEY (key, effect));
           CREATE TABLE stop (); CREATE TEMP TABLE aside (LIKE once.processed_events); SET lock_timeout = '20ms'");
    let bounds: String = s.get(
        "SELECT format('FOR VALUES FROM (%L) TO (%L)', d AT TIME ZONE 'UTC', (d + '1 day') AT TIME ZONE 'UTC')
           FROM (SELECT ((now() AT TIME ZONE 'UTC')::date + 2)::timestamp AS d) d",
    );
    let there = format!(
        "BEGIN; LOCK TABLE ONLY once.processed_events IN SHARE UPDATE EXCLUSIVE MODE; LOCK TABLE once.rest;
         WITH gone AS (DELETE FROM once.rest RETURNING *) INSERT INTO aside SELECT * FROM gone;
         ALTER TABLE once.processed_events ATTACH PARTITION once.moved {bounds};
         WITH gone AS (DELETE FROM aside RETURNING *) INSERT INTO once.moved SELECT * FROM gone; COMMIT"
    );
    let back = "BEGIN; ALTER TABLE once.processed_events DETACH PARTITION once.moved;
         WITH gone AS (DELETE FROM once.moved RETURNING *) INSERT INTO once.processed_events SELECT * FROM gone; COMMIT";
    let one = "once.claim_once('k1')";
    let many = "(SELECT bool_or(claimed) FROM once.claim_many(ARRAY['k1', 'k1-', 'k1+']) WHERE key = 'k1')";
    let claimers = [one, many].map(|claim| {
        db.session().background(move |s| {
            s.try_run(&format!(
                "DO $$ BEGIN WHILE to_regclass('stop') IS NOT NULL LOOP FOR n IN 1..100 LOOP
                 IF {claim} THEN RAISE 'claimed twice'; END IF; END LOOP; COMMIT; END LOOP; END $$"
            ))
        })
    });
    let (mut moves, mut is_there) = (0, false);
    for _ in 0..400 {
        for claimer in &claimers {
            hang::signal(claimer.pid(), Signal::STOP);
        }
        // A claimer may stand still with something that the move needs: not for long.
        let moved = std::thread::scope(|scope| {
            let moving = scope.spawn(|| s.try_run(if is_there { back } else { &there }));
            wait::poll(Duration::from_millis(50), || moving.is_finished());
            for claimer in &claimers {
                hang::signal(claimer.pid(), Signal::CONT);
            }
            moving.join().expect("a statement never panics")
        });
        match moved {
            Ok(()) => {
                moves += 1;
                is_there = !is_there;
            }
            // A claimer stands in the middle of a leaf.
            Err(failure) => {
                assert_eq!(failure.code, "55P03", "{failure}");
                s.run("ROLLBACK");
            }
        }
    }
    s.run("RESET lock_timeout; DROP TABLE stop");
    println!("{moves} moves");
    for claimer in claimers {
        let (_, ended) = claimer.join();
        assert!(ended.is_ok(), "{ended:?}");
    }
    assert!(moves > 50, "{moves}");
}
