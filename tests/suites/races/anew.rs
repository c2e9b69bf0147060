//! A day ahead whose rows come to lie in another file while claims are under way: what was known of the old file says
//! nothing of them.

use std::time::{Duration, Instant};

use pg_once_tests::database::Database;
use pg_once_tests::hang::{self, Signal};
use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::wait;
use rand::Rng;

/// The next day, whose leaf is made ahead and looked at last.
struct Ahead {
    leaf: String,
    bounds: String,
    noon: String,
}

impl Ahead {
    fn of(dba: &mut Session) -> Ahead {
        let rows = dba.rows(
            "SELECT pg_catalog.format('once.%I', leaf), pg_catalog.pg_get_expr(c.relpartbound, c.oid),
                    ((day + interval '12 hours') AT TIME ZONE 'UTC')::text
               FROM once.partitions JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.format('once.%I', leaf)::regclass
              WHERE store = 'processed_events' AND state = 'future' ORDER BY day LIMIT 1",
            &[],
        );
        Ahead { leaf: rows[0].get(0), bounds: rows[0].get(1), noon: rows[0].get(2) }
    }

    /// Writes a claim of that day by plain SQL.
    fn put(&self, key: &str) -> String {
        self.put_into(&self.leaf, key)
    }

    fn put_into(&self, table: &str, key: &str) -> String {
        let noon = &self.noon;
        format!(
            "INSERT INTO {table} (claimed_at, expires_at, key)
             VALUES ('{noon}', '{noon}'::timestamptz + interval '24 hours', '{key}')"
        )
    }
}

/// Claimers of a key each, stopped wherever they are and let go on after `statement`, round after round; how often the
/// statement was through while they stood still.
fn stopped_anywhere(rounds: usize, statement: &str) -> usize {
    let db = database();
    let mut dba = db.session();
    // The more days are asked for their length one after the other, the likelier a claimer is stopped in between.
    dba.run("SET pg_once.precreate_days = 30");
    dba.load();
    dba.run("SET lock_timeout = '200ms'");
    let day = Ahead::of(&mut dba);
    let leaf = &day.leaf;
    let statement = statement.replace("LEAF", leaf);
    let (mut claimers, mut gate) = (db.sessions(3), db.session());
    let (mut random, mut through) = (rand::rng(), 0);
    // How long a claim takes as a thread of this test sees it: stopping is spread over that.
    let mut longest = Duration::from_micros(500);
    for round in 0..rounds {
        dba.run(&format!("TRUNCATE {leaf}"));
        for (number, claimer) in claimers.iter_mut().enumerate() {
            assert!(
                claimer.claim(&format!("before {round} {number}")),
                "it has seen the day empty"
            );
            dba.run(&day.put(&format!("k {round} {number}")));
        }
        gate.run("SELECT pg_advisory_lock(1)");
        let running: Vec<_> = claimers
            .drain(..)
            .enumerate()
            .map(|(number, claimer)| {
                claimer.background(move |s: &mut Session| {
                    let claimed: bool = s.get(&format!(
                        "WITH gate AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(1))
                         SELECT once.claim_once('k {round} {number}', '1 hour') FROM gate"
                    ));
                    (claimed, Instant::now())
                })
            })
            .collect();
        for claimer in &running {
            wait::blocked(&mut dba, claimer.pid());
        }
        let from = Instant::now();
        gate.run("SELECT pg_advisory_unlock(1)");
        for claimer in &running {
            let until = from + longest.mul_f64(random.random_range(0.0..1.0));
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            hang::signal(claimer.pid(), Signal::STOP);
        }
        // A claimer may stand still with something that the statement needs: not for long.
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| dba.try_run(&statement));
            through += usize::from(wait::poll(Duration::from_millis(50), || writing.is_finished()));
            for claimer in &running {
                hang::signal(claimer.pid(), Signal::CONT);
            }
            if let Err(failure) = writing.join().expect("a statement never panics") {
                assert_eq!(failure.code, "55P03", "{failure}");
            }
        });
        let mut slowest = Duration::ZERO;
        for claimer in running {
            let (session, (claimed, at)) = claimer.join();
            assert!(!claimed, "round {round}: a row that has been there all the time was missed");
            slowest = slowest.max(at - from);
            claimers.push(session);
        }
        // One that was stopped says nothing of how long a claim takes.
        if slowest < Duration::from_millis(2) {
            longest = slowest.max(Duration::from_micros(200));
        }
    }
    through
}

