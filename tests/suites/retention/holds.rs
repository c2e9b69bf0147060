//! Holds: windows stand still for as long as an incident is replayed.

use pg_once_tests::clock::Instant;
use pg_once_tests::shared::{clocked, database};
use pg_once_tests::wait;

#[test]
fn a_window_open_when_a_hold_begins_is_open_for_as_much_longer() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2010, 3, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let (mut s, mut dba) = (db.session(), db.session());
    assert!(s.claim_for("over", "1 minute"));
    assert!(s.claim_for("open", "2 hours"));
    cluster.clock().set(noon.plus(3_600.0));
    dba.run(
        "SELECT once.hold('processed_events', 'replay', clock_timestamp() + interval '5 hours')",
    );
    // Twelve hours later the hold is long over; of the two hours one had passed when it began.
    for (hours, open, over) in
        [(1.5, false, true), (6.9, false, true), (7.1, true, true), (20.0, true, true)]
    {
        cluster.clock().set(noon.plus(3_600.0 * hours));
        s.run("BEGIN");
        assert_eq!(s.claim_for("open", "1 second"), open, "{hours} h: was open");
        assert_eq!(s.claim_for("over", "1 second"), over, "{hours} h: was over");
        assert!(s.claim_for("new", "1 second"), "{hours} h: never claimed");
        s.run("ROLLBACK");
    }
    assert_eq!(s.leaves_of("open").len(), 1);
}

#[test]
fn a_claim_of_one_second_made_in_a_hold_lasts_as_long_as_the_hold() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2010, 4, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let (mut s, mut dba) = (db.session(), db.session());
    assert!(s.claim_for("load", "1 minute"));
    dba.run("SELECT once.hold('processed_events', 'replay')");
    assert!(s.claim_for("k", "1 second"));
    cluster.clock().set(noon.plus(10_000.0));
    assert!(!s.claim_for("k", "1 second"));
    let end: bool = s.get("SELECT expires_at = 'infinity' FROM once.claim('k')");
    assert!(end, "the answer shows the end that the hold gives");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.lookup('k')"), 1);
    assert!(dba.get::<bool>("SELECT once.unhold('processed_events')"));
    assert!(!dba.get::<bool>("SELECT once.unhold('processed_events')"), "there is none any more");
    assert!(!s.claim_for("k", "1 second"), "a second is left of it");
    cluster.clock().set(noon.plus(10_002.0));
    assert!(s.claim_for("k", "1 second"));
}

#[test]
fn nothing_is_dropped_in_a_hold_and_what_it_kept_open_is_kept_after_it() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2010, 5, 1).plus(1_000.0);
    let mut s = db.session_at(origin);
    s.default_store("2 days");
    assert!(s.claim_for("k0", "2 days"));
    cluster.clock().set(origin.days(1));
    assert!(s.claim_for("k1", "2 days"));
    s.run("CALL once.maintain()");
    s.run("SELECT once.hold('processed_events', 'replay', clock_timestamp() + interval '3 days')");
    for day in 2..=4 {
        cluster.clock().set(origin.days(day).plus(-100.0));
        s.run("CALL once.maintain()");
        assert!(!s.claim_for("k0", "2 days") && !s.claim_for("k1", "2 days"), "day {day}");
        let state: String = s.get("SELECT state FROM once.partitions ORDER BY day LIMIT 1");
        assert_eq!(state, "held", "day {day}");
    }
    cluster.clock().set(origin.days(4).plus(1_000.0));
    s.run("CALL once.maintain()");
    assert_eq!(s.days_of("once.processed_events")[0].day, "20100501", "held for three days more");
    assert!(!s.claim_for("k0", "2 days"));
    // The first day's promise was 4 May 00:00, three days were held.
    cluster.clock().set(origin.days(6));
    assert!(!s.claim_for("load", "2 days") || s.claim_for("other", "2 days"));
    s.run("CALL once.maintain()");
    assert_eq!(s.days_of("once.processed_events")[0].day, "20100502");
}

#[test]
fn a_second_hold_changes_the_one_in_force_and_both_are_in_the_log() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("SELECT once.hold('processed_events', 'first', clock_timestamp() + interval '1 hour')");
    s.run("SELECT once.hold('processed_events', 'second, it''s longer')");
    let holds: Vec<String> = s.column("SELECT reason || ' ' || until FROM once.store_pause");
    assert_eq!(holds, ["second, it's longer infinity"]);
    s.run("SELECT once.unhold('processed_events')");
    let log: Vec<String> = s.column(
        "SELECT action || ' by ' || made_by || ' ' || (detail LIKE '%first' OR detail LIKE 'until further notice: second%'
                OR action = 'unhold') FROM once.maintenance_log WHERE action LIKE '%hold' ORDER BY at",
    );
    assert_eq!(log, ["hold by postgres true", "hold by postgres true", "unhold by postgres true"]);
}

#[test]
fn a_hold_that_rolls_back_holds_nothing() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2010, 6, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let (mut s, mut dba) = (db.session(), db.session());
    assert!(s.claim_for("k", "1 minute"));
    dba.run("BEGIN; SELECT once.hold('processed_events', 'replay')");
    cluster.clock().set(noon.plus(120.0));
    assert!(s.claim_for("k", "1 minute"), "not committed, so not in force");
    dba.run("ROLLBACK");
    cluster.clock().set(noon.plus(240.0));
    assert!(s.claim_for("k", "1 minute"));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.store_pause"), 0);
}

