//! Messages older than what the store still remembers: said, not guessed.

use pg_once_tests::shared::database;

#[test]
fn a_message_older_than_its_window_is_too_late_and_claims_nothing() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', retention => '7 days')");
    let mut outcome = |ttl: &str, age: &str| -> String {
        s.get(&format!(
            "SELECT outcome || ' ' || (claimed_at IS NULL) || ' ' || (expires_at IS NULL)
               FROM once.claim('k', {ttl}, event_time => clock_timestamp() - interval '{age}')"
        ))
    };
    assert_eq!(outcome("NULL", "7 days 1 second"), "too_late true true");
    assert_eq!(outcome("'1 day'", "2 days"), "too_late true true", "the window asked for counts");
    assert_eq!(outcome("NULL", "100 years"), "too_late true true");
    assert_eq!(outcome("NULL", "6 days 23 hours"), "claimed false false");
    assert_eq!(
        outcome("NULL", "7 days 1 second"),
        "duplicate false false",
        "it is known after all"
    );
    assert_eq!(outcome("NULL", "-3 days"), "duplicate false false");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 1);
}

#[test]
fn claim_once_raises_a_code_of_its_own_and_the_next_transaction_goes_on() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    for key in ["'k'::text", "4711", "'1b4e28ba-2fa1-11d2-883f-0016d3cca427'::uuid"] {
        let claim = format!(
            "SELECT once.claim_once({key}, event_time => clock_timestamp() - interval '8 days')"
        );
        let failure = s.fails(&claim);
        assert_eq!(failure.code, "OC001", "{failure}");
        assert!(failure.message.contains("too late"), "{failure}");
        s.run("SET pg_once.late_policy = 'claim'");
        assert!(s.get::<bool>(&claim), "claimed as if it were new");
        assert!(!s.get::<bool>(&claim));
        s.run("RESET pg_once.late_policy");
    }
    assert!(s.get::<bool>("SELECT once.claim_once('null', event_time => NULL)"));
    assert!(s.get::<bool>("SELECT once.claim_once('ahead', event_time => 'infinity')"));
    assert_eq!(s.fails("SELECT once.claim_once('past', event_time => '-infinity')").code, "OC001");
}

#[test]
fn plpgsql_can_tell_a_late_message_by_its_code() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run(
        "CREATE FUNCTION tell() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
             PERFORM once.claim_once('k', event_time => clock_timestamp() - interval '8 days');
             RETURN 'claimed';
           EXCEPTION WHEN SQLSTATE 'OC001' THEN RETURN 'late'; END $$",
    );
    assert_eq!(s.get::<String>("SELECT tell()"), "late");
}

#[test]
fn a_pause_makes_a_store_remember_for_longer() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("INSERT INTO once.store_pause (store, since, until, is_hold, reason, made_by) VALUES ('once.processed_events', clock_timestamp() - interval '9 days',
             clock_timestamp() - interval '2 days', true, 'by hand', 'postgres')");
    s.run("SELECT once.alter_store('processed_events', note => 'a change that every session hears of')");
    let outcome =
        "SELECT outcome::text FROM once.claim('k', event_time => clock_timestamp() - interval ";
    assert_eq!(s.get::<String>(&format!("{outcome} '15 days')")), "too_late");
    assert_eq!(s.get::<String>(&format!("{outcome} '13 days')")), "claimed");
}

#[test]
fn a_longer_retention_makes_nobody_remember_what_is_forgotten_already() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', retention => '1 day')");
    s.run("SELECT once.alter_store('processed_events', retention => '30 days')");
    let mut outcome = |ttl: &str, age: &str| -> String {
        s.get(&format!(
            "SELECT outcome::text FROM once.claim('k', {ttl}, event_time => clock_timestamp() - interval '{age}')"
        ))
    };
    // Claimed ten days ago, it would have been forgotten after one.
    assert_eq!(outcome("NULL", "10 days"), "too_late");
    assert_eq!(outcome("'20 days'", "10 days"), "too_late");
    assert_eq!(outcome("NULL", "25 hours"), "too_late");
    assert_eq!(outcome("NULL", "23 hours"), "claimed");
}
