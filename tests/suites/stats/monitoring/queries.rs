//! The exporter's queries on a real server, as a member of pg_monitor and nothing more.

use std::collections::{BTreeMap, BTreeSet};

use pg_once_tests::cluster::Cluster;
use pg_once_tests::session::Session;
use pg_once_tests::standby;

use super::{Query, queries};
use crate::{clusters, counting};

/// What a query gives: for each row its labels, and its metrics as numbers (None where NULL).
type Series = Vec<(Vec<String>, BTreeMap<String, Option<f64>>)>;

/// Runs a query as the exporter does, and holds its columns against what the file names.
fn run(s: &mut Session, query: &Query) -> Series {
    let Query { namespace, sql, labels, metrics } = query;
    // One row in any case, so that there are columns to see where the query gives none.
    let rows =
        s.rows(&format!("SELECT q.* FROM (VALUES (1)) one LEFT JOIN ({sql}) q ON true"), &[]);
    let given: BTreeSet<String> = rows[0].columns().iter().map(|c| c.name().to_owned()).collect();
    let named: BTreeSet<String> = labels.iter().chain(metrics.keys()).cloned().collect();
    assert_eq!(given, named, "{namespace}: left what the query gives, right what the file names");
    for column in rows[0].columns() {
        let kind = column.type_().name();
        let (is_label, name) = (labels.contains(column.name()), column.name());
        let fits = if is_label { &["text", "name"][..] } else { &["int4", "int8", "float8"] };
        assert!(fits.contains(&kind), "{namespace}: {name} is {kind}");
    }
    let list = |names: Vec<String>| names.join(", ");
    let text = list(labels.iter().map(|l| format!("coalesce({l}::text, '<null>')")).collect());
    let number = list(metrics.keys().map(|m| format!("{m}::float8")).collect());
    s.rows(&format!("SELECT ARRAY[{text}]::text[], ARRAY[{number}]::float8[] FROM ({sql}) q"), &[])
        .iter()
        .map(|row| {
            let values: Vec<Option<f64>> = row.get(1);
            (row.get(0), metrics.keys().cloned().zip(values).collect())
        })
        .collect()
}

/// A value of the series with these labels besides the database, in the order of the labels' names.
fn value(s: &mut Session, namespace: &str, metric: &str, labels: &[&str]) -> Option<f64> {
    let queries = queries();
    let query = queries.iter().find(|query| query.namespace == namespace).expect("a query");
    let series = run(s, query);
    let database = query.labels.iter().position(|label| label == "datname").expect("a database");
    let is_wanted = |with: &[String]| {
        let others = with.iter().enumerate().filter(|(place, _)| *place != database);
        others.map(|(_, label)| label).eq(labels)
    };
    let found: Vec<_> = series.iter().filter(|(with, _)| is_wanted(with)).collect();
    let [(_, values)] = found.as_slice() else { panic!("{namespace} {labels:?}: {series:?}") };
    values[metric]
}

/// Stores with claims, duplicates, a hold and something to say about each.
fn scene(s: &mut Session) {
    s.run(
        "SELECT once.create_store('orders', retry_horizon => '2 days');
         SELECT once.create_store('quiet', retention => '1 day');
         SELECT once.claim_many(ARRAY['a', 'b', 'c', 'a'], effect => 'invoice', store => 'orders');
         SELECT once.claim_once('a', effect => 'invoice', store => 'orders');
         SELECT once.complete('a', '1', effect => 'invoice', store => 'orders');
         SELECT once.claim_once('a', store => 'orders');
         SELECT * FROM once.claim('z', store => 'orders', event_time => now() - interval '30 days');
         SELECT once.hold('quiet', 'replay')",
    );
    s.run("CALL once.maintain()");
}

#[test]
fn every_query_runs_for_a_member_of_pg_monitor_and_gives_what_its_metrics_name() {
    for cluster in clusters() {
        let db = cluster.database();
        scene(&mut db.session());
        let (watch, nobody) = (db.role("watch"), db.role("nobody"));
        db.session().run(&format!("GRANT pg_monitor TO {watch}"));
        let (mut s, mut stranger) = (db.session_of(&watch), db.session_of(&nobody));
        for query in queries() {
            let series = run(&mut s, &query);
            assert!(!series.is_empty(), "{} says nothing of such a scene", query.namespace);
            // An exporter of two databases would otherwise give one series twice, and refuse both.
            assert!(query.labels.contains("datname"), "{} is of no database", query.namespace);
            let different: BTreeSet<_> = series.iter().map(|(labels, _)| labels).collect();
            assert_eq!(different.len(), series.len(), "{}: two of one name", query.namespace);
            for (labels, _) in &series {
                assert!(!labels.contains(&"<null>".to_owned()), "{}: {labels:?}", query.namespace);
            }
            let refused = stranger.fails(&query.sql);
            assert_eq!(refused.code, "42501", "{}: {refused}", query.namespace);
        }
    }
}

