//! DROP EXTENSION takes no claim along: it refuses while a store exists.

use pg_once_tests::shared::database;

#[test]
fn the_extension_cannot_be_dropped_while_a_store_exists() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    for statement in
        ["DROP EXTENSION pg_once", "DROP SCHEMA once", "DROP EXTENSION pg_once RESTRICT"]
    {
        let failure = s.fails(statement);
        assert_eq!(failure.code, "2BP01", "{statement}: {failure}");
    }
    assert!(s.fails("DROP EXTENSION pg_once").detail.contains("processed_events"));
    assert!(!s.claim("k"));
    s.run("BEGIN; SELECT once.drop_store('processed_events'); DROP EXTENSION pg_once; ROLLBACK");
    assert!(!s.claim("k"));
    s.run("SELECT once.drop_store('processed_events')");
    s.run("DROP EXTENSION pg_once");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM pg_namespace WHERE nspname = 'once'"), 0);
    assert_eq!(s.fails("SELECT once.claim_once('k')").code, "3F000");
}

#[test]
fn a_store_without_a_single_claim_or_leaf_is_still_a_store() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('orders')");
    let leaves: Vec<String> = s.column("SELECT format('once.%I', leaf) FROM once.partitions");
    s.run(&format!("DROP TABLE {}", leaves.join(", ")));
    assert_eq!(s.fails("DROP EXTENSION pg_once").code, "2BP01");
}

#[test]
fn an_extension_installed_again_starts_afresh_in_sessions_that_knew_the_old_one() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.run("PREPARE p AS SELECT once.claim_once($1::text)");
    assert!(s.claim("k"));
    for _ in 0..2 {
        ddl.run("SELECT once.drop_store('processed_events'); DROP EXTENSION pg_once; CREATE EXTENSION pg_once");
        assert!(s.claim("k"), "nothing is left of the old store");
        assert!(!s.claim("k"));
        assert!(!ddl.claim("k"));
    }
    ddl.run("SELECT once.drop_store('processed_events'); BEGIN; DROP EXTENSION pg_once; CREATE EXTENSION pg_once");
    assert!(ddl.claim("in the transaction that installs it"));
    ddl.run("COMMIT");
    assert!(!s.claim("in the transaction that installs it"));
}

#[test]
fn dropping_with_cascade_takes_everything_and_says_so() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    s.run("DROP EXTENSION pg_once CASCADE");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM pg_namespace WHERE nspname = 'once'"), 0);
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM pg_class WHERE relname LIKE 'processed_events%'"),
        0
    );
    s.run("CREATE EXTENSION pg_once");
    assert!(s.claim("k"));
}

#[test]
fn stores_and_leaves_are_no_members_of_the_extension() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let members: Vec<String> = s.column(
        "SELECT c.relname::text FROM pg_depend d JOIN pg_class c ON c.oid = d.objid
          WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e' AND c.relkind IN ('r', 'p', 'v')
            AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_once') ORDER BY 1",
    );
    assert_eq!(
        members,
        [
            "effect_state",
            "effects",
            "filter",
            "filter_day",
            "filters",
            "health",
            "key_audit",
            "leaf_promise",
            "leaf_seal",
            "maintenance_log",
            "partitions",
            "release_log",
            "retention_advice",
            "stat_claims",
            "stat_duplicate_ages",
            "state_sequence",
            "state_snapshot",
            "store_pause",
            "store_policy",
            "stores"
        ]
    );
}

#[test]
fn a_database_in_use_by_claims_can_be_dropped_when_its_sessions_are_gone() {
    let db = database();
    {
        let mut s = db.session();
        s.claim("k");
        s.run("SELECT once.create_store('orders')");
    }
    // Nothing of ours keeps it busy beyond PostgreSQL's own five seconds of grace.
    db.cluster().connect("postgres").run(&format!("DROP DATABASE {}", db.name()));
}