#[test]
fn only_the_owner_holds_and_only_into_the_future() {
    let db = database();
    let (other, mut admin) = (db.role("other"), db.session());
    admin.claim("load");
    admin.run(&format!("GRANT USAGE ON SCHEMA once TO {other}"));
    let mut s = db.session_of(&other);
    assert_eq!(s.fails("SELECT once.hold('processed_events', 'r')").code, "42501");
    assert_eq!(s.fails("SELECT once.unhold('processed_events')").code, "42501");
    assert_eq!(admin.fails("SELECT once.hold('nowhere', 'r')").code, "42704");
    assert_eq!(admin.fails("SELECT once.hold('processed_events', NULL)").code, "22004");
    assert_eq!(admin.fails("SELECT once.hold('processed_events', 'r', NULL)").code, "22004");
    assert_eq!(
        admin.fails("SELECT once.hold('processed_events', 'r', '2001-01-01')").code,
        "22023"
    );
    assert_eq!(admin.fails("SELECT once.hold('processed_events', 'r', '-infinity')").code, "22023");
    admin.run("BEGIN READ ONLY");
    assert_eq!(admin.fails("SELECT once.hold('processed_events', 'r')").code, "25006");
    admin.run("ROLLBACK");
    assert_eq!(admin.get::<i64>("SELECT count(*) FROM once.store_pause"), 0);
}

#[test]
fn holds_and_the_log_go_along_in_a_dump() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("SELECT once.hold('processed_events', 'replay')");
    let dumped: Vec<String> = s.column(
        "SELECT c.relname::text FROM pg_extension e, unnest(e.extconfig) WITH ORDINALITY x (oid, n) JOIN pg_class c ON c.oid = x.oid
          WHERE extname = 'pg_once' ORDER BY n",
    );
    assert_eq!(
        dumped,
        [
            "store_policy",
            "leaf_promise",
            "store_pause",
            "maintenance_log",
            "effect_fence",
            "effect_state",
            "release_log"
        ]
    );
}

#[test]
fn a_hold_that_ends_by_itself_is_told_once_by_the_next_pass() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2010, 8, 2).plus(43_200.0);
    let mut s = db.session_at(noon);
    s.claim("load");
    let ended = "SELECT detail FROM once.maintenance_log WHERE action = 'unhold' ORDER BY at";
    // One that a person ends is told when it is.
    s.run("SELECT once.hold('processed_events', 'by hand')");
    s.run("SELECT once.unhold('processed_events')");
    s.run("CALL once.maintain()");
    assert_eq!(s.column::<String>(ended), ["windows run on"]);
    cluster.clock().set(noon.plus(600.0));
    s.run("SELECT once.hold('processed_events', 'replay', clock_timestamp() + interval '1 hour')");
    s.run("CALL once.maintain()");
    assert_eq!(s.column::<String>(ended).len(), 1);
    cluster.clock().set(noon.plus(7_200.0));
    for _ in 0..2 {
        s.run("CALL once.maintain()");
        let log: Vec<String> = s.column(ended);
        assert_eq!(log.len(), 2, "{log:?}");
        assert!(log[1].starts_with("the hold of 2010-08-02 12:10:"), "{log:?}");
        assert!(log[1].contains(" ended by itself at 2010-08-02 13:10:"), "{log:?}");
    }
}

#[test]
fn the_log_tells_who_ran_what_a_hand_or_a_claim() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2010, 9, 6).plus(43_200.0);
    let mut s = db.session_at(noon);
    s.run("SET application_name = 'the DBA''s psql'");
    s.default_store("2 days");
    cluster.clock().set(noon.days(20));
    s.claim("k");
    s.run("SET application_name = ''; SELECT once.hold('processed_events', 'r')");
    let runners: Vec<String> =
        s.column("SELECT DISTINCT (action || ' ' || runner) COLLATE \"C\" FROM once.maintenance_log ORDER BY 1");
    let expected = ["create pg_once claim", "create the DBA's psql", "hold client backend"];
    assert_eq!(runners, expected);
}

#[test]
fn a_transaction_that_has_taken_nothing_in_since_a_hold_ended_goes_by_its_end() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2010, 9, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let (mut dba, mut gate) = (db.session(), db.session());
    assert!(dba.claim_for("k", "10 minutes"));
    cluster.clock().set(noon.plus(300.0));
    dba.run("SELECT once.hold('processed_events', 'replay')");
    cluster.clock().set(noon.plus(1_200.0));
    gate.run("SELECT pg_advisory_lock(7)");
    // Its answer is a duplicate, so that it looks for the next without the key's lock, in what it has open.
    let asks = db.session().background(|s| {
        s.try_run(
            "DO $$ BEGIN
                 IF once.claim_once('k', '10 minutes') THEN RAISE 'claimed in the hold'; END IF;
                 PERFORM pg_advisory_xact_lock_shared(7);
                 IF NOT once.claim_once('k', '10 minutes') THEN RAISE 'refused when its window was over'; END IF;
             END $$",
        )
    });
    wait::blocked(&mut dba, asks.pid());
    assert!(dba.get::<bool>("SELECT once.unhold('processed_events')"));
    // Five of the ten minutes were left.
    cluster.clock().set(noon.plus(1_560.0));
    gate.run("SELECT pg_advisory_unlock(7)");
    assert_eq!(asks.join().1, Ok(()));
    assert!(!dba.claim_for("k", "10 minutes"));
}
