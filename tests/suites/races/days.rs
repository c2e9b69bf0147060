//! Days are UTC days, whatever zone the session, the role, the database or the server is in, on the
//! 23-hour and 25-hour days of that zone as on any other.

use pg_once_tests::clock::Instant;
use pg_once_tests::shared::clocked;

/// Zone, and a midnight in UTC next to its change of clock.
const CHANGES: [(&str, (i64, i64, i64)); 6] = [
    ("Africa/Cairo", (2024, 4, 26)),
    ("Africa/Cairo", (2024, 11, 1)),
    ("Europe/Berlin", (2026, 3, 29)),
    ("Europe/Berlin", (2026, 10, 25)),
    ("America/Sao_Paulo", (2018, 11, 4)),
    ("Australia/Lord_Howe", (2025, 4, 5)),
];

#[test]
fn claims_every_ten_minutes_through_a_change_of_clock_all_find_their_one_leaf() {
    let cluster = clocked();
    for (zone, (year, month, day)) in CHANGES {
        let db = cluster.database();
        // Eighteen hours on either side of the change.
        let start = Instant::midnight(year, month, day).plus(-18.0 * 3_600.0);
        cluster.clock().set(start);
        let mut s = db.session();
        s.run(&format!(
            "ALTER DATABASE {} SET TimeZone = '{zone}'; SET TimeZone = '{zone}'",
            db.name()
        ));
        s.run("SELECT once.create_store('processed_events')");
        for step in 0..(36 * 6) {
            if step % 36 == 0 {
                cluster.clock().set(start.plus(600.0 * f64::from(step) + 1.0));
            } else {
                cluster.clock().step(600.0);
            }
            assert!(
                s.get::<bool>(&format!("SELECT once.claim_once('k{step}', '1 day')")),
                "{zone}, step {step}"
            );
        }
        s.run("CALL once.maintain()");
        let wrong: i64 = s.get(
            "SELECT count(*) FROM once.processed_events
              WHERE once.leaf_day(tableoid) <> (claimed_at AT TIME ZONE 'UTC')::date
                 OR expires_at - claimed_at <> interval '24 hours'",
        );
        assert_eq!(wrong, 0, "{zone}");
        let days = s.days_of("once.processed_events");
        for pair in days.windows(2) {
            assert_eq!(pair[0].to, pair[1].from, "{zone}: a hole or an overlap: {pair:?}");
        }
        for leaf in &days {
            assert_eq!(leaf.from % 86_400.0, 0.0, "{zone}: {leaf:?}");
            assert_eq!(leaf.to - leaf.from, 86_400.0, "{zone}: {leaf:?}");
            assert!(leaf.name.ends_with(&leaf.day), "{zone}: {leaf:?}");
        }
    }
}
