//! Absences that are hard to find out about, because somebody is in the way or the last day holds nothing that
//! was committed: no window ends early for it and nothing is dropped for it.

use pg_once_tests::clock::Instant;
use pg_once_tests::shared::clocked;

#[test]
fn nothing_is_dropped_while_nobody_can_tell_whether_the_store_was_away() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2013, 3, 4).plus(32_400.0);
    cluster.clock().set(start);
    let (mut s, mut dba) = (db.session(), db.session());
    db.look_for_absences(&mut s);
    s.default_store("2 days");
    assert!(s.claim_for("first", "2 days"));
    cluster.clock().set(start.days(1));
    assert!(s.claim_for("second", "2 days"));
    s.run("CALL once.maintain()");
    // Four days without anybody; then somebody has the newest day locked when maintenance comes.
    dba.run("BEGIN; LOCK TABLE ONLY once.processed_events_20130305 IN ACCESS EXCLUSIVE MODE");
    cluster.clock().set(start.days(5));
    s.run("CALL once.maintain()");
    assert_eq!(s.pauses(), [""; 0], "nobody could tell");
    dba.run("COMMIT");
    assert_eq!(s.days_of("once.processed_events")[0].day, "20130304", "so the first day is kept");
    let log: Vec<String> =
        s.column("SELECT detail FROM once.maintenance_log WHERE action = 'postpone'");
    let by = format!("in use by backend {}", dba.pid());
    assert_eq!(log, [format!("nobody can tell whether the store was away: {by}")]);
    s.run("CALL once.maintain()");
    assert_eq!(s.pauses(), ["2013-03-05 09:00:00 open"]);
    assert!(!s.claim_for("first", "2 days") && !s.claim_for("second", "2 days"));
}

#[test]
fn a_claim_that_was_rolled_back_on_the_last_day_hides_no_absence() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2013, 5, 6).plus(32_400.0);
    let mut s = db.session_at(start);
    db.look_for_absences(&mut s);
    s.default_store("2 days");
    assert!(s.claim_for("k", "2 days"));
    cluster.clock().set(start.days(1));
    s.run("BEGIN");
    assert!(s.claim_for("failed", "2 days"));
    s.run("ROLLBACK");
    cluster.clock().set(start.days(6));
    assert!(!s.claim_for("k", "2 days"), "a day of its window has passed, the rest is to come");
    assert_eq!(s.pauses(), ["2013-05-06 09:00:00 open"]);
    // What a person ends stays ended.
    s.run("SELECT once.unhold('processed_events')");
    s.run("CALL once.maintain()");
    s.run("CALL once.maintain()");
    assert_eq!(s.pauses(), ["2013-05-06 09:00:00 2013-05-12 09:00:00"]);
}

#[test]
fn a_first_claim_that_is_rolled_back_leaves_the_absence_for_the_next_one_to_find() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2013, 7, 1).plus(32_400.0);
    let mut s = db.session_at(start);
    db.look_for_absences(&mut s);
    s.default_store("2 days");
    assert!(s.claim_for("k", "2 days"));
    cluster.clock().set(start.days(6));
    // This one does not look, and leaves a page of nothing behind.
    let mut other = db.session();
    other.run("SET pg_once.away_days = 0; BEGIN");
    assert!(other.claim_for("failed", "2 days"));
    other.run("ROLLBACK");
    let mut s = db.session();
    assert!(!s.claim_for("k", "2 days"));
    assert_eq!(s.pauses(), ["2013-07-01 09:00:00 open"]);
}

#[test]
fn while_somebody_keeps_an_absence_from_being_written_down_it_counts_all_the_same() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2013, 9, 2).plus(32_400.0);
    cluster.clock().set(start);
    let (mut s, mut dba) = (db.session(), db.session());
    db.look_for_absences(&mut s);
    s.default_store("2 days");
    assert!(s.claim_for("k", "2 days"));
    cluster.clock().set(start.days(3));
    // Back after the downtime: somebody is about to hold the store, and has not committed.
    dba.run("BEGIN; SELECT once.alter_store('processed_events', note => 'about to replay')");
    let mut first = db.session();
    assert!(!first.claim_for("k", "2 days"), "two days outlive three days of downtime");
    assert!(first.claim_for("new", "2 days"));
    assert!(!db.session().claim_for("k", "2 days"), "after the first claim too");
    assert_eq!(s.pauses(), [""; 0], "nobody could write it down");
    dba.run("COMMIT");
    s.run("CALL once.maintain()");
    let noted = s.pauses();
    assert!(
        noted.len() == 1 && noted[0].starts_with("2013-09-02 09:00:00 2013-09-05"),
        "{noted:?}"
    );
    assert!(!s.claim_for("k", "2 days"));
}

