//! Somebody wants the database alone: to drop it, to copy it, to rename it. Our processes are never in
//! the way.

use std::time::{Duration, Instant};

use crate::scene::{lines, maintained, preloaded, served, sleeper, slow_down};

#[test]
fn databases_can_be_made_and_dropped_fifty_times_without_force() {
    let cluster = preloaded().start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE model");
    cluster.connect("model").run("CREATE EXTENSION pg_once; SELECT once.create_store('s')");
    let began = Instant::now();
    for round in 0..50 {
        // Copied while the launcher visits the model, dropped while it visits the copy.
        admin.run("CREATE DATABASE t TEMPLATE model");
        if round % 5 == 0 {
            let mut inside = cluster.connect("t");
            maintained(&mut inside);
            inside.run("DROP TABLE once.s; DROP EXTENSION pg_once");
        }
        wait_out(&mut admin, "t");
        admin.run("DROP DATABASE t");
    }
    let mut session = cluster.connect("model");
    maintained(&mut session);
    // Whoever came to a database that was just going says so, once each.
    let failed = lines(&cluster.log(), "FATAL").len();
    eprintln!("50 databases made and dropped in {:?}, {failed} lines of log", began.elapsed());
    assert!(failed <= 25, "{failed} lines\n{}", cluster.log());
}

/// Waits until the session that was just closed has left: its leaving is not what is tested.
fn wait_out(admin: &mut pg_once_tests::session::Session, database: &str) {
    pg_once_tests::wait::until("the client has left", || {
        admin.get_with::<bool>(
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'",
            &[&database],
        )
    });
}

#[test]
fn a_pass_in_its_middle_gives_way_to_a_drop_a_copy_and_a_new_name() {
    for statement in [
        "DROP DATABASE app",
        "CREATE DATABASE copy TEMPLATE app",
        "ALTER DATABASE app RENAME TO other",
    ] {
        let cluster = preloaded().start();
        let mut admin = cluster.connect("postgres");
        let mut session = served(&cluster, "app");
        slow_down(&mut session);
        sleeper(&mut session);
        drop(session);
        wait_out(&mut admin, "app");
        let began = Instant::now();
        admin.run(statement);
        eprintln!("{statement}: {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(5), "{statement}: {:?}", began.elapsed());
        // It was no failure: the pass is made up for at once where the database is still there.
        if statement.starts_with("CREATE") {
            sleeper(&mut admin);
        }
    }
}
