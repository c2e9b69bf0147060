//! Holds that cross each other, a drop of the store, and encodings.

use pg_once_tests::clock::Instant;
use pg_once_tests::shared::{clocked, cluster, database};
use pg_once_tests::wait;

#[test]
fn an_unhold_that_waited_for_a_hold_ends_it_and_says_so() {
    let db = database();
    let (mut first, mut observer) = (db.session(), db.session());
    assert!(first.claim("load"));
    first.run("BEGIN; SELECT once.alter_store('processed_events', note => 'busy')");
    let unhold =
        db.session().background(|s| s.get::<bool>("SELECT once.unhold('processed_events')"));
    wait::blocked(&mut observer, unhold.pid());
    first.run("SELECT once.hold('processed_events', 'replay'); COMMIT");
    assert!(unhold.join().1, "there was one");
    let held: i64 = observer.get("SELECT count(*) FROM once.store_pause WHERE until > now()");
    assert_eq!(held, 0);
    let log: Vec<String> = observer
        .column("SELECT action FROM once.maintenance_log WHERE action <> 'create' ORDER BY at");
    assert_eq!(log, ["hold", "unhold"]);
    let end: bool = first.get("SELECT expires_at < 'infinity' FROM once.claim('load')");
    assert!(end, "and every session knows");
}

#[test]
fn a_store_dropped_while_somebody_waits_to_change_it_is_an_unknown_store() {
    let db = database();
    let mut observer = db.session();
    for call in [
        "SELECT once.hold('gone', 'replay')",
        "SELECT once.unhold('gone')",
        "SELECT once.alter_store('gone', retention => '9 days')",
        "SELECT once.drop_store('gone')",
    ] {
        observer.run("SELECT once.create_store('gone')");
        let mut first = db.session();
        first.run("BEGIN; SELECT once.drop_store('gone')");
        let late = db.session().background(move |s| s.fails(call).code);
        wait::blocked(&mut observer, late.pid());
        first.run("COMMIT");
        assert_eq!(late.join().1, "42704", "{call}");
        let left: i64 = observer.get("SELECT count(*) FROM once.store_pause");
        assert_eq!(left, 0, "{call}");
    }
}

#[test]
fn a_reason_is_kept_in_any_encoding() {
    for (encoding, reason) in [("LATIN1", "'r\u{e9}p\u{e9}tition'"), ("SQL_ASCII", r"E'\xe9\xff'")]
    {
        let db = cluster().create(&format!("ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"));
        let mut s = db.session();
        s.run("CREATE EXTENSION pg_once");
        assert!(s.claim("k"));
        s.run(&format!("SELECT once.hold('processed_events', {reason})"));
        s.run(&format!("SELECT once.alter_store('processed_events', note => {reason})"));
        let same: bool = s.get(&format!(
            "SELECT p.reason = {reason} AND position({reason} in l.detail) > 0 FROM once.store_pause p, once.maintenance_log l WHERE l.action = 'hold'"
        ));
        assert!(same, "{encoding}");
        assert!(s.get::<bool>("SELECT once.unhold('processed_events')"));
    }
}

#[test]
fn a_hold_or_a_longer_retention_that_comes_while_a_drop_waits_keeps_the_leaf() {
    let cluster = clocked();
    for (year, change) in [
        (2007, "SELECT once.hold('processed_events', 'replay')"),
        (2009, "SELECT once.alter_store('processed_events', retention => '30 days')"),
    ] {
        let db = cluster.database();
        let noon = Instant::midnight(year, 2, 1).plus(43_200.0);
        cluster.clock().set(noon);
        let (mut s, mut reader, mut dba) = (db.session(), db.session(), db.session());
        s.run("SELECT once.create_store('processed_events', retention => '1 hour')");
        assert!(s.claim("k"));
        cluster.clock().set(noon.days(1));
        reader.run("BEGIN; SELECT count(*) FROM once.processed_events");
        // Long enough for the change to come between two tries whatever else the machine does.
        s.run("SET pg_once.maintenance_lock_timeout = '3s'");
        let pass = s.background(|s| s.run("CALL once.maintain()"));
        wait::blocked(&mut dba, pass.pid());
        dba.run(change);
        assert!(!pass.done(), "the drop is still being tried for: {change}");
        reader.run("COMMIT");
        let mut s = pass.join().0;
        let oldest = s.days_of("once.processed_events")[0].day.clone();
        assert_eq!(oldest, format!("{year}0201"), "{change}");
    }
}

#[test]
fn a_store_with_names_that_are_no_utf8_stops_maintenance_of_no_other() {
    let db = cluster().create("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let mut s = db.session();
    s.run("CREATE EXTENSION pg_once");
    s.run("SET pg_once.precreate_days = 1");
    for store in ["a", "b", "c"] {
        s.run(&format!("SELECT once.create_store('{store}')"));
    }
    s.run("ALTER TABLE once.a ADD COLUMN \"\u{e9}\" int DEFAULT 1; ALTER TABLE once.b RENAME TO \"\u{e9}\"");
    s.run("SET pg_once.precreate_days = 4");
    s.run("CALL once.maintain()");
    let days = "SELECT days FROM once.stores WHERE store = 'c'";
    assert_eq!(s.get::<i32>(days), 5, "the others have all their days");
    assert!(s.get::<bool>("SELECT bool_and(maintained_at IS NOT NULL) FROM once.store_policy"));
    // Roles belong to every database: this one goes again.
    let role = format!("jos\u{e9}_{}", db.name());
    s.run(&format!("CREATE ROLE \"{role}\"; GRANT USAGE, CREATE ON SCHEMA once TO \"{role}\""));
    s.run(&format!("SET ROLE \"{role}\""));
    assert_eq!(s.fails("SELECT once.create_store('d')").code, "0A000");
    s.run(&format!("RESET ROLE; DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\""));
}
