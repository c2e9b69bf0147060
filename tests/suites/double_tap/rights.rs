//! A double tap runs with the caller's rights: it shows nothing that the caller could not read, and no verdict where rows
//! are hidden.

use pg_once_tests::shared::database;

use crate::scene::{SHOP, call, handler, lines, refused, tapped};

#[test]
fn a_table_that_may_not_be_read_or_hides_rows_is_an_error_and_never_a_pass() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    handler(&mut s, "PERFORM 1");
    let role = db.role("tapper");
    let mut t = db.session_of(&role);
    assert_eq!(
        refused(&mut t, "once.double_tap('SELECT 1 AS a', 'handler(message)', '{orders}')").code,
        "42501"
    );
    s.run(&format!(
        "GRANT USAGE ON SCHEMA once TO {role}; GRANT SELECT ON message, audit TO {role}"
    ));
    assert!(tapped(&mut t, "audit", "").is_empty());
    assert_eq!(refused(&mut t, &call("orders", "")).code, "42501");
    s.run(&format!("GRANT SELECT (id, total) ON orders TO {role}"));
    assert_eq!(refused(&mut t, &call("orders", "")).code, "42501");
    // Nor is it one where the columns that may not be read are left out.
    let some = call("orders", ", ignore => '{seen,made_by,times}'");
    assert_eq!(refused(&mut t, &some).code, "42501");
    s.run("ALTER TABLE audit ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON audit USING (what LIKE 'mine%')");
    let failure = refused(&mut t, &call("audit", ""));
    assert_eq!(failure.code, "42501", "{failure}");
    assert!(failure.message.contains("row-level security"), "{failure}");
    s.run("ALTER TABLE audit DISABLE ROW LEVEL SECURITY");
    assert!(tapped(&mut t, "audit", "").is_empty());
    // The handler and the log are the caller's: what they may not do is an error of theirs.
    handler(&mut s, "INSERT INTO audit VALUES (m.key)");
    let failure = refused(&mut t, &call("audit", ""));
    assert!(failure.code == "OC005" && failure.detail.contains("42501"), "{failure}");
    s.run(&format!("REVOKE SELECT ON message FROM {role}"));
    assert_eq!(refused(&mut t, &call("audit", "")).code, "42501");
}

#[test]
fn names_are_quoted_and_nothing_is_looked_up_in_the_callers_path() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run(r#"CREATE SCHEMA "sp ace"; CREATE TABLE "sp ace"."it's a ""table""" ("it's" int PRIMARY KEY, "select" text, "a\b" int, pg_once_before int);
             CREATE FUNCTION public.format(text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'not mine'; END $$;
             CREATE FUNCTION public.age(xid) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'not mine'; END $$;
             CREATE TABLE pg_once_before (x int); CREATE TABLE pg_once_after (x int)"#);
    handler(
        &mut s,
        r#"INSERT INTO "sp ace"."it's a ""table""" VALUES (m.id, 'x', 1, 1) ON CONFLICT ("it's") DO UPDATE SET "a\b" = 2, "select" = 'y'"#,
    );
    s.run("SET search_path = public, pg_catalog");
    let tap = r#"once.double_tap('SELECT * FROM message ORDER BY id LIMIT 1', 'handler(message)', ARRAY['"sp ace"."it''s a ""table"""'::regclass])"#;
    let found = lines(&mut s, tap);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains(r"changed a\b 1 2 1 order-1"), "{found:?}");
    s.run("RESET search_path");
    let ignored = r#"once.double_tap('SELECT * FROM message ORDER BY id LIMIT 1', 'handler(message)', ARRAY['"sp ace"."it''s a ""table"""'::regclass],
                     ARRAY['"sp ace"."it''s a ""table"""."a\b"', '"select"'])"#;
    assert!(lines(&mut s, ignored).is_empty());
}

#[test]
fn names_and_values_of_another_encoding_come_out_as_they_are() {
    let options = "TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'";
    let db = pg_once_tests::shared::cluster().create(options);
    let mut s = db.session();
    s.run("CREATE EXTENSION pg_once");
    s.run(SHOP);
    s.run("CREATE TABLE café (größe int PRIMARY KEY, straße text)");
    s.run("CREATE TABLE übrig (n int)");
    handler(
        &mut s,
        "INSERT INTO café VALUES (m.id, 'é') ON CONFLICT (größe) DO UPDATE SET straße = café.straße || 'ü'; INSERT INTO übrig VALUES (1)",
    );
    let found = tapped(&mut s, "café", "");
    assert_eq!(found[0], "2 \"café\" 1 changed straße é éü 1 order-1");
    let report: String =
        s.get(&format!("SELECT {}", call("café", "").replace("double_tap(", "double_tap_report(")));
    assert!(report.contains("but not watched: public.\"übrig\"."), "{report}");
    assert!(report.contains("\"public\".\"café\", column \"straße\": 4 rows changed"), "{report}");
    s.run("SELECT once.snapshot('größe', '{café}', '{straße}'); INSERT INTO café VALUES (9)");
    assert_eq!(lines(&mut s, "once.compare('größe')"), ["- \"café\" 9 inserted - - 9 - -"]);
    let failure = refused(&mut s, &call("café", ", ignore => '{nö}'"));
    assert_eq!(failure.code, "42703");
}
