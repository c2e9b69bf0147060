//! A copy of the data directory of a stopped server, put back days later: what was live when it was taken is kept,
//! and somebody is told why.

use pg_once_tests::account;
use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::session::Session;

fn days(s: &mut Session) -> Vec<String> {
    s.column("SELECT to_char(day, 'YYYYMMDD') FROM once.partitions ORDER BY 1")
}

fn claim(s: &mut Session, key: i64) -> bool {
    s.get(&format!("SELECT once.claim_once('k{key}')"))
}

/// A server whose store has claims of sixteen days, with the data directory of the sixth put back.
fn put_back(away_days: &str) -> (Cluster, Instant) {
    let cluster = Cluster::build().clocked().set("pg_once.away_days", away_days).start();
    let start = Instant::midnight(2019, 9, 2).plus(32_400.0);
    cluster.clock().set(start);
    let (data, kept) = (cluster.folder().join("data"), cluster.folder().join("kept"));
    cluster.connect("postgres").run("CREATE EXTENSION pg_once");
    cluster
        .connect("postgres")
        .run("SELECT once.create_store('processed_events', retention => '3 days')");
    for day in 0..16 {
        cluster.clock().set(start.days(day));
        let mut s = cluster.connect("postgres");
        assert!(claim(&mut s, day));
        s.run("CALL once.maintain()");
        drop(s);
        if day == 5 {
            cluster.stop("fast");
            account::run(account::command("cp").arg("-a").arg(&data).arg(&kept));
            cluster.start();
        }
    }
    let oldest = days(&mut cluster.connect("postgres"))[0].clone();
    assert_eq!(oldest, "20190914", "what was live then is long gone");
    cluster.stop("fast");
    account::run(account::command("rm").arg("-r").arg(&data));
    account::run(account::command("mv").arg(&kept).arg(&data));
    cluster.start();
    (cluster, start)
}

#[test]
fn a_data_directory_put_back_ten_days_later_counts_as_away_and_forgets_no_key_that_was_live() {
    let (cluster, start) = put_back("1");
    let mut s = cluster.connect("postgres");
    for key in 3..6 {
        assert!(!claim(&mut s, key), "k{key} was live when the copy was taken");
    }
    for _ in 0..3 {
        s.run("CALL once.maintain()");
    }
    assert!(days(&mut s).contains(&"20190905".to_owned()), "{:?}", days(&mut s));
    let told: Vec<String> = s.column("SELECT finding FROM once.health WHERE severity = 'warning'");
    assert_eq!(told, ["consumers or the server are away"]);
    // It is replayed: what happened after the copy is new, what was in it is not.
    assert!((6..16).all(|key| claim(&mut s, key)));
    s.run("CALL once.maintain()");
    assert!((0..16).filter(|key| claim(&mut s, *key)).count() <= 3, "the first three had expired");
    // The windows have as long to go as they had.
    cluster.clock().set(start.days(15).plus(86_400.0 - 600.0));
    s.run("CALL once.maintain()");
    assert!(!claim(&mut s, 5));
}

#[test]
fn a_data_directory_put_back_where_absences_are_not_looked_for_puts_the_clock_in_doubt() {
    let (cluster, _) = put_back("0");
    let mut s = cluster.connect("postgres");
    let before = days(&mut s);
    for _ in 0..3 {
        s.run("CALL once.maintain()");
    }
    let after = days(&mut s);
    assert!(before.iter().all(|day| after.contains(day)), "{before:?} {after:?}");
    let told: Vec<String> = s.column("SELECT finding FROM once.health WHERE severity = 'error'");
    assert_eq!(told, ["the clock is in doubt, so nothing is dropped"]);
}
