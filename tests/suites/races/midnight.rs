//! Midnight on a real server clock: two leaves, still one true.

use std::sync::atomic::{AtomicUsize, Ordering};

use pg_once_tests::clock::Instant;
use pg_once_tests::shared::clocked;
use pg_once_tests::{race, wait};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[test]
fn a_claim_after_midnight_waits_for_one_before_it_and_is_refused() {
    let cluster = clocked();
    let db = cluster.database();
    let midnight = Instant::midnight(2021, 3, 1);
    for (key, ending, expected, leaf) in [
        ("commit", "COMMIT", false, "processed_events_20210228"),
        ("rollback", "ROLLBACK", true, "processed_events_20210301"),
    ] {
        cluster.clock().set(midnight.plus(-60.0));
        let (mut first, mut observer) = (db.session(), db.session());
        first.load();
        cluster.clock().set(midnight.plus(-30.0));
        first.run("BEGIN");
        assert!(first.get::<bool>(&format!("SELECT once.claim_once('{key}', '1 day')")));
        cluster.clock().set(midnight.plus(1.0));
        let waiting = db.session().background(move |s| {
            s.get::<bool>(&format!("SELECT once.claim_once('{key}', '1 day')"))
        });
        wait::blocked(&mut observer, waiting.pid());
        first.run(ending);
        assert_eq!(waiting.join().1, expected);
        assert_eq!(observer.leaves_of(key), [leaf], "exactly one live row");
        assert!(!observer.get::<bool>(&format!("SELECT once.claim_once('{key}', '1 day')")));
    }
}

#[test]
fn a_claim_before_midnight_refuses_after_it_for_as_long_as_its_window() {
    let cluster = clocked();
    let db = cluster.database();
    let midnight = Instant::midnight(2022, 1, 1);
    cluster.clock().set(midnight.plus(-30.0));
    let mut s = db.session();
    assert!(s.get::<bool>("SELECT once.claim_once('k', '1 day')"));
    for later in [2.0, 3_600.0, 86_000.0] {
        cluster.clock().set(midnight.plus(later));
        s.run("CALL once.maintain()");
        assert!(!s.get::<bool>("SELECT once.claim_once('k', '1 day')"), "{later} s after midnight");
    }
    assert_eq!(s.leaves_of("k"), ["processed_events_20211231"]);
    cluster.clock().set(midnight.plus(86_401.0));
    assert!(s.get::<bool>("SELECT once.claim_once('k', '1 day')"), "the window is over");
    assert!(!s.get::<bool>("SELECT once.claim_once('k', '1 day')"));
    assert_eq!(s.leaves_of("k"), ["processed_events_20211231", "processed_events_20220102"]);
}

#[test]
fn a_clock_that_steps_back_over_midnight_still_refuses() {
    let cluster = clocked();
    let db = cluster.database();
    let midnight = Instant::midnight(2021, 8, 10);
    cluster.clock().set(midnight.plus(5.0));
    let (mut s, mut observer) = (db.session(), db.session());
    assert!(s.claim("k"));
    assert!(s.claim_many(&["m"])[0].1);
    let mut open = db.session();
    open.run("BEGIN");
    assert!(open.claim("in flight"));
    cluster.clock().set(midnight.plus(-10.0));
    for s in [&mut s, &mut db.session()] {
        assert!(!s.claim("k"));
        assert!(!s.claim("m"));
        assert_eq!(s.claim_many(&["k", "m"]), [("k".to_owned(), false), ("m".to_owned(), false)]);
        assert_eq!(s.get::<i64>("SELECT count(*) FROM once.lookup('k')"), 1);
        assert_eq!(
            s.get::<String>("SELECT outcome::text FROM once.claim('in flight', wait => false)"),
            "in_progress"
        );
    }
    let waiting = db.session().background(|s| s.claim("in flight"));
    wait::blocked(&mut observer, waiting.pid());
    open.run("COMMIT");
    assert!(!waiting.join().1);
    assert!(s.claim("new"), "and new keys go on, in the leaf of the day before");
    assert_eq!(s.leaves_of("new"), ["processed_events_20210809"]);
    assert_eq!(s.leaves_of("k"), ["processed_events_20210810"]);
    cluster.clock().set(midnight.plus(10.0));
    assert!(!s.claim("new") && !s.claim("k") && !s.claim("in flight"));
    // A bigger step back: three days.
    cluster.clock().set(midnight.days(-3));
    assert!(!s.claim("k"), "days ahead of the clock are looked into as well");
}

