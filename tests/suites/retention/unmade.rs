//! Days that are not there when they are needed: maintenance that stopped, and a partition of a DBA's in the way.

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;

fn findings(s: &mut Session, store: &str) -> Vec<String> {
    s.column(&format!(
        "SELECT severity || ' ' || finding FROM once.health WHERE store = '{store}' AND severity <> 'info' ORDER BY 1"
    ))
}

fn days(s: &mut Session, store: &str) -> Vec<String> {
    s.column(&format!(
        "SELECT to_char(day, 'YYYYMMDD') FROM once.partitions WHERE store = '{store}' AND day IS NOT NULL ORDER BY 1"
    ))
}

#[test]
fn two_days_past_the_last_leaf_a_claim_at_midnight_makes_its_own_and_maintenance_makes_up_for_the_rest()
 {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2017, 10, 2);
    cluster.clock().set(start.plus(36_000.0));
    let (mut s, mut other) = (db.session(), db.session());
    s.run("SELECT once.create_store('processed_events', retention => '2 days')");
    assert!(s.claim("first") && !other.claim("first"));
    s.run("CALL once.maintain()");
    assert_eq!(findings(&mut s, "processed_events"), [""; 0]);
    // Maintenance stops here. Three days were made ahead.
    cluster.clock().set(start.days(2).plus(36_000.0));
    assert_eq!(findings(&mut s, "processed_events"), ["warning maintenance is overdue"]);
    cluster.clock().set(start.days(3));
    assert_eq!(
        findings(&mut s, "processed_events"),
        ["warning maintenance is overdue", "warning no day ahead is there"],
        "a day before claims feel it"
    );
    cluster.clock().set(start.days(4));
    assert!(
        findings(&mut s, "processed_events").contains(&"error no day ahead is there".to_owned())
    );
    cluster.clock().set(start.days(5));
    assert!(s.claim("midnight") && !other.claim("midnight"));
    assert_eq!(s.leaves_of("midnight"), ["processed_events_20171007"]);
    let bounds: bool = s.get(
        "SELECT claimed_at >= '2017-10-07 00:00+00' AND claimed_at < '2017-10-07 00:01+00' FROM once.lookup('midnight')",
    );
    assert!(bounds);
    s.run("CALL once.maintain()");
    assert_eq!(findings(&mut s, "processed_events"), [""; 0]);
    // What had ended two days before by the first instant of the seventh is gone, 4 days of October included.
    let expected = ["20171005", "20171007", "20171008", "20171009", "20171010"];
    assert_eq!(days(&mut s, "processed_events"), expected);
    assert!(!other.claim("midnight"));
}

#[test]
fn a_default_partition_with_rows_of_a_day_to_come_keeps_no_day_from_being_made() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2018, 4, 2);
    cluster.clock().set(start.plus(36_000.0));
    let mut s = db.session();
    s.run("SET pg_once.precreate_days = 1");
    s.run("SELECT once.create_store('processed_events', retention => '1 day')");
    s.run("SELECT once.create_store('zebra', retention => '1 day')");
    assert!(s.claim("old"));
    s.run("CREATE TABLE once.rest PARTITION OF once.processed_events (PRIMARY KEY (key, effect)) DEFAULT");
    s.run(
        "INSERT INTO once.processed_events (claimed_at, expires_at, key) VALUES ('2018-04-04 11:00+00', '2018-04-05 10:00+00', 'ahead')",
    );
    assert!(!s.claim("ahead"), "its row counts wherever it is");
    s.run("SET pg_once.precreate_days = 3");
    s.run("CALL once.maintain()");
    let four = ["20180402", "20180403", "20180404", "20180405"];
    assert_eq!(days(&mut s, "processed_events"), four);
    assert_eq!(days(&mut s, "zebra"), four);
    assert_eq!(findings(&mut s, "processed_events"), [""; 0]);
    assert_eq!(s.leaves_of("ahead"), ["processed_events_20180404"]);
    assert!(!s.claim("ahead"));
    // A day that no pass has made: the claim that needs it has its rows moved.
    s.run(
        "INSERT INTO once.processed_events (claimed_at, expires_at, key) VALUES ('2018-04-06 11:00+00', '2018-04-07 10:00+00', 'later')",
    );
    assert_eq!(s.leaves_of("later"), ["rest"]);
    cluster.clock().set(start.days(4).plus(3_600.0));
    assert!(!s.claim("later") && s.claim("new"));
    assert_eq!(s.leaves_of("later"), ["processed_events_20180406"]);
    // Drops go on beside it.
    s.run("CALL once.maintain()");
    assert_eq!(days(&mut s, "processed_events")[0], "20180405", "what is over is gone");
    assert_eq!(findings(&mut s, "processed_events"), [""; 0]);
    // By hand, in one transaction, the key is refused throughout, too.
    s.run(
        "INSERT INTO once.processed_events (claimed_at, expires_at, key) VALUES ('2018-04-10 11:00+00', '2018-04-11 10:00+00', 'by hand')",
    );
    let mut dba = db.session();
    dba.run("BEGIN; ALTER TABLE once.processed_events DETACH PARTITION once.rest");
    let claim = db.session().background(|s| s.claim("by hand"));
    dba.run(
        "CREATE TABLE once.moved PARTITION OF once.processed_events (PRIMARY KEY (key, effect)) FOR VALUES FROM ('2018-04-10 00:00+00') TO ('2018-04-11 00:00+00')",
    );
    dba.run(
        "INSERT INTO once.processed_events SELECT * FROM once.rest; DROP TABLE once.rest; COMMIT",
    );
    assert!(!claim.join().1);
}

#[test]
fn the_log_says_once_a_day_that_days_have_run_out_and_once_that_maintenance_was_overdue() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2017, 2, 6).plus(36_000.0);
    cluster.clock().set(start);
    let store = format!("run out {}", db.name());
    let (mut s, mut other) = (db.session(), db.session());
    s.run("SET pg_once.precreate_days = 1");
    s.run(&format!("SELECT once.create_store('{store}', retention => '2 days')"));
    let said = |text: &str| {
        cluster.log().lines().filter(|line| line.contains(&store) && line.contains(text)).count()
    };
    let claim = |s: &mut Session, key: &str| -> bool {
        s.get_with("SELECT once.claim_once($1::text, store => $2)", &[&key, &store])
    };
    assert!(claim(&mut s, "a"));
    s.run("CALL once.maintain()");
    for day in [3, 4] {
        cluster.clock().set(start.days(day).plus(100.0));
        for key in 0..3 {
            assert!(claim(&mut s, &format!("s{day}{key}")));
            assert!(claim(&mut other, &format!("o{day}{key}")));
        }
    }
    for day in ["2017-02-09", "2017-02-10"] {
        assert_eq!(said(&format!("WARNING:  store \"{store}\" had no leaf for {day}")), 1, "{day}");
    }
    assert_eq!(said("was overdue"), 0);
    // A pass that cannot make a day says when claims will feel it.
    s.run(&format!(
        "CREATE TABLE once.rest PARTITION OF once.\"{store}\" (PRIMARY KEY (key, effect)) DEFAULT"
    ));
    other.run("BEGIN; SELECT count(*) FROM once.rest");
    s.run("CALL once.maintain()");
    assert_eq!(said("the last pass came to its end 96 hours ago"), 1);
    assert_eq!(said("the last leaf ends in 13 hours; a claim then has to make its own"), 1);
    other.run("COMMIT");
    s.run("CALL once.maintain()");
    assert_eq!((said("was overdue"), said("the last leaf ends in")), (1, 1), "and then no more");
}
