//! GRANT and REVOKE on the store's table, USAGE on the schema: that is the whole model, and PUBLIC
//! has none of it.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

const CLAIMS: [&str; 4] = [
    "SELECT once.claim_once('k')",
    "SELECT once.claim_once(5)",
    "SELECT once.claim('k', wait => false)",
    "SELECT * FROM once.claim_many('{k}')",
];

fn denied(s: &mut Session, call: &str) {
    let failure = s.fails(call);
    assert_eq!(failure.code, "42501", "{call}: {failure}");
}

#[test]
fn a_role_without_the_schema_can_do_nothing() {
    let db = database();
    db.session().claim("k");
    let nobody = db.role("nobody");
    let mut s = db.session_of(&nobody);
    for call in CLAIMS {
        denied(&mut s, call);
    }
    for call in [
        "SELECT * FROM once.lookup('k')",
        "SELECT once.create_store('x')",
        "SELECT once.alter_store('processed_events', retention => '30 days')",
        "SELECT once.drop_store('processed_events')",
        "CALL once.maintain()",
        "SELECT * FROM once.stores",
        "SELECT * FROM once.partitions",
        "SELECT * FROM once.store_policy",
        "SELECT * FROM once.processed_events",
    ] {
        denied(&mut s, call);
    }
}

#[test]
fn usage_alone_claims_nothing_and_reads_nothing() {
    let db = database();
    let app = db.role("app");
    let mut owner = db.session();
    owner.claim("k");
    owner.run(&format!("GRANT USAGE ON SCHEMA once TO {app}"));
    let mut s = db.session_of(&app);
    for call in CLAIMS {
        denied(&mut s, call);
    }
    for call in [
        "SELECT * FROM once.lookup('k')",
        "SELECT once.create_store('x')",
        "SELECT once.alter_store('processed_events', retention => '30 days')",
        "SELECT once.drop_store('processed_events')",
        "UPDATE once.store_policy SET retention = '1 second'",
        "DELETE FROM once.leaf_promise",
    ] {
        denied(&mut s, call);
    }
    assert_eq!(owner.get::<i64>("SELECT count(*) FROM once.processed_events"), 1);
}

#[test]
fn insert_on_the_store_claims_and_select_looks_up_and_neither_does_the_other() {
    let db = database();
    let (writer, reader) = (db.role("writer"), db.role("reader"));
    let mut owner = db.session();
    owner.claim("load");
    owner.run(&format!(
        "GRANT USAGE ON SCHEMA once TO {writer}, {reader};
         GRANT INSERT ON once.processed_events TO {writer}; GRANT SELECT ON once.processed_events TO {reader}"
    ));
    let (mut w, mut r) = (db.session_of(&writer), db.session_of(&reader));
    assert!(w.claim("k"));
    assert!(!w.claim("k"));
    assert!(w.claim_many(&["m"])[0].1);
    assert_eq!(w.get::<String>("SELECT outcome::text FROM once.claim('n')"), "claimed");
    denied(&mut w, "SELECT * FROM once.lookup('k')");
    denied(&mut w, "SELECT * FROM once.processed_events");
    denied(&mut w, "DELETE FROM once.processed_events");
    assert_eq!(r.get::<i64>("SELECT count(*) FROM once.lookup('k')"), 1);
    for call in CLAIMS {
        denied(&mut r, call);
    }
    denied(&mut w, "SELECT once.alter_store('processed_events', retention => '30 days')");
    denied(&mut w, "SELECT once.drop_store('processed_events')");
}

#[test]
fn a_grant_and_a_revoke_count_at_once_in_open_sessions() {
    let db = database();
    let app = db.role("app");
    let mut owner = db.session();
    owner.claim("load");
    owner.run(&format!("GRANT USAGE ON SCHEMA once TO {app}"));
    let mut s = db.session_of(&app);
    for round in 0..3 {
        denied(&mut s, "SELECT once.claim_once('k')");
        owner.run(&format!("GRANT INSERT ON once.processed_events TO {app}"));
        assert!(s.claim(&format!("k{round}")));
        owner.run(&format!("REVOKE INSERT ON once.processed_events FROM {app}"));
    }
    denied(&mut s, "SELECT once.claim_once('k0')");
}

#[test]
fn a_grant_through_a_group_counts_and_set_role_takes_it_away() {
    let db = database();
    let (group, app) = (db.role("workers"), db.role("app"));
    let mut owner = db.session();
    owner.claim("load");
    owner.run(&format!(
        "GRANT USAGE ON SCHEMA once TO {group}; GRANT INSERT ON once.processed_events TO {group};
         GRANT {group} TO {app}"
    ));
    assert!(db.session_of(&app).claim("k"));
    let outsider = db.role("outsider");
    owner.run(&format!("GRANT USAGE ON SCHEMA once TO {outsider}; SET ROLE {outsider}"));
    denied(&mut owner, "SELECT once.claim_once('m')");
    owner.run("RESET ROLE");
    assert!(owner.claim("m"));
}

