//! Rows that were written, changed, locked or removed by plain SQL: by a DBA, a restore, or a
//! subscription that applies another server's claims. They count like any other.

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, database};
use pg_once_tests::wait;

/// A claim of tomorrow written by plain SQL, for five days.
fn insert_for_tomorrow(s: &mut Session, key: &str) {
    s.run(&format!(
        "INSERT INTO once.processed_events (claimed_at, expires_at, key)
         VALUES (clock_timestamp() + interval '24 hours', clock_timestamp() + interval '144 hours', '{key}')"
    ));
}

#[test]
fn a_row_inserted_into_a_day_that_was_empty_refuses_in_sessions_that_knew_it_empty() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2018, 3, 10).plus(43_200.0);
    cluster.clock().set(noon);
    db.session().run("SELECT once.create_store('processed_events')");
    db.session().days_behind();
    let mut old = db.sessions(3);
    // They have looked into every day that is there.
    for s in &mut old {
        for key in ["a", "b"] {
            s.claim(&format!("{key}{}", s.pid()));
        }
    }
    insert_for_tomorrow(&mut db.session(), "k");
    // Today, with the claim a day ahead of the clock.
    assert!(!old[0].get::<bool>("SELECT once.claim_once('k', '1 day')"), "a day ahead");
    // On its own day, and on the day after it.
    for (days, s) in (1..).zip(&mut old) {
        cluster.clock().set(noon.days(days));
        assert!(!s.get::<bool>("SELECT once.claim_once('k', '1 day')"), "{days} days later");
        assert!(!s.claim_many(&["k"])[0].1, "{days} days later");
    }
    assert_eq!(db.session().claimed_twice("once.processed_events"), [""; 0]);
}

#[test]
fn a_row_inserted_a_day_ahead_refuses_from_the_next_transaction_on() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2018, 4, 10).plus(43_200.0);
    cluster.clock().set(noon);
    db.session().run("SELECT once.create_store('processed_events')");
    db.session().days_behind();
    let mut s = db.session();
    s.run("BEGIN");
    assert!(s.claim("a") && s.claim("b"), "it has looked into every day that is there");
    insert_for_tomorrow(&mut db.session(), "k");
    s.run("COMMIT");
    assert!(!s.claim("k"));
    assert!(!s.claim_many(&["k"])[0].1);
}

#[test]
fn a_claim_made_ahead_of_the_clock_refuses_in_sessions_that_knew_its_day_empty() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2018, 5, 10).plus(43_200.0);
    cluster.clock().set(noon);
    db.session().run("SELECT once.create_store('processed_events')");
    db.session().days_behind();
    let mut old = db.sessions(3);
    for s in &mut old {
        let key = format!("a{}", s.pid());
        s.claim(&key);
    }
    // The clock is two days ahead for a moment.
    cluster.clock().set(noon.days(2));
    assert!(db.session().get::<bool>("SELECT once.claim_once('k', '4 days')"));
    cluster.clock().set(noon);
    for s in &mut old {
        assert!(!s.claim("k"));
    }
    cluster.clock().set(noon.days(3));
    for s in &mut old {
        assert!(!s.claim("k"));
    }
}

#[test]
fn a_row_in_flight_by_plain_sql_makes_a_claim_wait() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    s.load();
    for (key, ending, expected) in [("k", "COMMIT", false), ("l", "ROLLBACK", true)] {
        s.run("BEGIN");
        s.run(&format!(
            "INSERT INTO once.processed_events (claimed_at, expires_at, key)
             VALUES (clock_timestamp(), clock_timestamp() + interval '1 hour', '{key}')"
        ));
        let waiting = db.session().background(move |s| s.claim(key));
        wait::blocked(&mut observer, waiting.pid());
        s.run(ending);
        assert_eq!(waiting.join().1, expected);
    }
}

#[test]
fn a_claim_deleted_by_hand_is_free_once_the_delete_has_committed() {
    let db = database();
    let mut s = db.session();
    s.load();
    s.claim_many(&["k", "l"]);
    for (key, ending, expected) in [("k", "COMMIT", true), ("l", "ROLLBACK", false)] {
        s.run(&format!("BEGIN; DELETE FROM once.processed_events WHERE key = '{key}'"));
        let mut other = db.session();
        other.run("SET lock_timeout = '5s'");
        assert!(!other.claim(key), "as long as it has not committed, the claim stands");
        s.run(ending);
        assert_eq!(other.claim(key), expected, "{ending}");
    }
    s.run("BEGIN; DELETE FROM once.processed_events WHERE key = 'l'");
    assert!(s.claim("l"), "the transaction that deleted it may claim it");
    s.run("COMMIT");
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
}

#[test]
fn a_window_changed_by_hand_counts_as_changed() {
    let db = database();
    let mut s = db.session();
    s.load();
    s.claim_many(&["k", "l"]);
    s.run("UPDATE once.processed_events SET expires_at = clock_timestamp() WHERE key = 'k'");
    assert!(s.claim("k"));
    s.run("BEGIN; UPDATE once.processed_events SET expires_at = clock_timestamp() WHERE key = 'l'");
    let mut other = db.session();
    other.run("SET lock_timeout = '5s'");
    assert!(!other.claim("l"), "as long as it has not committed, the claim stands");
    s.run("COMMIT");
    assert!(other.claim("l"));
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn somebody_who_locks_the_row_of_a_live_claim_holds_nobody_up() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    for lock in ["FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE"] {
        s.run(&format!("BEGIN; SELECT * FROM once.processed_events WHERE key = 'k' {lock}"));
        let mut other = db.session();
        other.run("SET lock_timeout = '2s'");
        assert!(!other.claim("k"), "{lock}");
        assert!(!s.claim("k"), "{lock}");
        s.run("COMMIT");
    }
}

#[test]
fn the_row_of_an_expired_claim_that_somebody_has_locked_is_waited_for() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    for (key, lock) in [("k", "FOR UPDATE"), ("l", "FOR NO KEY UPDATE"), ("m", "FOR SHARE")] {
        s.run(&format!("SELECT once.claim_once('{key}', '1 microsecond')"));
        s.run(&format!("BEGIN; SELECT * FROM once.processed_events WHERE key = '{key}' {lock}"));
        let waiting = db.session().background(move |s| s.claim(key));
        wait::blocked(&mut observer, waiting.pid());
        let in_progress: String =
            observer.get(&format!("SELECT outcome::text FROM once.claim('{key}', wait => false)"));
        assert_eq!(in_progress, "in_progress", "{lock}");
        s.run("COMMIT");
        assert!(waiting.join().1, "{lock}");
    }
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn somebody_who_only_needs_the_key_to_stay_does_not_hold_up_its_next_claim() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.claim_once('k', '1 microsecond')");
    // What a foreign key's check takes. The next claim keeps the key, so they do not conflict.
    s.run("BEGIN; SELECT * FROM once.processed_events WHERE key = 'k' FOR KEY SHARE");
    let mut other = db.session();
    other.run("SET lock_timeout = '2s'");
    assert!(other.claim("k"));
    assert!(!other.claim("k"));
    s.run("COMMIT");
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}
