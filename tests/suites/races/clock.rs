//! The tests' own clock: a moved clock must be what the server sees, or the other tests prove nothing.

use pg_once_tests::clock::Instant;
use pg_once_tests::shared::clocked;

#[test]
fn the_servers_clock_moves_both_ways_and_runs_on_while_sleeps_stay_as_long_as_they_are() {
    let cluster = clocked();
    let mut s = cluster.connect("postgres");
    for (instant, day) in [
        (Instant::midnight(2021, 3, 1).plus(-1.5), "2021-02-28"),
        (Instant::midnight(2024, 2, 29), "2024-02-29"),
        (Instant::today(), ""),
    ] {
        cluster.clock().set(instant);
        let seen: f64 = s.get("SELECT extract(epoch FROM clock_timestamp())::float8");
        assert!((0.0..1.0).contains(&(seen - instant.0)), "set to {instant:?}, seen {seen}");
        let shown: String = s.get("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date::text");
        if !day.is_empty() {
            let shown: String =
                s.get("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD')");
            assert_eq!(shown, day);
        } else {
            assert!(!shown.is_empty());
        }
        let started = std::time::Instant::now();
        s.run("SELECT pg_sleep(0.3)");
        let slept = started.elapsed().as_secs_f64();
        assert!((0.3..3.0).contains(&slept), "slept {slept}");
        let later: f64 = s.get("SELECT extract(epoch FROM clock_timestamp())::float8");
        assert!((0.3..5.0).contains(&(later - seen)), "{seen}, then {later}");
    }
    cluster.clock().set(Instant::midnight(2021, 3, 1).plus(-0.3));
    let before: f64 = s.get("SELECT extract(epoch FROM clock_timestamp())::float8");
    cluster.clock().pass(Instant::midnight(2021, 3, 1));
    let after: f64 = s.get("SELECT extract(epoch FROM clock_timestamp())::float8");
    assert!(before < Instant::midnight(2021, 3, 1).0 && after >= Instant::midnight(2021, 3, 1).0);
    // In the past, timeouts end waits: in a future they would not (see the harness's clock).
    let mut s = cluster.connect("postgres");
    s.run("SET statement_timeout = '200ms'");
    assert_eq!(s.fails("SELECT pg_sleep(60)").code, "57014");
}