#[test]
fn a_locked_day_of_nothing_does_not_pass_for_a_day_with_claims() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2013, 11, 4).plus(32_400.0);
    cluster.clock().set(start);
    let (mut s, mut dba) = (db.session(), db.session());
    db.look_for_absences(&mut s);
    s.default_store("2 days");
    assert!(s.claim_for("k", "2 days"));
    cluster.clock().set(start.days(3));
    dba.run("BEGIN; LOCK TABLE ONLY once.processed_events_20131106 IN ACCESS EXCLUSIVE MODE");
    let claim = db.session().background(|s| s.claim_for("k", "2 days"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    dba.run("COMMIT");
    assert!(!claim.join().1);
    assert_eq!(s.pauses(), ["2013-11-04 09:00:00 open"]);
}

#[test]
fn raising_the_retention_takes_nothing_from_a_window_that_an_absence_has_lengthened() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2012, 1, 2).plus(32_400.0);
    let mut s = db.session_at(start);
    db.look_for_absences(&mut s);
    s.default_store("7 days");
    s.run("SELECT once.create_store('known', retry_horizon => '1 day', retention => '3 days')");
    assert!(s.claim_for("k", "7 days"));
    assert!(s.get::<bool>("SELECT once.claim_once('k', '2 days', store => 'known')"));
    cluster.clock().set(start.days(4));
    assert!(s.claim_for("back", "7 days"));
    assert!(s.get::<bool>("SELECT once.claim_once('back', store => 'known')"));
    s.run("CALL once.maintain()");
    assert_eq!(s.pauses(), vec!["2012-01-02 09:00:00 2012-01-06 09:00:00"; 2]);
    cluster.clock().set(start.days(5));
    assert!(!s.get::<bool>("SELECT once.claim_once('k', '2 days', store => 'known')"));
    s.run("SELECT once.alter_store('known', retry_horizon => '60 hours', retention => '9 days')");
    assert!(
        !s.get::<bool>("SELECT once.claim_once('k', '2 days', store => 'known')"),
        "a longer horizon ends no window"
    );
    cluster.clock().set(start.days(8));
    assert!(!s.claim_for("k", "7 days"));
    s.run("SELECT once.alter_store('processed_events', retention => '30 days')");
    assert!(!s.claim_for("k", "7 days"), "a longer retention ends no window");
    cluster.clock().set(start.days(12));
    assert!(s.claim_for("k", "7 days"));
}

#[test]
fn a_session_that_slept_through_an_absence_finds_it_out() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2011, 8, 1).plus(32_400.0);
    let mut s = db.session_at(start);
    db.look_for_absences(&mut s);
    s.default_store("36 hours");
    assert!(s.claim_for("k", "36 hours"));
    assert!(!s.claim_for("k", "36 hours"), "the session knows the store");
    // The leaf of this day was made ahead: nothing has changed that the session would hear of.
    cluster.clock().set(start.days(2));
    assert!(!s.claim_for("k", "36 hours"));
    assert_eq!(s.pauses(), ["2011-08-01 09:00:00 open"]);
}

#[test]
fn the_empty_days_of_an_absence_become_due_together_and_raise_no_doubt() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2011, 10, 3).plus(32_400.0);
    let mut s = db.session_at(start);
    db.look_for_absences(&mut s);
    s.default_store("2 days");
    for day in 0..22 {
        cluster.clock().set(start.days(day));
        // Away from the sixth to the fourteenth day; maintenance goes on.
        if !(5..14).contains(&day) {
            assert!(s.claim_for(&format!("k{day}"), "2 days"), "day {day}");
        }
        s.run("CALL once.maintain()");
        let doubts: i64 = s.get("SELECT count(*) FROM once.health WHERE severity = 'error'");
        assert_eq!(doubts, 0, "day {day}");
    }
    let oldest: String = s.get("SELECT to_char(min(day), 'YYYY-MM-DD') FROM once.partitions");
    assert_eq!(oldest, "2011-10-22", "three days before the last");
}
