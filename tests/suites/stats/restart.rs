//! Counts outlive a restart in good order where the library is preloaded, and nothing else; a crash, at
//! whatever point, leaves a table that counts.

use std::time::Duration;

use pg_once_tests::cluster::{Build, Cluster};
use pg_once_tests::database::Database;
use pg_once_tests::session::Session;
use pg_once_tests::{hang, wait};

use crate::{answers, counting, needs_preload};

const FILE: &str = "data/pg_stat/pg_once.stat";

/// Waits until the server has made itself anew after a crash of a backend, which it has noticed when it ends
/// the others: until then it still lets sessions in.
fn back(db: &Database, witness: &mut Session) {
    wait::until("the server notices", || witness.try_run("SELECT 1").is_err());
    wait::until("the server takes connections again", || Session::try_open(db.endpoint()).is_ok());
}

#[test]
fn a_restart_keeps_the_counts_and_the_file_is_gone_while_the_server_runs() {
    let cluster = Cluster::build().preloaded().start();
    let db = cluster.database();
    for round in 1..=3_i64 {
        let mut s = db.session();
        s.claim("k");
        assert_eq!(answers(&mut s), (1, round - 1));
        assert!(!cluster.folder().join(FILE).exists(), "a file from before would outlive a crash");
        drop(s);
        cluster.stop(if round == 2 { "smart" } else { "fast" });
        assert!(cluster.folder().join(FILE).exists());
        cluster.start();
    }
    let mut s = db.session();
    assert_eq!(answers(&mut s), (1, 2));
    assert_eq!(s.get::<i64>("SELECT sum(a)::bigint FROM once.stat_claims, unnest(ages) a"), 2);
    assert!(!cluster.log().contains("pg_once: "), "{}", cluster.log_tail());
}

#[test]
fn a_file_that_is_damaged_is_thrown_away_and_said_so() {
    let cluster = Cluster::build().preloaded().start();
    let db = cluster.database();
    db.session().claim("k");
    let file = cluster.folder().join(FILE);
    for damage in ["cut", "changed", "empty", "longer"] {
        cluster.stop("fast");
        let mut bytes = std::fs::read(&file).expect("it was written");
        match damage {
            "cut" => bytes.truncate(bytes.len() / 2),
            "changed" => bytes[9_000] ^= 1,
            "empty" => bytes.clear(),
            _ => bytes.extend([0; 8]),
        }
        std::fs::write(&file, bytes).expect("the cluster's folder");
        let said = || cluster.log().matches("pg_once.stat\" is damaged").count();
        let before = said();
        cluster.start();
        assert_eq!(said(), before + 1, "{damage}: {}", cluster.log_tail());
        assert!(!file.exists(), "{damage}");
        let mut s = db.session();
        assert_eq!(answers(&mut s), (0, 0), "{damage}");
        s.claim("k");
        assert_eq!(answers(&mut s), (0, 1), "{damage}");
    }
}

#[test]
fn after_a_crash_of_a_backend_counting_begins_anew() {
    for kind in [Build::preloaded, counting] {
        let cluster = kind(Cluster::build()).start();
        let db = cluster.database();
        let mut s = db.session();
        s.claim("k");
        s.claim("k");
        assert_eq!(answers(&mut s), (1, 1));
        let mut witness = db.session();
        hang::crash(s.pid());
        drop(s);
        back(&db, &mut witness);
        let mut s = db.session();
        assert_eq!(answers(&mut s), (0, 0));
        s.claim("k");
        assert_eq!(answers(&mut s), (0, 1));
        drop(s);
        // And the postmaster itself, of which nothing is left to write a file.
        cluster.crash_and_restart();
        assert_eq!(answers(&mut db.session()), (0, 0));
    }
}

