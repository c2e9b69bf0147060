//! What a DBA does to a sealed leaf or its store: every road on which the trigger does not fire, or the rows become
//! others without one.

use crate::scene::{LEAF, Scene, by, claim, row, smuggle};

const COLUMNS: &str = "(claimed_at, expires_at, key, effect)";
const NAME: &str = "processed_events_20110502";
const BOUNDS: &str = "FROM ('2011-05-02 00:00+00') TO ('2011-05-03 00:00+00')";

/// A claim that has taken the filters in since the last change.
#[track_caller]
fn warm(scene: &mut Scene<'_>) {
    let key = format!("warm at {:?}", std::time::Instant::now());
    assert!(claim(&mut scene.claimer, &key));
}

#[test]
fn a_session_that_is_a_replica() {
    by(|scene, key| {
        let mut replica = scene.db.session();
        replica.run(&format!("SET session_replication_role = replica; {}", smuggle(key)));
    });
}

#[test]
fn triggers_disabled_copied_and_enabled_as_pg_restore_does() {
    by(|scene, key| {
        scene.dba.run(&format!("ALTER TABLE {LEAF} DISABLE TRIGGER ALL"));
        warm(scene);
        scene.copy(&format!("COPY {LEAF} {COLUMNS} FROM STDIN"), key);
        scene.dba.run(&format!("ALTER TABLE {LEAF} ENABLE TRIGGER ALL"));
    });
}

#[test]
fn triggers_disabled_copied_and_enabled_in_one_transaction() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "BEGIN; ALTER TABLE {LEAF} DISABLE TRIGGER ALL; {}; ALTER TABLE {LEAF} ENABLE TRIGGER ALL;
             ALTER TABLE {LEAF} ENABLE ALWAYS TRIGGER pg_once_sealed; COMMIT",
            smuggle(key)
        ));
    });
}

#[test]
fn triggers_of_users_disabled_on_the_whole_store() {
    by(|scene, key| {
        scene.dba.run("ALTER TABLE once.processed_events DISABLE TRIGGER USER");
        scene.dba.run(&smuggle(key));
    });
}

#[test]
fn a_trigger_that_fires_as_a_replica_only() {
    by(|scene, key| {
        scene.dba.run(&format!("ALTER TABLE {LEAF} ENABLE REPLICA TRIGGER pg_once_sealed"));
        warm(scene);
        scene.dba.run(&smuggle(key));
    });
}

#[test]
fn a_trigger_that_is_dropped() {
    by(|scene, key| {
        scene.dba.run(&format!("DROP TRIGGER pg_once_sealed ON {LEAF}"));
        warm(scene);
        scene.dba.run(&smuggle(key));
    });
}

#[test]
fn a_trigger_that_is_dropped_and_made_by_hand() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "DROP TRIGGER pg_once_sealed ON {LEAF}; {};
             CREATE TRIGGER pg_once_sealed BEFORE INSERT OR UPDATE ON {LEAF} FOR EACH ROW EXECUTE FUNCTION once.void_filter();
             ALTER TABLE {LEAF} ENABLE ALWAYS TRIGGER pg_once_sealed",
            smuggle(key)
        ));
        warm(scene);
    });
}

#[test]
fn a_trigger_that_is_renamed_and_disabled() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "ALTER TRIGGER pg_once_sealed ON {LEAF} RENAME TO mine; ALTER TABLE {LEAF} DISABLE TRIGGER mine"
        ));
        warm(scene);
        scene.dba.run(&smuggle(key));
    });
}

#[test]
fn keys_rewritten_by_an_alteration_of_their_column() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "ALTER TABLE once.processed_events ALTER COLUMN key TYPE text COLLATE \"C\"
                USING CASE WHEN key = 'day2-11' THEN '{key}' ELSE key END"
        ));
    });
}

#[test]
fn another_column_that_takes_the_place_of_the_key() {
    by(|scene, key| {
        // How a column is changed without a lock for long: filled beside the old one, then the names are swapped.
        scene.dba.run("ALTER TABLE once.processed_events ADD COLUMN key2 text COLLATE \"C\"");
        scene.dba.run("UPDATE once.processed_events SET key2 = key");
        scene.dba.run("CALL once.maintain()");
        warm(scene);
        scene
            .dba
            .run(&format!("UPDATE once.processed_events SET key2 = '{key}' WHERE key = 'day2-11'"));
        scene.dba.run(
            "UPDATE once.processed_events SET key2 = key WHERE key2 IS NULL;
             ALTER TABLE once.processed_events ALTER COLUMN key2 SET NOT NULL;
             ALTER TABLE once.processed_events RENAME COLUMN key TO old_key;
             ALTER TABLE once.processed_events RENAME COLUMN key2 TO key;
             ALTER TABLE once.processed_events ALTER COLUMN old_key SET DEFAULT ''",
        );
        for leaf in scene.dba.days_of("once.processed_events") {
            let (table, name) = (format!("once.{}", leaf.name), leaf.name);
            scene.dba.run(&format!(
                "ALTER TABLE {table} DROP CONSTRAINT {name}_pkey; ALTER TABLE {table} ADD PRIMARY KEY (key, effect)"
            ));
        }
        assert_eq!(scene.dba.leaves_of(key), [NAME]);
    });
}

