//! Stores, leaves and the extension dropped: nothing is left, and nothing is in the way.

use pg_once_tests::race;
use pg_once_tests::shared::clocked;

use crate::scene::{LEAF, OTHER, Scene, claim, noon, sealed, smuggle};
use crate::steps::tidy;

#[test]
fn a_store_dropped_and_made_anew_under_its_name() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    scene.dba.run("SELECT once.drop_store('processed_events')");
    scene.dba.run("SELECT once.create_store('processed_events', retention => '200 days')");
    assert!(claim(&mut scene.claimer, "day2-1") && !claim(&mut scene.claimer, "day2-1"));
    tidy(&mut scene);
    assert_eq!(scene.dba.get::<i64>("SELECT count(*) FROM once.filter"), 0);
    assert_eq!(scene.dba.get::<i64>("SELECT count(*) FROM once.filter_day"), 0);
    assert_eq!(scene.dba.get::<i64>("SELECT count(*) FROM once.leaf_seal"), 0);
}

#[test]
fn a_store_dropped_by_hand() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    scene.dba.run("DROP TABLE once.processed_events");
    tidy(&mut scene);
    assert_eq!(scene.dba.get::<i64>("SELECT count(*) FROM once.filter"), 0);
    assert!(scene.claimer.claim("day2-1"), "it is made anew");
}

#[test]
fn a_leaf_dropped_by_hand() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    scene.dba.run(&format!("DROP TABLE {LEAF}"));
    assert!(claim(&mut scene.claimer, "day2-1") && !claim(&mut scene.claimer, "day3-1"));
    scene.dba.run("CALL once.maintain()");
    assert_eq!(sealed(&mut scene.dba), [OTHER]);
    assert!(!claim(&mut scene.claimer, "day3-1"));
    tidy(&mut scene);
}

#[test]
fn a_leaf_dropped_and_made_anew_by_hand_with_rows() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    scene.dba.run(&format!(
        "BEGIN; DROP TABLE {LEAF};
         CREATE TABLE {LEAF} PARTITION OF once.processed_events (PRIMARY KEY (key, effect))
            FOR VALUES FROM ('2011-05-02 00:00+00') TO ('2011-05-03 00:00+00');
         {}; COMMIT",
        smuggle(&key)
    ));
    scene.refuses(&key);
    scene.sealed_anew(&key, 2);
    tidy(&mut scene);
}

#[test]
fn days_that_maintenance_drops_leave_the_others_answered() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    // The last of the two sealed days outlives the first.
    scene.dba.run(
        "UPDATE once.leaf_promise SET keep_until = '2011-05-06' WHERE leaf::text LIKE '%20110502'",
    );
    scene.dba.run(&format!("UPDATE {LEAF} SET expires_at = '2011-05-06'"));
    cluster.clock().set(noon(6));
    assert!(claim(&mut scene.claimer, "day2-1"), "it has expired");
    scene.dba.run("CALL once.maintain()");
    let there = format!("SELECT to_regclass('{LEAF}') IS NOT NULL");
    assert!(!scene.dba.get::<bool>(&there), "{:?}", sealed(&mut scene.dba));
    for key in ["day3-1", "day4-1", "day2-1"] {
        assert!(!claim(&mut scene.claimer, key), "{key}");
    }
    tidy(&mut scene);
    assert!(!claim(&mut scene.claimer, "day3-40"));
}

#[test]
fn the_extension_with_and_without_cascade() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    assert_eq!(scene.dba.fails("DROP EXTENSION pg_once").code, "2BP01");
    let table: String = scene.dba.get("SELECT max(pages_in::text) FROM once.filter");
    assert_eq!(scene.dba.fails(&format!("DROP TABLE {table}")).code, "2BP01");
    assert_eq!(scene.dba.fails("DROP TABLE once.leaf_seal").code, "2BP01");
    scene.dba.run("BEGIN; DROP EXTENSION pg_once CASCADE; ROLLBACK");
    scene.refuses_all();
    scene.dba.run("SELECT once.drop_store('processed_events')");
    scene.dba.run("DROP EXTENSION pg_once");
    scene.dba.run("CREATE EXTENSION pg_once");
    assert!(scene.claimer.claim("day2-1") && !scene.claimer.claim("day2-1"));
    let mut other = Scene::new(&cluster);
    other.dba.run("DROP EXTENSION pg_once CASCADE");
    let left =
        "SELECT count(*) FROM pg_class WHERE relname ~ 'filter|seal' AND relnamespace > 16000::oid";
    assert_eq!(other.dba.get::<i64>(left), 0);
}

#[test]
fn passes_at_once_beside_rows_and_claims() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let mut sessions = scene.db.sessions(7);
    let twice = race::all(&mut sessions, |number, s| {
        let mut twice = Vec::new();
        for round in 0..25 {
            match number {
                0..=2 => s.run("CALL once.maintain()"),
                3..=4 => {
                    let key = format!("late {number} {round}");
                    s.run(&smuggle(&key));
                    if claim(s, &key) {
                        twice.push(key);
                    }
                }
                _ => {
                    let key = format!("early {number} {round}");
                    assert!(claim(s, &key));
                    for key in [key, format!("day{}-{round}", 2 + round % 2)] {
                        if round > 0 && claim(s, &key) {
                            twice.push(key);
                        }
                    }
                }
            }
        }
        twice
    });
    assert_eq!(twice.concat(), [""; 0]);
    scene.dba.run("CALL once.maintain()");
    assert_eq!(sealed(&mut scene.dba), [LEAF, OTHER]);
    scene.refuses_all();
    let again: i64 = scene.claimer.get(
        "SELECT count(*) FILTER (WHERE claimed) FROM once.claim_many(ARRAY(
             SELECT key FROM once.processed_events WHERE key LIKE 'late%'), '200 days')",
    );
    assert_eq!(again, 0);
    tidy(&mut scene);
    cluster.clock().set(noon(4));
}

#[test]
fn a_sealed_day_in_which_somebody_lets_a_claim_live_longer_is_kept() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    // A drop asks the seal when the last claim of the day expires.
    scene.dba.run(&format!("UPDATE {LEAF} SET expires_at = '2011-05-05 00:00+00'"));
    scene.dba.run(
        "UPDATE once.leaf_promise SET keep_until = '2011-05-05 00:00+00' WHERE leaf::text LIKE '%20110502'",
    );
    // However that UPDATE was taken, the day is sealed anew and read.
    scene.dba.run("DELETE FROM once.leaf_seal");
    scene.dba.run("CALL once.maintain()");
    assert_eq!(sealed(&mut scene.dba), [LEAF, OTHER]);
    scene
        .dba
        .run(&format!("UPDATE {LEAF} SET expires_at = '2011-07-01 00:00+00' WHERE key = 'day2-5'"));
    cluster.clock().set(noon(6));
    assert!(claim(&mut scene.claimer, "on the 6th"));
    scene.dba.run("CALL once.maintain()");
    let there = format!("SELECT to_regclass('{LEAF}') IS NOT NULL");
    assert!(scene.dba.get::<bool>(&there), "dropped with a claim that lives");
    // And without it, it goes.
    scene.dba.run(&format!("UPDATE {LEAF} SET expires_at = '2011-05-05 00:00+00'"));
    scene.dba.run("CALL once.maintain()");
    assert!(!scene.dba.get::<bool>(&there), "every claim in it is over");
}
