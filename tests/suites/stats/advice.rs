//! once.retention_advice: what the ages of duplicates say of a store's retention, and when they say nothing.

use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::session::Session;

use crate::counting;

const DAY: f64 = 86_400.0;

/// verdict, supported retention in hours, p50 and p99 in seconds, headroom in hours.
fn advice(
    s: &mut Session,
    store: &str,
) -> (String, Option<f64>, Option<f64>, Option<f64>, Option<f64>) {
    let row = &s.rows(
        "SELECT verdict, (extract(epoch FROM supported_retention) / 3600)::float8,
                extract(epoch FROM p50)::float8, extract(epoch FROM p99)::float8,
                (extract(epoch FROM headroom) / 3600)::float8, advice
           FROM once.retention_advice WHERE store = $1",
        &[&store],
    )[0];
    assert!(row.get::<_, String>(5).len() > 20);
    (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))
}

fn claim(s: &mut Session, store: &str, first: i64, last: i64) {
    s.run(&format!(
        "SELECT count(once.claim_once('k' || g, store => '{store}')) FROM generate_series({first}, {last}) g"
    ));
}

#[test]
fn the_evidence_is_twice_the_oldest_duplicate_and_no_less_than_the_horizon() {
    let cluster = counting(Cluster::build().clocked()).start();
    let start = Instant::midnight(2021, 5, 5).plus(36_000.0);
    cluster.clock().set(start);
    let db = cluster.database();
    let mut s = db.session();
    s.run(
        "SELECT once.create_store('wide', retry_horizon => '3 hours', retention => '10 days');
           SELECT once.create_store('horizon', retry_horizon => '8 days', retention => '10 days');
           SELECT once.create_store('tight', retention => '3 days');
           SELECT once.create_store('over', retention => '2 days');
           SELECT once.create_store('few'); SELECT once.create_store('silent')",
    );
    let stores = ["wide", "horizon", "tight", "over", "few"];
    for store in stores {
        claim(&mut s, store, 1, 200);
    }
    assert_eq!(advice(&mut s, "silent"), ("too few".to_owned(), None, None, None, None));
    // 150 duplicates half an hour on, 2 of them also two days on. Keys of "over" have gone by then.
    cluster.clock().set(start.plus(1_500.0));
    for store in stores {
        claim(&mut s, store, 1, if store == "few" { 60 } else { 150 });
    }
    assert_eq!(advice(&mut s, "few").0, "too few");
    let (verdict, supported, p50, p99, _) = advice(&mut s, "wide");
    assert_eq!((verdict.as_str(), supported), ("too short", None));
    let oldest: f64 = s.get(
        "SELECT extract(epoch FROM oldest)::float8 FROM once.retention_advice WHERE store = 'wide'",
    );
    assert_eq!((p50, p99), (Some(oldest), Some(oldest)), "no quantile lies above the oldest");
    assert!((1_400.0..1_600.0).contains(&oldest), "{oldest}");
    cluster.clock().set(start.plus(1.85 * DAY));
    for store in stores {
        claim(&mut s, store, 1, 2);
    }
    cluster.clock().set(start.days(11));
    let told = advice(&mut s, "wide");
    assert_eq!((told.0.as_str(), told.1, told.2), ("could lower", Some(89.0), Some(1_800.0)));
    assert!(told.3.is_some_and(|p99| p99 > 1.8 * DAY), "{told:?}");
    assert!(told.4.is_some_and(|hours| (hours - 24.0 * (10.0 - 1.85)).abs() < 0.1), "{told:?}");
    let told = advice(&mut s, "horizon");
    assert_eq!((told.0.as_str(), told.1), ("could lower", Some(192.0)), "never below the horizon");
    let told = advice(&mut s, "tight");
    assert_eq!((told.0.as_str(), told.1), ("raise", Some(89.0)));
    // 1.85 days of 2: whoever comes a little later is claimed anew, and nobody knows how many do.
    let told = advice(&mut s, "over");
    assert_eq!((told.0.as_str(), told.1), ("cannot tell", None));
    let share: f64 = s.get("SELECT last_tenth FROM once.retention_advice WHERE store = 'over'");
    assert!((share - 2.0 / 152.0).abs() < 1e-9, "{share}");
}

#[test]
fn a_ttl_shorter_than_the_retention_counts_by_itself() {
    let cluster = counting(Cluster::build().clocked()).start();
    let start = Instant::midnight(2021, 5, 5).plus(36_000.0);
    cluster.clock().set(start);
    let db = cluster.database();
    let mut s = db.session();
    s.run("SELECT once.claim_once('k', '1 hour')");
    cluster.clock().set(start.plus(3_400.0));
    for _ in 0..120 {
        s.run("SELECT once.claim_once('k', '1 hour')");
    }
    // An hour of seven days: far from the retention, at the end of its own window.
    assert_eq!(advice(&mut s, "processed_events").0, "cannot tell");
}