#[test]
fn rows_of_a_day_ahead_that_vacuum_full_moves_are_seen_by_claimers_stopped_anywhere() {
    let through = stopped_anywhere(400, "VACUUM FULL LEAF");
    assert!(through > 40, "{through}");
}

/// A session that has seen the next day empty, one for everything else, and that day.
fn seen_empty(db: &Database<'_>) -> (Session, Session, Ahead) {
    let (mut s, mut dba) = (db.session(), db.session());
    s.load();
    assert!(s.claim("before"));
    let day = Ahead::of(&mut dba);
    (s, dba, day)
}

#[test]
fn a_row_of_a_day_ahead_that_was_truncated_before_refuses() {
    let db = database();
    let (mut s, mut dba, day) = seen_empty(&db);
    let leaf = &day.leaf;
    for round in 0..3 {
        let key = format!("k {round}");
        dba.run(&format!("TRUNCATE {leaf}"));
        assert!(s.claim(&format!("between {round}")));
        dba.run(&day.put(&key));
        assert!(!s.claim(&key) && !s.claim_many(&[&key])[0].1, "{key}");
    }
    // Both at once: seen after the commit.
    dba.run(&format!("BEGIN; TRUNCATE {leaf}; {}; COMMIT", day.put("l")));
    assert!(!s.claim("l"));
    assert!(s.claim("k 1"), "it went with the rest");
}

#[test]
fn a_transaction_that_truncates_a_day_ahead_itself_sees_its_rows_and_what_it_undoes() {
    let db = database();
    let (mut s, mut dba, day) = seen_empty(&db);
    let leaf = &day.leaf;
    s.run("BEGIN");
    assert!(s.claim("a"), "it has seen the day empty in this transaction");
    s.run(&format!("TRUNCATE {leaf}; {}", day.put("k")));
    assert!(!s.claim("k") && !s.claim_many(&["k"])[0].1);
    // The same file is cut this time.
    s.run(&format!("TRUNCATE {leaf}"));
    assert!(s.claim("b"));
    s.run(&format!("TRUNCATE {leaf}; {}", day.put("l")));
    assert!(!s.claim("l"));
    s.run("COMMIT");
    assert!(!s.claim("l") && s.claim("k"));
    dba.run(&day.put("m"));
    for undo in ["ROLLBACK TO a", "ROLLBACK; BEGIN"] {
        s.run(&format!("BEGIN; SAVEPOINT a; TRUNCATE {leaf}"));
        assert!(s.claim("m") && s.claim("n"), "gone for this transaction");
        s.run(undo);
        assert!(!s.claim("m") && s.claim("n"), "{undo}");
        s.run("ROLLBACK");
    }
    assert!(!s.claim("m"));
}

#[test]
fn a_day_ahead_detached_and_put_back_or_made_anew_counts_with_its_rows() {
    let db = database();
    let (mut s, mut dba, day) = seen_empty(&db);
    let Ahead { leaf, bounds, .. } = &day;
    let (attach, detach) = (
        "ALTER TABLE once.processed_events ATTACH PARTITION",
        "ALTER TABLE once.processed_events DETACH PARTITION",
    );
    dba.run(&format!("{detach} {leaf}"));
    assert!(s.claim("between"));
    dba.run(&format!("{}; {attach} {leaf} {bounds}", day.put("k")));
    assert!(!s.claim("k") && !s.claim_many(&["k"])[0].1);
    dba.run(&format!("TRUNCATE {leaf}"));
    assert!(s.claim("seen empty again"));
    // Its rows in another table, and it is gone, in one transaction.
    dba.run(&day.put("l"));
    dba.run(&format!(
        "BEGIN; CREATE TABLE once.by_hand (LIKE {leaf} INCLUDING ALL); INSERT INTO once.by_hand SELECT * FROM {leaf};
         DROP TABLE {leaf}; {attach} once.by_hand {bounds}; COMMIT"
    ));
    assert!(!s.claim("l") && !s.claim_many(&["l"])[0].1);
    dba.run(&day.put_into("once.by_hand", "m"));
    assert!(!s.claim("m"));
}
