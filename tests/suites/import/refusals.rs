//! Who may import, from where, and what is refused before anything is read.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

use crate::counts::{FROM_OLD, OLD, import, try_import};

#[track_caller]
fn refused(s: &mut Session, code: &str, arguments: &str) {
    let failure = try_import(s, arguments).expect_err(arguments);
    assert_eq!(failure.code, code, "{arguments}: {failure}");
    assert!(code == "42501" || !failure.hint.is_empty(), "{arguments}: {failure}");
}

#[test]
fn arguments_that_cannot_be_are_refused_and_nothing_is_imported() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("INSERT INTO old VALUES ('k', now()); CREATE VIEW seen AS SELECT * FROM old; ALTER TABLE old ADD handler text, ADD day date;
           CREATE TABLE parts (k text, at timestamptz) PARTITION BY LIST (k)");
    for (code, arguments) in [
        ("22004", "NULL, 'old', 'message_id', 'processed_at'"),
        ("22004", "'moved', NULL, 'message_id', 'processed_at'"),
        ("22004", "'moved', 'old', NULL, 'processed_at'"),
        ("22004", "'moved', 'old', 'message_id', NULL"),
        ("22004", &format!("{FROM_OLD}, effect => NULL")),
        ("22004", &format!("{FROM_OLD}, batch_size => NULL")),
        ("22023", &format!("{FROM_OLD}, batch_size => 0")),
        ("22023", &format!("{FROM_OLD}, batch_size => 1000001")),
        ("22023", &format!("{FROM_OLD}, effect => repeat('e', 257)")),
        ("22023", &format!("{FROM_OLD}, effect => 'e', effect_column => 'handler'")),
        ("22023", &format!("{FROM_OLD}, ttl => '0'")),
        ("22023", &format!("{FROM_OLD}, ttl => '1 month -31 days'")),
        ("22023", &format!("{FROM_OLD}, ttl => '7 days 1 second'")),
        ("22023", &format!("{FROM_OLD}, time_zone => 'UTC'")),
        ("42703", "'moved', 'old', 'Message_id', 'processed_at'"),
        ("42703", "'moved', 'old', 'ctid', 'processed_at'"),
        ("42703", "'moved', 'old', 'message_id', 'xmin'"),
        ("42703", &format!("{FROM_OLD}, effect_column => 'absent'")),
        ("42804", "'moved', 'old', 'message_id', 'handler'"),
        ("42804", "'moved', 'old', 'message_id', 'day'"),
        ("42704", "'absent', 'old', 'message_id', 'processed_at'"),
        ("42704", "'processed_events', 'old', 'message_id', 'processed_at'"),
        ("42809", "'moved', 'seen', 'message_id', 'processed_at'"),
        ("42809", "'moved', 'pg_stat_activity', 'datname', 'query_start'"),
        ("42809", "'moved', 'parts', 'k', 'at'"),
        ("42809", "'moved', 'once.moved', 'key', 'claimed_at'"),
    ] {
        refused(&mut s, code, arguments);
    }
    let leaf: String = s.get("SELECT format('once.%I', leaf) FROM once.partitions LIMIT 1");
    refused(&mut s, "42809", &format!("'moved', '{leaf}', 'key', 'claimed_at'"));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.moved"), 0);
    // Another store is a source like any other.
    s.run("SELECT once.create_store('other'), once.claim_once('from other', '1 hour', store => 'other')");
    assert_eq!(
        import(&mut s, "'moved', 'once.other', 'key', 'claimed_at', effect_column => 'effect'")
            .imported,
        1
    );
}

#[test]
fn it_runs_only_where_it_can_commit_and_write() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("BEGIN");
    refused(&mut s, "25001", FROM_OLD);
    s.run("ROLLBACK; SET default_transaction_read_only = on");
    assert_eq!(s.fails(&format!("CALL once.import_claims({FROM_OLD})")).code, "25006");
    s.run("RESET default_transaction_read_only");
    // From PL/pgSQL it can, with variables for the counts.
    s.run("INSERT INTO old VALUES ('k', now())");
    s.run(&format!(
        "DO $$ DECLARE r bigint; i bigint; t bigint; e bigint; f bigint; BEGIN
           CALL once.import_claims({FROM_OLD}, rows_read => r, imported => i, already_there => t, expired => e, refused => f);
           ASSERT i = 1; END $$"
    ));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.moved"), 1);
}

#[test]
fn insert_on_the_store_and_select_on_the_source_are_enough_and_needed() {
    let db = database();
    let mut owner = db.session();
    owner.run(OLD);
    owner.run("INSERT INTO old VALUES ('k', now() - interval '3 days')");
    let mover = db.role("mover");
    let mut s = db.session_of(&mover);
    for grant in
        ["USAGE ON SCHEMA once", "INSERT ON once.moved", "SELECT (message_id, processed_at) ON old"]
    {
        refused(&mut s, "42501", FROM_OLD);
        owner.run(&format!("GRANT {grant} TO {mover}"));
    }
    // Rows are read by their places, and those are no column that could be granted.
    refused(&mut s, "42501", FROM_OLD);
    assert_eq!(owner.get::<i64>("SELECT count(*) FROM once.moved"), 0);
    owner.run(&format!("GRANT SELECT ON old TO {mover}"));
    assert_eq!(import(&mut s, FROM_OLD).imported, 1);
    let mine: i64 =
        owner.get(&format!("SELECT count(*) FROM pg_class WHERE relowner = '{mover}'::regrole"));
    assert_eq!(mine, 0, "the day that was made belongs to the store's owner");
    owner.run("SELECT once.create_store('other')");
    refused(&mut s, "42501", "'other', 'old', 'message_id', 'processed_at'");
}

#[test]
fn a_source_whose_policies_would_hide_rows_is_refused() {
    let db = database();
    let mut owner = db.session();
    owner.run(OLD);
    let mover = db.role("mover");
    owner.run(&format!(
        "INSERT INTO old VALUES ('k', now()); ALTER TABLE old ENABLE ROW LEVEL SECURITY;
         CREATE POLICY none ON old USING (false); GRANT SELECT ON old TO {mover};
         GRANT USAGE ON SCHEMA once TO {mover}; GRANT INSERT ON once.moved TO {mover}"
    ));
    refused(&mut db.session_of(&mover), "0A000", FROM_OLD);
    assert_eq!(import(&mut owner, FROM_OLD).imported, 1, "a superuser passes them");
}
