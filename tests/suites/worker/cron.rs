//! pg_cron as the runner: scheduled, changed and taken away in SQL, with the real pg_cron where the server
//! has it, and a clear answer where it has not.
//!
//! pg_cron is to be had for Debian's servers only. On another the first test looks at the answer, and the
//! others say so and look at it again: there is nothing else to be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pg_once_tests::cluster::{Build, Cluster};
use pg_once_tests::server::Server;
use pg_once_tests::session::Session;
use pg_once_tests::wait;

use crate::scene::{is_there, lines, lose_a_day, maintained, preloaded, served};

/// A server with pg_cron in database `postgres`, which looks for jobs through the socket; None where
/// there is no pg_cron for it.
fn with_cron(build: Build, libraries: &str) -> Option<Cluster> {
    let server = Server::under_test();
    let listed = std::env::var("PG_ONCE_CRON").unwrap_or_default();
    let listed = listed.split_whitespace().any(|major| major == server.major.to_string());
    if !server.ships("pg_cron") {
        assert!(!listed, "pg_cron was got for PostgreSQL {}, and is not there", server.major);
        let cluster = Cluster::build().start();
        no_cron_here(&mut served(&cluster, "app"));
        eprintln!("PostgreSQL {} has no pg_cron here", server.major);
        return None;
    }
    let cluster = build.start();
    cluster.configure(&format!(
        "shared_preload_libraries = '{libraries}'\ncron.host = '{}'\n",
        cluster.folder().display()
    ));
    cluster.restart();
    let mut home = cluster.connect("postgres");
    home.run("CREATE EXTENSION pg_cron; CREATE EXTENSION pg_once; SELECT once.create_store('s')");
    Some(cluster)
}

fn cron() -> Option<Cluster> {
    with_cron(Cluster::build(), "pg_cron")
}

#[track_caller]
fn no_cron_here(session: &mut Session) {
    for call in ["once.schedule()", "once.unschedule()", "once.schedule(database => 'app')"] {
        let failure = session.fails(&format!("SELECT {call}"));
        assert_eq!(failure.code, "55000", "{call}: {failure}");
        assert_eq!(failure.message, "pg_cron is not installed in this database", "{call}");
        assert!(failure.detail.contains("cron.database_name"), "{call}: {failure}");
        assert!(failure.hint.contains("CALL once.maintain()"), "{call}: {failure}");
    }
}

/// The jobs, as one line each.
fn jobs(home: &mut Session) -> Vec<String> {
    home.column(
        "SELECT concat_ws(' | ', jobname, schedule, command, database, username, active)
           FROM cron.job ORDER BY jobid",
    )
}

/// Has every job run within a minute: pg_cron starts jobs when a minute begins. Its own limit, because
/// that alone may take a minute.
#[track_caller]
fn within_two_minutes(what: &str, holds: impl FnMut() -> bool) {
    assert!(wait::poll(Duration::from_secs(130), holds), "in vain: {what}");
}

#[test]
fn where_pg_cron_is_absent_the_error_says_what_to_do() {
    let cluster = Cluster::build().start();
    no_cron_here(&mut served(&cluster, "app"));
    // A schema that looks like pg_cron's is no pg_cron.
    let mut session = cluster.connect("app");
    session.run(
        "CREATE SCHEMA cron; CREATE FUNCTION cron.schedule(text, text, text) RETURNS bigint
             LANGUAGE plpgsql AS $$ BEGIN RAISE 'planted'; END $$",
    );
    no_cron_here(&mut session);
}

#[test]
fn scheduling_twice_changes_the_job_and_makes_no_second_one() {
    let Some(cluster) = cron() else { return };
    drop(served(&cluster, "app"));
    let mut home = cluster.connect("postgres");
    let first: i64 = home.get("SELECT once.schedule()");
    let command = "CALL once.maintain()";
    assert_eq!(
        jobs(&mut home),
        [format!("pg_once maintain postgres | */10 * * * * | {command} | postgres | postgres | t")]
    );
    assert_eq!(home.get::<i64>("SELECT once.schedule('5 * * * *')"), first);
    let other: i64 = home.get("SELECT once.schedule(database => 'app')");
    assert_ne!(other, first);
    assert_eq!(home.get::<i64>("SELECT once.schedule('7 * * * *', 'app')"), other);
    assert_eq!(
        jobs(&mut home),
        [
            format!("pg_once maintain postgres | 5 * * * * | {command} | postgres | postgres | t"),
            format!("pg_once maintain app | 7 * * * * | {command} | app | postgres | t"),
        ]
    );
    // Switched off, or left over from a server on another port: scheduling it means that it runs.
    home.run(&format!("SELECT cron.alter_job({first}, active => false)"));
    home.run(&format!("UPDATE cron.job SET nodeport = 1 WHERE jobid = {other}"));
    home.run("SELECT once.schedule('9 * * * *'), once.schedule('9 * * * *', 'app')");
    let good: i64 = home.get(
        "SELECT count(*) FROM cron.job WHERE active AND nodeport = current_setting('port')::integer",
    );
    assert_eq!((jobs(&mut home).len(), good), (2, 2));
    // In a transaction that rolls back nothing happened.
    home.run("BEGIN; SELECT once.unschedule(); ROLLBACK");
    assert_eq!(jobs(&mut home).len(), 2);
    assert!(home.get::<bool>("SELECT once.unschedule()"));
    assert!(!home.get::<bool>("SELECT once.unschedule()"));
    assert!(home.get::<bool>("SELECT once.unschedule('app')"));
    assert_eq!(jobs(&mut home), Vec::<String>::new());
}

