//! Without `shared_preload_libraries`, and where the library is loaded in some other way: everything but
//! the launcher is there.

use pg_once_tests::cluster::Cluster;

use crate::scene::{lines, maintained, preloaded, processes, served};

#[test]
fn without_preload_the_extension_works_and_has_no_launcher() {
    let cluster = Cluster::build().start();
    let mut session = served(&cluster, "app");
    assert!(session.claim("k") && !session.claim("k"));
    session.run("CALL once.maintain()");
    assert_eq!(session.get::<String>("SHOW pg_once.maintenance_interval"), "10min");
    assert!(processes(&mut session, "pg_once launcher").is_empty());
}

#[test]
fn loading_the_library_in_a_session_does_no_harm() {
    let cluster = Cluster::build().start();
    let mut session = cluster.connect("postgres");
    session.run("LOAD 'pg_once'");
    assert_eq!(session.get::<String>("SHOW pg_once.databases"), "");
    session.run("CREATE EXTENSION pg_once");
    assert!(session.claim("k") && !session.claim("k"));
    assert_eq!(lines(&cluster.log(), "pg_once").join("\n"), "");
}

#[test]
fn a_server_that_pg_upgrade_runs_has_no_launcher() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    maintained(&mut session);
    drop(session);
    cluster.stop("fast");
    cluster.start_with(&["-b"]);
    let mut session = cluster.connect("app");
    assert!(processes(&mut session, "pg_once launcher").is_empty());
    drop(session);
    cluster.restart();
    let mut session = cluster.connect("app");
    maintained(&mut session);
}