#[test]
fn a_function_that_runs_as_its_owner_claims_for_callers_without_grants() {
    let db = database();
    let app = db.role("app");
    let mut owner = db.session();
    owner.claim("load");
    owner.run(
        "CREATE FUNCTION public.take(k text) RETURNS bool LANGUAGE sql SECURITY DEFINER
             SET search_path = '' AS $$ SELECT once.claim_once(k) $$",
    );
    let mut s = db.session_of(&app);
    assert!(s.get::<bool>("SELECT public.take('k')"));
    denied(&mut s, "SELECT once.claim_once('k')");
}

#[test]
fn managing_a_store_takes_its_ownership_and_making_one_takes_create_on_the_schema() {
    let db = database();
    let (a, b) = (db.role("a"), db.role("b"));
    let mut owner = db.session();
    owner.run(&format!("GRANT USAGE ON SCHEMA once TO {a}, {b}"));
    let (mut sa, mut sb) = (db.session_of(&a), db.session_of(&b));
    denied(&mut sa, "SELECT once.create_store('orders')");
    owner.run(&format!("GRANT CREATE ON SCHEMA once TO {a}"));
    sa.run("SELECT once.create_store('orders', retention => '2 days')");
    assert!(sa.get::<bool>("SELECT once.claim_once('k', store => 'orders')"));
    for call in [
        "SELECT once.claim_once('k', store => 'orders')",
        "SELECT * FROM once.lookup('k', store => 'orders')",
        "SELECT once.alter_store('orders', retention => '5 days')",
        "SELECT once.drop_store('orders')",
    ] {
        denied(&mut sb, call);
    }
    sa.run(&format!("GRANT INSERT ON once.orders TO {b}"));
    assert!(!sb.get::<bool>("SELECT once.claim_once('k', store => 'orders')"));
    sa.run("SELECT once.alter_store('orders', retention => '5 days')");
    sb.run("CALL once.maintain()");
    sa.run("CALL once.maintain()");
    sa.run("SELECT once.drop_store('orders')");
    assert_eq!(owner.get::<i64>("SELECT count(*) FROM once.store_policy"), 0);
    assert_eq!(owner.get::<i64>("SELECT count(*) FROM once.leaf_promise"), 0);
}

#[test]
fn nothing_is_for_public() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    assert!(!s.get::<bool>("SELECT has_schema_privilege('public', 'once', 'USAGE')"));
    assert!(!s.get::<bool>("SELECT has_schema_privilege('public', 'once', 'CREATE')"));
    let open: Vec<String> = s.column(
        "SELECT c.relname::text FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
          WHERE c.relnamespace = 'once'::regnamespace AND a.grantee = 0",
    );
    assert_eq!(open, [""; 0]);
    let definers: Vec<String> = s.column(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'once'::regnamespace AND prosecdef",
    );
    assert_eq!(definers, [""; 0], "no function of ours runs with another's rights");
}

#[test]
fn default_privileges_leak_into_no_leaf() {
    let db = database();
    let (owner, snoop) = (db.role("owner"), db.role("snoop"));
    let mut admin = db.session();
    admin.run(&format!(
        "GRANT USAGE, CREATE ON SCHEMA once TO {owner};
         ALTER DEFAULT PRIVILEGES FOR ROLE {owner} GRANT SELECT ON TABLES TO {snoop};
         ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {snoop}"
    ));
    let mut s = db.session_of(&owner);
    s.run(&format!("SELECT once.create_store('orders'); REVOKE ALL ON once.orders FROM {snoop}"));
    let before: Vec<String> = admin.column("SELECT leaf FROM once.partitions");
    admin.run(&format!("ALTER ROLE {owner} SET pg_once.precreate_days = 8"));
    db.session_of(&owner).run("CALL once.maintain()");
    let rows = admin.rows(
        "SELECT c.relname::text, c.relacl::text, p.relacl::text FROM pg_inherits i
           JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
          WHERE p.relname = 'orders' AND c.relname <> ALL ($1)",
        &[&before],
    );
    assert_eq!(rows.len(), 5);
    for row in rows {
        let (leaf, acl, parent): (String, Option<String>, Option<String>) =
            (row.get(0), row.get(1), row.get(2));
        assert_eq!(acl, parent, "{leaf}");
    }
}

#[test]
fn a_refused_privilege_hints_at_the_statement_that_gives_it() {
    let db = database();
    let (other, mut admin) = (format!("Odd \"one {}", db.name()), db.session());
    admin.run("SELECT once.create_store('A \"b''s\"')");
    let quoted = format!("\"{}\"", other.replace('"', "\"\""));
    admin.run(&format!("CREATE ROLE {quoted} LOGIN; GRANT USAGE ON SCHEMA once TO {quoted}"));
    let mut s = db.session_of(&other);
    for call in [
        "SELECT once.claim_once('k', store => 'A \"b''s\"')",
        "SELECT count(*) FROM once.lookup('k', store => 'A \"b''s\"')",
        "SELECT once.create_store('own')",
    ] {
        let failure = s.fails(call);
        assert_eq!(failure.code, "42501", "{call}");
        println!("{}", failure.hint);
        admin.run(&failure.hint);
        s.run(call);
    }
    let failure = s.fails("SELECT once.hold('A \"b''s\"', 'r')");
    let statement = failure.hint.strip_prefix("Ask the owner: ").expect("a statement");
    assert_eq!(
        admin.get::<String>(&format!(
            "SELECT owner::text FROM ({}) o",
            statement.trim_end_matches(';')
        )),
        "postgres"
    );
}
