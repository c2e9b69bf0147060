//! Roads that are no statement of a client on a leaf: replication, an import, prepared transactions, claimers that
//! were stopped, clocks that step back.

use std::time::Duration;

use pg_once_tests::cluster::Cluster;
use pg_once_tests::hang::{self, Signal};
use pg_once_tests::shared::clocked;
use pg_once_tests::wait;

use crate::scene::{LEAF, Scene, by, claim, denied, noon, row, sealed, smuggle};

const TODAY: &str = "once.processed_events_20110504";

#[test]
fn a_subscription_that_applies_and_copies_into_a_sealed_day() {
    let cluster = Cluster::build().clocked().set("wal_level", "logical").start();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    let publisher = cluster.database();
    let mut p = publisher.session();
    p.run("SELECT once.create_store('processed_events', retention => '200 days')");
    let name = publisher.name();
    // Rows of the 2nd on the other side: one before the subscription, which copies it, one after.
    let other = format!("{key}-copied");
    let insert = |key: &str| {
        // The parent's replica identity: without it an update of a key does not tell which partition it was in.
        let leaf = "CREATE TABLE IF NOT EXISTS once.processed_events_20110502 PARTITION OF once.processed_events
            (PRIMARY KEY (key, effect)) FOR VALUES FROM ('2011-05-02 00:00+00') TO ('2011-05-03 00:00+00');
            ALTER TABLE once.processed_events_20110502 REPLICA IDENTITY FULL";
        format!("{leaf}; {}", smuggle(key))
    };
    p.run(&insert(&other));
    p.run(&format!(
        "CREATE PUBLICATION store FOR TABLE once.processed_events WITH (publish_via_partition_root = true)"
    ));
    p.run(&format!("SELECT pg_create_logical_replication_slot('slot_{name}', 'pgoutput')"));
    scene.dba.run(&format!(
        "CREATE SUBSCRIPTION sub_{name} CONNECTION 'host={} dbname={name} user=postgres' PUBLICATION store
             WITH (create_slot = false, slot_name = 'slot_{name}', copy_data = true)",
        cluster.folder().display()
    ));
    let there = |scene: &mut Scene<'_>, key: &str| {
        wait::until("it has been applied", || scene.dba.leaves_of(key).len() == 1);
    };
    there(&mut scene, &other);
    scene.refuses(&other);
    scene.sealed_anew(&other, 2);
    p.run(&insert(&key));
    there(&mut scene, &key);
    scene.refuses(&key);
    scene.sealed_anew(&key, 2);
    // An update of the key there is one here.
    let moved = denied(&mut scene.dba);
    p.run(&format!("UPDATE once.processed_events SET key = '{moved}' WHERE key = '{key}'"));
    there(&mut scene, &moved);
    scene.refuses(&moved);
    for statement in ["DISABLE", "SET (slot_name = NONE)"] {
        scene.dba.run(&format!("ALTER SUBSCRIPTION sub_{name} {statement}"));
    }
    scene.dba.run(&format!("DROP SUBSCRIPTION sub_{name}"));
}

#[test]
fn an_import_of_claims_made_on_a_sealed_day() {
    by(|scene, key| {
        scene.dba.run(&format!(
            "CREATE TABLE public.processed (id text, at timestamptz);
             INSERT INTO public.processed VALUES ('{key}', '2011-05-02 08:00+00'), ('{key} of the 3rd', '2011-05-03 08:00+00')"
        ));
        scene
            .dba
            .run("CALL once.import_claims('processed_events', 'public.processed', 'id', 'at')");
        assert_eq!(scene.dba.leaves_of(key), ["processed_events_20110502"]);
        let other = format!("{key} of the 3rd");
        assert!(!claim(&mut scene.claimer, &other));
    });
}

