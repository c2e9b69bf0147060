//! The age of a duplicate when it arrives: by a clock that the test moves.

use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;

use crate::{counted, counting};

#[test]
fn duplicates_are_sorted_by_the_time_since_the_claim_that_refuses_them() {
    let cluster = counting(Cluster::build().clocked()).start();
    let start = Instant::midnight(2021, 5, 5).plus(36_000.0);
    cluster.clock().set(start);
    let db = cluster.database();
    let mut s = db.session();
    s.run("SELECT once.create_store('s', retention => '200 days')");
    let bounds: Vec<i64> = s.get("SELECT once.stat_bounds()");
    assert_eq!((bounds[0], *bounds.last().expect("bounds")), (1, 90 * 86_400));
    let mut claim =
        |key: &str| -> bool { s.get_with("SELECT once.claim_once($1, store => 's')", &[&key]) };
    assert!(claim("k"));
    // Well into each bucket, and one beyond the last bound. The clock runs on, so not on a bound.
    let middles: Vec<f64> = bounds
        .iter()
        .scan(0, |low, &high| Some((std::mem::replace(low, high) + high) as f64 / 2.0))
        .collect();
    for middle in &middles[3..] {
        cluster.clock().set(start.plus(*middle));
        assert!(!claim("k"));
    }
    cluster.clock().set(start.days(150));
    assert!(!claim("k"));
    // An array sorts each of its keys, and a key of its own array is as young as can be.
    cluster.clock().set(start.plus(2.5 * 86_400.0));
    s.run("SELECT * FROM once.claim_many('{k,new,new}', store => 's')");
    let row = counted(&mut s, "s", "");
    let mut expected = vec![1; bounds.len() + 1];
    expected[..3].fill(0);
    expected[0] = 1;
    let two_days = bounds.iter().position(|b| *b == 3 * 86_400).expect("a bound of three days");
    expected[two_days] += 1;
    assert_eq!(row.ages, expected);
    let oldest: f64 =
        s.get("SELECT extract(epoch FROM oldest_duplicate)::float8 FROM once.stat_claims");
    assert!((oldest - 150.0 * 86_400.0).abs() < 60.0, "{oldest}");
    let upto: i64 = s.get("SELECT duplicates FROM once.stat_duplicate_ages WHERE le = '3600'");
    assert_eq!(upto, expected[..8].iter().sum::<i64>());
    assert_eq!(
        s.column::<bool>("SELECT duplicates >= lag(duplicates, 1, 0::bigint) OVER (ORDER BY le_seconds) FROM once.stat_duplicate_ages"),
        vec![true; bounds.len() + 1]
    );
}

#[test]
fn a_clock_that_went_back_makes_a_duplicate_young_and_not_negative() {
    let cluster = counting(Cluster::build().clocked()).start();
    let start = Instant::midnight(2021, 5, 5).plus(36_000.0);
    cluster.clock().set(start);
    let db = cluster.database();
    let mut s = db.session();
    s.claim("k");
    cluster.clock().set(start.plus(-1_800.0));
    assert!(!s.claim("k"));
    let row = counted(&mut s, "processed_events", "");
    assert_eq!((row.ages[0], row.duplicates), (1, 1));
    assert_eq!(s.get::<i64>("SELECT oldest_us FROM once.stat_entries()"), 0);
}
