//! Arguments and clocks at the edge of what there is, and passes that are cut short.

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, database};
use pg_once_tests::wait;

fn first_day(s: &mut Session) -> String {
    s.days_of("once.processed_events")[0].day.clone()
}

#[test]
fn infinite_and_huge_arguments_are_refused_or_mean_what_they_say() {
    let db = database();
    let mut s = db.session();
    assert!(s.claim("k"));
    assert_eq!(s.fails("SELECT once.hold('processed_events', 'r', '-infinity')").code, "22023");
    assert_eq!(s.fails("SELECT once.hold('processed_events', 'r', NULL)").code, "22004");
    assert_eq!(s.fails("SELECT once.hold('processed_events', NULL)").code, "22004");
    let mut lengths = vec!["300000 years", "-1 day", "0", "-178000000 years"];
    if s.get::<bool>("SELECT current_setting('server_version_num')::int >= 170000") {
        lengths.extend(["infinity", "-infinity"]);
    }
    for length in lengths {
        for argument in ["retention", "retry_horizon"] {
            for call in ["create_store('other'", "alter_store('processed_events'"] {
                let call = format!("SELECT once.{call}, {argument} => '{length}')");
                assert_eq!(s.fails(&call).code, "22023", "{call}");
            }
        }
    }
    let late = |s: &mut Session, at: &str| -> String {
        s.get(&format!("SELECT outcome::text FROM once.claim('{at}', event_time => '{at}')"))
    };
    assert_eq!(late(&mut s, "-infinity"), "too_late");
    assert_eq!(late(&mut s, "4713-01-01 00:00+00 BC"), "too_late");
    assert_eq!(late(&mut s, "infinity"), "claimed");
    assert_eq!(late(&mut s, "294276-12-31 23:59:59+00"), "claimed");
    // A hold to the last instant there is, and one without an end.
    s.run("SELECT once.hold('processed_events', 'r', '294276-12-31 23:59:59.999999+00')");
    let state: bool = s.get("SELECT expires_at > now() FROM once.claim('k')");
    assert!(state && !s.claim("k"));
    s.run("SELECT once.hold('processed_events', 'r')");
    assert!(!s.claim("k"));
    s.run("SELECT count(*) FROM once.health; SELECT count(oldest_expiry) FROM once.partitions");
    assert!(s.get::<bool>("SELECT once.unhold('processed_events')"));
}

#[test]
fn holds_absences_and_drops_work_on_both_sides_of_the_year_2000() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(1999, 12, 28).plus(43_200.0);
    let mut s = db.session_at(start);
    s.run("SELECT once.create_store('processed_events', retention => '1 day')");
    assert!(s.get::<bool>("SELECT once.claim_once('k')"));
    s.run("SELECT once.hold('processed_events', 'r', '1999-12-30 12:00+00')");
    // Two days of the hold, then one of the window, of which nothing has passed: 1999-12-31 12:00.
    for (hours, free) in [(47.0, false), (71.9, false), (72.1, true)] {
        cluster.clock().set(start.plus(3_600.0 * hours));
        s.run("BEGIN");
        assert_eq!(s.get::<bool>("SELECT once.claim_once('k')"), free, "{hours} h");
        s.run("ROLLBACK");
    }
    assert!(s.get::<bool>("SELECT once.claim_once('again')"));
    s.run("CALL once.maintain()");
    // Away over the turn of the year.
    s.run("SET pg_once.away_days = 1");
    cluster.clock().set(start.days(9));
    assert!(!s.get::<bool>("SELECT once.claim_once('again')"), "its day is still to come");
    s.run("CALL once.maintain()");
    assert!(s.get::<bool>("SELECT once.claim_once('back')"));
    s.run("CALL once.maintain()");
    cluster.clock().set(start.days(10).plus(60.0));
    assert!(s.get::<bool>("SELECT once.claim_once('again')"));
    cluster.clock().set(start.days(11).plus(60.0));
    assert!(s.get::<bool>("SELECT once.claim_once('more')"));
    s.run("CALL once.maintain()");
    assert_eq!(first_day(&mut s), "20000107", "what is over has gone");
}

#[test]
fn a_pass_works_at_any_isolation_level_and_one_that_is_cancelled_leaves_nothing_behind() {
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2019, 6, 3).plus(43_200.0);
    cluster.clock().set(start);
    let (mut s, mut reader, mut observer) = (db.session(), db.session(), db.session());
    s.run("SELECT once.create_store('processed_events', retention => '1 hour')");
    assert!(s.claim("k"));
    for (day, level) in
        [(2, "read committed"), (4, "repeatable read"), (6, "serializable")].into_iter()
    {
        cluster.clock().set(start.days(day));
        assert!(s.claim("k"));
        s.run(&format!("SET default_transaction_isolation = '{level}'"));
        reader.run("BEGIN; SELECT count(*) FROM once.processed_events");
        s.run("SET pg_once.maintenance_lock_timeout = '5s'");
        let pass = s.background(|s| s.fails("CALL once.maintain()").code);
        wait::blocked(&mut observer, pass.pid());
        observer.run(&format!("SELECT pg_cancel_backend({})", pass.pid()));
        let (session, code) = pass.join();
        s = session;
        assert_eq!(code, "57014", "{level}");
        let held: Vec<String> = observer.column(&format!(
            "SELECT format('%s %s', locktype, mode) FROM pg_locks WHERE pid = {} AND locktype <> 'virtualxid'",
            s.pid()
        ));
        assert_eq!(held, [""; 0], "{level}");
        let limit: String = s.get("SHOW lock_timeout");
        assert_eq!(limit, "0", "{level}");
        reader.run("COMMIT");
        s.run("CALL once.maintain()");
        let today = format!("201906{:02}", 3 + day);
        assert_eq!(first_day(&mut s), today, "{level}");
        s.run("RESET default_transaction_isolation");
        assert!(!s.claim("k"), "{level}");
    }
}
