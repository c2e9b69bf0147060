//! Who waits for whom: a duplicate for nobody who changes a claim that is committed, everything else for its outcome.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::wait;

/// A page full of claims, so that the next version of a row goes to another page.
fn crowded(s: &mut Session) {
    s.load();
    s.run("SELECT count(*) FROM once.claim_many(ARRAY(SELECT 'a' || n FROM generate_series(1, 500) n))");
}

#[test]
fn a_duplicate_does_not_wait_for_who_changes_a_committed_claim() {
    let db = database();
    let mut s = db.session();
    crowded(&mut s);
    for (key, change) in [
        ("a3", "SELECT once.complete('a3', '1')"),
        ("a400", "UPDATE once.processed_events SET result = '1' WHERE key = 'a400'"),
        ("a5", "DELETE FROM once.processed_events WHERE key = 'a5'"),
    ] {
        let mut other = db.session();
        other.run("SET lock_timeout = '5s'");
        s.run(&format!("BEGIN; {change}"));
        for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
            other.run(&format!("BEGIN ISOLATION LEVEL {level}"));
            assert!(!other.claim(key), "{key} {level}");
            assert!(!other.claim_many(&[key])[0].1, "{key} {level}");
            let call = format!(
                "SELECT outcome::text || coalesce(result::text, '') FROM once.claim('{key}')"
            );
            assert_eq!(other.get::<String>(&call), "duplicate", "{key} {level}");
            other.run("COMMIT");
        }
        s.run("COMMIT");
    }
    assert!(s.claim("a5"));
}

#[test]
fn of_a_new_version_that_comes_first_in_the_index_the_old_one_counts() {
    let db = database();
    let mut s = db.session();
    crowded(&mut s);
    // Room on the first page, so that the new version of a row of the second may lie before it.
    s.run("DELETE FROM once.processed_events WHERE (ctid::text::point)[0] = 0");
    s.run("VACUUM once.processed_events");
    let keys: Vec<String> =
        s.column("SELECT key FROM once.processed_events WHERE (ctid::text::point)[0] = 1");
    let (mut observer, mut s) = (db.session(), db.session());
    let earlier = keys.iter().find(|key| {
        s.run(&format!("BEGIN; UPDATE once.processed_events SET result = '1' WHERE key = '{key}'"));
        let place =
            format!("SELECT (ctid::text::point)[0] FROM once.processed_events WHERE key = '{key}'");
        let (new, old): (f64, f64) = (s.get(&place), observer.get(&place));
        if new >= old {
            s.run("ROLLBACK");
        }
        new < old
    });
    let key = earlier.expect("a new version on the first page");
    let mut other = db.session();
    other.run("SET lock_timeout = '5s'");
    assert!(!other.claim(key) && !other.claim_many(&[key])[0].1);
    s.run("ROLLBACK");
    assert!(!other.claim(key));
}

#[test]
fn completing_waits_for_the_claim_and_for_another_answer() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    s.load();
    s.run("BEGIN; SELECT once.claim_once('k')");
    let waiting = db.session().background(|s| s.get::<bool>("SELECT once.complete('k', '1')"));
    wait::blocked(&mut observer, waiting.pid());
    s.run("COMMIT; BEGIN; SELECT once.claim_once('l')");
    assert!(waiting.join().1);
    let waiting = db.session().background(|s| s.fails("SELECT once.complete('l', '1')").code);
    wait::blocked(&mut observer, waiting.pid());
    s.run("ROLLBACK");
    assert_eq!(waiting.join().1, "OC006");
    for (ending, code) in [("COMMIT", "OC007"), ("ROLLBACK", "true")] {
        s.claim(ending);
        s.run(&format!("BEGIN; SELECT once.complete('{ending}', '1')"));
        let waiting = db.session().background(move |s| {
            let call = format!("SELECT once.complete('{ending}', '2')");
            s.try_get::<bool>(&call, &[])
                .map_or_else(|failure| failure.code, |stored| stored.to_string())
        });
        wait::blocked(&mut observer, waiting.pid());
        s.run(ending);
        assert_eq!(waiting.join().1, code);
    }
}

#[test]
fn an_expired_claim_on_its_way_to_be_claimed_anew_is_waited_for() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    for (key, ending, expected) in [("k", "COMMIT", false), ("l", "ROLLBACK", true)] {
        s.run(&format!("SELECT once.claim_once('{key}', '1 microsecond')"));
        s.run(&format!("BEGIN; SELECT once.claim_once('{key}')"));
        let waiting = db.session().background(move |s| s.claim(key));
        wait::blocked(&mut observer, waiting.pid());
        s.run(ending);
        assert_eq!(waiting.join().1, expected);
    }
}

#[test]
fn under_a_snapshot_a_newer_answer_is_40001_and_a_claim_released_since_is_gone() {
    let db = database();
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let (mut s, mut other) = (db.session(), db.session());
        let mut after = |change: &str, call: &str| {
            s.run("SELECT once.release('k', 'test')");
            s.claim("k");
            other.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1"));
            s.run(change);
            let told = other.try_get::<String>(call, &[]).unwrap_or_else(|failure| failure.code);
            other.run("ROLLBACK");
            told
        };
        let answer = "SELECT once.complete('k', '1')";
        assert_eq!(after(answer, "SELECT once.claim_once('k')::text"), "40001");
        assert_eq!(after(answer, "SELECT outcome::text FROM once.claim('k')"), "40001");
        assert_eq!(after(answer, "SELECT once.complete('k', '1')::text"), "40001");
        let release = "SELECT once.release('k', 'test')";
        assert_eq!(after(release, "SELECT once.complete('k', '1')::text"), "OC006");
        assert_eq!(after(release, "SELECT once.release('k', 'test')::text"), "false");
        assert_eq!(after(release, "SELECT once.claim_once('k')::text"), "true");
    }
}
