//! Prepared statements and cached plans: they outlive new days, dropped days and changed tables.

use pg_once_tests::shared::database;

#[test]
fn a_prepared_claim_outlives_every_change_of_its_store() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    s.run("PREPARE p AS SELECT once.claim_once($1::text, $2)");
    s.run("PREPARE l AS SELECT count(*) FROM once.lookup($1)");
    s.run("CREATE FUNCTION cached(k text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN once.claim_once(k); END $$");
    let mut number = 0;
    let mut both = |s: &mut pg_once_tests::session::Session, what: &str| {
        number += 1;
        for (call, expected) in
            [("EXECUTE p('k$', '1 hour')", true), ("EXECUTE p('k$', '1 hour')", false)]
        {
            let call = call.replace('$', &number.to_string());
            assert_eq!(s.try_column::<bool>(&call), Ok(vec![expected]), "after {what}: {call}");
        }
        assert_eq!(
            s.try_column::<bool>(&format!("SELECT cached('c{number}')")),
            Ok(vec![true]),
            "after {what}"
        );
        assert_eq!(
            s.try_column::<i64>(&format!("EXECUTE l('k{number}')")),
            Ok(vec![1]),
            "after {what}"
        );
    };
    for _ in 0..10 {
        both(&mut s, "nothing");
    }
    let tomorrow: String =
        s.get("SELECT leaf FROM once.partitions WHERE state = 'future' ORDER BY day DESC LIMIT 1");
    for (what, change) in [
        ("a new day", "SET pg_once.precreate_days = 6; CALL once.maintain()".to_owned()),
        (
            "a detached day",
            format!("ALTER TABLE once.processed_events DETACH PARTITION once.{tomorrow}"),
        ),
        ("a dropped day", format!("DROP TABLE once.{tomorrow}")),
        ("another column", "ALTER TABLE once.processed_events ADD COLUMN more int".to_owned()),
        ("a dropped column", "ALTER TABLE once.processed_events DROP COLUMN more".to_owned()),
        ("statistics", "ANALYZE once.processed_events".to_owned()),
        (
            "another retention",
            "SELECT once.alter_store('processed_events', retention => '9 days')".to_owned(),
        ),
    ] {
        for line in change.split("; ") {
            ddl.run(line);
        }
        both(&mut s, what);
        s.run("BEGIN");
        both(&mut s, &format!("{what}, in an open transaction"));
        s.run("COMMIT");
        both(&mut s, what);
    }
}

#[test]
fn a_prepared_claim_finds_a_store_that_was_dropped_and_made_again() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    s.run("PREPARE p AS SELECT once.claim_once($1::text)");
    assert_eq!(s.column::<bool>("EXECUTE p('k')"), [true]);
    ddl.run("SELECT once.drop_store('processed_events')");
    ddl.run("SELECT once.create_store('processed_events')");
    assert_eq!(s.column::<bool>("EXECUTE p('k')"), [true], "a new store has no claims");
    assert_eq!(s.column::<bool>("EXECUTE p('k')"), [false]);
}

