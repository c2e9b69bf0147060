//! Making, changing and dropping stores.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

fn window(s: &mut Session, store: &str) -> (f64, Option<f64>, Option<String>) {
    let rows = s.rows(
        "SELECT extract(epoch FROM retention)::float8, extract(epoch FROM retry_horizon)::float8, note
           FROM once.stores WHERE store = $1",
        &[&store],
    );
    (rows[0].get(0), rows[0].get(1), rows[0].get(2))
}

const DAY: f64 = 86_400.0;

#[test]
fn retention_is_given_or_three_horizons_or_seven_days() {
    let db = database();
    let mut s = db.session();
    for (arguments, expected) in [
        ("'a'", (7.0 * DAY, None, None)),
        ("'b', '1 day'", (3.0 * DAY, Some(DAY), None)),
        ("'c', '1 day', '2 days', 'why'", (2.0 * DAY, Some(DAY), Some("why".to_owned()))),
        ("'d', retention => '1 hour'", (3_600.0, None, None)),
        ("'e', '1 day', '1 day'", (DAY, Some(DAY), None)),
        ("'f', retention => '400 days', note => ''", (400.0 * DAY, None, Some(String::new()))),
        ("'g', '1 mon'", (93.0 * DAY, Some(31.0 * DAY), None)),
    ] {
        let store = s.get::<String>(&format!("SELECT (once.create_store({arguments}))::text"));
        let name = arguments[1..2].to_owned();
        assert_eq!(store, format!("once.{name}"));
        let (retention, horizon, note) = window(&mut s, &name);
        // extract() counts a stored month as 30 days; ours counts 31, and stores days.
        assert_eq!((retention, note), (expected.0, expected.2), "{arguments}");
        assert_eq!(horizon, expected.1, "{arguments}");
    }
    s.run("SET pg_once.horizon_factor = 5; SELECT once.create_store('h', '2 days')");
    assert_eq!(window(&mut s, "h").0, 10.0 * DAY);
}

#[test]
fn a_window_that_makes_no_sense_is_22023() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('there', '1 day', '4 days')");
    let mut bad = vec![
        "retention => '0'",
        "retention => '-1 day'",
        "retry_horizon => '0'",
        "retry_horizon => '-1 second'",
        "retry_horizon => '2 days', retention => '1 day'",
        "retry_horizon => '5 days', retention => '4 days 23:59:59'",
        "retention => '1 mon -31 days'",
        "retention => make_interval(secs => 1e300)",
        "retention => '178000000 years'",
        "retry_horizon => '178000000 years'",
    ];
    if db.cluster().server().major >= 17 {
        bad.extend([
            "retention => 'infinity'",
            "retention => '-infinity'",
            "retry_horizon => 'infinity'",
        ]);
    }
    for arguments in bad {
        for call in ["create_store('new'", "alter_store('there'"] {
            let failure = s.fails(&format!("SELECT once.{call}, {arguments})"));
            assert!(
                ["22023", "22008"].contains(&failure.code.as_str()),
                "{call}, {arguments}: {failure}"
            );
        }
    }
    let failure = s.fails("SELECT once.alter_store('there', retry_horizon => '5 days')");
    assert_eq!(failure.code, "22023", "above the retention that is there: {failure}");
    let failure = s.fails("SELECT once.alter_store('there', retention => '12 hours')");
    assert_eq!(failure.code, "22023", "below the horizon that is there: {failure}");
    assert_eq!(s.column::<String>("SELECT store FROM once.stores"), ["there"]);
    assert_eq!(window(&mut s, "there"), (4.0 * DAY, Some(DAY), None));
}

#[test]
fn altering_changes_what_is_given_and_leaves_the_rest() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('a', '1 day', '4 days', 'first')");
    s.run("SELECT once.alter_store('a')");
    assert_eq!(window(&mut s, "a"), (4.0 * DAY, Some(DAY), Some("first".into())));
    s.run("SELECT once.alter_store('a', note => 'second')");
    s.run("SELECT once.alter_store('a', retention => '6 days')");
    s.run("SELECT once.alter_store('a', retry_horizon => '2 days')");
    assert_eq!(window(&mut s, "a"), (6.0 * DAY, Some(2.0 * DAY), Some("second".into())));
    s.run("SELECT once.alter_store('a', '3 days', '9 days', 'third')");
    assert_eq!(window(&mut s, "a"), (9.0 * DAY, Some(3.0 * DAY), Some("third".into())));
}

