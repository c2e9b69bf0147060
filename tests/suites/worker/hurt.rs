//! Killed, shut down, crashed: whatever happens to a process, the server comes back, and so does the
//! launcher.

use std::time::{Duration, Instant};

use pg_once_tests::cluster::Cluster;
use pg_once_tests::hang::{self, Signal};
use pg_once_tests::session::Session;
use pg_once_tests::wait;

use crate::scene::{launcher, lines, maintained, preloaded, served, sleeper, slow_down};

/// A session in `app`, once the server lets one in.
fn back(cluster: &Cluster) -> Session {
    let mut session = None;
    wait::until("the server is back", || {
        session = Session::try_open(cluster.endpoint("app")).ok();
        session.is_some()
    });
    session.expect("just seen")
}

#[test]
fn a_killed_launcher_is_back_with_the_server() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    let killed = launcher(&mut session);
    hang::kill(killed);
    wait::until("the server notices", || session.try_run("SELECT 1").is_err());
    let mut session = back(&cluster);
    assert_ne!(launcher(&mut session), killed);
    maintained(&mut session);
    assert!(session.claim("k") && !session.claim("k"));
}

#[test]
fn a_killed_pass_leaves_a_server_that_comes_back_and_finishes_the_work() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    slow_down(&mut session);
    let pass = sleeper(&mut session);
    session.run("DROP EVENT TRIGGER slow");
    hang::kill(pass);
    wait::until("the server notices", || session.try_run("SELECT 1").is_err());
    let mut session = back(&cluster);
    wait::until("the days that were lost are there", || {
        session
            .get::<i64>("SELECT count(*) FROM once.partitions WHERE state IN ('current', 'future')")
            >= 4
    });
    maintained(&mut session);
}

#[test]
fn a_client_that_crashes_takes_nobody_with_it_for_good() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    for round in 0..3 {
        let mut victim = cluster.connect("app");
        assert!(victim.claim(&format!("before {round}")));
        hang::signal(victim.pid(), Signal::SEGV);
        wait::until("the server notices", || session.try_run("SELECT 1").is_err());
        session = back(&cluster);
        assert!(!session.claim(&format!("before {round}")), "what was committed is there");
        assert!(session.claim(&format!("after {round}")));
        maintained(&mut session);
    }
    assert!(lines(&cluster.log(), "lock is not in an empty state").is_empty());
}

#[test]
fn a_launcher_that_is_told_to_end_ends_its_pass_too_and_comes_back() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    slow_down(&mut session);
    let (first, pass) = (launcher(&mut session), sleeper(&mut session));
    session.run("DROP EVENT TRIGGER slow");
    let began = Instant::now();
    session.run(&format!("SELECT pg_terminate_backend({first})"));
    wait::gone(&mut session, first);
    wait::gone(&mut session, pass);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_ne!(launcher(&mut session), first);
    maintained(&mut session);
    // A cancel is for statements, and the launcher has none.
    let second = launcher(&mut session);
    session.run(&format!("SELECT pg_cancel_backend({second})"));
    maintained(&mut session);
    assert_eq!(launcher(&mut session), second);
}

#[test]
fn a_fast_shutdown_in_the_middle_of_a_pass_is_fast() {
    let cluster = preloaded().start();
    let mut session = served(&cluster, "app");
    slow_down(&mut session);
    sleeper(&mut session);
    let began = Instant::now();
    cluster.stop("fast");
    eprintln!("stopped in {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(lines(&cluster.log(), "PANIC").is_empty());
    cluster.start();
    // The same for a smart one, which waits for clients but not for us.
    let mut session = back(&cluster);
    sleeper(&mut session);
    drop(session);
    let began = Instant::now();
    cluster.stop("smart");
    eprintln!("stopped in {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    cluster.start();
}
