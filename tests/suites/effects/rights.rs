//! Who may do what: INSERT on the store to begin and to finish, SELECT to get the answer.

use pg_once_tests::shared::database;

use crate::scene::Calls;

#[test]
fn insert_on_the_store_is_enough_to_run_effects_and_select_is_needed_to_read_answers() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let role = db.role("consumer");
    let mut c = db.session_of(&role);
    assert_eq!(c.try_begin("k", "1 minute").expect_err("no USAGE").code, "42501");
    s.run(&format!("GRANT USAGE ON SCHEMA once TO {role}"));
    assert_eq!(c.try_begin("k", "1 minute").expect_err("no INSERT").code, "42501");
    assert_eq!(c.try_complete("k", 1, "'1'").expect_err("no INSERT").code, "42501");
    s.run(&format!("GRANT INSERT ON once.processed_events TO {role}"));
    let fence = c.begin("k", "1 minute").held();
    assert!(c.try_extend("k", fence, "1 minute").expect("a good fence"));
    let holder: String = s.get("SELECT holder FROM once.effects");
    assert_eq!(holder, role);
    assert!(c.complete("k", fence, "'1'"));
    let done = c.begin("k", "1 minute");
    assert_eq!((done.outcome.as_str(), done.result), ("done", None), "without SELECT");
    for query in [
        "SELECT count(*) FROM once.effects",
        "SELECT count(*) FROM once.effect_state",
        "SELECT nextval('once.effect_fence')",
    ] {
        assert_eq!(c.fails(query).code, "42501", "{query}");
    }
    s.run(&format!("GRANT SELECT ON once.processed_events TO {role}"));
    assert_eq!(c.begin("k", "1 minute").result.as_deref(), Some("1"));
}

#[test]
fn nothing_of_the_caller_s_search_path_is_run() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let role = db.role("consumer");
    s.run(&format!(
        "GRANT USAGE ON SCHEMA once TO {role}; GRANT INSERT ON once.processed_events TO {role};
         CREATE SCHEMA trap AUTHORIZATION {role}"
    ));
    let mut c = db.session_of(&role);
    c.run(
        "CREATE FUNCTION trap.wrong(jsonb, jsonb) RETURNS boolean LANGUAGE sql AS 'SELECT true';
         CREATE FUNCTION trap.texts(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
         CREATE OPERATOR trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.texts);
         CREATE OPERATOR trap.= (LEFTARG = jsonb, RIGHTARG = jsonb, FUNCTION = trap.wrong);
         SET search_path = trap, pg_catalog",
    );
    let fence = c.begin("k", "1 minute").held();
    assert!(c.complete("k", fence, "'1'"));
    assert!(!c.complete("k", fence, "'1'"));
    assert_eq!(c.try_complete("k", fence, "'2'").expect_err("another").code, "OC008");
    c.run("SET search_path = pg_catalog, trap");
    assert!(!c.complete("k", fence, "'1'"));
}

#[test]
fn what_is_null_or_wrong_is_refused_before_anything_is_claimed() {
    let mut s = database().session();
    s.claim("load");
    for (call, code) in [
        ("begin_effect(NULL, '1 minute')", "22004"),
        ("begin_effect('k', NULL)", "22004"),
        ("begin_effect('k', '1 minute', effect => NULL)", "22004"),
        ("begin_effect('k', '1 minute', store => NULL)", "22004"),
        ("begin_effect('', '1 minute')", "22023"),
        ("begin_effect('k', '0')", "22023"),
        ("begin_effect('k', '1 minute', ttl => '-1 minute')", "22023"),
        ("begin_effect('k', '1 minute', store => 'nowhere')", "42704"),
        ("extend_effect('k', NULL, '1 minute')", "22004"),
        ("extend_effect('k', 1, NULL)", "22004"),
        ("extend_effect('k', 1, '0')", "22023"),
        ("extend_effect('k', 1, '1 minute', store => 'nowhere')", "42704"),
        ("complete_effect(NULL, 1)", "22004"),
        ("complete_effect('k', NULL)", "22004"),
        ("complete_effect('k', 1)", "OC008"),
        ("fail_effect('k', 1, NULL)", "22004"),
        ("fail_effect('k', 1, 'x', NULL)", "22004"),
        ("fail_effect('k', 1, 'x', '-1 minute')", "22023"),
    ] {
        let failure = s.fails(&format!("SELECT once.{call}"));
        assert_eq!(failure.code, code, "{call}: {failure}");
        assert!(!failure.detail.is_empty() && !failure.hint.is_empty(), "{call}: {failure}");
    }
    s.run("BEGIN READ ONLY");
    assert_eq!(s.fails("SELECT once.begin_effect('k', '1 minute')").code, "25006");
    s.run("ROLLBACK");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.effect_state"), 0);
}
