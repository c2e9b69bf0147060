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
fn a_default_partition_with_rows_of_tomorrow_keeps_that_day_from_being_made_and_nothing_else() {
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
    assert_eq!(days(&mut s, "processed_events"), ["20180402", "20180403", "20180405"]);
    assert_eq!(days(&mut s, "zebra"), ["20180402", "20180403", "20180404", "20180405"]);
    assert_eq!(findings(&mut s, "processed_events"), ["warning a day ahead is missing"]);
    assert!(!s.claim("ahead"));
    // The day comes: nobody is told true without a row, the error says what is the matter.
    cluster.clock().set(start.days(2).plus(3_600.0));
    let refused = s.try_claim("new").expect_err("there is no leaf for it");
    assert_eq!(refused.code, "55000", "{refused}");
    assert!(!refused.hint.is_empty(), "{refused}");
    assert_eq!(findings(&mut s, "processed_events")[0], "error a day ahead is missing");
    // Drops go on beside it, and maintenance says every time what it could not make.
    s.run("CALL once.maintain()");
    assert_eq!(days(&mut s, "processed_events")[0], "20180403", "the first day is gone");
    // Moved by hand in one transaction the key is refused throughout, and the day is there.
    let mut dba = db.session();
    dba.run("BEGIN; ALTER TABLE once.processed_events DETACH PARTITION once.rest");
    let claim = db.session().background(|s| s.claim("ahead"));
    dba.run(
        "CREATE TABLE once.moved PARTITION OF once.processed_events (PRIMARY KEY (key, effect)) FOR VALUES FROM ('2018-04-04 00:00+00') TO ('2018-04-05 00:00+00')",
    );
    dba.run(
        "INSERT INTO once.processed_events SELECT * FROM once.rest; DROP TABLE once.rest; COMMIT",
    );
    assert!(!claim.join().1);
    assert!(!s.claim("ahead") && s.claim("new"));
    s.run("CALL once.maintain()");
    assert_eq!(findings(&mut s, "processed_events"), [""; 0]);
}
