//! Leaves that are rewritten, reindexed, emptied, dropped and made again while sessions claim.

use std::sync::atomic::{AtomicBool, Ordering};

use pg_once_tests::race;
use pg_once_tests::shared::database;

use crate::ddl::today;

#[test]
fn leaves_are_rewritten_and_reindexed_while_eight_sessions_claim() {
    let db = database();
    let mut sessions = db.sessions(8);
    sessions[0].claim("load");
    sessions[0].run("CREATE TABLE wins (key text)");
    let mut ddl = db.session();
    let leaf = today(&mut ddl);
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let done = over.clone();
    let changes = ddl.background(move |s| {
        for _ in 0..3 {
            for change in [
                format!("VACUUM FULL once.{leaf}"),
                format!("REINDEX TABLE once.{leaf}"),
                format!("CLUSTER once.{leaf} USING {leaf}_pkey"),
                format!("REINDEX INDEX CONCURRENTLY once.{leaf}_pkey"),
                format!("ALTER TABLE once.{leaf} SET (fillfactor = 90)"),
                format!("ALTER TABLE once.{leaf} ALTER COLUMN result SET STATISTICS 10"),
                format!("VACUUM (FREEZE) once.{leaf}"),
                format!("ANALYZE once.{leaf}"),
                "ALTER TABLE once.processed_events ADD COLUMN extra int".to_owned(),
                "ALTER TABLE once.processed_events DROP COLUMN extra".to_owned(),
            ] {
                s.run(&change);
                // Back to back, the changes would leave the claims no room at all.
                s.run("SELECT pg_sleep(0.03)");
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    race::all(&mut sessions, |number, s| {
        let mut n = 0;
        // Until the changes are through, and for some claims in any case.
        while n < 60 || !over.load(Ordering::SeqCst) && n < 100_000 {
            let key = format!("k{}", n / 2 + number % 2);
            s.run("BEGIN");
            let claimed = if n % 5 == 0 { s.claim_many(&[&key])[0].1 } else { s.claim(&key) };
            if claimed {
                s.run(&format!("INSERT INTO wins VALUES ('{key}')"));
            }
            s.run(if n % 7 == 0 { "ROLLBACK" } else { "COMMIT" });
            n += 1;
        }
    });
    changes.join();
    let s = &mut sessions[0];
    let wins: i64 = s.get("SELECT count(*) FROM wins");
    assert!(wins > 50, "{wins} claims were won beside the changes");
    assert_eq!(
        s.column::<String>("SELECT key FROM wins GROUP BY key HAVING count(*) > 1"),
        [""; 0]
    );
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn todays_leaf_dropped_again_and_again_under_eight_sessions_is_made_again() {
    let db = database();
    let mut sessions = db.sessions(8);
    sessions[0].claim("load");
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let done = over.clone();
    let dropping = db.session().background(move |s| {
        for _ in 0..25 {
            let leaf = "SELECT format('once.%I', leaf) FROM once.partitions WHERE state IN ('current', 'future')
                         ORDER BY random() LIMIT 2";
            for leaf in s.column::<String>(leaf) {
                s.run(&format!("DROP TABLE IF EXISTS {leaf}"));
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    race::all(&mut sessions, |number, s| {
        let mut n = 0;
        while n < 30 || !over.load(Ordering::SeqCst) && n < 100_000 {
            n += 1;
            // Each has keys of its own: what it finds claimed is gone only with a leaf.
            s.claim(&format!("k{number}-{n}"));
            s.claim_many(&[&format!("b{number}-{n}"), &format!("k{number}-{n}")]);
            if n % 10 == 0 {
                s.run("CALL once.maintain()");
            }
        }
    });
    dropping.join();
    let s = &mut sessions[0];
    s.run("CALL once.maintain()");
    let days = s.days_of("once.processed_events");
    assert_eq!(days.len(), 4, "{days:?}");
    assert!(s.claim("after") && !s.claim("after"));
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM once.leaf_promise"),
        4,
        "no promise without its leaf"
    );
}

#[test]
fn a_truncated_or_emptied_leaf_has_forgotten_its_claims_in_every_session() {
    let db = database();
    let mut sessions = db.sessions(3);
    assert!(sessions[0].claim("k"));
    for s in &mut sessions {
        assert!(!s.claim("k"));
    }
    let leaf = today(&mut db.session());
    db.session().run(&format!("TRUNCATE once.{leaf}"));
    assert_eq!(race::trues(&race::all(&mut sessions, |_, s| s.claim("k"))), 1);
    db.session().run("DELETE FROM once.processed_events");
    db.session().run(&format!("VACUUM FULL once.{leaf}"));
    assert_eq!(race::trues(&race::all(&mut sessions, |_, s| s.claim("k"))), 1);
    db.session().run("DELETE FROM once.processed_events");
    db.session().run(&format!("VACUUM (TRUNCATE on) once.{leaf}"));
    assert_eq!(race::trues(&race::all(&mut sessions, |_, s| s.claim("k"))), 1);
    for s in &mut sessions {
        assert!(!s.claim("k"));
    }
}
