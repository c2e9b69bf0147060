//! The long form: `claim` with its row, `wait => false`, and `lookup`.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::wait;

fn outcome(s: &mut Session, arguments: &str) -> String {
    s.get(&format!("SELECT outcome::text FROM once.claim({arguments})"))
}

#[test]
fn the_outcomes_are_five_in_this_order() {
    let mut s = database().session();
    let labels: Vec<String> = s.column("SELECT unnest(enum_range(NULL::once.outcome))::text");
    assert_eq!(labels, ["claimed", "duplicate", "in_progress", "mismatch", "too_late"]);
}

#[test]
fn a_claim_tells_its_window_and_a_duplicate_that_of_the_first() {
    let db = database();
    let mut s = db.session();
    let row = |s: &mut Session, ttl: &str| {
        let sql = format!(
            "SELECT outcome::text, claimed_at::text, expires_at::text, result IS NULL,
                    claimed_at <= clock_timestamp() FROM once.claim('k', {ttl})"
        );
        let rows = s.rows(&sql, &[]);
        let [row] = rows.as_slice() else { panic!("{} rows", rows.len()) };
        assert!(row.get::<_, bool>(3) && row.get::<_, bool>(4));
        (row.get::<_, String>(0), row.get::<_, String>(1), row.get::<_, String>(2))
    };
    let first = row(&mut s, "'1 hour'");
    assert_eq!(first.0, "claimed");
    for ttl in ["'1 minute'", "'1 day'", "NULL"] {
        let again = row(&mut db.session(), ttl);
        assert_eq!(again.0, "duplicate");
        assert_eq!((&again.1, &again.2), (&first.1, &first.2));
    }
    let stored: bool = s.get_with(
        "SELECT claimed_at = $1::text::timestamptz AND expires_at = $2::text::timestamptz
                AND fingerprint IS NULL AND result IS NULL FROM once.processed_events",
        &[&first.1, &first.2],
    );
    assert!(stored);
}

#[test]
fn without_waiting_a_claim_in_flight_is_in_progress_at_once_and_nothing_is_written() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    first.claim("load");
    first.run("BEGIN");
    assert!(first.claim("k"));
    // The own transaction's claim is a duplicate, not in progress.
    assert_eq!(outcome(&mut first, "'k', wait => false"), "duplicate");
    second.run("SET lock_timeout = '1s'; BEGIN");
    for _ in 0..3 {
        assert_eq!(outcome(&mut second, "'k', wait => false"), "in_progress");
    }
    assert_eq!(outcome(&mut second, "'other', wait => false"), "claimed");
    second.run("COMMIT");
    first.run("COMMIT");
    assert_eq!(outcome(&mut second, "'k', wait => false"), "duplicate");
    assert_eq!(outcome(&mut second, "'other', wait => false"), "duplicate");
    assert_eq!(second.get::<i64>("SELECT count(*) FROM once.processed_events"), 3);
}

#[test]
fn without_waiting_a_key_freed_by_rollback_is_claimed() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    first.claim("load");
    first.run("BEGIN");
    assert!(first.claim("k"));
    assert_eq!(outcome(&mut second, "'k', wait => false"), "in_progress");
    first.run("ROLLBACK");
    assert_eq!(outcome(&mut second, "'k', wait => false"), "claimed");
}

#[test]
fn without_waiting_a_snapshot_that_cannot_see_the_winner_is_still_40001() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    first.claim("load");
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let key = format!("k {level}");
        second.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1"));
        first.run("BEGIN");
        assert!(first.claim(&key));
        assert_eq!(outcome(&mut second, &format!("'{key}', wait => false")), "in_progress");
        first.run("COMMIT");
        let failure = second.fails(&format!("SELECT once.claim('{key}', wait => false)"));
        assert_eq!(failure.code, "40001", "{failure}");
        second.run("ROLLBACK");
    }
}

#[test]
fn waiting_is_the_default_of_the_long_form() {
    let db = database();
    let (mut first, mut observer) = (db.session(), db.session());
    first.claim("load");
    first.run("BEGIN");
    assert!(first.claim("k"));
    let waiting = db.session().background(|s| outcome(s, "'k'"));
    wait::blocked(&mut observer, waiting.pid());
    first.run("COMMIT");
    assert_eq!(waiting.join().1, "duplicate");
}

#[test]
fn lookup_shows_the_live_claim_that_its_statement_sees_and_claims_nothing() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    s.claim("load");
    let seen = |s: &mut Session, arguments: &str| -> i64 {
        s.get(&format!("SELECT count(*) FROM once.lookup({arguments})"))
    };
    assert_eq!(seen(&mut s, "'k'"), 0);
    assert_eq!(seen(&mut s, "'k'"), 0, "looking claims nothing");
    s.run("BEGIN");
    assert!(s.claim("k"));
    assert_eq!((seen(&mut s, "'k'"), seen(&mut other, "'k'")), (1, 0));
    s.run("ROLLBACK");
    assert_eq!((seen(&mut s, "'k'"), seen(&mut other, "'k'")), (0, 0));
    other.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    assert!(s.claim("k"));
    assert_eq!((seen(&mut s, "'k'"), seen(&mut other, "'k'")), (1, 0));
    other.run("COMMIT");
    assert_eq!(seen(&mut other, "'k'"), 1);
    assert_eq!(seen(&mut other, "'k', 'another effect'"), 0);
    assert!(s.get::<bool>(
        "SELECT l.claimed_at = p.claimed_at AND l.expires_at = p.expires_at AND l.result IS NULL
           FROM once.lookup('k') l, once.processed_events p WHERE p.key = 'k'"
    ));
}

#[test]
fn lookup_does_not_show_an_expired_claim() {
    let db = database();
    let mut s = db.session();
    assert!(s.get::<bool>("SELECT once.claim_once('k', '50 milliseconds')"));
    wait::until("the claim has expired", || {
        s.get::<i64>("SELECT count(*) FROM once.lookup('k')") == 0
    });
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM once.processed_events"),
        1,
        "its row is still there"
    );
}

#[test]
fn lookup_many_by_lateral_join_answers_each_key() {
    let db = database();
    let mut s = db.session();
    s.claim_many(&["a", "c"]);
    let found: Vec<String> = s.column(
        "SELECT k FROM unnest('{a,b,c,d}'::text[]) k CROSS JOIN LATERAL once.lookup(k) ORDER BY k",
    );
    assert_eq!(found, ["a", "c"]);
}
