//! New leaves take after the store: owner, grants, tablespace, storage, and always logged.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

/// Makes one more day and returns its name.
fn next_leaf(s: &mut Session) -> String {
    let days: i64 = s.get("SELECT count(*) FROM once.partitions WHERE store = 'processed_events'");
    s.run(&format!("SET pg_once.precreate_days = {days}"));
    s.run("CALL once.maintain()");
    s.get("SELECT leaf FROM once.partitions WHERE store = 'processed_events' ORDER BY day DESC LIMIT 1")
}

#[test]
fn a_new_leaf_has_the_owner_and_the_grants_of_the_store_whoever_makes_it() {
    let db = database();
    let (owner, app, reader) = (db.role("owner"), db.role("app"), db.role("reader"));
    let mut admin = db.session();
    admin.run(&format!("GRANT USAGE, CREATE ON SCHEMA once TO {owner}"));
    db.session_of(&owner).run(&format!(
        "SELECT once.create_store('processed_events');
         GRANT INSERT ON once.processed_events TO {app};
         GRANT SELECT, DELETE ON once.processed_events TO {reader} WITH GRANT OPTION;
         GRANT SELECT ON once.processed_events TO PUBLIC"
    ));
    let leaf = next_leaf(&mut admin);
    let rows = admin.rows(
        "SELECT pg_get_userbyid(l.relowner)::text,
                (SELECT array_agg(format('%s %s %s', grantee::regrole, privilege_type, is_grantable) ORDER BY 1)
                   FROM (SELECT a.grantee, a.privilege_type, a.is_grantable FROM aclexplode(l.relacl) a ORDER BY 1, 2) x)
                = (SELECT array_agg(format('%s %s %s', grantee::regrole, privilege_type, is_grantable) ORDER BY 1)
                     FROM (SELECT a.grantee, a.privilege_type, a.is_grantable FROM aclexplode(p.relacl) a ORDER BY 1, 2) x)
           FROM pg_class l, pg_class p WHERE l.oid = $1::text::regclass AND p.oid = 'once.processed_events'::regclass",
        &[&format!("once.\"{leaf}\"")],
    );
    assert_eq!(rows[0].get::<_, String>(0), owner);
    assert!(rows[0].get::<_, bool>(1), "the same privileges");
    // The owner can do its own housekeeping on what another role made.
    db.session_of(&owner).run(&format!("ANALYZE once.{leaf}; DROP TABLE once.{leaf}"));
}

#[test]
fn a_store_that_changed_hands_gets_leaves_of_its_new_owner() {
    let db = database();
    let heir = db.role("heir");
    let mut admin = db.session();
    admin.claim("load");
    admin.run(&format!(
        "GRANT USAGE, CREATE ON SCHEMA once TO {heir};
         ALTER TABLE once.processed_events OWNER TO {heir}"
    ));
    let leaf = next_leaf(&mut admin);
    let owner: String = admin.get(&format!(
        "SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE relname = '{leaf}'"
    ));
    assert_eq!(owner, heir);
    let mut s = db.session_of(&heir);
    assert!(s.claim("k"));
    s.run("CALL once.maintain()");
}

#[test]
fn a_new_leaf_lies_in_the_tablespace_of_the_store_and_not_in_the_sessions() {
    let db = database();
    let mut s = db.session();
    let (ours, other) = (format!("ours_{}", db.name()), format!("other_{}", db.name()));
    s.run("SET allow_in_place_tablespaces = on");
    s.run(&format!("CREATE TABLESPACE {ours} LOCATION ''"));
    s.run(&format!("CREATE TABLESPACE {other} LOCATION ''"));
    s.claim("load");
    s.run(&format!("SET default_tablespace = '{other}'"));
    let spaces = |s: &mut Session, leaf: &str| -> Vec<String> {
        s.column(&format!(
            "SELECT coalesce(t.spcname::text, '-') FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace
              WHERE c.oid = 'once.{leaf}'::regclass OR c.oid IN
                    (SELECT indexrelid FROM pg_index WHERE indrelid = 'once.{leaf}'::regclass)"
        ))
    };
    let leaf = next_leaf(&mut s);
    assert_eq!(spaces(&mut s, &leaf), ["-", "-"], "the database's own");
    s.run(&format!("ALTER TABLE once.processed_events SET TABLESPACE {ours}"));
    let leaf = next_leaf(&mut s);
    assert_eq!(spaces(&mut s, &leaf), [ours.as_str(), ours.as_str()]);
    s.run("DROP TABLE once.processed_events");
    s.run(&format!("DROP TABLESPACE {ours}"));
    s.run(&format!("DROP TABLESPACE {other}"));
}

