//! Tables of every kind: types of keys, effects, zones, partitions, odd names.

use pg_once_tests::shared::database;

use crate::counts::{FROM_OLD, OLD, import};

#[test]
fn a_key_has_the_text_form_that_claims_of_its_type_have() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('moved')");
    let ones = [
        (
            "uuid",
            "'1B4E28BA-2FA1-11D2-883F-0016D3CCA427'",
            "'1b4e28ba-2fa1-11d2-883f-0016d3cca427'::uuid",
        ),
        ("bigint", "-4711", "-4711::bigint"),
        ("integer", "12", "12"),
        ("varchar(20)", "'Grüße '", "'Grüße '::varchar"),
        ("char(8)", "'padded'", "'padded'::char(8)"),
        ("positive", "77", "77::positive"),
    ];
    s.run(
        "CREATE DOMAIN positive AS bigint CHECK (value > 0); CREATE DOMAIN moment AS timestamptz",
    );
    for (number, (kind, value, claimed)) in ones.into_iter().enumerate() {
        s.run(&format!("CREATE TABLE old{number} (k {kind}, at moment); INSERT INTO old{number} VALUES ({value}, now())"));
        assert_eq!(
            import(&mut s, &format!("'moved', 'old{number}', 'k', 'at'")).imported,
            1,
            "{kind}"
        );
        let fresh: bool = s.get(&format!("SELECT once.claim_once({claimed}, store => 'moved')"));
        assert!(!fresh, "{kind}");
    }
}

#[test]
fn each_row_may_name_its_effect_or_all_have_one() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("ALTER TABLE old ADD handler text; INSERT INTO old SELECT 'k', now(), h FROM unnest(ARRAY['invoice', 'stock', '', NULL, repeat('e', 257)]) h");
    let counts = import(&mut s, &format!("{FROM_OLD}, effect_column => 'handler'"));
    assert_eq!((counts.imported, counts.refused), (3, 2));
    for (effect, fresh) in [("invoice", false), ("stock", false), ("", false), ("mail", true)] {
        let answer: bool =
            s.get(&format!("SELECT once.claim_once('k', effect => '{effect}', store => 'moved')"));
        assert_eq!(answer, fresh, "{effect}");
    }
    assert_eq!(import(&mut s, &format!("{FROM_OLD}, effect => 'all'")).imported, 1);
    assert!(!s.get::<bool>("SELECT once.claim_once('k', effect => 'all', store => 'moved')"));
}

#[test]
fn times_without_a_zone_are_read_in_the_one_that_is_given() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('moved'); SET TimeZone = 'Asia/Tokyo'");
    s.run("CREATE TABLE old (k text, at timestamp); INSERT INTO old VALUES ('k', now() AT TIME ZONE 'America/Lima' - interval '1 hour')");
    let from = "'moved', 'old', 'k', 'at'";
    let failure = s.fails(&format!("CALL once.import_claims({from})"));
    assert_eq!(failure.code, "22023", "{failure}");
    assert!(failure.hint.contains("time_zone => 'UTC'"), "{failure}");
    let failure = s.fails(&format!("CALL once.import_claims({from}, time_zone => 'Mars/Olympus')"));
    assert_eq!(failure.code, "22023", "{failure}");
    assert_eq!(import(&mut s, &format!("{from}, time_zone => 'America/Lima'")).imported, 1);
    assert!(s.get::<bool>(
        "SELECT claimed_at = (SELECT at AT TIME ZONE 'America/Lima' FROM old) FROM once.moved"
    ));
}

#[test]
fn a_partitioned_table_its_children_and_a_materialized_view_are_read_whole() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run(
        "CREATE TABLE parts (id bigint, at timestamptz) PARTITION BY RANGE (id);
         CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (5000);
         CREATE TABLE high PARTITION OF parts FOR VALUES FROM (5000) TO (20000) PARTITION BY HASH (id);
         CREATE TABLE high0 PARTITION OF high FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE high1 PARTITION OF high FOR VALUES WITH (MODULUS 2, REMAINDER 1);
         INSERT INTO parts SELECT n, now() FROM generate_series(0, 19999) n;
         CREATE TABLE parent (k text, at timestamptz); CREATE TABLE child (more int) INHERITS (parent);
         INSERT INTO parent SELECT 'p' || n, now() FROM generate_series(1, 100) n;
         INSERT INTO child SELECT 'c' || n, now() FROM generate_series(1, 3000) n;
         CREATE MATERIALIZED VIEW joint AS SELECT 'topic/' || id AS k, at FROM parts WHERE id < 1000",
    );
    for (source, key, rows) in
        [("parts", "id", 20_000), ("parent", "k", 3_100), ("joint", "k", 1_000)]
    {
        let counts =
            import(&mut s, &format!("'moved', '{source}', '{key}', 'at', batch_size => 700"));
        assert_eq!((counts.read, counts.imported), (rows, rows), "{source}");
    }
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM parts WHERE once.claim_once(id, store => 'moved')"),
        0
    );
}

#[test]
fn names_are_taken_as_they_are() {
    let db = database();
    let mut s = db.session();
    s.run(
        r#"CREATE SCHEMA "Odd ""Schema"; CREATE TABLE "Odd ""Schema"."ta'b.le;" ("Key Col" text, "at""\" timestamptz, "drop" int);
           INSERT INTO "Odd ""Schema"."ta'b.le;" VALUES ('k', now()); SELECT once.create_store('My "Store"')"#,
    );
    let counts = import(&mut s, r#"'My "Store"', '"Odd ""Schema"."ta''b.le;"', 'Key Col', 'at"\'"#);
    assert_eq!(counts.imported, 1);
    assert!(!s.get::<bool>(r#"SELECT once.claim_once('k', store => 'My "Store"')"#));
}

#[test]
fn nothing_is_looked_up_through_the_search_path_or_planned_by_the_sessions_taste() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("INSERT INTO old SELECT 'k' || n, now() FROM generate_series(1, 2000) n");
    s.run("CREATE SCHEMA trap; CREATE VIEW trap.pg_class AS SELECT 1 AS oid; CREATE VIEW trap.pg_inherits AS SELECT 1 AS one;
           CREATE FUNCTION trap.refuse(tid, tid) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
           CREATE OPERATOR trap.< (LEFTARG = tid, RIGHTARG = tid, FUNCTION = trap.refuse);
           SET search_path = trap, pg_catalog, public; SET enable_tidscan = off; SET DateStyle = 'German'");
    assert_eq!(import(&mut s, &format!("{FROM_OLD}, batch_size => 100")).imported, 2_000);
    assert_eq!(s.get::<String>("SHOW enable_tidscan"), "off");
    assert_eq!(s.get::<String>("SHOW search_path"), "trap, pg_catalog, public");
}

#[test]
fn the_source_is_read_and_nothing_of_it_is_run() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'trigger ran'; END $$;
           INSERT INTO old VALUES ('k', now()); ALTER TABLE old ADD n int DEFAULT 1;
           CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON old FOR EACH ROW EXECUTE FUNCTION refuse();
           CREATE RULE r AS ON UPDATE TO old DO INSTEAD NOTHING");
    assert_eq!(import(&mut s, FROM_OLD).imported, 1);
}
