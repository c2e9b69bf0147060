//! Holds that cross each other, a drop of the store, and encodings.

use pg_once_tests::shared::{cluster, database};
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