#[test]
fn public_result_types_are_what_the_documentation_says() {
    let db = database();
    let mut s = db.session();
    let signatures: Vec<String> = s.column(
        "SELECT p.oid::regprocedure::text || ' -> ' || pg_get_function_result(p.oid)
           FROM pg_proc p WHERE pronamespace = 'once'::regnamespace AND prokind = 'f' ORDER BY 1",
    );
    let record = "TABLE(claimed_at timestamp with time zone, expires_at timestamp with time zone, result jsonb)";
    let entries = "TABLE(store regclass, effect text, claimed bigint, duplicates bigint, in_progress bigint, \
        too_late bigint, mismatch bigint, waits bigint, waited_us bigint, oldest_us bigint, last_tenth bigint, \
        ages bigint[], stats_reset timestamp with time zone, started bigint, taken_over bigint, \
        effects_done bigint, effects_failed bigint, gave_up bigint, stale_fences bigint, \
        completed bigint, released bigint)";
    let differences = "TABLE(pass integer, relation regclass, primary_key text, kind text, column_name text, \
        before text, after text, message bigint, message_key text)";
    let run = "text,regprocedure,regclass[],text[],boolean,boolean,bigint,interval";
    assert_eq!(
        signatures,
        [
            "once.alter_store(text,interval,interval,text,text[],integer) -> void".to_owned(),
            "once.audit_keys(text,integer) -> TABLE(effect text, sampled bigint, uuidv4_share double precision, \
             time_based_share double precision, hash_share double precision, natural_share double precision, \
             shortest bigint, median bigint, longest bigint, claimed bigint, duplicates bigint, \
             counted_since timestamp with time zone, findings text[])"
                .to_owned(),
            "once.begin_effect(text,interval,interval,text,text,text,timestamp with time zone) -> record".to_owned(),
            "once.claim(text,interval,text,text,text,timestamp with time zone,boolean) -> record"
                .to_owned(),
            "once.claim_many(text[],interval,text,text) -> TABLE(key text, claimed boolean)"
                .to_owned(),
            "once.claim_once(bigint,interval,text,text,timestamp with time zone) -> boolean"
                .to_owned(),
            "once.claim_once(text,interval,text,text,timestamp with time zone) -> boolean"
                .to_owned(),
            "once.claim_once(uuid,interval,text,text,timestamp with time zone) -> boolean"
                .to_owned(),
            format!("once.compare(text) -> {differences}"),
            "once.complete(text,jsonb,text,text) -> boolean".to_owned(),
            "once.complete_effect(text,bigint,jsonb,text,text) -> boolean".to_owned(),
            "once.create_store(text,interval,interval,text,text[],integer) -> regclass".to_owned(),
            format!("once.double_tap({run}) -> {differences}"),
            format!("once.double_tap_report({run}) -> text"),
            "once.drop_snapshot(text) -> void".to_owned(),
            "once.drop_store(text) -> void".to_owned(),
            "once.extend_effect(text,bigint,interval,text,text) -> timestamp with time zone".to_owned(),
            "once.fail_effect(text,bigint,text,interval,text,text) -> text".to_owned(),
            "once.filter_probe(text,text,text) -> TABLE(leaf regclass, filter regclass)".to_owned(),
            "once.fingerprint(jsonb,text[]) -> text".to_owned(),
            "once.hold(text,text,timestamp with time zone) -> void".to_owned(),
            "once.keep_seal() -> trigger".to_owned(),
            "once.kept_until(regclass) -> TABLE(leaf regclass, kept_until timestamp with time zone)"
                .to_owned(),
            "once.key_from_json(jsonb,text[]) -> text".to_owned(),
            "once.key_uuid(text,text) -> uuid".to_owned(),
            "once.leaf_day(regclass) -> date".to_owned(),
            "once.leaf_expiries(regclass) -> record".to_owned(),
            format!("once.lookup(text,text,text) -> {record}"),
            "once.natural_key(text[]) -> text".to_owned(),
            "once.release(text,text,text,text) -> boolean".to_owned(),
            "once.release_many(text,text,text,text) -> bigint".to_owned(),
            "once.schedule(text,text) -> bigint".to_owned(),
            "once.sealed_leaves(regclass) -> TABLE(leaf regclass, filter regclass)".to_owned(),
            "once.snapshot(text,regclass[],text[]) -> void".to_owned(),
            "once.stat_available() -> boolean".to_owned(),
            "once.stat_bounds() -> bigint[]".to_owned(),
            format!("once.stat_entries() -> {entries}"),
            "once.stat_reset(text) -> void".to_owned(),
            "once.unhold(text) -> boolean".to_owned(),
            "once.unschedule(text) -> boolean".to_owned(),
            "once.void_filter() -> trigger".to_owned(),
            "once.window_end(regclass,timestamp with time zone,timestamp with time zone) -> timestamp with time zone"
                .to_owned(),
        ]
    );
}