#[test]
fn a_transaction_prepared_before_the_day_is_over_keeps_the_leaf_from_being_sealed() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let name = scene.db.name().to_owned();
    let mut prepared = scene.db.session();
    prepared.run("BEGIN");
    let key = scene.denied();
    assert!(claim(&mut prepared, &key));
    prepared.run(&format!("PREPARE TRANSACTION '{name}'"));
    cluster.clock().set(noon(5));
    assert!(claim(&mut scene.claimer, "on the 5th"));
    scene.dba.run("CALL once.maintain()");
    assert!(!sealed(&mut scene.dba).contains(&TODAY.to_owned()), "while it is in use");
    let outcome = "SELECT outcome::text FROM once.claim($1, '200 days', wait => false)";
    assert_eq!(scene.claimer.get_with::<String>(outcome, &[&key]), "in_progress");
    scene.dba.run(&format!("COMMIT PREPARED '{name}'"));
    scene.refuses(&key);
    scene.sealed_anew(&key, 3);
}

#[test]
fn a_claimer_stopped_between_its_clock_and_its_row_is_waited_for() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    // The row trigger of today's leaf is passed between the claimer's look at the clock and its row.
    let mut gate = scene.db.session();
    gate.run("SELECT pg_advisory_lock(1)");
    scene.dba.run(&format!(
        "CREATE FUNCTION public.halt() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
         CREATE TRIGGER halt BEFORE INSERT ON {TODAY} FOR EACH ROW EXECUTE FUNCTION public.halt()"
    ));
    let asked = key.clone();
    let stopped = scene.db.session().background(move |s| claim(s, &asked));
    wait::blocked(&mut scene.dba, stopped.pid());
    hang::signal(stopped.pid(), Signal::STOP);
    gate.run("SELECT pg_advisory_unlock(1)");
    cluster.clock().set(noon(5));
    assert!(claim(&mut scene.claimer, "on the 5th"));
    scene.dba.run("CALL once.maintain()");
    assert!(!sealed(&mut scene.dba).contains(&TODAY.to_owned()), "while it is in use");
    hang::signal(stopped.pid(), Signal::CONT);
    assert!(stopped.join().1);
    scene.refuses(&key);
    scene.dba.run(&format!("DROP TRIGGER halt ON {TODAY}"));
    scene.sealed_anew(&key, 3);
}

#[test]
fn claimers_stopped_anywhere_over_midnight_and_sealing_claim_no_key_twice() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let mut racers = scene.db.sessions(4);
    for night in 5..17 {
        let midnight = noon(night).plus(-43_200.0);
        cluster.clock().set(midnight.plus(-20.0));
        assert!(claim(&mut scene.claimer, &format!("eve {night}")));
        let running: Vec<_> = racers
            .drain(..)
            .map(|session| {
                session.background(move |s| {
                    s.column::<bool>(&format!(
                        "SELECT once.claim_once('n{night}-' || g, '200 days') FROM generate_series(1, 800) g"
                    ))
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(night as u64 % 5));
        for racer in &running {
            hang::signal(racer.pid(), Signal::STOP);
        }
        cluster.clock().set(midnight.plus(3_600.0));
        // Whoever stands still in a claim of yesterday has its leaf, and then it is not sealed. One may also
        // stand still with something in hand that everybody needs; then the pass goes on when it does.
        let pass = scene.db.session().background(|s| s.run("CALL once.maintain()"));
        pass.done_within(Duration::from_millis(900));
        let mut firsts = 0;
        for racer in &running {
            hang::signal(racer.pid(), Signal::CONT);
        }
        for racer in running {
            let (session, answers) = racer.join();
            firsts += answers.iter().filter(|first| **first).count();
            racers.push(session);
        }
        pass.join();
        assert_eq!(firsts, 800, "night {night}");
        scene.dba.run("CALL once.maintain()");
        let again: i64 = scene.claimer.get(&format!(
            "SELECT count(*) FILTER (WHERE claimed) FROM once.claim_many(ARRAY(
                 SELECT 'n{night}-' || g FROM generate_series(1, 800) g), '200 days')"
        ));
        assert_eq!(again, 0, "night {night}");
    }
    assert_eq!(scene.dba.claimed_twice("once.processed_events"), [""; 0]);
}

