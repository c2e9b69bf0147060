//! What lies in `monitoring/`: the queries run for whoever may watch, and the dashboard shows nothing that they
//! do not make.

mod dashboard;
mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use yaml_rust2::{Yaml, YamlLoader};

/// A file of `monitoring/`.
fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitoring").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One query of the exporter's file.
struct Query {
    /// What the names of its metrics begin with.
    namespace: String,
    sql: String,
    labels: BTreeSet<String>,
    /// Columns that become metrics, with GAUGE or COUNTER.
    metrics: BTreeMap<String, String>,
}

impl Query {
    fn names(&self) -> impl Iterator<Item = String> {
        self.metrics.keys().map(|column| format!("{}_{column}", self.namespace))
    }
}

/// The exporter's file, read as it reads it.
fn queries() -> Vec<Query> {
    let documents = YamlLoader::load_from_str(&file("postgres_exporter.yml")).expect("YAML");
    let [document] = documents.as_slice() else { panic!("{} documents", documents.len()) };
    let text = |yaml: &Yaml| yaml.as_str().expect("text").to_owned();
    let mut queries = Vec::new();
    for (namespace, body) in document.as_hash().expect("a query each") {
        let mut query = Query {
            namespace: text(namespace),
            sql: text(&body["query"]),
            labels: BTreeSet::new(),
            metrics: BTreeMap::new(),
        };
        for metric in body["metrics"].as_vec().expect("a list") {
            for (column, about) in metric.as_hash().expect("a column") {
                assert!(!text(&about["description"]).is_empty(), "{column:?} has no description");
                match text(&about["usage"]).as_str() {
                    "LABEL" => assert!(query.labels.insert(text(column)), "{column:?} twice"),
                    usage @ ("GAUGE" | "COUNTER") => {
                        let before = query.metrics.insert(text(column), usage.to_owned());
                        assert_eq!(before, None, "{column:?} twice");
                    }
                    other => panic!("{column:?}: the exporter knows no {other} without more"),
                }
            }
        }
        queries.push(query);
    }
    queries
}