#[test]
fn a_leaf_that_is_vacuumed_full_clustered_or_moved() {
    use pg_once_tests::shared::clocked;
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let place = cluster.folder().join("space");
    if !place.exists() {
        std::fs::create_dir(&place).expect("the cluster's folder");
        pg_once_tests::account::hand_over(&place);
        scene.dba.run(&format!("CREATE TABLESPACE elsewhere LOCATION '{}'", place.display()));
    }
    for statement in [
        format!("VACUUM FULL {LEAF}"),
        format!("CLUSTER {LEAF} USING {NAME}_pkey"),
        format!("ALTER TABLE {LEAF} SET TABLESPACE elsewhere"),
        format!("ALTER TABLE {LEAF} SET UNLOGGED"),
        format!("ALTER TABLE {LEAF} SET LOGGED"),
        format!("VACUUM (FREEZE, INDEX_CLEANUP ON) {LEAF}"),
        format!("REINDEX TABLE CONCURRENTLY {LEAF}"),
    ] {
        scene.dba.run(&statement);
        assert!(!claim(&mut scene.claimer, "day2-17"), "{statement}");
        warm(&mut scene);
        let key = scene.denied();
        scene.dba.run(&smuggle(&key));
        scene.refuses(&key);
        scene.sealed_anew(&key, 2);
        assert!(!claim(&mut scene.claimer, "day2-17"), "{statement}");
        scene.dba.run(&format!("DELETE FROM {LEAF} WHERE key = '{key}'"));
    }
    scene.dba.run(&format!("ALTER TABLE {LEAF} SET TABLESPACE pg_default"));
}

#[test]
fn a_leaf_detached_written_to_and_attached_again() {
    by(|scene, key| {
        scene.dba.run(&format!("ALTER TABLE once.processed_events DETACH PARTITION {LEAF}"));
        warm(scene);
        scene.dba.run(&smuggle(key));
        scene.dba.run(&format!(
            "ALTER TABLE once.processed_events ATTACH PARTITION {LEAF} FOR VALUES {BOUNDS}"
        ));
    });
}

#[test]
fn a_leaf_detached_concurrently_maintained_around_and_attached_again() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "ALTER TABLE once.processed_events DETACH PARTITION {LEAF} CONCURRENTLY"
        ));
        scene.dba.run("CALL once.maintain()");
        warm(scene);
        scene.dba.run(&format!("ALTER TABLE {LEAF} DISABLE TRIGGER ALL; {}", smuggle(key)));
        scene.dba.run(&format!(
            "ALTER TABLE once.processed_events ATTACH PARTITION {LEAF} FOR VALUES {BOUNDS}"
        ));
    });
}

#[test]
fn a_full_table_attached_in_place_of_a_sealed_leaf() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "CREATE TABLE public.brought (LIKE once.processed_events INCLUDING ALL, PRIMARY KEY (key, effect));
             INSERT INTO public.brought {COLUMNS} VALUES {};
             ALTER TABLE once.processed_events DETACH PARTITION {LEAF};
             ALTER TABLE once.processed_events ATTACH PARTITION public.brought FOR VALUES {BOUNDS}",
            row(key)
        ));
    });
}

#[test]
fn a_full_table_attached_for_a_day_that_had_none() {
    use pg_once_tests::shared::clocked;
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    scene.dba.run(&format!(
        "CREATE TABLE public.brought (LIKE once.processed_events INCLUDING ALL, PRIMARY KEY (key, effect));
         INSERT INTO public.brought {COLUMNS} VALUES ('2011-04-20 10:00+00', '2011-11-01 00:00+00', '{key}', '');
         ALTER TABLE once.processed_events ATTACH PARTITION public.brought
            FOR VALUES FROM ('2011-04-20 00:00+00') TO ('2011-04-21 00:00+00')"
    ));
    scene.refuses(&key);
    scene.sealed_anew(&key, 3);
    assert!(!claim(&mut scene.claimer, &key));
}

#[test]
fn a_leaf_swapped_by_name_for_another() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "CREATE TABLE once.next (LIKE once.processed_events INCLUDING ALL, PRIMARY KEY (key, effect));
             INSERT INTO once.next {COLUMNS} VALUES {};
             BEGIN;
             ALTER TABLE once.processed_events DETACH PARTITION {LEAF};
             ALTER TABLE {LEAF} RENAME TO before;
             ALTER TABLE once.next RENAME TO {NAME};
             ALTER TABLE once.processed_events ATTACH PARTITION {LEAF} FOR VALUES {BOUNDS};
             COMMIT",
            row(key)
        ));
    });
}

#[test]
fn a_leaf_that_moves_to_another_store() {
    use pg_once_tests::shared::clocked;
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    scene.dba.run(&format!(
        "SELECT once.create_store('other', retention => '200 days');
         SELECT once.claim_once('theirs', store => 'other');
         ALTER TABLE once.processed_events DETACH PARTITION {LEAF};
         ALTER TABLE once.other ATTACH PARTITION {LEAF} FOR VALUES {BOUNDS}"
    ));
    let claim_other = "SELECT once.claim_once($1, '200 days', store => 'other')";
    for pass in 0..3 {
        assert!(!scene.claimer.get_with::<bool>(claim_other, &[&"day2-5"]), "pass {pass}");
        assert!(scene.claimer.get_with::<bool>(claim_other, &[&format!("new {pass}")]));
        scene.dba.run("CALL once.maintain()");
    }
    let sealed = "SELECT count(*) FROM once.sealed_leaves('once.other')";
    assert_eq!(scene.dba.get::<i64>(sealed), 1);
    assert!(claim(&mut scene.claimer, "day2-5"), "it is of the other store now");
}

#[test]
fn a_leaf_truncated_and_filled_again() {
    by(|scene, key| scene.dba.run(&format!("TRUNCATE {LEAF}; {}", smuggle(key))));
}

#[test]
fn a_store_and_a_leaf_renamed() {
    by(|scene, key| {
        scene.dba.run(&format!("ALTER TABLE {LEAF} RENAME TO monday"));
        warm(scene);
        scene.dba.run(&smuggle(key).replace(LEAF, "once.monday"));
    });
}