#[test]
fn what_cannot_be_scheduled_is_refused() {
    let Some(cluster) = cron() else { return };
    let mut home = cluster.connect("postgres");
    for (call, code) in [
        ("once.schedule('now and then')", "22023"),
        ("once.schedule('')", "22023"),
        ("once.schedule(NULL)", "22004"),
        ("once.schedule(database => 'nowhere')", "3D000"),
        ("once.schedule(database => '')", "3D000"),
    ] {
        let failure = home.fails(&format!("SELECT {call}"));
        assert_eq!(failure.code, code, "{call}: {failure}");
    }
    let failure = home.try_run("BEGIN READ ONLY; SELECT once.schedule()").expect_err("read only");
    assert_eq!(failure.code, "25006");
    home.run("ROLLBACK");
    assert_eq!(jobs(&mut home), Vec::<String>::new());
    // In another database there is no pg_cron: the error says where it is.
    no_cron_here(&mut served(&cluster, "app"));
}

#[test]
fn long_and_odd_names_of_databases_have_a_job_each() {
    let Some(cluster) = cron() else { return };
    let mut home = cluster.connect("postgres");
    let long = "x".repeat(62);
    let names =
        [format!("{long}a"), format!("{long}b"), "é".repeat(31), "it's \"odd\"; --".to_owned()];
    for name in &names {
        home.run(&format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\"")));
        let first: i64 = home.get_with("SELECT once.schedule(database => $1)", &[name]);
        let again: i64 = home.get_with("SELECT once.schedule('1 * * * *', $1)", &[name]);
        assert_eq!(first, again, "{name}");
    }
    let databases: Vec<String> = home.column("SELECT database FROM cron.job ORDER BY jobid");
    assert_eq!(databases, names);
    home.run(&format!("DROP DATABASE \"{long}a\""));
    for name in &names {
        // Also of a database that is gone.
        assert!(home.get_with::<bool>("SELECT once.unschedule($1)", &[name]), "{name}");
    }
    assert_eq!(jobs(&mut home), Vec::<String>::new());
}

#[test]
fn whoever_may_use_pg_cron_schedules_as_themselves_and_nobody_else_does() {
    let Some(cluster) = cron() else { return };
    let mut home = cluster.connect("postgres");
    home.run("CREATE DATABASE app");
    // The functions are what a search_path could lead to.
    home.run(
        "CREATE ROLE clerk LOGIN; CREATE ROLE stranger LOGIN;
         GRANT USAGE ON SCHEMA once TO clerk, stranger; GRANT USAGE ON SCHEMA cron TO clerk;
         CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap TO clerk;
         CREATE FUNCTION trap.current_database() RETURNS name LANGUAGE plpgsql AS
             $$ BEGIN RAISE 'through the search_path'; END $$;
         CREATE FUNCTION trap.to_hex(bigint) RETURNS text LANGUAGE plpgsql AS
             $$ BEGIN RAISE 'through the search_path'; END $$",
    );
    let mut clerk = Session::open(cluster.endpoint("postgres").user("clerk"));
    clerk.run("SET search_path = trap, pg_catalog");
    clerk.run("SELECT once.schedule('3 * * * *')");
    // The job of another role of the same name is another job.
    home.run("SELECT once.schedule('4 * * * *')");
    assert_eq!(
        jobs(&mut home),
        [
            "pg_once maintain postgres | 3 * * * * | CALL once.maintain() | postgres | clerk | t",
            "pg_once maintain postgres | 4 * * * * | CALL once.maintain() | postgres | postgres | t"
        ]
    );
    // Another database is pg_cron's to grant, and it does not by itself.
    assert_eq!(clerk.fails("SELECT once.schedule(database => 'app')").code, "42501");
    home.run(
        "GRANT EXECUTE ON FUNCTION cron.schedule_in_database(text, text, text, text, text, boolean) TO clerk",
    );
    clerk.run("SELECT once.schedule(database => 'app')");
    assert_eq!(jobs(&mut home).len(), 3);
    let mut stranger = Session::open(cluster.endpoint("postgres").user("stranger"));
    for call in ["once.schedule()", "once.unschedule()"] {
        assert_eq!(stranger.fails(&format!("SELECT {call}")).code, "42501", "{call}");
    }
    // The clerk's own go, the superuser's stays.
    assert!(clerk.get::<bool>("SELECT once.unschedule()"));
    assert!(clerk.get::<bool>("SELECT once.unschedule('app')"));
    assert!(!clerk.get::<bool>("SELECT once.unschedule()"));
    assert_eq!(jobs(&mut home).len(), 1);
}

