//! Tenants that share a store: what a view with `security_barrier` and functions that fix the effect keep apart, by the
//! page docs/answers.md. Row-level security on the store itself is refused.

use pg_once_tests::database::Database;
use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

/// A store with a claim and an answer of Ann's, and what Bob gets of it by this view.
fn scene(db: &Database, barrier: &str) -> (Session, Session) {
    let mut s = db.session();
    s.claim("load");
    let (ann, bob) = (db.role("ann"), db.role("bob"));
    s.run(&format!(
        "CREATE SCHEMA app;
         CREATE VIEW app.answer {barrier} AS SELECT key, result FROM once.processed_events
          WHERE effect = 'tenant:' || current_user AND expires_at > clock_timestamp();
         GRANT USAGE ON SCHEMA app TO {ann}, {bob}; GRANT CREATE ON SCHEMA app TO {bob};
         GRANT SELECT ON app.answer TO {ann}, {bob};
         SELECT once.claim_once('1', effect => 'tenant:{ann}');
         SELECT once.complete('1', '{{\"secret\": \"ann\"}}', effect => 'tenant:{ann}')"
    ));
    let mut bob = db.session_of(&bob);
    // By the index the view's condition would come first by chance.
    bob.run(
        "SET enable_indexscan = off; SET enable_bitmapscan = off; CREATE TABLE app.heard (what text);
         CREATE FUNCTION app.hear(result jsonb) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS
         $$ BEGIN INSERT INTO app.heard VALUES (result); RETURN true; END $$",
    );
    (db.session_of(&ann), bob)
}

/// What a function of Bob's in his own condition is handed.
fn heard(bob: &mut Session) -> i64 {
    assert_eq!(bob.get::<i64>("SELECT count(*) FROM app.answer WHERE app.hear(result)"), 0);
    bob.get("SELECT count(*) FROM app.heard WHERE what LIKE '%secret%'")
}

#[test]
fn a_view_with_a_barrier_shows_each_tenant_his_own_and_hands_nothing_to_functions() {
    let db = database();
    let (mut ann, mut bob) = scene(&db, "WITH (security_barrier)");
    assert_eq!(ann.get::<String>("SELECT result->>'secret' FROM app.answer"), "ann");
    assert_eq!(heard(&mut bob), 0);
    for refused in [
        "SELECT * FROM once.processed_events",
        "SELECT * FROM once.lookup('1')",
        "SELECT once.claim_once('1')",
        "SELECT once.release('1', 'x')",
    ] {
        assert_eq!(bob.fails(refused).code, "42501", "{refused}");
    }
}

#[test]
fn without_the_barrier_a_function_would_be_handed_answers_of_others() {
    let db = database();
    let (_, mut bob) = scene(&db, "");
    assert_eq!(heard(&mut bob), 1, "else the test above shows nothing");
}

#[test]
fn a_function_that_fixes_the_effect_claims_and_gives_answers_without_any_right_on_the_store() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let (ann, bob) = (db.role("ann"), db.role("bob"));
    for tenant in [&ann, &bob] {
        s.run(&format!(
            "CREATE SCHEMA app_{tenant}; GRANT USAGE ON SCHEMA app_{tenant} TO {tenant};
             CREATE FUNCTION app_{tenant}.claim(key text, OUT outcome text, OUT result jsonb)
             LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp BEGIN ATOMIC
                 SELECT c.outcome::text, c.result FROM once.claim(key, effect => 'tenant:{tenant}') c;
             END;
             CREATE FUNCTION app_{tenant}.complete(key text, result jsonb) RETURNS boolean
             LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
             RETURN once.complete(key, result, effect => 'tenant:{tenant}')"
        ));
    }
    let (mut a, mut b) = (db.session_of(&ann), db.session_of(&bob));
    for (s, tenant) in [(&mut a, &ann), (&mut b, &bob)] {
        assert_eq!(
            s.get::<String>(&format!("SELECT outcome FROM app_{tenant}.claim('1')")),
            "claimed"
        );
        assert!(s.get::<bool>(&format!(
            "SELECT app_{tenant}.complete('1', to_jsonb('{tenant}'::text))"
        )));
        let given = format!("SELECT outcome || (result #>> '{{}}') FROM app_{tenant}.claim('1')");
        assert_eq!(s.get::<String>(&given), format!("duplicate{tenant}"));
    }
    assert_eq!(b.fails(&format!("SELECT app_{ann}.claim('1')")).code, "42501");
}

#[test]
fn row_level_security_on_the_store_refuses_answers_as_it_refuses_claims() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let tenant = db.role("tenant");
    s.run(&format!(
        "GRANT USAGE ON SCHEMA once TO {tenant};
         GRANT INSERT, SELECT, DELETE ON once.processed_events TO {tenant};
         ALTER TABLE once.processed_events ENABLE ROW LEVEL SECURITY"
    ));
    let mut t = db.session_of(&tenant);
    for call in ["claim_once('k')", "complete('k', '1')", "release('k', 'x')"] {
        assert_eq!(t.fails(&format!("SELECT once.{call}")).code, "0A000", "{call}");
    }
}
