//! Absences: a time without consumers or server does not eat the windows that guard against redelivery.

use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::shared::clocked;

const HOUR: f64 = 3_600.0;

#[test]
fn the_first_claim_after_a_downtime_still_knows_what_was_live_before_it() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2014, 3, 3).plus(9.0 * HOUR);
    cluster.clock().set(start);
    {
        let mut s = db.session();
        s.run(&format!("ALTER DATABASE {} SET pg_once.away_days = 1", db.name()));
        s.default_store("2 days");
    }
    {
        let mut s = db.session();
        assert!(s.claim_for("guard", "2 days"));
        assert!(s.claim_for("short", "1 hour"));
    }
    // The server, its consumers and its maintenance are down for five days.
    cluster.stop("fast");
    cluster.clock().set(start.days(5));
    cluster.start();
    let mut s = db.session();
    assert!(!s.claim_for("guard", "2 days"), "five days do not count against two");
    assert!(s.claim_for("short", "1 hour"), "a window that guards against nothing runs on");
    assert_eq!(s.pauses(), ["2014-03-03 09:00:00 open"]);
    s.run("CALL once.maintain()");
    assert_eq!(s.pauses(), ["2014-03-03 09:00:00 2014-03-08 09:00:00"], "back");
    let days = s.days_of("once.processed_events");
    assert_eq!(days[0].day, "20140303", "and its leaf is kept");
    // Two days of the window are left from here.
    cluster.clock().set(start.days(7).plus(-60.0));
    assert!(!s.claim_for("guard", "2 days"));
    cluster.clock().set(start.days(7).plus(60.0));
    assert!(s.claim_for("guard", "2 days"));
}

#[test]
fn nothing_is_dropped_while_consumers_are_away() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2014, 5, 5).plus(9.0 * HOUR);
    let mut s = db.session_at(start);
    s.run("SET pg_once.away_days = 1");
    s.default_store("2 days");
    assert!(s.claim_for("k", "2 days"));
    for hours in (1..24 * 12).step_by(6) {
        cluster.clock().set(start.plus(HOUR * f64::from(hours)));
        s.run("CALL once.maintain()");
        assert_eq!(s.days_of("once.processed_events")[0].day, "20140505", "after {hours} h");
    }
    let finding: Vec<String> =
        s.column("SELECT severity || ' ' || finding FROM once.health WHERE finding LIKE '%away%'");
    assert_eq!(finding, ["warning consumers or the server are away"]);
    assert!(!s.claim_for("k", "2 days"));
    s.run("SELECT once.unhold('processed_events')");
    assert!(!s.claim_for("k", "2 days"), "two days are left of it");
    cluster.clock().set(start.days(15));
    assert!(s.claim_for("k", "2 days"));
}

#[test]
fn a_store_that_rests_at_weekends_is_not_away_on_sunday() {
    let cluster = clocked();
    let db = cluster.database();
    // A Monday.
    let monday = Instant::midnight(2014, 9, 1).plus(9.0 * HOUR);
    let mut s = db.session_at(monday);
    s.run("SET pg_once.away_days = 1");
    s.default_store("20 days");
    for week in 0..3 {
        for day in 0..7 {
            cluster.clock().set(monday.days(7 * week + day));
            if day < 5 {
                assert!(s.claim_for(&format!("{week} {day}"), "20 days"));
            }
            s.run("CALL once.maintain()");
        }
        if week == 0 {
            // The first weekend is longer than anything known before.
            assert_eq!(s.pauses(), ["2014-09-05 09:00:00 open"]);
        }
    }
    assert_eq!(s.pauses(), ["2014-09-05 09:00:00 2014-09-08 09:00:00"], "no later one is");
    // Four days without a claim are.
    cluster.clock().set(monday.days(22));
    s.run("CALL once.maintain()");
    assert_eq!(s.pauses().len(), 2);
}

#[test]
fn an_absence_that_nobody_saw_is_found_out_when_it_is_over() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2004, 2, 2).plus(9.0 * HOUR);
    let mut s = db.session_at(start);
    s.default_store("3 days");
    assert!(s.claim_for("k", "3 days"));
    cluster.clock().set(start.days(4).plus(-HOUR));
    // As where no background process could be had: this claim does not look.
    s.run("SET pg_once.away_days = 0");
    assert!(s.claim_for("other", "3 days"));
    s.run("SET pg_once.away_days = 1");
    s.run("CALL once.maintain()");
    assert_eq!(s.pauses(), ["2004-02-02 09:00:00 2004-02-06 08:00:00"]);
    assert!(!s.claim_for("k", "3 days"));
    s.run("CALL once.maintain()");
    assert_eq!(s.pauses().len(), 1, "and is written down once");
}