#[test]
fn a_clock_that_steps_back_into_a_sealed_day() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let (key, many) = (scene.denied(), "many of the 2nd");
    cluster.clock().set(noon(2));
    assert!(claim(&mut scene.claimer, &key));
    assert!(scene.dba.claim_many(&[many, "more"])[0].1);
    assert_eq!(scene.dba.leaves_of(&key), ["processed_events_20110502"]);
    // While the clock is behind, and when it is right again.
    scene.refuses(&key);
    cluster.clock().set(noon(4));
    scene.refuses(&key);
    scene.sealed_anew(&key, 2);
    assert!(!claim(&mut scene.claimer, "day2-3") && !claim(&mut scene.claimer, "day3-3"));
    // Back once more, with what is sealed ahead of the clock.
    cluster.clock().set(noon(2).plus(60.0));
    for key in [&key, "day2-3", "day3-3", "day4-3"] {
        assert!(!claim(&mut scene.claimer, key) && !claim(&mut scene.db.session(), key), "{key}");
    }
    cluster.clock().set(noon(4).plus(60.0));
}

#[test]
fn an_expired_row_of_a_sealed_day_replaced_by_a_clock_that_stepped_back() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    cluster.clock().set(noon(2));
    let short = "SELECT once.claim_once('short', $1::text::interval)";
    assert!(scene.dba.get_with::<bool>(short, &[&"1 minute"]));
    cluster.clock().set(noon(4));
    scene.dba.run("CALL once.maintain()");
    cluster.clock().set(noon(2).plus(120.0));
    assert!(scene.claimer.get_with::<bool>(short, &[&"100 days"]), "it has expired");
    cluster.clock().set(noon(4));
    scene.refuses("short");
    scene.sealed_anew("short", 2);
}

#[test]
fn a_leaf_of_a_kind_that_cannot_be_read_is_left_alone() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    scene.dba.run(&format!(
        "CREATE TABLE public.parts (LIKE once.processed_events INCLUDING DEFAULTS) PARTITION BY HASH (key);
         CREATE TABLE public.part PARTITION OF public.parts FOR VALUES WITH (MODULUS 1, REMAINDER 0);
         ALTER TABLE once.processed_events ATTACH PARTITION public.parts
            FOR VALUES FROM ('2011-04-20 00:00+00') TO ('2011-04-21 00:00+00');
         CREATE FOREIGN DATA WRAPPER nowhere;
         CREATE SERVER far_away FOREIGN DATA WRAPPER nowhere;
         CREATE FOREIGN TABLE public.far (claimed_at timestamptz NOT NULL, expires_at timestamptz NOT NULL,
                key text COLLATE \"C\" NOT NULL, effect text COLLATE \"C\" NOT NULL, fingerprint bytea, result jsonb)
            SERVER far_away;
         ALTER TABLE once.processed_events ATTACH PARTITION public.far
            FOR VALUES FROM ('2011-04-18 00:00+00') TO ('2011-04-19 00:00+00');
         INSERT INTO {LEAF} (claimed_at, expires_at, key, effect) VALUES {}",
        row("voids it")
    ));
    scene.dba.run("CALL once.maintain()");
    let answered = sealed(&mut scene.dba);
    assert_eq!(answered, [LEAF, crate::scene::OTHER], "the others have theirs all the same");
    // As without filters: such a leaf cannot be searched, and nobody is told that a key is new.
    let failure = scene.claimer.fails("SELECT once.claim_once('k', '1 day')");
    assert_eq!(failure.code, "55000", "{failure}");
    scene.dba.run("DROP TABLE public.parts; DROP FOREIGN TABLE public.far");
    scene.refuses("voids it");
}