#[test]
fn crashes_at_any_moment_of_counting_leave_a_table_that_counts() {
    let cluster = counting(Cluster::build()).start();
    let db = cluster.database();
    db.session().claim("load");
    for round in 0..6 {
        let (mut sessions, mut witness) = (db.sessions(4), db.session());
        let victim = sessions[0].pid();
        let work: Vec<_> = sessions
            .drain(..)
            .enumerate()
            .map(|(number, s)| {
                s.background(move |s| {
                    for n in 0.. {
                        // A new effect each time: entries are made all the while.
                        let claim = format!(
                            "SELECT once.claim_once('k', effect => '{round}-{number}-{}')",
                            n % 200
                        );
                        if s.try_run(&claim).is_err() {
                            return n;
                        }
                    }
                    0
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(40 + 37 * round));
        hang::crash(victim);
        let done: Vec<u64> = work.into_iter().map(|work| work.join().1).collect();
        assert!(done.iter().sum::<u64>() > 4, "{done:?}");
        back(&db, &mut witness);
        let mut s = db.session();
        assert_eq!(answers(&mut s), (0, 0));
        s.claim("load");
        assert_eq!(answers(&mut s), (0, 1));
        assert_eq!(s.get::<i64>("SELECT count(*) FROM once.stat_claims"), 1, "round {round}");
    }
}

#[test]
fn without_preload_the_counts_live_as_long_as_the_server_or_there_are_none() {
    let cluster = Cluster::build().start();
    let db = cluster.database();
    let mut s = db.session();
    s.claim("k");
    assert_eq!(s.get::<bool>("SELECT once.stat_available()"), !needs_preload());
    assert_eq!(answers(&mut s), if needs_preload() { (0, 0) } else { (1, 0) });
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.stat_claims"), i64::from(!needs_preload()));
    s.run("SELECT once.stat_reset()");
    let verdict: String = s.get("SELECT verdict FROM once.retention_advice");
    assert_eq!(verdict, if needs_preload() { "unavailable" } else { "too few" });
    drop(s);
    cluster.restart();
    assert_eq!(answers(&mut db.session()), (0, 0));
    assert!(!cluster.folder().join(FILE).exists());
}

#[test]
fn a_standby_has_counts_of_its_own_which_are_none_until_it_is_promoted() {
    for kind in [Build::preloaded, counting] {
        let primary = kind(Cluster::build()).durable().start();
        let db = primary.database();
        let mut p = db.session();
        p.claim("k");
        p.claim("k");
        let standby = primary.standby();
        let mut s = standby.connect(db.name());
        pg_once_tests::standby::caught_up(&mut p, &mut s);
        assert_eq!(s.fails("SELECT once.claim_once('k')").code, "25006");
        s.run("SELECT * FROM once.lookup('k'); SELECT once.stat_reset()");
        assert_eq!(s.get::<i64>("SELECT count(*) FROM once.stat_claims"), 0);
        assert_eq!(s.get::<String>("SELECT verdict FROM once.retention_advice"), "too few");
        drop(p);
        primary.stop("immediate");
        standby.promote();
        assert!(!s.claim("k"));
        assert_eq!(answers(&mut s), (0, 1));
    }
}

#[test]
fn a_server_that_runs_alone_counts_or_does_without_and_keeps_what_was_counted() {
    use std::io::Write;
    use std::process::Stdio;
    for kind in [Build::preloaded, |build| build] {
        let cluster = kind(Cluster::build()).start();
        let db = cluster.database();
        db.session().claim("k");
        cluster.stop("fast");
        let mut alone = cluster
            .server()
            .command("postgres")
            .args(["--single", "-D"])
            .arg(cluster.folder().join("data"))
            .arg(db.name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("postgres starts");
        let statements = "SELECT once.claim_once('k');\nSELECT duplicates FROM once.stat_claims;\n";
        alone.stdin.take().expect("piped").write_all(statements.as_bytes()).expect("it reads");
        let output = alone.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("claim_once = \"f\""), "{said}");
        cluster.start();
        let mut s = db.session();
        let preloaded = s.get::<String>("SHOW shared_preload_libraries") == "pg_once";
        assert_eq!(answers(&mut s), if preloaded { (1, 1) } else { (0, 0) });
    }
}