#[test]
fn sixteen_sessions_across_five_midnights_give_every_key_to_one() {
    let cluster = clocked();
    let db = cluster.database();
    let mut sessions = db.sessions(16);
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let first = Instant::midnight(2023, 2, 26);
    cluster.clock().set(first.plus(-3_600.0));
    sessions[0].load();
    sessions[0].run("CREATE TABLE wins (key text)");
    for night in 0..5 {
        let midnight = first.days(night);
        cluster.clock().set(midnight.plus(-1.0));
        let next = AtomicUsize::new(0);
        race::all(&mut sessions, |number, s| {
            let mut random = StdRng::seed_from_u64(seed ^ (number as u64 * 10 + night as u64));
            // Everybody goes over the same keys, from where the others are.
            while cluster.clock().now() < midnight.plus(1.0) {
                let step = next.fetch_add(1, Ordering::Relaxed) / 8;
                let key = format!("n{night}-{step}");
                s.run("BEGIN");
                let claimed = if random.random_bool(0.2) {
                    s.claim_many(&[&format!("{key}b"), &key])[1].1
                } else {
                    s.claim(&key)
                };
                if claimed {
                    s.run(&format!("INSERT INTO wins VALUES ('{key}')"));
                }
                s.run(if random.random_bool(0.3) { "ROLLBACK" } else { "COMMIT" });
            }
        });
        let s = &mut sessions[0];
        println!("night {night}: {} keys", next.into_inner() / 8);
        assert_eq!(
            s.column::<String>("SELECT key FROM wins GROUP BY key HAVING count(*) > 1"),
            [""; 0],
            "seed {seed}"
        );
        assert_eq!(s.claimed_twice("once.processed_events"), [""; 0], "seed {seed}");
    }
    let s = &mut sessions[0];
    let lost: i64 =
        s.get("SELECT count(*) FROM wins WHERE key NOT IN (SELECT key FROM once.processed_events)");
    assert_eq!(lost, 0, "every true has its row");
    for night in 0..5 {
        let sides: i64 = s.get(&format!(
            "SELECT count(DISTINCT tableoid) FROM once.processed_events WHERE key LIKE 'n{night}-%'"
        ));
        assert_eq!(sides, 2, "night {night} had claims on both sides of midnight");
    }
}

#[test]
fn sixteen_sessions_on_one_key_exactly_at_midnight_give_one_true() {
    let cluster = clocked();
    let db = cluster.database();
    let mut sessions = db.sessions(16);
    cluster.clock().set(Instant::midnight(2024, 1, 1));
    sessions[0].load();
    let mut sides = [0, 0];
    for night in 2..22 {
        let midnight = Instant::midnight(2024, 1, night);
        cluster.clock().set(midnight.plus(-60.0));
        sessions[0].claim(&format!("make the day {night}"));
        sessions[0].run("CALL once.maintain()");
        // Sixteen claims within 4 ms; midnight comes before, among and after them by turns.
        cluster.clock().set(midnight.plus(-0.001 * (night % 6) as f64));
        let key = format!("night {night}");
        let answers = race::all(&mut sessions, |number, s| {
            let order = (number as u64 * 7 + night as u64) % 16;
            std::thread::sleep(std::time::Duration::from_micros(250 * order));
            s.claim(&key)
        });
        assert_eq!(race::trues(&answers), 1, "night {night}");
        let after = sessions[0].leaves_of(&key)[0].ends_with(&format!("{night:02}"));
        sides[usize::from(after)] += 1;
    }
    println!("won before midnight {}, after it {}", sides[0], sides[1]);
}