/// Three jobs, one of them of a role that is dropped then.
fn jobs_of_somebody_who_leaves(home: &mut Session) {
    home.run(
        "CREATE ROLE leaver LOGIN SUPERUSER; SET SESSION AUTHORIZATION leaver;
         SELECT once.schedule('* * * * *'); RESET SESSION AUTHORIZATION;
         SELECT once.schedule('* * * * *'), once.schedule('* * * * *', 'app'); DROP ROLE leaver",
    );
}

#[test]
fn jobs_run_in_their_databases_once_those_of_a_role_that_is_gone_are_deleted() {
    let Some(cluster) = cron() else { return };
    let mut home = cluster.connect("postgres");
    let mut app = served(&cluster, "app");
    jobs_of_somebody_who_leaves(&mut home);
    let (there, here) = (lose_a_day(&mut app), lose_a_day(&mut home));
    // pg_cron 1.4 stands still until then; later ones do not.
    home.run("DELETE FROM cron.job WHERE username = 'leaver'");
    within_two_minutes("both databases are maintained", || {
        is_there(&mut app, &there) && is_there(&mut home, &here)
    });
    within_two_minutes("both jobs have ended", || {
        home.get::<i64>(
            "SELECT count(DISTINCT jobid) FROM cron.job_run_details WHERE status = 'succeeded'",
        ) == 2
    });
    let runner: String =
        app.get("SELECT runner FROM once.maintenance_log ORDER BY at DESC LIMIT 1");
    assert_eq!(runner, "pg_cron");
    let runs: Vec<String> = home.column(
        "SELECT DISTINCT concat_ws(' ', database, username, status) FROM cron.job_run_details
          WHERE status IN ('succeeded', 'failed') AND username <> 'leaver' ORDER BY 1",
    );
    assert_eq!(runs, ["app postgres succeeded", "postgres postgres succeeded"]);
}

#[test]
fn a_job_whose_role_is_gone_does_not_stop_the_launcher_whatever_it_does_to_pg_cron() {
    let Some(cluster) = with_cron(preloaded(), "pg_cron, pg_once") else { return };
    let mut home = cluster.connect("postgres");
    let mut app = served(&cluster, "app");
    jobs_of_somebody_who_leaves(&mut home);
    for _ in 0..4 {
        maintained(&mut app);
        maintained(&mut home);
    }
}

#[test]
fn the_launcher_pg_cron_and_two_hands_at_once_do_no_harm() {
    let Some(cluster) = with_cron(preloaded(), "pg_cron, pg_once") else { return };
    let mut home = cluster.connect("postgres");
    let mut app = served(&cluster, "app");
    home.run("SELECT once.schedule('* * * * *', 'app')");
    let over = Arc::new(AtomicBool::new(false));
    let mut hands = Vec::new();
    for _ in 0..2 {
        let over = over.clone();
        hands.push(cluster.connect("app").background(move |session| {
            let mut calls = 0;
            while !over.load(Ordering::Relaxed) {
                session.run("CALL once.maintain()");
                calls += 1;
            }
            calls
        }));
    }
    let (mut days, mut keys) = (0, 0);
    let began = Instant::now();
    let ran = "SELECT count(*) > 0 FROM cron.job_run_details WHERE status = 'succeeded'";
    // Until pg_cron has had its turn too.
    while began.elapsed() < Duration::from_secs(10) || !home.get::<bool>(ran) {
        assert!(began.elapsed() < Duration::from_secs(130), "pg_cron runs no job");
        let leaf = lose_a_day(&mut app);
        wait::until("a lost day is made again", || is_there(&mut app, &leaf));
        days += 1;
        for _ in 0..20 {
            keys += 1;
            assert!(app.get::<bool>(&format!("SELECT once.claim_once('k{keys}', store => 's')")));
        }
    }
    over.store(true, Ordering::Relaxed);
    let calls: Vec<i32> = hands.into_iter().map(|hand| hand.join().1).collect();
    eprintln!("{days} days lost and made again, {keys} claims, {calls:?} calls by hand");
    assert_eq!(app.get::<i64>("SELECT count(*) FROM once.s"), i64::from(keys));
    let failed: i64 = home.get("SELECT count(*) FROM cron.job_run_details WHERE status = 'failed'");
    assert_eq!(failed, 0);
    for word in ["ERROR", "FATAL", "deadlock", "could not"] {
        assert_eq!(lines(&cluster.log(), word).join("\n"), "");
    }
}