#[test]
fn a_longer_retention_counts_at_once_in_open_sessions_and_protects_the_days_there_are() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    s.run("SELECT once.create_store('a', retention => '1 day')");
    other.run("PREPARE p AS SELECT once.claim_once($1::text, '2 days', store => 'a')");
    assert_eq!(other.fails("EXECUTE p('k')").code, "22023");
    let keep = "SELECT extract(epoch FROM min(keep_until) - clock_timestamp())::float8 FROM once.partitions";
    let before: f64 = s.get(keep);
    s.run("SELECT once.alter_store('a', retention => '3 days')");
    let after: f64 = s.get(keep);
    assert!((after - before - 2.0 * DAY).abs() < 60.0, "{before}, then {after}");
    assert_eq!(other.column::<bool>("EXECUTE p('k')"), [true]);
    s.run("SELECT once.alter_store('a', retention => '1 day')");
    assert!(s.get::<f64>(keep) > after - 60.0, "a promise is never lowered");
    assert_eq!(other.fails("EXECUTE p('l')").code, "22023");
    assert!(!other.get::<bool>("SELECT once.claim_once('k', store => 'a')"));
}

#[test]
fn dropping_a_store_leaves_nothing_of_it() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    s.claim("stays");
    let before: i64 = s.get("SELECT count(*) FROM pg_class");
    s.run("SELECT once.create_store('a')");
    assert!(other.get::<bool>("SELECT once.claim_once('k', store => 'a')"));
    s.run("SELECT once.drop_store('a')");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM pg_class"), before);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.store_policy"), 1);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.leaf_promise"), 4);
    assert_eq!(other.fails("SELECT once.claim_once('k', store => 'a')").code, "42704");
    assert!(!other.claim("stays"));
    s.run("SELECT once.create_store('a')");
    assert!(
        other.get::<bool>("SELECT once.claim_once('k', store => 'a')"),
        "a new store remembers nothing"
    );
}

#[test]
fn making_changing_and_dropping_follow_their_transaction() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("BEGIN; SELECT once.create_store('a')");
    assert!(
        s.get::<bool>("SELECT once.claim_once('k', store => 'a')"),
        "usable in the same transaction"
    );
    assert!(!s.get::<bool>("SELECT once.claim_once('k', store => 'a')"));
    s.run("ROLLBACK");
    assert_eq!(s.fails("SELECT once.claim_once('k', store => 'a')").code, "42704");
    s.run("BEGIN; SELECT once.create_store('a'); SAVEPOINT x; SELECT once.create_store('b'); ROLLBACK TO x; COMMIT");
    assert!(s.get::<bool>("SELECT once.claim_once('k', store => 'a')"));
    assert_eq!(s.fails("SELECT once.claim_once('k', store => 'b')").code, "42704");
    s.run("BEGIN; SELECT once.alter_store('a', retention => '30 days'); ROLLBACK");
    assert_eq!(s.fails("SELECT once.claim_once('l', '8 days', store => 'a')").code, "22023");
    s.run("BEGIN; SELECT once.drop_store('a'); ROLLBACK");
    assert!(!s.get::<bool>("SELECT once.claim_once('k', store => 'a')"));
    s.run("BEGIN; SELECT once.drop_store('a'); SELECT once.create_store('a'); COMMIT");
    assert!(s.get::<bool>("SELECT once.claim_once('k', store => 'a')"));
}

#[test]
fn a_default_store_that_somebody_dropped_by_hand_is_made_again() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    assert!(s.claim("k") && !other.claim("k"));
    s.run("DROP TABLE once.processed_events");
    assert!(other.claim("k"));
    assert!(!s.claim("k"));
    assert_eq!(s.column::<String>("SELECT store FROM once.stores"), ["processed_events"]);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.partitions"), 4);
    s.run("CALL once.maintain()");
}

#[test]
fn a_renamed_store_goes_by_its_new_name() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    s.run("SELECT once.create_store('a')");
    assert!(other.get::<bool>("SELECT once.claim_once('k', store => 'a')"));
    s.run("ALTER TABLE once.a RENAME TO b");
    assert_eq!(other.fails("SELECT once.claim_once('k', store => 'a')").code, "42704");
    assert!(!other.get::<bool>("SELECT once.claim_once('k', store => 'b')"));
    s.run("SELECT once.alter_store('b', note => 'renamed')");
    s.run("CALL once.maintain()");
    s.run("SELECT once.create_store('a')");
    assert!(other.get::<bool>("SELECT once.claim_once('k', store => 'a')"));
    assert!(!other.get::<bool>("SELECT once.claim_once('k', store => 'b')"));
    s.run("SELECT once.drop_store('b')");
}
