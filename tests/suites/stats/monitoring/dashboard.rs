//! The dashboard against the exporter's file: every metric and every label that it shows is made there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{file, queries};

fn dashboard() -> Value {
    serde_json::from_str(&file("grafana.json")).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The labels of each metric that the exporter makes.
fn made() -> BTreeMap<String, BTreeSet<String>> {
    let each = |q: super::Query| q.names().map(|name| (name, q.labels.clone())).collect::<Vec<_>>();
    queries().into_iter().flat_map(each).collect()
}

/// Words of an expression that stands for a metric of ours.
fn metrics(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("pg_once")).map(str::to_owned).collect()
}

/// The labels that an expression names: in matchers, and in `by (..)`.
fn labels(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for matchers in expression.split('{').skip(1) {
        let matchers = matchers.split('}').next().expect("closed");
        for matcher in matchers.split(',') {
            let name = matcher.split(['=', '!']).next().expect("a name").trim();
            found.insert(name.to_owned());
        }
    }
    for by in expression.split("by (").skip(1) {
        let names = by.split(')').next().expect("closed");
        found.extend(names.split(',').map(|name| name.trim().to_owned()));
    }
    found
}

/// What a legend shows: `{{store}}`.
fn shown(legend: &str) -> Vec<&str> {
    legend.split("{{").skip(1).map(|rest| rest.split("}}").next().expect("closed").trim()).collect()
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    let e = "sum by (le, store) (rate(pg_once_a_bucket{datname=~\"$datname\", x!=\"{y\"}[5m])) / pg_once_b";
    let words = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>();
    assert_eq!(words(metrics(e)), ["pg_once_a_bucket", "pg_once_b"]);
    assert!(labels(e).is_superset(&["datname", "le", "store", "x"].map(str::to_owned).into()));
    assert_eq!(shown("{{store}} of {{ le }}"), ["store", "le"]);
}

#[test]
fn it_names_only_metrics_and_labels_that_the_queries_make() {
    let (made, dashboard) = (made(), dashboard());
    let mut used = BTreeSet::new();
    for panel in list(&dashboard["panels"]) {
        let title = text(&panel["title"]);
        assert!(!list(&panel["targets"]).is_empty(), "{title} shows nothing");
        for target in list(&panel["targets"]) {
            let expression = text(&target["expr"]);
            let metrics = metrics(expression);
            assert!(!metrics.is_empty(), "{title}: {expression} has no metric of ours");
            for metric in &metrics {
                let has =
                    made.get(metric).unwrap_or_else(|| panic!("{title}: no query makes {metric}"));
                for label in labels(expression) {
                    assert!(has.contains(&label), "{title}: {metric} has no label {label}");
                }
                for label in shown(text(&target["legendFormat"])) {
                    assert!(has.contains(label), "{title}: {metric} has no label {label}");
                }
            }
            let (by, legend) = (labels(expression), shown(text(&target["legendFormat"])));
            let grouped = expression.contains(" by (");
            assert!(!grouped || legend.iter().all(|l| by.contains(*l)), "{title}: {legend:?}");
            used.extend(metrics);
        }
        for transformation in list(&panel["transformations"]) {
            // A table's columns are labels, besides Grafana's own and those that Prometheus adds.
            let order = transformation["options"]["indexByName"].as_object().expect("an order");
            let has = &made[metrics(text(&panel["targets"][0]["expr"])).first().expect("one")];
            for column in order.keys().filter(|column| *column != "Value") {
                assert!(has.contains(column), "{title}: a column {column}");
            }
        }
    }
    for variable in list(&dashboard["templating"]["list"]) {
        if variable["type"] == "query" {
            let query = text(&variable["definition"]);
            let metric = metrics(query).into_iter().next().expect("a metric");
            let label = query.trim_end_matches(')').rsplit(", ").next().expect("a label");
            assert!(made[&metric].contains(label) && label == variable["name"], "{query}");
            assert_eq!(variable["query"]["query"].as_str(), Some(query));
        }
    }
    // A counter that nobody rates, or a gauge that somebody does, is a mistake of one of the two.
    let kinds: BTreeMap<String, String> = queries()
        .iter()
        .flat_map(|q| q.names().zip(q.metrics.values().cloned()).collect::<Vec<_>>())
        .collect();
    for panel in list(&dashboard["panels"]) {
        for target in list(&panel["targets"]) {
            let expression = text(&target["expr"]);
            for metric in
                metrics(expression).iter().filter(|m| *m != "pg_once_uncounted_answers_total")
            {
                let after = |function: &str| expression.contains(&format!("{function}({metric}"));
                let rated = after("rate") || after("increase");
                assert_eq!(rated, kinds[metric] == "COUNTER", "{expression}");
            }
        }
    }
    for wanted in [
        "pg_once_stat_claimed_total",
        "pg_once_stat_duplicates_total",
        "pg_once_stat_waits_total",
        "pg_once_duplicate_age_seconds_bucket",
        "pg_once_retention_oldest_duplicate_seconds",
        "pg_once_store_days_ahead",
        "pg_once_store_maintained_timestamp_seconds",
        "pg_once_leaves_bytes",
        "pg_once_health_findings",
    ] {
        assert!(used.contains(wanted), "no panel shows {wanted}");
    }
}

#[test]
fn its_panels_say_what_they_show_in_which_unit_and_do_not_overlap() {
    let dashboard = dashboard();
    assert!(dashboard["id"].is_null(), "an id belongs to one Grafana");
    assert!(dashboard["schemaVersion"].as_i64() >= Some(38), "what Grafana 10 writes");
    let variables: Vec<&str> =
        list(&dashboard["templating"]["list"]).iter().map(|v| text(&v["name"])).collect();
    assert_eq!(variables, ["datasource", "datname", "store"]);
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(&dashboard["panels"]) {
        let title = text(&panel["title"]);
        assert!(ids.insert(panel["id"].as_i64()), "{title}: its id is another's");
        let kinds = ["stat", "bargauge", "timeseries", "heatmap", "table"];
        assert!(kinds.contains(&text(&panel["type"])), "{title}: {}", panel["type"]);
        assert!(text(&panel["description"]).len() > 20, "{title} is not explained");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        if panel["type"] == "timeseries" {
            let axis = &panel["fieldConfig"]["defaults"]["custom"]["axisLabel"];
            assert!(!text(axis).is_empty(), "{title}: its axis has no label");
        }
        for source in [&panel["datasource"], &panel["targets"][0]["datasource"]] {
            assert_eq!(source["uid"], "${datasource}", "{title}");
            assert_eq!(source["type"], "prometheus", "{title}");
        }
        let at = |side: &str| panel["gridPos"][side].as_i64().expect("a place");
        assert!(at("x") + at("w") <= 24, "{title} is too wide");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{title} lies over another");
            }
        }
    }
}
