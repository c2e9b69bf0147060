//! Giving claims up: who may, what is written down, and who claims the key next.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::{race, wait};

fn release(s: &mut Session, key: &str) -> bool {
    s.get(&format!("SELECT once.release('{key}', 'test')"))
}

#[test]
fn a_released_key_is_claimed_again_once_and_the_release_is_written_down() {
    let db = database();
    let mut s = db.session();
    assert!(!release(&mut s, "k"), "nothing there");
    s.claim("k");
    s.run("SELECT once.complete('k', '1')");
    s.run("BEGIN");
    assert!(release(&mut s, "k") && !release(&mut s, "k"));
    assert!(!db.session().claim("k"), "until it has committed, the claim stands");
    assert!(s.claim("k"), "the same transaction may claim it anew");
    assert!(!db.session().claim("k"), "until it has committed, the old claim stands");
    s.run("ROLLBACK");
    assert!(!s.claim("k"));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.release_log"), 0);
    assert!(release(&mut s, "k"));
    assert_eq!(race::trues(&race::all(&mut db.sessions(8), |_, s| s.claim("k"))), 1);
    let said = "SELECT store || effect || key || had_answer || reason || (made_by = current_user) FROM once.release_log";
    assert_eq!(s.get::<String>(said), "processed_eventsktruetesttrue");
    for refused in ["''", "NULL"] {
        let failure = s.fails(&format!("SELECT once.release('k', {refused})"));
        assert!(["22023", "22004"].contains(&&*failure.code), "{failure}");
    }
}

#[test]
fn a_claim_whose_window_is_over_can_be_released_too() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.claim_once('k', '1 microsecond')");
    assert!(release(&mut s, "k") && !release(&mut s, "k"));
}

#[test]
fn only_with_delete_on_the_store() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let (claimer, operator) = (db.role("claimer"), db.role("operator"));
    s.run(&format!(
        "GRANT USAGE ON SCHEMA once TO {claimer}, {operator};
         GRANT INSERT, SELECT, UPDATE ON once.processed_events TO {claimer};
         GRANT DELETE ON once.processed_events TO {operator}"
    ));
    assert_eq!(db.session_of(&claimer).fails("SELECT once.release('k', 'x')").code, "42501");
    assert!(release(&mut db.session_of(&operator), "k"));
}

#[test]
fn a_release_waits_for_a_claim_in_flight() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    s.load();
    for (key, ending, expected) in [("k", "COMMIT", true), ("l", "ROLLBACK", false)] {
        s.run(&format!("BEGIN; SELECT once.claim_once('{key}')"));
        let waiting = db.session().background(move |s| release(s, key));
        wait::blocked(&mut observer, waiting.pid());
        s.run(ending);
        assert_eq!(waiting.join().1, expected);
    }
}

#[test]
fn many_are_released_by_a_query() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.claim_many(ARRAY(SELECT 'k' || n FROM generate_series(1, 1000) n))");
    s.run("SELECT once.claim_once('x', effect => 'e')");
    let keys = "SELECT once.release_many('SELECT key FROM once.processed_events WHERE effect = ''''', 'incident')";
    assert_eq!(s.get::<i64>(keys), 1000);
    assert_eq!(s.get::<i64>(keys), 0);
    let both =
        "SELECT once.release_many('SELECT key, effect FROM once.processed_events', 'incident')";
    assert_eq!(s.get::<i64>(both), 1);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.release_log"), 1001);
    assert_eq!(s.fails("SELECT once.release_many('SELECT 1', 'x')").code, "22023");
    assert!(s.claim("k7"));
}

#[test]
fn a_fingerprint_is_of_what_a_payload_says_and_not_of_how() {
    let db = database();
    let mut s = db.session();
    let same = r#"SELECT once.fingerprint('{"a": 1.0, "b": {"c": "x", "at": 5}}', 'b.at', 'none', 'a.b')
                       = once.fingerprint('{"b": {"c": "x"}, "a": 1}')"#;
    assert!(s.get::<bool>(same));
    let differs = r#"SELECT once.fingerprint('{"a": "1"}') <> once.fingerprint('{"a": 1}')"#;
    assert!(s.get::<bool>(differs));
    let failure = s.fails(r#"SELECT once.fingerprint('{"a": [1, 2]}', 'a[0]')"#);
    assert_eq!(failure.code, "22023");
    assert_eq!(s.get::<i32>("SELECT length(once.fingerprint('1'))"), 64);
}

#[test]
fn a_claim_that_a_trigger_keeps_is_not_released() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let leaf: String = s.get("SELECT min(tableoid::regclass::text) FROM once.processed_events");
    s.run(&format!(
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER keep BEFORE DELETE ON {leaf} FOR EACH ROW EXECUTE FUNCTION keep()"
    ));
    let failure = s.fails("SELECT once.release('k', 'test')");
    assert_eq!(failure.code, "27000", "{failure}");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.release_log"), 0);
    assert!(!s.claim("k"));
    // One that removes the row itself has it gone.
    s.run(
        "CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN IF pg_trigger_depth() > 1 THEN RETURN OLD; END IF;
                  DELETE FROM once.processed_events WHERE key = OLD.key; RETURN NULL; END'",
    );
    assert!(release(&mut s, "k") && s.claim("k"));
}