#[test]
fn a_new_leaf_has_the_storage_options_of_the_one_before() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let last: String = s.get("SELECT leaf FROM once.partitions ORDER BY day DESC LIMIT 1");
    s.run(&format!("ALTER TABLE once.{last} SET (fillfactor = 70, autovacuum_enabled = false, parallel_workers = 3)"));
    s.run("ALTER TABLE once.processed_events ALTER COLUMN result SET STORAGE EXTERNAL");
    let leaf = next_leaf(&mut s);
    let options = "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = ";
    let of = |s: &mut Session, leaf: &str| -> Vec<String> {
        let mut options: Vec<String> = s
            .get::<String>(&format!("{options} 'once.{leaf}'::regclass"))
            .split(' ')
            .map(str::to_owned)
            .collect();
        options.sort();
        options
    };
    assert_eq!(of(&mut s, &leaf), of(&mut s, &last));
    assert!(of(&mut s, &leaf).contains(&"fillfactor=70".to_owned()));
    let storage: Vec<String> = s.column(&format!(
        "SELECT concat(attname, ' ', attstorage) FROM pg_attribute WHERE attrelid = 'once.{leaf}'::regclass
            AND attname IN ('key', 'effect', 'result') ORDER BY 1"
    ));
    assert_eq!(storage, ["effect m", "key m", "result e"]);
}

#[test]
fn leaves_are_logged_heaps_whatever_the_defaults_say() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let method = format!("other_{}", db.name());
    s.run(&format!("CREATE ACCESS METHOD {method} TYPE TABLE HANDLER heap_tableam_handler"));
    s.run(&format!("SET default_table_access_method = '{method}'"));
    // Does nothing before 18, and is refused from 18 on: either way no leaf follows it.
    let _ = s.try_run("ALTER TABLE once.processed_events SET UNLOGGED");
    next_leaf(&mut s);
    s.run("SELECT once.create_store('orders')");
    let odd: Vec<String> = s.column(
        "SELECT concat_ws(' ', c.relname, c.relpersistence, a.amname) FROM pg_class c
           LEFT JOIN pg_am a ON a.oid = c.relam
          WHERE c.relnamespace = 'once'::regnamespace AND c.relispartition AND c.relkind = 'r'
            AND (c.relpersistence <> 'p' OR a.amname <> 'heap')",
    );
    assert_eq!(odd, [""; 0]);
}

#[test]
fn a_new_leaf_has_what_was_added_to_the_store() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run(
        "ALTER TABLE once.processed_events ADD COLUMN tenant text DEFAULT 'none' NOT NULL,
             ADD CONSTRAINT short CHECK (length(key) < 500);
         CREATE INDEX ON once.processed_events (expires_at);
         CREATE TABLE seen (key text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO public.seen VALUES (NEW.key); RETURN NULL; END $$;
         CREATE TRIGGER note AFTER INSERT ON once.processed_events FOR EACH ROW EXECUTE FUNCTION note()",
    );
    let leaf = next_leaf(&mut s);
    let made: String = s.get(&format!(
        "SELECT concat_ws(' ',
            (SELECT count(*) FROM pg_index WHERE indrelid = 'once.{leaf}'::regclass),
            (SELECT count(*) FROM pg_trigger WHERE tgrelid = 'once.{leaf}'::regclass AND NOT tgisinternal),
            (SELECT count(*) FROM pg_constraint WHERE conrelid = 'once.{leaf}'::regclass AND contype = 'c'),
            (SELECT count(*) FROM pg_attribute WHERE attrelid = 'once.{leaf}'::regclass AND attname = 'tenant' AND attnotnull))"
    ));
    assert_eq!(made, "2 1 1 1");
    assert!(s.claim("k"));
    assert_eq!(s.get::<String>("SELECT tenant FROM once.processed_events WHERE key = 'k'"), "none");
    assert_eq!(s.column::<String>("SELECT key FROM seen"), ["k"]);
    assert_eq!(s.fails("SELECT once.claim_once(repeat('x', 600))").code, "23514");
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn a_published_store_publishes_its_new_days_and_can_replace_expired_rows() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("CREATE PUBLICATION p FOR TABLE once.processed_events; CREATE PUBLICATION everything FOR ALL TABLES");
    let leaf = next_leaf(&mut s);
    let published: i64 =
        s.get(&format!("SELECT count(*) FROM pg_publication_tables WHERE tablename = '{leaf}'"));
    assert_eq!(published, 2);
    assert!(s.get::<bool>("SELECT once.claim_once('k', '1 millisecond')"));
    wait_expired(&mut s, "k");
    assert!(s.claim("k"));
    s.run("DELETE FROM once.processed_events WHERE key = 'k'");
    assert!(s.claim("k"));
}

fn wait_expired(s: &mut Session, key: &str) {
    pg_once_tests::wait::until("the claim has expired", || {
        s.get_with::<i64>("SELECT count(*) FROM once.lookup($1)", &[&key]) == 0
    });
}
