//! One consumer after the other.

use pg_once_tests::cluster::Cluster;
use pg_once_tests::shared::database;

use crate::scene::{Begun, Calls, overdue};

#[test]
fn an_effect_is_started_once_and_its_answer_is_what_everybody_else_gets() {
    let mut s = database().session();
    let begun = s.begin("k", "1 minute");
    assert_eq!(
        (begun.outcome.as_str(), begun.attempt, begun.leased),
        ("started", Some(1), Some(true))
    );
    assert_eq!(begun.result, None);
    let meanwhile = s.begin("k", "1 minute");
    assert_eq!(meanwhile.outcome, "in_progress");
    assert_eq!((meanwhile.fence, meanwhile.attempt, meanwhile.leased), (None, Some(1), Some(true)));
    assert!(!s.claim("k"), "the key is claimed");
    assert!(s.complete("k", begun.held(), "'{\"id\": 7}'"));
    let after = s.begin("k", "1 minute");
    let done = Begun {
        outcome: "done".to_owned(),
        fence: None,
        attempt: None,
        downstream_key: begun.downstream_key.clone(),
        result: Some("{\"id\": 7}".to_owned()),
        leased: None,
    };
    assert_eq!(after, done);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.effect_state"), 0);
    let answer: String = s.get("SELECT result::text FROM once.lookup('k')");
    assert_eq!(answer, "{\"id\": 7}");
}

#[test]
fn the_downstream_key_is_the_same_on_every_attempt_and_another_for_another_effect() {
    let mut s = database().session();
    let first = s.begin("k", "1 minute");
    overdue(&mut s, "k");
    let second = s.begin("k", "1 minute");
    assert_eq!((second.outcome.as_str(), second.attempt), ("taken_over", Some(2)));
    assert!(second.held() > first.held());
    assert_eq!(first.downstream_key, second.downstream_key);
    let expected: String = s.get("SELECT once.key_uuid('', 'k')::text");
    assert_eq!(first.downstream_key, Some(expected));
    let other = s.try_begin_with("k", "lease => '1 minute', effect => 'mail'").expect("another");
    assert_eq!(other.outcome, "started");
    assert_ne!(other.downstream_key, first.downstream_key);
}

#[test]
fn a_call_repeated_after_a_lost_acknowledgement_is_no_error() {
    let mut s = database().session();
    let fence = s.begin("k", "1 minute").held();
    assert_eq!(s.fail("k", fence, "1 minute"), "failed");
    assert_eq!(s.fail("k", fence, "1 minute"), "failed");
    assert!(s.complete("k", fence, "'{\"a\": 1, \"b\": 2}'"));
    assert!(!s.complete("k", fence, "'{\"b\": 2, \"a\": 1.0}'"), "the same answer");
    let other = s.try_complete("k", fence, "'3'").expect_err("another answer");
    assert_eq!(other.code, "OC008", "{other}");
}

#[test]
fn an_answer_of_null_is_an_answer() {
    let mut s = database().session();
    let fence = s.begin("k", "1 minute").held();
    assert!(s.get_with::<bool>("SELECT once.complete_effect('k', $1)", &[&fence]));
    assert_eq!(s.begin("k", "1 minute").result, Some("null".to_owned()));
    s.claim("plain");
    let plain = s.begin("plain", "1 minute");
    assert_eq!((plain.outcome.as_str(), plain.result), ("done", None));
}

#[test]
fn a_lease_ends_with_the_window_at_the_latest_and_is_not_longer_than_it() {
    let mut s = database().session();
    let failure = s.try_begin("k", "2 hours").expect_err("longer than the window");
    assert_eq!(failure.code, "22023", "{failure}");
    for wrong in ["0", "-1 minute", "infinity"] {
        let failure = s.try_begin("k", wrong);
        assert!(failure.is_err_and(|f| f.code == "22023" || f.code == "22007"), "{wrong}");
    }
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM once.processed_events"),
        0,
        "nothing was claimed"
    );
    let fence = s.begin("k", "1 hour").held();
    assert!(s.try_extend("k", fence, "3 days").expect("a good fence"));
    let cut: bool = s.get("SELECT lease_until = expires_at FROM once.effect_state WHERE key = 'k'");
    assert!(cut);
}