#[test]
fn sixteen_first_claims_after_a_downtime_write_one_absence_and_give_no_second_true() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2004, 6, 7).plus(9.0 * HOUR);
    cluster.clock().set(start);
    db.session().run(&format!("ALTER DATABASE {} SET pg_once.away_days = 1", db.name()));
    {
        let mut s = db.session();
        s.default_store("2 days");
        for key in 0..8 {
            assert!(s.claim_for(&format!("k{key}"), "2 days"));
        }
    }
    cluster.clock().set(start.days(9));
    let mut sessions = db.sessions(16);
    let answers = pg_once_tests::race::all(&mut sessions, |number, s| {
        s.claim_for(&format!("k{}", number % 8), "2 days")
    });
    assert_eq!(pg_once_tests::race::trues(&answers), 0, "{answers:?}");
    assert_eq!(sessions[0].pauses(), ["2004-06-07 09:00:00 open"]);
}

#[test]
fn a_daily_job_is_never_away() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2011, 1, 3);
    let mut s = db.session_at(start);
    s.run("SET pg_once.away_days = 1");
    s.default_store("20 hours");
    for day in 0..10 {
        // Now early, now late: up to 40 hours between two claims.
        cluster.clock().set(start.days(day).plus(HOUR * if day % 2 == 0 { 2.0 } else { 18.0 }));
        s.run("CALL once.maintain()");
        assert!(day % 2 == 1 || s.claim_for("job", "20 hours"), "day {day}");
        assert!(day % 2 == 0 || s.claim_for("other job", "20 hours"), "day {day}");
    }
    assert_eq!(s.pauses(), [""; 0]);
}

#[test]
fn where_no_process_can_be_had_a_store_in_question_counts_as_away() {
    let cluster = Cluster::build().clocked().set("max_worker_processes", "0").start();
    let db = cluster.database();
    let start = Instant::midnight(2012, 4, 2).plus(9.0 * HOUR);
    let mut s = db.session_at(start);
    s.default_store("2 days");
    assert!(s.claim_for("guard", "2 days") && s.claim_for("short", "1 hour"));
    cluster.clock().set(start.days(3));
    let mut s = db.session();
    s.run("SET pg_once.away_days = 1");
    assert!(!s.claim_for("guard", "2 days"), "in doubt its window stands still");
    assert!(s.claim_for("short", "1 hour"));
    assert_eq!(s.pauses(), [""; 0], "nothing is written in the claimer's own transaction");
    s.run("CALL once.maintain()");
    assert_eq!(s.pauses(), ["2012-04-02 09:00:00 2012-04-05 09:00:00"]);
    assert!(!s.claim_for("guard", "2 days"), "as long as it was away");
}

#[test]
fn raising_the_retention_does_not_end_windows_that_an_absence_stretched() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2012, 3, 5).plus(9.0 * HOUR);
    let mut s = db.session_at(start);
    s.run("SET pg_once.away_days = 1");
    s.default_store("2 days");
    assert!(s.claim_for("k", "2 days"));
    cluster.clock().set(start.days(5));
    assert!(!s.claim_for("k", "2 days"), "stretched by the absence");
    s.run("CALL once.maintain()");
    s.run("SELECT once.alter_store('processed_events', retention => '14 days')");
    assert!(!s.claim_for("k", "2 days"), "a longer retention protects what is there");
}

#[test]
fn telling_the_horizon_does_not_end_windows_that_an_absence_stretched() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2012, 5, 7).plus(9.0 * HOUR);
    let mut s = db.session_at(start);
    s.run("SET pg_once.away_days = 1");
    s.run("SELECT once.create_store('processed_events', retry_horizon => '1 day', retention => '6 days')");
    assert!(s.claim_for("k", "2 days"));
    cluster.clock().set(start.days(5));
    assert!(!s.claim_for("k", "2 days"), "stretched by the absence");
    s.run("SELECT once.alter_store('processed_events', retry_horizon => '3 days')");
    assert!(!s.claim_for("k", "2 days"), "still stretched");
}

#[test]
fn an_absence_is_found_before_a_longer_retention_would_hide_it() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2012, 7, 2).plus(9.0 * HOUR);
    let mut s = db.session_at(start);
    s.run("SET pg_once.away_days = 1");
    s.default_store("2 days");
    assert!(s.claim_for("k", "2 days"));
    // The first thing after the absence is a DBA, who has learned from it.
    cluster.clock().set(start.days(5));
    s.run("SELECT once.alter_store('processed_events', retention => '14 days')");
    assert!(!s.claim_for("k", "2 days"));
}
