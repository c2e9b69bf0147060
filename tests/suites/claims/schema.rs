//! Nothing of ours is looked up through the caller's `search_path` or `pg_temp`, and nothing of
//! anybody's is trusted at installation.

use pg_once_tests::session::Session;
use pg_once_tests::shared::{cluster, database};

/// Tables, functions and operators that lie in wait under the names we use.
const AMBUSH: &str = "
    CREATE SCHEMA evil;
    CREATE FUNCTION evil.trap() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'ambushed'; END $$;
    CREATE FUNCTION evil.trap_text(a text, b text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'ambushed'; END $$;
    CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.trap_text);
    CREATE OPERATOR evil.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.trap_text);
    CREATE FUNCTION evil.trap_oid(a oid, b oid) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'ambushed'; END $$;
    CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.trap_oid);
    CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'ambushed'; END $$;
    CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'ambushed'; END $$;
    CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'ambushed'; END $$;
    CREATE FUNCTION evil.quote_ident(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'ambushed'; END $$;
    CREATE FUNCTION evil.claim_once(text, interval) RETURNS bool LANGUAGE sql AS 'SELECT true';
    CREATE TABLE evil.pg_class AS SELECT * FROM pg_catalog.pg_class LIMIT 0;
    CREATE TABLE evil.pg_inherits AS SELECT * FROM pg_catalog.pg_inherits LIMIT 0;
    CREATE TABLE evil.store_policy (LIKE pg_catalog.pg_class);
    CREATE TABLE evil.processed_events (key text);
    CREATE TEMP TABLE processed_events (key text);
    CREATE TEMP TABLE store_policy (store oid);
    CREATE TEMP TABLE leaf_promise (store oid);
    CREATE TEMP TABLE pg_class (oid oid);
    CREATE TEMP TABLE pg_inherits (oid oid);
    CREATE TEMP TABLE once (k text);
    CREATE DOMAIN pg_temp.interval AS text;
    CREATE DOMAIN pg_temp.timestamptz AS text;
    SET search_path = pg_temp, evil, pg_catalog";

/// Every function once, under whatever look-up path is set.
fn use_everything(s: &mut Session) {
    let yes = |s: &mut Session, call: &str| {
        assert!(
            s.try_get::<bool>(&format!("SELECT {call}"), &[])
                .unwrap_or_else(|f| panic!("{call}: {f}")),
            "{call}"
        );
    };
    yes(s, "once.claim_once('k'::pg_catalog.text, ttl => '1 day')");
    yes(s, "NOT once.claim_once('k'::pg_catalog.text)");
    yes(s, "once.claim_once(12::pg_catalog.int8)");
    yes(s, "once.claim_once('a81bc81b-dead-4e5d-abff-90865d1e13b1'::pg_catalog.uuid)");
    yes(s, "(once.claim('l')).outcome OPERATOR(pg_catalog.=) 'claimed'::once.outcome");
    yes(s, "(SELECT claimed FROM once.claim_many('{m}'))");
    yes(s, "EXISTS (SELECT FROM once.lookup('m'))");
    s.run("SELECT once.create_store('orders', retry_horizon => '1 day', note => 'n')");
    yes(s, "once.claim_once('k'::pg_catalog.text, store => 'orders')");
    s.run("SELECT once.alter_store('orders', retention => '5 days')");
    s.run("SET pg_once.precreate_days = 6");
    s.run("CALL once.maintain()");
    yes(s, "pg_catalog.count(*) OPERATOR(pg_catalog.=) 2::pg_catalog.int8 FROM once.stores");
    yes(s, "pg_catalog.count(*) OPERATOR(pg_catalog.=) 14::pg_catalog.int8 FROM once.partitions");
    s.run("SELECT once.drop_store('orders')");
    yes(s, "NOT once.claim_once('k'::pg_catalog.text)");
}

#[test]
fn a_hostile_search_path_and_temporary_objects_change_nothing() {
    let db = database();
    let mut s = db.session();
    s.run(AMBUSH);
    use_everything(&mut s);
    assert_eq!(s.get::<i64>("SELECT pg_catalog.count(*) FROM pg_temp.processed_events"), 0);
    assert_eq!(db.session().get::<i64>("SELECT count(*) FROM evil.processed_events"), 0);
}

#[test]
fn an_empty_search_path_and_a_database_without_public_are_enough() {
    let db = database();
    let mut s = db.session();
    s.run("DROP SCHEMA public CASCADE; SET search_path = ''");
    use_everything(&mut s);
}

#[test]
fn unusual_session_settings_change_nothing() {
    for settings in [
        "SET standard_conforming_strings = off; SET backslash_quote = on; SET escape_string_warning = off",
        "SET DateStyle = 'Postgres, MDY'; SET IntervalStyle = 'iso_8601'; SET TimeZone = 'Pacific/Kiritimati'",
        "SET quote_all_identifiers = on; SET array_nulls = off; SET transform_null_equals = on",
        "SET check_function_bodies = off; SET row_security = off; SET session_replication_role = replica",
        "SET default_transaction_isolation = 'serializable'; SET default_transaction_deferrable = on",
        "SET default_transaction_isolation = 'repeatable read'",
        "SET statement_timeout = '30s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s'",
        "SET enable_partition_pruning = off; SET constraint_exclusion = off; SET plan_cache_mode = force_generic_plan",
        "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_seqscan = off",
        "SET jit = on; SET jit_above_cost = 0; SET work_mem = '64kB'; SET temp_buffers = '800kB'",
        "SET client_min_messages = debug1; SET log_min_messages = warning",
        "SET synchronous_commit = off; SET commit_delay = 0",
    ] {
        let db = database();
        let mut s = db.session();
        s.run(settings);
        use_everything(&mut s);
    }
}

#[test]
fn settings_of_the_role_and_the_database_do_not_reach_the_making_of_a_store() {
    let db = database();
    let app = db.role("app");
    let mut admin = db.session();
    admin.run(&format!(
        "GRANT USAGE, CREATE ON SCHEMA once TO {app};
         ALTER DATABASE {db} SET default_transaction_read_only = on;
         ALTER DATABASE {db} SET search_path = 'nowhere';
         ALTER DATABASE {db} SET TimeZone = 'Asia/Tokyo';
         ALTER DATABASE {db} SET DateStyle = 'German';
         ALTER ROLE {app} SET default_transaction_isolation = 'serializable';
         ALTER ROLE {app} SET statement_timeout = '20s';
         ALTER ROLE {app} CONNECTION LIMIT 1",
        db = db.name()
    ));
    drop(admin);
    let mut s = db.session_of(&app);
    s.run("BEGIN READ WRITE");
    assert!(s.claim("k"));
    s.run("COMMIT; BEGIN READ WRITE");
    assert!(!s.claim("k"));
    s.run("COMMIT");
    let days = s.days_of("once.processed_events");
    assert!(
        days.iter().all(|leaf| leaf.from % 86_400.0 == 0.0 && leaf.to - leaf.from == 86_400.0),
        "{days:?}"
    );
}

#[test]
fn installing_refuses_a_schema_that_somebody_made_beforehand() {
    let db = cluster().create("");
    let plain = db.role("plain");
    let mut admin = db.session();
    admin.run(&format!("GRANT CREATE ON DATABASE {} TO {plain}", db.name()));
    let mut s = db.session_of(&plain);
    s.run(
        "CREATE SCHEMA once;
         CREATE TABLE once.processed_events (key text);
         CREATE FUNCTION once.claim_once(text, interval) RETURNS bool LANGUAGE sql AS 'SELECT true'",
    );
    let failure = admin.fails("CREATE EXTENSION pg_once");
    assert_eq!(failure.code, "42P06", "{failure}");
    assert_eq!(admin.get::<i64>("SELECT count(*) FROM pg_extension WHERE extname = 'pg_once'"), 0);
    admin.run("DROP SCHEMA once CASCADE; CREATE EXTENSION pg_once");
    assert!(admin.claim("k"));
}

#[test]
fn installing_uses_no_operator_and_no_function_that_somebody_planted_beforehand() {
    let db = cluster().create("");
    let plain = db.role("plain");
    let mut admin = db.session();
    admin.run(&format!("GRANT CREATE ON SCHEMA public TO {plain}"));
    let mut s = db.session_of(&plain);
    // Each fits a call in the script better than, or as well as, PostgreSQL's own: oid = regclass has no
    // operator of its own there.
    s.run(
        "CREATE FUNCTION public.planted(oid, regclass) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'planted'; END $$;
         CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = regclass, FUNCTION = public.planted);
         CREATE FUNCTION public.min(date) RETURNS date LANGUAGE plpgsql AS $$ BEGIN RAISE 'planted'; END $$;
         CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'planted'; END $$;
         CREATE DOMAIN public.text AS pg_catalog.text; CREATE DOMAIN public.regclass AS pg_catalog.regclass",
    );
    admin.run("SET search_path = public, pg_catalog; CREATE EXTENSION pg_once; RESET search_path");
    assert!(admin.claim("k"));
    assert_eq!(admin.get::<i64>("SELECT days::bigint FROM once.stores"), 4);
    let states: i64 = admin.get("SELECT count(DISTINCT state) FROM once.partitions");
    assert_eq!(states, 2, "today and the days ahead");
    // The question itself would fall for them.
    admin.run("SET search_path = pg_catalog");
    let relied_on: Vec<String> = admin.column(
        "SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
          WHERE (refclassid = 'pg_proc'::regclass AND refobjid IN
                    (SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace)
              OR refclassid = 'pg_operator'::regclass AND refobjid IN
                    (SELECT oid FROM pg_operator WHERE oprnamespace = 'public'::regnamespace)
              OR refclassid = 'pg_type'::regclass AND refobjid IN
                    (SELECT oid FROM pg_type WHERE typnamespace = 'public'::regnamespace))
            AND NOT (classid = 'pg_operator'::regclass OR classid = 'pg_type'::regclass
                  OR classid = 'pg_proc'::regclass AND objid IN
                    (SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace))",
    );
    assert_eq!(relied_on, [""; 0]);
}