#[test]
fn a_batch_that_runs_over_midnight_fills_both_days_and_harms_neither() {
    let cluster = clocked();
    let db = cluster.database();
    let midnight = Instant::midnight(2023, 5, 2);
    cluster.clock().set(midnight.plus(-600.0));
    let (mut s, mut observer) = (db.session(), db.session());
    s.load();
    let batch = s.background(|s| {
        s.get::<i64>(
            "SELECT count(*) FILTER (WHERE claimed) FROM once.claim_many(\
             ARRAY(SELECT 'k' || i FROM generate_series(1, 300000) i), '1 day')",
        )
    });
    let size = "SELECT pg_relation_size('once.processed_events_20230501')";
    assert!(wait::poll(std::time::Duration::from_secs(30), || observer.get::<i64>(size) > 500_000));
    cluster.clock().set(midnight.plus(5.0));
    let (mut s, claimed) = batch.join();
    assert_eq!(claimed, 300_000);
    for day in ["20230501", "20230502"] {
        let rows = format!("SELECT count(*) FROM once.processed_events_{day}");
        assert!(s.get::<i64>(&rows) > 1_000, "{day} has its part");
    }
    assert_eq!(
        s.get::<i64>(
            "SELECT count(DISTINCT key) FROM once.processed_events WHERE key NOT LIKE 'behind %'"
        ),
        300_001
    );
    s.verify("once.processed_events", cluster.server().ships("amcheck"));
}

#[test]
fn fifteen_wait_over_midnight_for_one_that_rolls_back_a_savepoint_or_is_killed() {
    use std::io::Write;
    let cluster = clocked();
    let midnight = Instant::midnight(2020, 5, 1);
    for (ending, expected) in [("commit", 0), ("rollback", 1), ("savepoint", 1), ("killed", 1)] {
        let db = cluster.database();
        cluster.clock().set(midnight.plus(-60.0));
        let mut observer = db.session();
        observer.load();
        cluster.clock().set(midnight.plus(-30.0));
        let mut client = db.cluster().client("psql");
        client.args(["-X", "-q", "-d", db.name()]).stdin(std::process::Stdio::piped());
        let mut holder = client.stdout(std::process::Stdio::null()).spawn().expect("psql starts");
        let mut input = holder.stdin.take().expect("a pipe");
        input
            .write_all(b"BEGIN; SAVEPOINT s; SELECT once.claim_once('k', '1 day');\n")
            .expect("psql reads");
        wait::until("the holder has its row", || {
            // It is idle behind BEGIN and SAVEPOINT too.
            observer.get::<i64>(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                    AND state = 'idle in transaction' AND query LIKE 'SELECT once.claim_once%'",
            ) == 1
        });
        cluster.clock().set(midnight.plus(1.0));
        let waiting: Vec<_> = (0..15)
            .map(|_| {
                db.session().background(|s| s.get::<bool>("SELECT once.claim_once('k', '1 day')"))
            })
            .collect();
        for waiter in &waiting {
            wait::blocked(&mut observer, waiter.pid());
        }
        match ending {
            "commit" => input.write_all(b"COMMIT;\n").expect("psql reads"),
            "rollback" => input.write_all(b"ROLLBACK;\n").expect("psql reads"),
            "savepoint" => input.write_all(b"ROLLBACK TO s; COMMIT;\n").expect("psql reads"),
            _ => holder.kill().expect("SIGKILL"),
        }
        let trues = waiting.into_iter().map(|waiter| waiter.join().1);
        assert_eq!(trues.filter(|claimed| *claimed).count(), expected, "{ending}");
        let leaf =
            if expected == 0 { "processed_events_20200430" } else { "processed_events_20200501" };
        assert_eq!(observer.leaves_of("k"), [leaf], "{ending}: exactly one row");
        drop(input);
        let _ = holder.wait();
    }
}
