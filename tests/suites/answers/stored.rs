//! What `complete` stores and `claim` gives back, one session at a time.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

fn answer(s: &mut Session, call: &str) -> (String, Option<String>) {
    let rows = s.rows(&format!("SELECT outcome::text, result::text FROM once.claim({call})"), &[]);
    (rows[0].get(0), rows[0].get(1))
}

fn duplicate(result: Option<&str>) -> (String, Option<String>) {
    ("duplicate".to_owned(), result.map(str::to_owned))
}

#[test]
fn no_answer_yet_differs_from_a_stored_null() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    assert_eq!(answer(&mut s, "'k'"), duplicate(None));
    assert!(s.get::<bool>("SELECT once.complete('k', 'null')"));
    assert_eq!(answer(&mut s, "'k'"), duplicate(Some("null")));
    assert!(!s.get::<bool>("SELECT once.complete('k', 'null')"));
    assert_eq!(s.fails("SELECT once.complete('k', '1')").code, "OC007");
    assert_eq!(s.fails("SELECT once.complete('k', NULL)").code, "22004");
}

#[test]
fn the_same_answer_again_is_fine_and_another_is_refused() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    assert!(s.get::<bool>(r#"SELECT once.complete('k', '{"a": 1, "b": [2]}')"#));
    assert!(!s.get::<bool>(r#"SELECT once.complete('k', '{"b": [2], "a": 1.0}')"#));
    assert_eq!(s.fails(r#"SELECT once.complete('k', '{"a": 2}')"#).code, "OC007");
    assert_eq!(answer(&mut s, "'k'"), duplicate(Some(r#"{"a": 1, "b": [2]}"#)));
}

#[test]
fn what_is_not_claimed_or_no_longer_cannot_be_completed() {
    let db = database();
    let mut s = db.session();
    assert_eq!(s.fails("SELECT once.complete('k', '1')").code, "OC006");
    s.run("SELECT once.claim_once('k', '1 microsecond')");
    assert_eq!(s.fails("SELECT once.complete('k', '1')").code, "OC006");
    s.claim("l");
    assert_eq!(s.fails("SELECT once.complete('l', '1', effect => 'e')").code, "OC006");
    assert_eq!(s.fails("SELECT once.complete('l', '1', store => 'none')").code, "42704");
}

#[test]
fn a_claim_is_completed_in_its_own_statement_transaction_or_savepoint() {
    let db = database();
    let mut s = db.session();
    assert!(s.get::<bool>("SELECT once.claim_once('k') AND once.complete('k', '1')"));
    s.run("BEGIN; SELECT once.claim_once('l'); SAVEPOINT a; SELECT once.complete('l', '1'); ROLLBACK TO a");
    assert_eq!(answer(&mut s, "'l'"), duplicate(None));
    assert!(s.get::<bool>("SELECT once.complete('l', '2')"));
    s.run("COMMIT");
    assert_eq!(answer(&mut s, "'l'"), duplicate(Some("2")));
}

#[test]
fn an_answer_of_any_size_comes_back_whole_and_the_key_stays_what_it_is() {
    let db = database();
    let mut s = db.session();
    for (key, text) in [("short", "repeat('a', 1990)"), ("wide", "repeat(md5('x'), 40000)")] {
        let key = format!("{key}{}", "k".repeat(700));
        assert!(s.claim(&key));
        let stored = format!("SELECT once.complete('{key}', to_jsonb({text}))");
        assert!(s.get::<bool>(&stored) && !s.get::<bool>(&stored));
        assert!(!s.claim(&key) && !s.claim_many(&[&key])[0].1);
        let whole = format!("SELECT result = to_jsonb({text}) FROM once.claim('{key}')");
        assert!(s.get::<bool>(&whole));
        s.run(&format!(
            "UPDATE once.processed_events SET expires_at = clock_timestamp() WHERE key = '{key}'"
        ));
        assert!(s.claim(&key), "replaced");
        assert_eq!(answer(&mut s, &format!("'{key}'")), duplicate(None), "the old answer is gone");
    }
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn another_request_under_the_same_key_is_a_mismatch_and_sees_no_answer() {
    let db = database();
    let mut s = db.session();
    assert_eq!(answer(&mut s, "'k', fingerprint => 'one'").0, "claimed");
    s.run("SELECT once.complete('k', '1')");
    assert_eq!(answer(&mut s, "'k', fingerprint => 'two'"), ("mismatch".to_owned(), None));
    assert_eq!(answer(&mut s, "'k', fingerprint => 'one'"), duplicate(Some("1")));
    assert_eq!(answer(&mut s, "'k'"), duplicate(Some("1")));
    s.claim("l");
    assert_eq!(answer(&mut s, "'l', fingerprint => 'two'"), duplicate(None));
    let kept = "SELECT fingerprint = substr(sha256('one'), 1, 16) FROM once.processed_events WHERE key = 'k'";
    assert!(s.get::<bool>(kept));
}

#[test]
fn an_answer_is_read_with_select_and_stored_with_insert() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let (claimer, reader) = (db.role("claimer"), db.role("reader"));
    s.run(&format!(
        "GRANT USAGE ON SCHEMA once TO {claimer}, {reader};
         GRANT INSERT ON once.processed_events TO {claimer};
         GRANT SELECT ON once.processed_events TO {reader}"
    ));
    assert_eq!(db.session_of(&reader).fails("SELECT once.complete('k', '1')").code, "42501");
    let mut claimer = db.session_of(&claimer);
    assert!(claimer.get::<bool>("SELECT once.complete('k', '1')"));
    assert_eq!(answer(&mut claimer, "'k'"), duplicate(None));
    assert_eq!(claimer.fails("SELECT once.complete('k', '2')").code, "OC007");
    assert_eq!(answer(&mut s, "'k'"), duplicate(Some("1")));
}

#[test]
fn who_claims_an_expired_key_anew_is_not_given_the_old_answer() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN; SELECT once.claim_once('k', '1 microsecond'); SELECT once.complete('k', '1'); COMMIT");
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        s.run(&format!("BEGIN ISOLATION LEVEL {level}"));
        assert_eq!(answer(&mut s, "'k'"), ("claimed".to_owned(), None), "{level}");
        assert_eq!(answer(&mut s, "'k'"), duplicate(None), "{level}");
        s.run("ROLLBACK");
    }
}

#[test]
fn who_claims_a_key_anew_is_not_given_the_answer_to_the_claim_before() {
    let db = database();
    let mut s = db.session();
    for call in ["'k', wait => false", "'l', fingerprint => 'one'"] {
        let key = &call[1..2];
        assert_eq!(answer(&mut s, call), ("claimed".to_owned(), None));
        s.run(&format!("SELECT once.complete('{key}', '1')"));
        s.run(&format!(
            "UPDATE once.processed_events SET expires_at = clock_timestamp() WHERE key = '{key}'"
        ));
        let late = format!("{call}, event_time => now() - interval '400 days'");
        assert_eq!(answer(&mut s, &late), ("too_late".to_owned(), None));
        assert_eq!(answer(&mut s, call), ("claimed".to_owned(), None));
        assert_eq!(answer(&mut s, call), duplicate(None));
    }
}