/// A day and more ago is when the last pass came to its end.
fn let_time_pass(session: &mut Session) {
    session.run(
        "UPDATE once.store_policy SET maintained_at = clock_timestamp() - interval '30 hours'",
    );
}

fn is_overdue(session: &mut Session) -> bool {
    session.get("SELECT EXISTS (SELECT FROM once.health WHERE finding = 'maintenance is overdue')")
}

/// Waits until pg_cron has looked for jobs twice.
fn two_minutes_begin(session: &mut Session) {
    let minute = "SELECT extract(epoch FROM date_trunc('minute', clock_timestamp()))::bigint";
    let first: i64 = session.get(minute);
    within_two_minutes("two minutes begin", || session.get::<i64>(minute) >= first + 120);
    // pg_cron starts them in the first second.
    std::thread::sleep(Duration::from_secs(3));
}

#[test]
fn a_job_whose_database_was_renamed_or_whose_role_is_turned_away_shows_as_overdue_until_it_is_mended()
 {
    let Some(cluster) = cron() else { return };
    let mut home = cluster.connect("postgres");
    for name in ["renamed", "barred"] {
        drop(served(&cluster, name));
    }
    home.run(
        "CREATE ROLE clerk LOGIN SUPERUSER; SET SESSION AUTHORIZATION clerk;
              SELECT once.schedule('* * * * *', 'barred'); RESET SESSION AUTHORIZATION;
              SELECT once.schedule('* * * * *', 'renamed')",
    );
    home.run("ALTER DATABASE renamed RENAME TO anew");
    let rules = cluster.folder().join("data/pg_hba.conf");
    let before = std::fs::read_to_string(&rules).expect("a made cluster");
    std::fs::write(&rules, format!("local barred clerk reject\n{before}")).expect("writable");
    home.run("SELECT pg_reload_conf()");
    let (mut anew, mut barred) = (cluster.connect("anew"), cluster.connect("barred"));
    let_time_pass(&mut anew);
    let_time_pass(&mut barred);
    within_two_minutes("both jobs fail", || {
        home.get::<i64>(
            "SELECT count(DISTINCT database) FROM cron.job_run_details WHERE status = 'failed'",
        ) == 2
    });
    assert!(is_overdue(&mut anew) && is_overdue(&mut barred), "whoever was to run it");
    std::fs::write(&rules, before).expect("writable");
    home.run(
        "SELECT pg_reload_conf(), once.unschedule('renamed'), once.schedule('* * * * *', 'anew')",
    );
    within_two_minutes("both are maintained", || {
        !is_overdue(&mut anew) && !is_overdue(&mut barred)
    });
}

#[test]
fn jobs_for_which_there_is_no_background_worker_show_as_overdue() {
    let Some(cluster) = cron() else { return };
    let mut home = cluster.connect("postgres");
    home.run("SELECT once.schedule('* * * * *')");
    drop(home);
    // pg_cron itself and the launcher of logical replication take them all.
    cluster.configure("cron.use_background_workers = on\nmax_worker_processes = 2\n");
    cluster.restart();
    let mut home = cluster.connect("postgres");
    let_time_pass(&mut home);
    two_minutes_begin(&mut home);
    let done: i64 =
        home.get("SELECT count(*) FROM cron.job_run_details WHERE status = 'succeeded'");
    assert_eq!(done, 0);
    assert!(is_overdue(&mut home));
    // By hand it works all the same, and that is the remedy.
    home.run("CALL once.maintain()");
    assert!(!is_overdue(&mut home));
}

#[test]
fn a_job_whose_role_was_dropped_shows_as_overdue() {
    let Some(cluster) = cron() else { return };
    let mut home = cluster.connect("postgres");
    home.run(
        "CREATE ROLE leaver LOGIN SUPERUSER; SET SESSION AUTHORIZATION leaver;
         SELECT once.schedule('* * * * *'); RESET SESSION AUTHORIZATION; DROP ROLE leaver",
    );
    let_time_pass(&mut home);
    two_minutes_begin(&mut home);
    assert!(is_overdue(&mut home));
    home.run("DELETE FROM cron.job WHERE username = 'leaver'; SELECT once.schedule('* * * * *')");
    within_two_minutes("a job of somebody who is there runs", || !is_overdue(&mut home));
}
