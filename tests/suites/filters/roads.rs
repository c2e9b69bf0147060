//! By every road of plain SQL that a row can take into a sealed day.

use crate::scene::{LEAF, OTHER, Scene, by, row, smuggle};

const COLUMNS: &str = "(claimed_at, expires_at, key, effect)";
const STORE: &str = "once.processed_events";

#[test]
fn a_plain_insert() {
    by(|scene, key| scene.dba.run(&smuggle(key)));
}

#[test]
fn an_insert_by_way_of_the_store() {
    by(|scene, key| scene.dba.run(&format!("INSERT INTO {STORE} {COLUMNS} VALUES {}", row(key))));
}

#[test]
fn an_insert_of_many_rows_of_which_it_is_the_last() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "INSERT INTO {STORE} {COLUMNS} SELECT timestamptz '2011-05-04 01:00+00', timestamptz '2011-11-01', 'm' || g, '' FROM generate_series(1, 5) g
             UNION ALL SELECT '2011-05-03 01:00+00', '2011-11-01', 'm' || g, '' FROM generate_series(6, 9) g
             UNION ALL SELECT '2011-05-02 10:00+00', '2011-11-01', '{key}', ''"
        ));
    });
}

#[test]
fn an_insert_beside_conflicts() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "INSERT INTO {LEAF} {COLUMNS} VALUES ('2011-05-02 10:00+00', '2011-11-01', 'day2-1', ''), {} ON CONFLICT DO NOTHING",
            row(key)
        ));
    });
}

#[test]
fn a_conflict_that_gives_an_old_row_the_key() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "INSERT INTO {LEAF} {COLUMNS} VALUES ('2011-05-02 10:00+00', '2011-11-01', 'day2-1', '')
             ON CONFLICT (key, effect) DO UPDATE SET key = '{key}'"
        ));
    });
}

#[test]
fn a_merge() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "MERGE INTO {STORE} p USING (VALUES ('{key}')) AS v(key) ON p.key = v.key
             WHEN NOT MATCHED THEN INSERT {COLUMNS} VALUES ('2011-05-02 10:00+00', '2011-11-01', v.key, '')"
        ));
    });
}

#[test]
fn a_merge_that_changes_a_key() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "MERGE INTO {STORE} p USING (VALUES ('day2-7')) AS v(key) ON p.key = v.key AND p.effect = ''
             WHEN MATCHED THEN UPDATE SET key = '{key}'"
        ));
    });
}

#[test]
fn an_update_of_the_key() {
    by(|scene, key| {
        scene.dba.run(&format!("UPDATE {STORE} SET key = '{key}' WHERE key = 'day2-3'"));
    });
}

#[test]
fn an_update_of_the_effect() {
    by(|scene, key| {
        // Of another effect in the sealed day there is the key already: that is what the filter knows.
        scene.dba.run(&format!(
            "INSERT INTO {LEAF} {COLUMNS} VALUES ('2011-05-02 10:00+00', '2011-11-01', '{key}', 'other')"
        ));
        scene.dba.run("CALL once.maintain()");
        assert!(crate::scene::claim(&mut scene.claimer, "with the seal of after it"));
        scene.dba.run(&format!("UPDATE {STORE} SET effect = '' WHERE key = '{key}'"));
    });
}

#[test]
fn an_update_that_moves_a_row_into_the_day() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "INSERT INTO {STORE} {COLUMNS} VALUES ('2011-05-04 10:00+00', '2011-11-01', '{key}', '')"
        ));
        // While it was in today's leaf every claim looked there.
        scene.dba.run(&format!(
            "UPDATE {STORE} SET claimed_at = '2011-05-02 10:00+00' WHERE key = '{key}'"
        ));
        assert_eq!(scene.dba.leaves_of(key), ["processed_events_20110502"]);
    });
}

#[test]
fn an_update_that_moves_a_row_from_one_sealed_day_to_another() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "UPDATE {STORE} SET claimed_at = '2011-05-02 10:00+00', key = '{key}' WHERE key = 'day3-5'"
        ));
    });
}

#[test]
fn copy_into_the_leaf() {
    by(|scene, key| scene.copy(&format!("COPY {LEAF} {COLUMNS} FROM STDIN"), key));
}

#[test]
fn copy_by_way_of_the_store() {
    by(|scene, key| scene.copy(&format!("COPY {STORE} {COLUMNS} FROM STDIN"), key));
}

#[test]
fn copy_frozen_after_truncate() {
    by(|scene, key| {
        scene
            .copy(&format!("BEGIN; TRUNCATE {LEAF}; COPY {LEAF} {COLUMNS} FROM STDIN FREEZE"), key);
    });
}

