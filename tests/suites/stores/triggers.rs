//! Triggers on a leaf fire for each claim as for any row, and none can make a true without its row.

use pg_once_tests::shared::database;

use crate::extras::{exercise, today};

#[test]
fn triggers_fire_for_each_claim_and_for_no_duplicate() {
    let db = database();
    let (mut cached, mut ddl) = (db.session(), db.session());
    exercise(&mut cached, "plain");
    let leaf = today(&mut ddl);
    ddl.run(&format!(
        "CREATE TABLE seen (what text, key text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO public.seen VALUES (TG_WHEN || ' ' || TG_OP || ' ' || TG_LEVEL, NEW.key);
             RETURN NEW;
         END $$;
         CREATE TRIGGER before_row BEFORE INSERT OR UPDATE ON {leaf} FOR EACH ROW EXECUTE FUNCTION note();
         CREATE TRIGGER after_row AFTER INSERT OR UPDATE ON {leaf} FOR EACH ROW EXECUTE FUNCTION note();
         CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON {leaf} DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION note()"
    ));
    assert!(cached.claim("k"));
    assert!(!cached.claim("k"));
    let mut seen: Vec<String> = cached.column("SELECT what FROM seen WHERE key = 'k'");
    seen.sort();
    assert_eq!(seen, ["AFTER INSERT ROW", "AFTER INSERT ROW", "BEFORE INSERT ROW"]);
    cached.run("BEGIN");
    assert_eq!(cached.claim_many(&["m", "k", "n"]).iter().filter(|(_, c)| *c).count(), 2);
    assert_eq!(
        cached.get::<i64>("SELECT count(*) FROM seen WHERE key IN ('m', 'n')"),
        4,
        "the deferred one comes at commit"
    );
    cached.run("COMMIT");
    assert_eq!(cached.get::<i64>("SELECT count(*) FROM seen WHERE key IN ('m', 'n')"), 6);
    exercise(&mut cached, "triggers");
    ddl.run(&format!("ALTER TABLE {leaf} DISABLE TRIGGER ALL; TRUNCATE seen"));
    exercise(&mut cached, "disabled");
    assert_eq!(cached.get::<i64>("SELECT count(*) FROM seen"), 0);
    cached.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn a_trigger_may_claim_another_key_and_may_fail() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    let leaf = today(&mut ddl);
    ddl.run(&format!(
        "CREATE FUNCTION chain() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF NEW.key LIKE 'bad%' THEN RAISE 'no'; END IF;
             IF NEW.key NOT LIKE 'chained%' THEN PERFORM once.claim_once('chained ' || NEW.key, effect => 'chain'); END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER chain AFTER INSERT ON {leaf} FOR EACH ROW EXECUTE FUNCTION chain()"
    ));
    assert!(s.claim("k"));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.lookup('chained k', 'chain')"), 1);
    assert_eq!(s.fails("SELECT once.claim_once('bad')").code, "P0001");
    assert_eq!(s.fails("SELECT * FROM once.claim_many('{good,bad,worse}')").code, "P0001");
    assert_eq!(
        s.get::<i64>(
            "SELECT count(*) FROM once.processed_events WHERE key IN ('bad', 'good', 'worse')"
        ),
        0
    );
    assert_eq!(s.claim_many(&["x", "y"]).iter().filter(|(_, c)| *c).count(), 2);
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM once.processed_events WHERE effect = 'chain'"),
        3
    );
    assert_eq!(s.key_locks(), 0, "no key stays locked after an error inside");
}

#[test]
fn an_error_code_of_the_dbas_own_comes_through() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    let leaf = today(&mut ddl);
    ddl.run(&format!(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE 'not this one' USING ERRCODE = 'P1234', DETAIL = 'why', HINT = 'what now'; END $$;
         CREATE TRIGGER no AFTER INSERT ON {leaf} FOR EACH ROW EXECUTE FUNCTION no()"
    ));
    for call in ["SELECT once.claim_once('k')", "SELECT * FROM once.claim_many('{k}')"] {
        let told = s.fails(call);
        let told =
            (told.code.as_str(), told.message.as_str(), told.detail.as_str(), told.hint.as_str());
        assert_eq!(told, ("P1234", "not this one", "why", "what now"), "{call}");
    }
}

#[test]
fn a_trigger_that_swallows_or_changes_the_claim_makes_it_fail() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    let leaf = today(&mut ddl);
    for (body, what) in [
        ("RETURN NULL", "swallowed"),
        ("NEW.key := NEW.key || '!'; RETURN NEW", "another key"),
        ("NEW.effect := 'x'; RETURN NEW", "another effect"),
        ("NEW.expires_at := '-infinity'; RETURN NEW", "another window"),
    ] {
        ddl.run(&format!(
            "CREATE OR REPLACE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; END $$;
             DROP TRIGGER IF EXISTS meddle ON {leaf};
             CREATE TRIGGER meddle BEFORE INSERT OR UPDATE ON {leaf} FOR EACH ROW EXECUTE FUNCTION meddle()"
        ));
        for call in ["SELECT once.claim_once('k')", "SELECT once.claim_many('{k,l}')"] {
            let failure = s.fails(call);
            assert_eq!(failure.code, "27000", "{what}: {failure}");
        }
        assert_eq!(
            s.get::<i64>("SELECT count(*) FROM once.processed_events"),
            1,
            "{what}: no true without a row"
        );
    }
}