#[test]
fn an_ordinary_user_cannot_install_it() {
    let db = cluster().create("");
    let plain = db.role("plain");
    db.session().run(&format!("GRANT CREATE ON DATABASE {} TO {plain}", db.name()));
    assert_eq!(db.session_of(&plain).fails("CREATE EXTENSION pg_once").code, "42501");
}

#[test]
fn the_schema_is_fixed_and_whoever_wants_another_is_told_at_once() {
    let db = cluster().create("");
    let mut s = db.session();
    s.run("CREATE SCHEMA contrib");
    assert_eq!(s.fails("CREATE EXTENSION pg_once WITH SCHEMA contrib").code, "0A000");
    s.run("SET search_path = contrib; CREATE EXTENSION pg_once");
    assert_eq!(s.fails("ALTER EXTENSION pg_once SET SCHEMA contrib").code, "0A000");
    assert!(s.claim("k"));
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM pg_class WHERE relnamespace = 'contrib'::regnamespace"),
        0
    );
}

#[test]
fn the_script_uses_no_create_or_replace_and_no_if_not_exists() {
    let script = cluster().server().extensions.join("pg_once--0.1.0.sql");
    let text = std::fs::read_to_string(&script).expect("pg_once is installed").to_lowercase();
    let statements: Vec<&str> =
        text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    for line in statements {
        assert!(!line.contains("or replace") && !line.contains("if not exists"), "{line}");
    }
}
