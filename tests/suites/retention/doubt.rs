//! A clock that jumps or goes back: warn, keep, wait for a person.

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;

/// A store with a month of days, each with a claim that lives for 20 days.
fn month(s: &mut Session, clock: &pg_once_tests::clock::Clock, origin: Instant) {
    clock.set(origin);
    s.run("SELECT once.create_store('processed_events', retention => '20 days')");
    for day in 0..30 {
        clock.set(origin.days(day));
        assert!(s.get::<bool>(&format!("SELECT once.claim_once('k{day}')")));
        s.run("CALL once.maintain()");
    }
}

fn days(s: &mut Session) -> usize {
    s.days_of("once.processed_events").len()
}

fn doubts(s: &mut Session) -> Vec<String> {
    s.column("SELECT finding FROM once.health WHERE severity = 'error' ORDER BY 1")
}

const IN_DOUBT: &str = "the clock is in doubt, so nothing is dropped";

#[test]
fn a_clock_that_jumps_ahead_by_four_hundred_days_drops_nothing() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2001, 1, 10).plus(43_200.0);
    let mut s = db.session();
    month(&mut s, cluster.clock(), origin);
    let before = days(&mut s);
    cluster.clock().set(origin.days(29 + 400));
    s.run("CALL once.maintain()");
    assert!(days(&mut s) >= before, "every leaf is still there");
    assert_eq!(doubts(&mut s), [IN_DOUBT]);
    s.run("CALL once.maintain()");
    assert!(days(&mut s) >= before, "and a second pass believes it no more");
    let log: i64 = s.get("SELECT count(*) FROM once.maintenance_log WHERE action = 'doubt'");
    assert_eq!(log, 1, "said once an hour");
    // It comes back: nothing is lost, and nothing is in doubt any more.
    cluster.clock().set(origin.days(29).plus(600.0));
    s.run("CALL once.maintain()");
    for day in 10..30 {
        assert!(!s.get::<bool>(&format!("SELECT once.claim_once('k{day}')")), "k{day}");
    }
    assert_eq!(doubts(&mut s), [""; 0]);
}

#[test]
fn with_force_the_clock_is_believed() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2002, 1, 10).plus(43_200.0);
    let mut s = db.session();
    month(&mut s, cluster.clock(), origin);
    cluster.clock().set(origin.days(29 + 60));
    s.run("CALL once.maintain()");
    assert_eq!(doubts(&mut s), [IN_DOUBT]);
    s.run("CALL once.maintain(force => true)");
    assert_eq!(doubts(&mut s), [""; 0]);
    assert_eq!(days(&mut s), 4, "today and three ahead");
    let log: i64 = s.get("SELECT count(*) FROM once.maintenance_log WHERE action = 'force'");
    assert_eq!(log, 1);
    let dropped: i64 = s.get("SELECT count(rows) FROM once.maintenance_log WHERE action = 'drop'");
    assert!(dropped >= 20, "{dropped}");
    assert_eq!(s.fails("CALL once.maintain(NULL)").code, "22004");
}

#[test]
fn a_clock_that_goes_back_drops_nothing_until_it_has_caught_up() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2003, 1, 10).plus(43_200.0);
    let mut s = db.session();
    month(&mut s, cluster.clock(), origin);
    let before = days(&mut s);
    cluster.clock().set(origin.days(27));
    s.run("CALL once.maintain()");
    assert_eq!(doubts(&mut s), [IN_DOUBT]);
    assert_eq!(days(&mut s), before);
    // Seconds are what time servers do.
    cluster.clock().set(origin.days(29).plus(3_600.0));
    s.run("CALL once.maintain()");
    assert_eq!(doubts(&mut s), [""; 0]);
    cluster.clock().set(origin.days(29).plus(3_570.0));
    s.run("CALL once.maintain()");
    assert_eq!(doubts(&mut s), [""; 0]);
}

#[test]
fn weekly_maintenance_by_hand_of_a_busy_store_is_believed() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2006, 1, 5).plus(43_200.0);
    let mut s = db.session_at(origin);
    s.run("SELECT once.create_store('processed_events', retention => '3 days')");
    for week in 0..3 {
        for day in 0..7 {
            cluster.clock().set(origin.days(7 * week + day));
            assert!(s.get::<bool>(&format!("SELECT once.claim_once('{week} {day}')")));
        }
        s.run("CALL once.maintain()");
        assert_eq!(doubts(&mut s), [""; 0], "week {week}");
        assert!(days(&mut s) <= 9, "week {week}: {}", days(&mut s));
    }
}

#[test]
fn with_absences_looked_for_as_by_default_a_leap_ahead_drops_nothing_and_ends_no_window_that_guards()
 {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2010, 1, 10).plus(43_200.0);
    month(&mut db.session(), cluster.clock(), origin);
    // The default of the setting, which these clusters turn off.
    db.look_for_absences(&mut db.session());
    let mut s = db.session();
    let before = days(&mut s);
    let says = |s: &mut Session, finding: &str| -> bool {
        s.get_with("SELECT EXISTS (SELECT FROM once.health WHERE finding = $1)", &[&finding])
    };
    for leap in [2, 400] {
        cluster.clock().set(origin.days(29 + leap));
        // A consumer comes before maintenance, or after it.
        for key in 11..29 {
            assert!(!s.get::<bool>(&format!("SELECT once.claim_once('k{key}')")), "{leap}: k{key}");
        }
        for _ in 0..2 {
            s.run("CALL once.maintain()");
            assert!(days(&mut s) >= before, "{leap}: every leaf is still there");
        }
        assert!(
            says(&mut s, "consumers or the server are away") || says(&mut s, IN_DOUBT),
            "a leap of {leap} days is told"
        );
        cluster.clock().set(origin.days(29).plus(600.0));
        s.run("CALL once.maintain()");
        for key in 11..30 {
            assert!(!s.get::<bool>(&format!("SELECT once.claim_once('k{key}')")), "back: k{key}");
        }
    }
    // New claims are made all the same, and with them it is over.
    cluster.clock().set(origin.days(30));
    assert!(s.get::<bool>("SELECT once.claim_once('new')"));
    s.run("CALL once.maintain()");
    assert!(days(&mut s) >= before);
}
