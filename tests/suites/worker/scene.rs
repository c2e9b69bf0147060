//! What these tests share: a server with the launcher, a store that lacks a day, and the proof that
//! somebody has maintained it.

use pg_once_tests::cluster::{Build, Cluster};
use pg_once_tests::session::Session;
use pg_once_tests::wait;

/// A server that starts the launcher, with the shortest interval there is.
pub(crate) fn preloaded() -> Build {
    Cluster::build().preloaded().set("pg_once.maintenance_interval", "1s")
}

/// A new database with pg_once and a store `s` in it, and a session there.
pub(crate) fn served(cluster: &Cluster, name: &str) -> Session {
    cluster.connect("postgres").run(&format!("CREATE DATABASE \"{name}\""));
    let mut session = cluster.connect(name);
    session.run("CREATE EXTENSION pg_once; SELECT once.create_store('s')");
    session
}

/// Takes away the last day of store `s`; the leaf's name.
pub(crate) fn lose_a_day(session: &mut Session) -> String {
    let leaf: String =
        session.get("SELECT leaf FROM once.partitions WHERE store = 's' ORDER BY day DESC LIMIT 1");
    session.run(&format!("DROP TABLE once.{leaf}"));
    leaf
}

/// Whether the leaf is there.
pub(crate) fn is_there(session: &mut Session, leaf: &str) -> bool {
    session.get_with("SELECT to_regclass('once.' || $1) IS NOT NULL", &[&leaf])
}

/// Takes away a day and waits until somebody has made it again: a pass that began after this was called
/// has been there.
#[track_caller]
pub(crate) fn maintained(session: &mut Session) {
    let leaf = lose_a_day(session);
    wait::until("a lost day is made again", || is_there(session, &leaf));
}

/// Processes of a kind, as pg_stat_activity names it.
pub(crate) fn processes(session: &mut Session, kind: &str) -> Vec<i32> {
    session
        .rows("SELECT pid FROM pg_stat_activity WHERE backend_type = $1", &[&kind])
        .iter()
        .map(|row| row.get(0))
        .collect()
}

/// The launcher's process id, once there is one.
#[track_caller]
pub(crate) fn launcher(session: &mut Session) -> i32 {
    let mut found = Vec::new();
    wait::until("there is a launcher", || {
        found = processes(session, "pg_once launcher");
        !found.is_empty()
    });
    assert_eq!(found.len(), 1, "more than one launcher");
    found[0]
}

/// The process id of a pass over database `app` that sleeps in the trigger of [`slow_down`].
#[track_caller]
pub(crate) fn sleeper(session: &mut Session) -> i32 {
    let mut found = Vec::new();
    wait::until("a pass is in its middle", || {
        found = session.column(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_once worker'
                AND datname = 'app' AND wait_event = 'PgSleep'",
        );
        !found.is_empty()
    });
    assert_eq!(found.len(), 1, "more than one pass");
    found[0]
}

/// Makes every pass in the session's database last for a minute: whoever makes a leaf there sleeps. A
/// day is taken away, so that there is one to make.
pub(crate) fn slow_down(session: &mut Session) {
    session.run(
        "CREATE FUNCTION public.slow() RETURNS event_trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_catalog.pg_sleep(60); END $$",
    );
    lose_a_day(session);
    session.run(
        "CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('CREATE TABLE')
             EXECUTE FUNCTION public.slow()",
    );
    lose_a_day(session);
}

/// Lines of the log that have a text.
pub(crate) fn lines<'a>(log: &'a str, text: &str) -> Vec<&'a str> {
    log.lines().filter(|line| line.contains(text)).collect()
}
