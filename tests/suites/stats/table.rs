//! The table has a fixed number of entries: what finds no place is counted together, and entries of what is
//! gone are used again.

use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::{Build, Cluster};
use pg_once_tests::session::Session;

use crate::{answers, counted, counting};

/// Entries of a server; src/stats/layout.rs.
const ENTRIES: i64 = 1024;

fn claim_effects(s: &mut Session, from: i64, to: i64, store: &str) {
    let claimed: i64 = s.get(&format!(
        "SELECT count(*) FILTER (WHERE once.claim_once('k', effect => 'e' || g, store => '{store}'))
           FROM generate_series({from}, {to}) g"
    ));
    assert_eq!(claimed, to - from + 1);
}

/// Rows of this database, and what was claimed in the row for the rest, which is NULL where there is none.
fn rows_and_rest(s: &mut Session) -> (i64, Option<i64>) {
    let row = &s.rows(
        "SELECT count(*) FILTER (WHERE store IS NOT NULL),
                sum(claimed) FILTER (WHERE store IS NULL)::bigint FROM once.stat_claims",
        &[],
    )[0];
    (row.get(0), row.get(1))
}

#[test]
fn more_effects_than_entries_are_counted_together_and_refuse_nothing() {
    let cluster = counting(Cluster::build().clocked()).start();
    let start = Instant::midnight(2021, 5, 5).plus(36_000.0);
    cluster.clock().set(start);
    let db = cluster.database();
    let mut s = db.session();
    s.run("SELECT once.create_store('a'); SELECT once.create_store('b')");
    claim_effects(&mut s, 1, ENTRIES, "a");
    assert_eq!(rows_and_rest(&mut s), (ENTRIES, None));
    claim_effects(&mut s, ENTRIES + 1, ENTRIES + 300, "a");
    assert_eq!(rows_and_rest(&mut s), (ENTRIES, Some(300)));
    // What has an entry goes on counting there, in other sessions too.
    let mut s2 = db.session();
    for s in [&mut s, &mut s2] {
        s.run("SELECT once.claim_once('k', effect => 'e7', store => 'a')");
    }
    assert_eq!(counted(&mut s, "a", "e7").duplicates, 2);
    assert_eq!(rows_and_rest(&mut s), (ENTRIES, Some(300)));
    // Another database finds no place either, and sees the same rest.
    let other = cluster.database();
    let mut o = other.session();
    o.claim("k");
    assert_eq!(rows_and_rest(&mut o), (0, Some(301)));

    // A store that is dropped leaves its entries to others, who need not be told. A minute later, because
    // entries are not searched for more often.
    s.run("SELECT once.drop_store('a')");
    assert_eq!(rows_and_rest(&mut s), (0, Some(301)));
    cluster.clock().set(start.plus(120.0));
    claim_effects(&mut s, 1, 10, "b");
    assert_eq!(rows_and_rest(&mut s), (10, Some(301)));
    // Also a session whose last place was with the rest.
    o.claim("l");
    assert_eq!((answers(&mut o), rows_and_rest(&mut o)), ((1, 0), (1, Some(301))));
    // The same name again is another store.
    s.run("SELECT once.create_store('a')");
    claim_effects(&mut s, 7, 7, "a");
    assert_eq!(counted(&mut s, "a", "e7").duplicates, 0);
    assert_eq!(rows_and_rest(&mut s), (11, Some(301)));
    s.run("SELECT once.stat_reset()");
    assert_eq!(rows_and_rest(&mut s), (11, None));
}

#[test]
fn entries_that_were_reset_and_those_of_dropped_databases_are_used_again() {
    let cluster = counting(Cluster::build().clocked()).start();
    let start = Instant::midnight(2021, 5, 5).plus(36_000.0);
    cluster.clock().set(start);
    let (db, other) = (cluster.database(), cluster.database());
    let (mut s, mut o) = (db.session(), other.session());
    o.claim("load");
    s.claim("load");
    claim_effects(&mut o, 1, 600, "processed_events");
    claim_effects(&mut s, 1, 600, "processed_events");
    let rest = 2 * 601 - ENTRIES;
    assert_eq!(rows_and_rest(&mut s), (ENTRIES - 601, Some(rest)));
    drop(o);
    s.run(&format!("DROP DATABASE {} WITH (FORCE)", other.name()));
    cluster.clock().set(start.plus(120.0));
    claim_effects(&mut s, 601, 900, "processed_events");
    assert_eq!(rows_and_rest(&mut s), (ENTRIES - 601 + 300, Some(rest)));
    claim_effects(&mut s, 901, 1_300, "processed_events");
    let (rows, rest) = rows_and_rest(&mut s);
    assert_eq!(rows, ENTRIES);
    // A reset frees entries for whoever comes next, but those in use stay.
    s.run("SELECT once.stat_reset('processed_events')");
    cluster.clock().set(start.plus(300.0));
    s.run("SELECT once.claim_once('k', effect => 'e5')");
    claim_effects(&mut s, 2_001, 2_100, "processed_events");
    assert_eq!(counted(&mut s, "processed_events", "e5").duplicates, 1);
    assert_eq!(rows_and_rest(&mut s), (101, rest), "100 new effects and e5");
    // The session remembers the entry that e6 had, and it is another's now.
    s.run("SELECT count(once.claim_once('k', effect => 'e' || g)) FROM generate_series(6, 500) g");
    assert_eq!(counted(&mut s, "processed_events", "e6").duplicates, 1);
    assert_eq!(rows_and_rest(&mut s), (101 + 495, rest));
    let mixed = "SELECT count(*) FROM once.stat_claims WHERE store IS NOT NULL AND claimed + duplicates <> 1";
    assert_eq!(s.get::<i64>(mixed), 0, "an answer was added to another effect's entry");
}

#[test]
fn a_session_with_many_effects_remembers_few_of_them() {
    // Clusters of its own: it leaves no entry free.
    for kind in [Build::preloaded, counting] {
        let cluster = kind(Cluster::build()).start();
        let db = cluster.database();
        let mut s = db.session();
        s.claim("load");
        let memory = |s: &mut Session| -> i64 {
            s.get("SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts")
        };
        let private = |s: &Session| -> i64 {
            let status =
                std::fs::read_to_string(format!("/proc/{}/status", s.pid())).expect("/proc");
            let line = status.lines().find(|line| line.starts_with("RssAnon")).expect("a line");
            line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
        };
        let many = "SELECT count(once.claim_once('k', effect => 'x' || g % 20000)) FROM generate_series(1, 20000) g";
        s.run(many);
        let (before, private_before) = (memory(&mut s), private(&s));
        for _ in 0..3 {
            s.run(many);
        }
        let (after, private_after) = (memory(&mut s), private(&s));
        assert!(after - before < 200_000, "{before} {after}");
        assert!(private_after - private_before < 4_000, "{private_before} kB {private_after} kB");
    }
}
