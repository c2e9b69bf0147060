//! A standby with the library preloaded: quiet while it is one, at work within one tick once it is not.

use pg_once_tests::account;
use pg_once_tests::session::Session;
use pg_once_tests::standby::caught_up;

use crate::scene::{lines, maintained, preloaded, processes, served};

#[test]
fn a_standby_has_no_launcher_and_a_quiet_log_and_maintains_once_it_is_promoted() {
    let primary = preloaded().start();
    let mut session = served(&primary, "app");
    maintained(&mut session);
    let standby = primary.standby();
    let mut there = standby.connect("app");
    for _ in 0..5 {
        maintained(&mut session);
        caught_up(&mut session, &mut there);
        assert!(processes(&mut there, "pg_once launcher").is_empty());
        assert!(processes(&mut there, "pg_once worker").is_empty());
    }
    for level in ["WARNING", "ERROR", "FATAL", "PANIC", "pg_once"] {
        assert_eq!(lines(&standby.log(), level).join("\n"), "");
    }
    assert_eq!(there.try_claim("k").expect_err("a standby").code, "25006");
    primary.stop("fast");
    standby.promote();
    // The day is taken away after the promotion: only a launcher there can bring it back.
    maintained(&mut there);
    assert_eq!(processes(&mut there, "pg_once launcher").len(), 1);
    let runner: String =
        there.get("SELECT runner FROM once.maintenance_log ORDER BY at DESC LIMIT 1");
    assert_eq!(runner, "pg_once worker");
}

#[test]
fn an_old_primary_that_was_rewound_follows_the_new_one_and_maintains_when_it_is_promoted_itself() {
    let first =
        preloaded().durable().set("wal_log_hints", "on").set("wal_keep_size", "512MB").start();
    let mut session = served(&first, "app");
    let claim = |s: &mut Session, key: &str| -> bool {
        s.get_with("SELECT once.claim_once($1::text, store => 's')", &[&key])
    };
    assert!(claim(&mut session, "before"));
    let second = first.standby();
    let mut there = second.connect("app");
    caught_up(&mut session, &mut there);
    second.promote();
    // Both answer for a while, as they must not: what the old one says goes with the rewinding.
    assert!(claim(&mut there, "after") && !claim(&mut there, "before"));
    assert!(claim(&mut session, "astray"));
    maintained(&mut session);
    maintained(&mut there);
    there.run("CHECKPOINT");
    drop(session);
    first.stop("fast");
    let source =
        format!("host={} port=5432 user=postgres dbname=postgres", second.folder().display());
    let mut rewind = first.server().command("pg_rewind");
    rewind.args(["--no-sync", "-R", "--source-server", &source, "-D"]);
    account::run(rewind.arg(first.folder().join("data")));
    // Its settings are the other's now.
    first.configure(&format!("unix_socket_directories = '{}'\n", first.folder().display()));
    let said_before = first.log().len();
    first.start();
    let mut here = first.connect("app");
    for _ in 0..3 {
        maintained(&mut there);
        caught_up(&mut there, &mut here);
        assert!(processes(&mut here, "pg_once launcher").is_empty());
        assert!(processes(&mut here, "pg_once worker").is_empty());
    }
    assert_eq!(here.try_claim("k").expect_err("a standby").code, "25006");
    for (key, known) in [("before", 1), ("after", 1), ("astray", 0)] {
        let found: i64 =
            here.get_with("SELECT count(*) FROM once.lookup($1, store => 's')", &[&key]);
        assert_eq!(found, known, "{key}");
    }
    let log = first.log()[said_before..].to_owned();
    for level in ["WARNING", "PANIC", "pg_once"] {
        assert_eq!(lines(&log, level).join("\n"), "");
    }
    drop(there);
    second.stop("fast");
    first.promote();
    maintained(&mut here);
    assert_eq!(processes(&mut here, "pg_once launcher").len(), 1);
    assert!(!claim(&mut here, "before") && !claim(&mut here, "after"));
    assert!(claim(&mut here, "astray"), "it was never claimed where it counts");
}