#[test]
fn a_trigger_of_somebodys_that_changes_the_key_after_ours() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "CREATE FUNCTION public.later() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN NEW.key := '{key}'; RETURN NEW; END $$;
             CREATE TRIGGER zz_later BEFORE UPDATE ON {LEAF} FOR EACH ROW EXECUTE FUNCTION public.later()"
        ));
        // The trigger was no reason to void anything, and a claim may have taken the filters in since.
        assert!(crate::scene::claim(&mut scene.claimer, "since the trigger"));
        scene.dba.run(&format!("UPDATE {LEAF} SET expires_at = expires_at WHERE key = 'day2-9'"));
        scene.dba.run(&format!("DROP TRIGGER zz_later ON {LEAF}"));
        assert_eq!(scene.dba.leaves_of(key), ["processed_events_20110502"]);
    });
}

#[test]
fn a_row_that_another_table_s_trigger_brings() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "CREATE TABLE public.source (key text);
             CREATE FUNCTION public.carry() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN {}; RETURN NEW; END $$;
             CREATE TRIGGER carry AFTER INSERT ON public.source FOR EACH ROW EXECUTE FUNCTION public.carry();
             INSERT INTO public.source VALUES ('x')",
            smuggle(key)
        ));
    });
}

#[test]
fn a_row_of_a_statement_prepared_before_the_day_was_sealed() {
    use crate::scene::{claim, noon, sealed};
    use pg_once_tests::shared::clocked;
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let mut writer = scene.db.session();
    writer.run("SET plan_cache_mode = force_generic_plan");
    let today = "once.processed_events_20110504";
    writer.run(&format!(
        "PREPARE old(text) AS INSERT INTO {today} {COLUMNS} VALUES ('2011-05-04 13:00+00', '2011-11-01', $1, '');
         EXECUTE old('before')"
    ));
    scene.cluster.clock().set(noon(5));
    assert!(claim(&mut scene.claimer, "on the 5th"));
    scene.dba.run("CALL once.maintain()");
    assert!(sealed(&mut scene.dba).contains(&today.to_owned()));
    let key = scene.denied();
    assert!(claim(&mut scene.claimer, "with the filters"));
    writer.run(&format!("EXECUTE old('{key}')"));
    scene.refuses(&key);
    scene.sealed_anew(&key, 3);
}

#[test]
fn an_insert_under_an_old_snapshot() {
    by(|scene, key| {
        let mut old = scene.db.session();
        old.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM once.stores");
        // The leaf is sealed anew meanwhile: a seal that the snapshot does not show.
        scene.dba.run(&smuggle("voids it"));
        scene.dba.run("CALL once.maintain()");
        assert!(crate::scene::claim(&mut scene.claimer, "with the seal of after it"));
        old.run(&format!("{}; COMMIT", smuggle(key)));
    });
}

#[test]
fn an_insert_that_is_still_open_is_waited_for_and_not_denied() {
    use pg_once_tests::shared::clocked;
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    scene.dba.run(&format!("BEGIN; {}", smuggle(&key)));
    let outcome = "SELECT outcome::text FROM once.claim($1, '200 days', wait => false)";
    assert_eq!(scene.claimer.get_with::<String>(outcome, &[&key]), "in_progress");
    assert_eq!(scene.db.session().get_with::<String>(outcome, &[&key]), "in_progress");
    scene.dba.run("ROLLBACK");
    assert_eq!(scene.claimer.get_with::<String>(outcome, &[&key]), "claimed");
    // The other day's filter was not touched by any of it.
    assert_eq!(crate::scene::sealed(&mut scene.dba), [OTHER]);
    scene.sealed_anew(&key, 2);
}

#[test]
fn a_row_taken_back_with_its_savepoint_leaves_the_others_right() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "BEGIN; SAVEPOINT a; {}; ROLLBACK TO a; {}; COMMIT",
            smuggle("taken back"),
            smuggle(key)
        ));
        assert!(crate::scene::claim(&mut scene.claimer, "taken back"));
    });
}

#[test]
fn rows_of_a_loop_with_exceptions_in_which_the_first_is_taken_back() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "DO $$ BEGIN
                 BEGIN {}; RAISE 'no'; EXCEPTION WHEN OTHERS THEN NULL; END;
                 BEGIN {}; EXCEPTION WHEN OTHERS THEN NULL; END;
             END $$",
            smuggle("taken back"),
            smuggle(key)
        ));
    });
}
