//! Filters that somebody has hurt, and claims that linger: others go on and are right, and the next pass
//! puts things straight.

use pg_once_tests::failure::Failure;
use pg_once_tests::race;
use pg_once_tests::shared::clocked;
use pg_once_tests::wait;

use crate::scene::{LEAF, OTHER, Scene, claim, noon, sealed, smuggle};

fn filter(scene: &mut Scene<'_>) -> String {
    scene.dba.get("SELECT pages_in::text FROM once.filter WHERE NOT retired")
}

/// What somebody does to the one filter's table; what is sealed after the next pass, and after the pass of the
/// next day, which merges.
#[track_caller]
fn hurt(statements: &[&str]) {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let table = filter(&mut scene);
    for statement in statements {
        scene.dba.run(&statement.replace("FILTER", &table));
        scene.refuses_all();
    }
    assert!(claim(&mut scene.claimer, "new"));
    scene.dba.run("CALL once.maintain()");
    scene.refuses_all();
    cluster.clock().set(noon(5));
    assert!(claim(&mut scene.claimer, "on the 5th"));
    // One pass may only put away what cannot be read.
    scene.dba.run("CALL once.maintain()");
    scene.refuses_all();
    scene.dba.run("CALL once.maintain()");
    scene.refuses_all();
    let answered = sealed(&mut scene.dba);
    assert_eq!(answered, [LEAF, OTHER, "once.processed_events_20110504"]);
    let key = scene.denied();
    scene.dba.run(&smuggle(&key));
    scene.refuses(&key);
    assert!(!cluster.log().contains("PANIC"));
}

#[test]
fn its_rows_deleted() {
    hurt(&["DELETE FROM FILTER"]);
}

#[test]
fn its_rows_deleted_and_vacuumed_away() {
    hurt(&["DELETE FROM FILTER", "VACUUM FILTER"]);
}

#[test]
fn its_rows_deleted_and_the_file_cut() {
    hurt(&["DELETE FROM FILTER; ALTER TABLE FILTER SET (vacuum_truncate = true)", "VACUUM FILTER"]);
}

#[test]
fn truncated() {
    hurt(&["TRUNCATE FILTER"]);
}

#[test]
fn vacuumed_full() {
    hurt(&["VACUUM FULL FILTER", "VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) FILTER"]);
}

#[test]
fn filled_with_something_else() {
    hurt(&["UPDATE FILTER SET page = decode(repeat('00', 8000), 'hex')", "VACUUM FILTER"]);
}

#[test]
fn made_unlogged_and_moved() {
    hurt(&["ALTER TABLE FILTER SET UNLOGGED"]);
}

#[test]
fn dropped_by_hand() {
    hurt(&[
        "DELETE FROM pg_depend WHERE objid = 'FILTER'::regclass AND deptype = 'e'",
        "DROP TABLE FILTER",
    ]);
}

#[test]
fn its_name_forgotten() {
    hurt(&["DELETE FROM once.filter"]);
}

#[test]
fn its_days_forgotten() {
    hurt(&["DELETE FROM once.filter_day"]);
}

#[test]
fn the_seals_forgotten() {
    hurt(&["DELETE FROM once.leaf_seal"]);
}

#[test]
fn everything_vacuumed_full_while_sixteen_claim() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let table = filter(&mut scene);
    let over = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::SeqCst;
    let mut sessions = scene.db.sessions(9);
    let claims = race::all(&mut sessions, |number, s| {
        let (mut count, mut failed) = (0, 0);
        if number == 0 {
            for _ in 0..40 {
                s.run(&format!("VACUUM FULL {table}"));
                s.run("VACUUM FULL once.leaf_seal");
                s.run("VACUUM FULL once.filter");
                s.run("VACUUM FULL once.filter_day");
            }
            over.store(true, order);
        }
        while number > 0 && !over.load(order) {
            let old = format!("day{}-{}", 2 + count % 3, 1 + count % 40);
            for (key, expected) in [(old, false), (format!("new {number} {count}"), true)] {
                // The file may go from under a claim that is reading it: an error, never an answer.
                let mut ask = || s.try_get("SELECT once.claim_once($1::text, '200 days')", &[&key]);
                let answer = ask().or_else(|failure| {
                    assert!(["XX001", "58P01"].contains(&failure.code.as_str()), "{failure}");
                    failed += 1;
                    ask()
                });
                assert_eq!(answer, Ok::<bool, Failure>(expected), "{key}");
            }
            count += 1;
        }
        assert!(failed * 10 <= count, "{failed} of {count} failed");
        count
    });
    println!("{claims:?} claims beside it");
    assert!(claims[1..].iter().all(|count| *count > 3), "{claims:?}");
    scene.refuses_all();
}

