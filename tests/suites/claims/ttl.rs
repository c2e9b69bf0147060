//! The window: fixed, counted from the claim, positive, at most the store's retention, and the same
//! length whatever the session thinks a day is.

use pg_once_tests::server::Server;
use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

/// Seconds from claim to expiry of a key's claim.
fn window(s: &mut Session, key: &str) -> f64 {
    s.get_with(
        "SELECT extract(epoch FROM expires_at - claimed_at)::float8 FROM once.lookup($1)",
        &[&key],
    )
}

#[test]
fn no_ttl_means_the_retention_of_the_store() {
    let db = database();
    let mut s = db.session();
    assert!(s.get::<bool>("SELECT once.claim_once('k')"));
    assert_eq!(window(&mut s, "k"), 7.0 * 86_400.0);
    s.run("SELECT once.create_store('short', retention => '90 minutes')");
    let seconds: f64 = s.get(
        "SELECT extract(epoch FROM expires_at - claimed_at)::float8 FROM once.claim('k', store => 'short')",
    );
    assert_eq!(seconds, 5400.0);
}

#[test]
fn a_duplicate_neither_moves_nor_extends_nor_shortens_the_window() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.claim_once('k', '1 hour')");
    let row = "SELECT ctid::text || tableoid::text || claimed_at::text || expires_at::text || xmin::text || xmax::text
                 FROM once.processed_events";
    let before: String = s.get(row);
    for ttl in ["'1 second'", "'7 days'", "NULL", "'1 hour'"] {
        assert!(!s.get::<bool>(&format!("SELECT once.claim_once('k', {ttl})")));
        s.run(&format!("SELECT * FROM once.claim_many('{{k,k}}', {ttl})"));
    }
    assert_eq!(s.get::<String>(row), before);
}

#[test]
fn a_window_that_cannot_be_is_refused_and_claims_nothing() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let mut impossible = vec![
        "'0'",
        "'-1 second'",
        "'-1 microsecond'",
        "'7 days 1 microsecond'",
        "'8 days'",
        "'1 mon'",
        "'300000 years'",
        "'178000000 years'",
        "'-178000000 years'",
        "'2147483647 days'",
        "'2147483647 months'",
        "'-2147483648 months'",
        "make_interval(secs => 1e300)",
        "make_interval(secs => -1e11)",
        "'2562047788 hours'",
        "'1 mon -31 days'",
        "'-1 mon 27 days'",
        "'1 day -24 hours'",
        "'1 day -86401 seconds'",
    ];
    if Server::under_test().major >= 17 {
        impossible.extend(["'infinity'", "'-infinity'"]);
    }
    for ttl in impossible {
        for call in [
            format!("SELECT once.claim_once('k', {ttl})"),
            format!("SELECT once.claim('k', {ttl})"),
            format!("SELECT once.claim_many('{{k}}', {ttl})"),
        ] {
            match s.try_rows(&call, &[]) {
                Ok(_) => panic!("{call} is not refused"),
                // The interval itself may be out of range for this server's interval type.
                Err(failure) => assert!(
                    ["22023", "22008", "22015"].contains(&failure.code.as_str()),
                    "{call}: {failure}"
                ),
            }
        }
    }
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events WHERE key = 'k'"), 0);
    assert!(s.claim("k"));
}

#[test]
fn a_window_longer_than_the_retention_names_the_function_that_raises_it() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('orders', retention => '3 days')");
    let failure = s.fails("SELECT once.claim_once('k', '3 days 1 second', store => 'orders')");
    assert_eq!(failure.code, "22023");
    assert!(failure.hint.contains("once.alter_store"), "{failure}");
    s.run("SELECT once.alter_store('orders', retention => '4 days')");
    assert!(s.get::<bool>("SELECT once.claim_once('k', '3 days 1 second', store => 'orders')"));
}

#[test]
fn the_retention_itself_is_allowed_in_every_spelling() {
    let db = database();
    let mut s = db.session();
    for (n, ttl) in
        ["7 days", "168 hours", "1 week", "604800 seconds", "6 days 24:00:00"].iter().enumerate()
    {
        let key = format!("k{n}");
        assert!(s.get::<bool>(&format!("SELECT once.claim_once('{key}', '{ttl}')")), "{ttl}");
        assert_eq!(window(&mut s, &key), 604_800.0, "{ttl}");
    }
    // A month counts as 31 days in a retention, so a month always fits into a month.
    s.run("SELECT once.create_store('monthly', retention => '1 mon')");
    assert!(s.get::<bool>("SELECT once.claim_once('k', '1 mon', store => 'monthly')"));
    assert!(s.get::<bool>("SELECT once.claim_once('l', '31 days', store => 'monthly')"));
    assert_eq!(s.fails("SELECT once.claim_once('m', '32 days', store => 'monthly')").code, "22023");
    let month: bool = s.get(
        "SELECT expires_at AT TIME ZONE 'UTC' = (claimed_at AT TIME ZONE 'UTC') + interval '1 mon'
           FROM once.lookup('k', store => 'monthly')",
    );
    assert!(month, "a month is added in UTC by the calendar");
}

#[test]
fn a_window_of_one_microsecond_ends_after_one_microsecond() {
    let db = database();
    let mut s = db.session();
    for _ in 0..5 {
        let length: i64 = s.get(
            "SELECT (extract(epoch FROM expires_at - claimed_at) * 1000000)::bigint
               FROM once.claim('k', '1 microsecond') WHERE outcome = 'claimed'",
        );
        assert_eq!(length, 1);
    }
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.lookup('k')"), 0);
    assert_eq!(s.overlapping("once.processed_events"), [""; 0]);
}

#[test]
fn a_day_is_24_hours_in_every_time_zone() {
    let db = database();
    let mut s = db.session();
    let zones = [
        "UTC",
        "Asia/Seoul",
        "America/Los_Angeles",
        "Europe/Berlin",
        "Africa/Cairo",
        "America/Sao_Paulo",
        "Pacific/Kiritimati",
        "Pacific/Pago_Pago",
        "Australia/Lord_Howe",
        "Etc/GMT+12",
        "<+13:37>-13:37",
    ];
    for zone in zones {
        s.run(&format!("SET TimeZone = '{zone}'"));
        assert!(s.get_with::<bool>("SELECT once.claim_once($1::text, '1 day')", &[&zone]));
        assert_eq!(window(&mut s, zone), 86_400.0, "{zone}");
        let right: bool = s.get_with(
            "SELECT once.leaf_day(tableoid) = (claimed_at AT TIME ZONE 'UTC')::date
               FROM once.processed_events WHERE key = $1",
            &[&zone],
        );
        assert!(right, "{zone}: the leaf is that of the UTC day");
        assert!(!s.get_with::<bool>("SELECT once.claim_once($1::text, '1 day')", &[&zone]));
    }
    assert_eq!(
        s.days_of("once.processed_events").len(),
        s.another().days_of("once.processed_events").len()
    );
}

#[test]
fn the_clock_is_read_at_the_claim_and_not_at_the_start_of_the_transaction() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("BEGIN; SELECT pg_sleep(0.05)");
    let late: f64 =
        s.get("SELECT extract(epoch FROM claimed_at - now())::float8 FROM once.claim('k')");
    s.run("COMMIT");
    assert!(late >= 0.05, "claimed {late} s after the transaction began");
}