#[test]
fn after_max_attempts_an_effect_is_given_up_until_the_limit_is_no_more() {
    let mut s = database().session();
    s.run("SELECT once.create_store('processed_events', max_attempts => 2)");
    assert_eq!(s.get::<Option<i32>>("SELECT max_attempts FROM once.stores"), Some(2));
    s.begin("k", "1 minute");
    overdue(&mut s, "k");
    assert_eq!(s.begin("k", "1 minute").attempt, Some(2));
    overdue(&mut s, "k");
    let gone = s.begin("k", "1 minute");
    assert_eq!((gone.outcome.as_str(), gone.attempt, gone.fence), ("gave_up", Some(2), None));
    assert_eq!(s.begin("k", "1 minute").outcome, "gave_up");
    let fence = s.begin("failed twice", "1 minute").held();
    assert_eq!(s.fail("failed twice", fence, "0"), "failed");
    let fence = s.begin("failed twice", "1 minute").held();
    assert_eq!(s.fail("failed twice", fence, "0"), "gave_up");
    assert_eq!(s.begin("failed twice", "1 minute").outcome, "gave_up");
    s.run("SELECT once.alter_store('processed_events', note => 'as before')");
    assert_eq!(s.get::<Option<i32>>("SELECT max_attempts FROM once.stores"), Some(2));
    s.run("SELECT once.alter_store('processed_events', max_attempts => 0)");
    assert_eq!(s.get::<Option<i32>>("SELECT max_attempts FROM once.stores"), None);
    let failure = s.fails("SELECT once.alter_store('processed_events', max_attempts => -1)");
    assert_eq!(failure.code, "22023", "{failure}");
    for _ in 0..4 {
        s.begin("without", "1 minute");
        overdue(&mut s, "without");
    }
    assert_eq!(s.begin("without", "1 minute").attempt, Some(5));
}

#[test]
fn an_effect_is_counted_and_shown() {
    // Before PostgreSQL 17 only a preloaded library counts.
    let cluster = Cluster::build().preloaded().start();
    let db = cluster.database();
    let mut s = db.session();
    s.run("SELECT once.create_store('processed_events', max_attempts => 2)");
    let fence = s.begin("k", "1 minute").held();
    overdue(&mut s, "k");
    let health = |s: &mut pg_once_tests::session::Session| -> Vec<String> {
        s.column("SELECT severity || ' ' || finding FROM once.health WHERE finding ~ 'effects' ORDER BY 1")
    };
    assert_eq!(s.state_of("k"), ["overdue"]);
    assert_eq!(health(&mut s), ["warning effects wait for somebody to take them over"]);
    let second = s.begin("k", "1 minute").held();
    assert_eq!(s.try_extend("k", fence, "1 minute").expect_err("stale").code, "OC008");
    assert_eq!(health(&mut s), [""; 0]);
    assert_eq!(s.fail("k", second, "1 minute"), "gave_up");
    assert_eq!(health(&mut s), ["error effects were given up"]);
    let done = s.begin("l", "1 minute").held();
    s.complete("l", done, "'1'");
    let row = &s.rows(
        "SELECT started, taken_over, effects_done, effects_failed, gave_up, stale_fences FROM once.stat_claims",
        &[],
    )[0];
    let counts: Vec<i64> = (0..6).map(|n| row.get(n)).collect();
    assert_eq!(counts, [2, 1, 1, 1, 1, 1]);
    let row = &s.rows("SELECT attempt, max_attempts, fence, error, holder, application_name, lasts < '1 minute' FROM once.effects", &[])[0];
    let error: String = row.get(3);
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1), row.get::<_, i64>(2)), (2, 2, second));
    assert_eq!(
        (error.as_str(), row.get::<_, &str>(4), row.get::<_, bool>(6)),
        ("no answer", "postgres", true)
    );
    assert!(row.get::<_, &str>(5).contains("counted_and_shown"));
}

#[test]
fn a_message_too_late_begins_nothing() {
    let mut s = database().session();
    s.claim("load");
    let late = s
        .try_begin_with(
            "k",
            "lease => '1 minute', event_time => clock_timestamp() - interval '30 days'",
        )
        .expect("an answer");
    assert_eq!(late.outcome, "too_late");
    assert_eq!((late.fence, late.downstream_key), (None, None));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.effect_state"), 0);
}

#[test]
fn the_longest_key_and_effect_have_room() {
    let mut s = database().session();
    s.run("SET pg_once.max_key_bytes = 2048");
    // Hashes, which nothing compresses.
    let long = |bytes: usize| {
        format!(
            "(SELECT left(string_agg(encode(sha256(n::text::bytea), 'hex'), ''), {bytes}) FROM generate_series(1, 40) n)"
        )
    };
    let (key, effect) = (long(2048), long(256));
    let begun = format!("SELECT (once.begin_effect({key}, '1 minute', effect => {effect})).fence");
    let fence: i64 = s.get(&begun);
    assert!(s.get::<bool>(&format!(
        "SELECT once.complete_effect({key}, {fence}, '1', effect => {effect})"
    )));
}