#[test]
fn a_filter_is_not_dropped_under_a_claim_that_is_deciding_and_no_claim_waits_for_that() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    // A trigger runs under the key's lock: here until somebody lets it go on.
    scene.dba.run(
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
         $$BEGIN IF NEW.key = 'slow' THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN NEW; END$$;
         CREATE TRIGGER linger BEFORE INSERT ON once.processed_events_20110504
         FOR EACH ROW EXECUTE FUNCTION linger()",
    );
    let mut gate = scene.db.session();
    gate.run("SELECT pg_advisory_lock(7)");
    let slow = scene.db.session().background(|s| claim(s, "slow"));
    wait::blocked(&mut gate, slow.pid());
    scene.dba.run(&smuggle("voids it"));
    let tables = "SELECT count(*) FROM pg_class WHERE relname ~ '^filter_[0-9a-f]{16}$'";
    let before: i64 = scene.dba.get(tables);
    scene.dba.run("CALL once.maintain()");
    let retired = "SELECT count(*) FROM once.filter WHERE retired";
    assert!(scene.dba.get::<i64>(retired) > 0, "nothing was taken in");
    assert!(scene.dba.get::<i64>(tables) > before, "dropped under a claim that may be reading it");
    scene.claimer.run("SET lock_timeout = '5s'");
    scene.refuses_all();
    assert!(claim(&mut scene.claimer, "new meanwhile"));
    assert!(!claim(&mut scene.claimer, "voids it"));
    gate.run("SELECT pg_advisory_unlock(7)");
    assert!(slow.join().1);
    scene.dba.run("CALL once.maintain()");
    assert_eq!(scene.dba.get::<i64>(retired), 0, "put away once the claim had its answer");
    scene.refuses_all();
}

#[test]
fn a_claim_of_a_new_key_waits_for_no_lock_on_a_sealed_day() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    let mut holder = scene.db.session();
    holder.run(&format!("BEGIN; LOCK TABLE {LEAF}, {OTHER} IN ACCESS EXCLUSIVE MODE"));
    scene.claimer.run("SET lock_timeout = '5s'");
    assert!(claim(&mut scene.claimer, &key), "by the filters");
    let mut fresh = scene.db.session();
    fresh.run("SET lock_timeout = '5s'");
    let other = scene.denied();
    assert!(claim(&mut fresh, &format!("{other} fresh")) || !claim(&mut fresh, &other));
    // With filters off it is looked for in the leaf, and so it waits.
    let waits = scene.db.session().background(|s| {
        s.run("SET pg_once.filters = off");
        claim(s, "day2-1")
    });
    wait::blocked(&mut scene.dba, waits.pid());
    holder.run("COMMIT");
    assert!(!waits.join().1);
}

#[test]
fn the_setting_turned_off_and_on_in_the_middle() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    for round in 0..3 {
        let key = scene.denied();
        scene.claimer.run("SET pg_once.filters = off");
        assert!(!claim(&mut scene.claimer, "day2-2"));
        scene.dba.run(&smuggle(&key));
        scene.claimer.run("SET pg_once.filters = on");
        scene.refuses(&key);
        scene.dba.run("SET pg_once.filters = off");
        scene.dba.run("CALL once.maintain()");
        assert_eq!(sealed(&mut scene.dba), [OTHER], "round {round}: nothing is sealed when off");
        scene.refuses(&key);
        scene.dba.run("SET pg_once.filters = on");
        scene.sealed_anew(&key, 2);
    }
}

#[test]
fn seals_that_a_dba_takes_back_by_hand_are_not_trusted_by_a_new_session() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    scene.dba.run("DELETE FROM once.leaf_seal");
    assert_eq!(sealed(&mut scene.dba), [""; 0]);
    scene.refuses_all();
    scene.dba.run("CALL once.maintain()");
    assert_eq!(sealed(&mut scene.dba), [LEAF, OTHER]);
}

