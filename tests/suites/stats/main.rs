//! What a DBA sees of claims: counts, ages of duplicates, advice, and what becomes of them when servers
//! restart and crash. On majors that can count without preload both ways are tested.

mod advice;
mod ages;
mod audit;
mod counts;
mod monitoring;
mod restart;
mod rights;
mod sample;
mod table;

use std::sync::LazyLock;

use pg_once_tests::cluster::{Build, Cluster};
use pg_once_tests::server::Server;
use pg_once_tests::session::Session;
use pg_once_tests::shared::cluster;

static PRELOADED: LazyLock<Cluster> = LazyLock::new(|| Cluster::build().preloaded().start());

/// A cluster that can count, preloaded only where it has to be.
fn counting(build: Build) -> Build {
    if needs_preload() { build.preloaded() } else { build }
}

fn needs_preload() -> bool {
    Server::under_test().major < 17
}

/// A cluster of each kind that can count: preloaded, and not where that is possible.
fn clusters() -> Vec<&'static Cluster> {
    if needs_preload() { vec![&PRELOADED] } else { vec![&PRELOADED, cluster()] }
}

/// A row of once.stat_claims.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    claimed: i64,
    duplicates: i64,
    in_progress: i64,
    waits: i64,
    ages: Vec<i64>,
}

/// What is counted of an effect of a store; all zero and no ages where there is no row.
fn counted(s: &mut Session, store: &str, effect: &str) -> Counted {
    let rows = s.rows(
        "SELECT claimed, duplicates, in_progress, waits, ages, too_late, mismatch, completed, released
           FROM once.stat_claims WHERE store = $1 AND effect = $2",
        &[&store, &effect],
    );
    let [row] = rows.as_slice() else {
        assert!(rows.is_empty(), "{} rows of one effect", rows.len());
        return Counted::default();
    };
    let others: Vec<i64> = (5..9).map(|column| row.get(column)).collect();
    assert_eq!(others, [0; 4], "nothing here is too late, another request, completed or released");
    Counted {
        claimed: row.get(0),
        duplicates: row.get(1),
        in_progress: row.get(2),
        waits: row.get(3),
        ages: row.get(4),
    }
}

/// Claimed and duplicates of the empty effect of the default store.
fn answers(s: &mut Session) -> (i64, i64) {
    let Counted { claimed, duplicates, .. } = counted(s, "processed_events", "");
    (claimed, duplicates)
}