#[test]
fn every_query_runs_where_there_is_no_store_and_on_a_standby() {
    let primary = counting(Cluster::build()).start();
    let db = primary.database();
    let mut s = db.session();
    let watch = db.role("watch");
    s.run(&format!("GRANT pg_monitor TO {watch}"));
    let mut watching = db.session_of(&watch);
    for query in queries() {
        run(&mut watching, &query);
    }
    scene(&mut s);
    let copy = primary.standby();
    let mut there = Session::open(copy.endpoint(db.name()).user(&watch));
    standby::caught_up(&mut s, &mut there);
    for query in queries() {
        run(&mut there, &query);
    }
}

#[test]
fn the_numbers_are_those_of_what_happened() {
    for cluster in clusters() {
        let db = cluster.database();
        let mut s = db.session();
        scene(&mut s);
        let invoice = ["invoice", "orders"];
        assert_eq!(value(&mut s, "pg_once_stat", "claimed_total", &invoice), Some(3.0));
        assert_eq!(value(&mut s, "pg_once_stat", "duplicates_total", &invoice), Some(2.0));
        assert_eq!(value(&mut s, "pg_once_stat", "completed_total", &invoice), Some(1.0));
        assert_eq!(value(&mut s, "pg_once_stat", "released_total", &invoice), Some(0.0));
        assert_eq!(value(&mut s, "pg_once_stat", "claimed_total", &["", "orders"]), Some(1.0));
        assert_eq!(value(&mut s, "pg_once_stat", "too_late_total", &["", "orders"]), Some(1.0));
        let upto = |s: &mut Session, le| {
            value(s, "pg_once_duplicate_age_seconds", "bucket", &["invoice", le, "orders"])
        };
        assert_eq!(upto(&mut s, "+Inf"), Some(2.0));
        assert_eq!(upto(&mut s, "7776000"), Some(2.0), "the buckets add up");
        assert!(upto(&mut s, "1") >= Some(1.0), "one of its own array, as young as can be");
        let days = |s: &mut Session, metric| value(s, "pg_once_store", metric, &["orders"]);
        assert_eq!((days(&mut s, "days"), days(&mut s, "days_ahead")), (Some(4.0), Some(3.0)));
        let since: f64 = s.get("SELECT extract(epoch FROM clock_timestamp())::float8");
        let last = days(&mut s, "maintained_timestamp_seconds").expect("it was maintained");
        assert!((0.0..60.0).contains(&(since - last)), "{last}");
        let window = value(&mut s, "pg_once_retention", "window_seconds", &["orders"]);
        assert_eq!(window, Some(6.0 * 86_400.0));
        assert_eq!(value(&mut s, "pg_once_retention", "horizon_seconds", &["quiet"]), None);
        for (state, count) in [("current", 1.0), ("future", 3.0), ("open", 0.0), ("due", 0.0)] {
            let leaves = value(&mut s, "pg_once_leaves", "count", &[state, "orders"]);
            assert_eq!(leaves, Some(count), "{state}");
        }
        assert!(value(&mut s, "pg_once_leaves", "bytes", &["current", "orders"]) > Some(8_192.0));
        for (severity, orders, quiet) in [("error", 0.0, 0.0), ("info", 0.0, 2.0)] {
            let findings =
                |s: &mut Session, store| value(s, "pg_once_health", "findings", &[severity, store]);
            assert_eq!(findings(&mut s, "orders"), Some(orders), "{severity}");
            assert_eq!(findings(&mut s, "quiet"), Some(quiet), "no horizon, and the hold");
        }
        let hold = ["a hold is in force", "info", "quiet"];
        assert_eq!(value(&mut s, "pg_once_finding", "count", &hold), Some(1.0));
        let held =
            value(&mut s, "pg_once_maintenance", "last_timestamp_seconds", &["hold", "quiet"]);
        assert!(held.is_some_and(|held| (0.0..60.0).contains(&(since - held))), "{held:?}");
    }
}

#[test]
fn no_query_reads_what_claims_are_in() {
    let db = crate::cluster().database();
    let mut s = db.session();
    scene(&mut s);
    for Query { namespace, sql, .. } in queries() {
        let plan: Vec<String> = s.column(&format!("EXPLAIN (VERBOSE, COSTS off) {sql}"));
        let plan = plan.join("\n");
        // What reads whole leaves is in a view that the queries are made of.
        assert!(!plan.contains("leaf_expiries"), "{namespace}:\n{plan}");
        assert!(!plan.contains("once.orders"), "{namespace}:\n{plan}");
    }
    let whole = "EXPLAIN (VERBOSE, COSTS off) SELECT oldest_expiry FROM once.partitions";
    assert!(s.column::<String>(whole).join("").contains("leaf_expiries"), "this would show");
}