#[test]
fn no_filter_is_dropped_while_somebody_decides_a_key() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let before = filter(&mut scene);
    cluster.clock().set(noon(5));
    assert!(claim(&mut scene.claimer, "on the 5th"));
    // A row trigger runs with the key's lock held, under which filters are read.
    let mut gate = scene.db.session();
    gate.run("SELECT pg_advisory_lock(1)");
    scene.dba.run(
        "CREATE FUNCTION public.halt() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN IF NEW.key = 'halted' THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; RETURN NEW; END $$;
         CREATE TRIGGER halt BEFORE INSERT ON once.processed_events_20110505 FOR EACH ROW EXECUTE FUNCTION public.halt()",
    );
    let decides = scene.db.session().background(|s| claim(s, "halted"));
    wait::blocked(&mut scene.dba, decides.pid());
    let pass = scene.db.session().background(|s| s.try_run("CALL once.maintain()").is_ok());
    pass.done_within(std::time::Duration::from_secs(8));
    let there = format!("SELECT to_regclass('{before}') IS NOT NULL");
    assert!(scene.dba.get::<bool>(&there), "dropped under somebody who may be reading it");
    assert_ne!(filter(&mut scene), before, "merged all the same");
    scene.refuses_all();
    gate.run("SELECT pg_advisory_unlock(1)");
    assert!(decides.join().1);
    pass.join();
    scene.dba.run("CALL once.maintain()");
    assert!(!scene.dba.get::<bool>(&there), "put away when nobody decides");
    scene.refuses_all();
}

#[test]
fn a_row_that_comes_after_somebody_deleted_the_seals_is_known_to_sessions_that_knew_the_filters() {
    let cluster = clocked();
    for delete in ["DELETE FROM once.leaf_seal", "TRUNCATE once.leaf_seal"] {
        let mut scene = Scene::new(&cluster);
        let key = scene.denied();
        scene.dba.run(delete);
        scene.dba.run(&smuggle(&key));
        scene.refuses(&key);
        scene.sealed_anew(&key, 2);
    }
}

#[test]
fn nobody_changes_a_seal_by_hand() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    for change in ["voided = true", "voided = false", "seal = seal", "leaf = leaf"] {
        let update = format!("UPDATE once.leaf_seal SET {change}");
        assert_eq!(scene.dba.fails(&update).code, "55000", "{change}");
    }
    scene.dba.run(&smuggle(&key));
    let update = "UPDATE once.leaf_seal SET voided = false";
    assert_eq!(scene.dba.fails(update).code, "55000");
    scene.dba.run("SET session_replication_role = replica");
    assert_eq!(scene.dba.fails(update).code, "55000");
    scene.dba.run("RESET session_replication_role");
    scene.refuses(&key);
    scene.sealed_anew(&key, 2);
}

#[test]
fn a_page_that_is_not_what_was_written_to_it_is_noticed_by_the_next_pass_and_the_filter_built_anew()
{
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    // Some pages, of which all but one stay what they are.
    scene.dba.run(
        "SELECT count(*) FROM once.claim_many(ARRAY(SELECT 'many ' || g FROM generate_series(1, 30000) g), '200 days')",
    );
    cluster.clock().set(noon(5));
    assert!(claim(&mut scene.claimer, "on the 5th"));
    scene.dba.run("CALL once.maintain()");
    let table = filter(&mut scene);
    let pages: i64 = scene.dba.get("SELECT pages FROM once.filter WHERE NOT retired");
    assert!(pages > 5, "{pages}");
    scene.dba.run("CALL once.maintain()");
    assert_eq!(filter(&mut scene), table, "what is sound stays");
    let maybe = "SELECT count(*) FROM generate_series(1, 3000) g,
                        LATERAL once.filter_probe('processed_events', 'nobody ' || g)";
    assert!(scene.dba.get::<i64>(maybe) < 150);
    let block = pages / 2;
    scene.dba.run(&format!("UPDATE {table} SET page = substr(page, 2) WHERE ctid = '({block},1)'"));
    scene.dba.run(&format!("VACUUM {table}"));
    let slow: i64 = scene.dba.get(maybe);
    assert!(slow > 300, "{slow}: whoever meets that page looks into all three days");
    scene.refuses_all();
    // No day is over since, so that nothing is merged.
    scene.dba.run("CALL once.maintain()");
    assert_ne!(filter(&mut scene), table);
    assert!(scene.dba.get::<i64>(maybe) < 150);
    let told = "SELECT count(*) FROM once.maintenance_log WHERE action = 'seal' AND detail LIKE '%' || $1 || '%'";
    let name = table.trim_start_matches("once.").to_owned();
    assert_eq!(scene.dba.get_with::<i64>(told, &[&name]), 1);
    scene.dba.run("CALL once.maintain()");
    assert!(!scene.dba.get::<bool>(&format!("SELECT to_regclass('{table}') IS NOT NULL")));
    scene.refuses_all();
    let key = scene.denied();
    scene.dba.run(&smuggle(&key));
    scene.refuses(&key);
}
