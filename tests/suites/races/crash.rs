//! Crashes: of the server under load, of one backend, of the machine between prepare and commit.
//! These clusters flush to disk as a real one does.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pg_once_tests::cluster::Cluster;
use pg_once_tests::{race, wait};

#[test]
fn after_a_crash_under_load_every_acknowledged_claim_is_still_refused() {
    let cluster = Cluster::build().durable().start();
    let db = cluster.database();
    db.session().load();
    let acknowledged: Mutex<Vec<String>> = Mutex::new(Vec::new());
    for round in 0..2 {
        let mut sessions = db.sessions(8);
        let crash = Instant::now() + Duration::from_millis(1500);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                race::all(&mut sessions, |number, s| {
                    for n in 0.. {
                        let key = format!("r{round}-{number}-{n}");
                        let answer = match n % 3 {
                            0 => s.try_claim(&key),
                            1 => s.try_claim_many(&[&key]).map(|rows| rows[0].1),
                            _ => s
                                .try_run("BEGIN")
                                .and_then(|()| s.try_claim(&key))
                                .and_then(|claimed| s.try_run("COMMIT").map(|()| claimed)),
                        };
                        match answer {
                            Ok(true) => acknowledged.lock().expect("no panic holds it").push(key),
                            Ok(false) => panic!("{key} was refused the first time"),
                            // The crash. Whether this one counts, nobody was told.
                            Err(failure) => {
                                let broken = ["08006", "57P01", "57P02", "57P03", "client"];
                                assert!(broken.contains(&failure.code.as_str()), "{failure}");
                                break;
                            }
                        }
                    }
                });
            });
            wait::until("it is time for the crash", || Instant::now() > crash);
            cluster.crash_and_restart();
        });
        let keys = acknowledged.lock().expect("no panic holds it").clone();
        println!("round {round}: {} acknowledged in all", keys.len());
        assert!(keys.len() > 100);
        let mut s = db.session();
        s.verify("once.processed_events", cluster.server().ships("amcheck"));
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let lost: Vec<String> =
            s.claim_many(&keys).into_iter().filter(|(_, c)| *c).map(|(k, _)| k).collect();
        assert_eq!(lost, [""; 0], "acknowledged before the crash, claimed again after it");
    }
}

#[test]
fn a_claim_in_flight_at_a_crash_is_free_afterwards_and_one_prepared_is_not() {
    let cluster = Cluster::build().durable().start();
    let db = cluster.database();
    let (mut open, mut prepared) = (db.session(), db.session());
    open.claim("done");
    open.run("BEGIN");
    assert!(open.claim("open"));
    prepared.run("BEGIN");
    assert!(prepared.claim("prepared"));
    prepared.run("PREPARE TRANSACTION 'survivor'");
    cluster.crash_and_restart();
    let mut s = db.session();
    assert!(s.claim("open"));
    assert!(!s.claim("done"));
    assert_eq!(
        s.get::<String>("SELECT outcome::text FROM once.claim('prepared', wait => false)"),
        "in_progress"
    );
    s.run("COMMIT PREPARED 'survivor'");
    assert!(!s.claim("prepared"));
    let unlogged: i64 = s.get(
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'once'::regnamespace AND relpersistence <> 'p'",
    );
    assert_eq!(unlogged, 0);
    cluster.stop("immediate");
    cluster.start();
    let mut s = db.session();
    for key in ["open", "done", "prepared"] {
        assert!(!s.claim(key), "{key}");
    }
}

#[test]
fn a_backend_killed_with_sigkill_takes_its_claim_along_and_the_server_comes_back() {
    let cluster = Cluster::build().durable().start();
    let db = cluster.database();
    let mut holder = db.session();
    holder.claim("done");
    for (signal_waiter, key) in [(false, "held"), (true, "held too")] {
        let mut holder = db.session();
        holder.run("BEGIN");
        assert!(holder.claim(key));
        let waiter = db.session();
        let waiting = waiter.background(move |s| s.try_claim(key));
        wait::blocked(&mut db.session(), waiting.pid());
        db.kill(if signal_waiter { waiting.pid() } else { holder.pid() });
        waiting.join().1.expect_err("all sessions end with it");
        let answers = race::all(&mut db.sessions(16), |_, s| s.claim(key));
        assert_eq!(race::trues(&answers), 1, "{key}");
        assert!(!db.session().claim("done"));
    }
    assert!(!cluster.log().contains("lock is not in an empty state"));
}

#[test]
fn a_crash_while_days_are_being_made_leaves_whole_days_or_none() {
    let cluster = Cluster::build().durable().start();
    let db = cluster.database();
    for round in 0..3_u64 {
        let mut s = db.session();
        s.claim(&format!("before {round}"));
        let making = db.session().background(move |s| {
            for n in 0..200 {
                let store = format!("store_{round}_{n}");
                if s.try_run(&format!("SELECT once.create_store('{store}')")).is_err() {
                    break;
                }
            }
        });
        wait::until("some stores are there", || {
            s.get::<i64>("SELECT count(*) FROM once.stores") > 5 * (round as i64 + 1)
        });
        drop(s);
        cluster.crash_and_restart();
        making.join();
        let mut s = db.session();
        let stores: Vec<String> = s.column("SELECT store FROM once.stores");
        for store in stores {
            let claimed = |s: &mut pg_once_tests::session::Session| -> bool {
                s.get_with(
                    "SELECT once.claim_once($1::text, store => $2)",
                    &[&format!("r{round}"), &store],
                )
            };
            assert!(claimed(&mut s), "{store}");
            assert!(!claimed(&mut s), "{store}");
        }
        let loose: i64 = s.get(
            "SELECT count(*) FROM pg_class c WHERE relnamespace = 'once'::regnamespace AND relkind = 'r'
                AND relname LIKE 'store\\_%\\_2%' AND NOT relispartition",
        );
        assert_eq!(loose, 0, "a leaf that was never attached");
        s.run("CALL once.maintain()");
    }
}
