//! Answers and releases in leaves that have more than our own layout, and what an answer costs the page.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

fn leaf(s: &mut Session) -> String {
    s.get("SELECT tableoid::regclass::text FROM once.processed_events WHERE key = 'k'")
}

#[test]
fn further_generated_and_dropped_columns_and_triggers_are_served() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let leaf = leaf(&mut s);
    s.run(&format!(
        "ALTER TABLE once.processed_events ADD COLUMN gone int DEFAULT 3, ADD COLUMN note text DEFAULT 'n',
             ADD COLUMN size int GENERATED ALWAYS AS (length(result::text)) STORED;
         UPDATE once.processed_events SET note = 'kept';
         ALTER TABLE once.processed_events DROP COLUMN gone;
         CREATE TABLE seen (what text);
         CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN INSERT INTO seen VALUES (TG_WHEN || TG_OP); RETURN coalesce(NEW, OLD); END';
         CREATE TRIGGER before BEFORE UPDATE OF result OR DELETE ON {leaf} FOR EACH ROW EXECUTE FUNCTION see();
         CREATE TRIGGER after AFTER UPDATE OF result OR DELETE ON {leaf} FOR EACH ROW EXECUTE FUNCTION see()"
    ));
    assert!(s.get::<bool>("SELECT once.complete('k', '1234')"));
    assert!(!s.get::<bool>("SELECT once.complete('k', '1234')"));
    assert_eq!(s.fails("SELECT once.complete('k', '1')").code, "OC007");
    let row = "SELECT note || size || result FROM once.processed_events WHERE key = 'k'";
    assert_eq!(s.get::<String>(row), "kept41234");
    assert!(s.get::<bool>("SELECT once.release('k', 'test')"));
    let seen: Vec<String> = s.column("SELECT what FROM seen");
    assert_eq!(seen, ["BEFOREUPDATE", "AFTERUPDATE", "BEFOREDELETE", "AFTERDELETE"]);
    assert!(s.claim("k") && s.get::<bool>("SELECT once.complete('k', '12')"));
    assert_eq!(s.get::<String>(row), "n212");
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn a_trigger_that_swallows_an_answer_or_alters_the_claim_has_it_refused() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let leaf = leaf(&mut s);
    s.run(&format!(
        "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER meddle BEFORE UPDATE ON {leaf} FOR EACH ROW EXECUTE FUNCTION meddle()"
    ));
    for body in [
        "RETURN NULL",
        "NEW.key := 'another'; RETURN NEW",
        "NEW.expires_at := 'infinity'; RETURN NEW",
        "NEW.result := NULL; RETURN NEW",
        "NEW.result := '2'; RETURN NEW",
    ] {
        s.run(&format!(
            "CREATE OR REPLACE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {body}; END$$"
        ));
        assert_eq!(s.fails("SELECT once.complete('k', '1')").code, "27000", "{body}");
    }
    assert!(!s.claim("k"));
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM once.processed_events WHERE result IS NOT NULL"),
        0
    );
    // Without its digest another request would pass for the same.
    s.run(&format!(
        "CREATE OR REPLACE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN NEW.fingerprint := NULL; RETURN NEW; END$$;
         CREATE TRIGGER forget BEFORE INSERT ON {leaf} FOR EACH ROW EXECUTE FUNCTION meddle()"
    ));
    assert_eq!(s.fails("SELECT outcome FROM once.claim('l', fingerprint => 'one')").code, "27000");
    assert!(s.claim("l"), "nothing is forgotten of a claim without one");
}

#[test]
fn a_foreign_key_onto_a_leaf_minds_no_answer_and_has_its_say_in_a_release() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let leaf = leaf(&mut s);
    s.run(&format!(
        "CREATE TABLE made (key text COLLATE \"C\", effect text COLLATE \"C\",
             CONSTRAINT of_claim FOREIGN KEY (key, effect) REFERENCES {leaf} (key, effect));
         INSERT INTO made VALUES ('k', '')"
    ));
    // Who refers to the claim has locked its key, and an answer leaves that alone.
    let mut other = db.session();
    other.run("BEGIN; INSERT INTO made VALUES ('k', '')");
    s.run("SET lock_timeout = '5s'");
    assert!(s.get::<bool>("SELECT once.complete('k', '1')"));
    other.run("ROLLBACK");
    assert_eq!(s.fails("SELECT once.release('k', 'test')").code, "23503");
    assert!(!s.claim("k"));
    s.run(&format!(
        "ALTER TABLE made DROP CONSTRAINT of_claim,
             ADD FOREIGN KEY (key, effect) REFERENCES {leaf} (key, effect) ON DELETE CASCADE"
    ));
    assert!(s.get::<bool>("SELECT once.release('k', 'test')"));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM made"), 0);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.release_log"), 1);
}

#[test]
fn an_answer_of_a_megabyte_that_cannot_be_compressed_comes_back_and_goes_with_its_claim() {
    let db = database();
    let mut s = db.session();
    s.run("CREATE TABLE big AS SELECT to_jsonb(string_agg(encode(sha256(n::text::bytea), 'base64'), '')) AS v
             FROM generate_series(1, 24000) n");
    assert!(s.get::<i32>("SELECT length(v::text) FROM big") > 1_000_000);
    s.claim("k");
    assert!(s.get::<bool>("SELECT once.complete('k', v) FROM big"));
    assert!(!s.get::<bool>("SELECT once.complete('k', v) FROM big"));
    assert!(s.get::<bool>("SELECT result = v FROM once.claim('k'), big"));
    assert!(s.get::<bool>("SELECT once.release('k', 'test')"));
    assert!(s.claim("k") && s.get::<bool>("SELECT result IS NULL FROM once.claim('k')"));
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn an_answer_given_soon_after_its_claim_stays_on_the_page() {
    let db = database();
    let mut s = db.session();
    let share = |s: &mut Session, sql: &str| -> f64 {
        s.run("CREATE TABLE IF NOT EXISTS before AS SELECT 0::bigint u, 0::bigint h");
        s.run(sql);
        s.run("SELECT pg_stat_force_next_flush()");
        s.run("SELECT pg_stat_clear_snapshot()");
        let now =
            "FROM pg_stat_user_tables WHERE schemaname = 'once' AND relname ~ '^processed_events_'";
        let share = s.get(&format!(
            "SELECT ((sum(n_tup_hot_upd) - (SELECT h FROM before)) / (sum(n_tup_upd) - (SELECT u FROM before)))::float8 {now}"
        ));
        s.run(&format!(
            "UPDATE before SET (u, h) = (SELECT sum(n_tup_upd), sum(n_tup_hot_upd) {now})"
        ));
        share
    };
    s.claim("first");
    let soon = share(
        &mut s,
        "DO $$BEGIN FOR n IN 1..3000 LOOP PERFORM once.claim_once('a' || n); PERFORM once.complete('a' || n, '{\"id\": 12345}');
             COMMIT; END LOOP; END$$",
    );
    let late = share(
        &mut s,
        "DO $$BEGIN FOR n IN 1..3000 LOOP PERFORM once.claim_once('b' || n); COMMIT; END LOOP;
             FOR n IN 1..3000 LOOP PERFORM once.complete('b' || n, '{\"id\": 12345}'); COMMIT; END LOOP; END$$",
    );
    println!("HOT share of answers: {soon:.3} at once, {late:.3} after 3000 other claims");
    assert!(soon > 0.9, "{soon}");
}
