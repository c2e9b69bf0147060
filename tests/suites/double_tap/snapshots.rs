//! States that are kept across transactions: the same comparison for a consumer outside the database.

use pg_once_tests::shared::database;

use crate::scene::{SHOP, lines, refused};

#[test]
fn what_a_consumer_outside_did_comes_back_as_the_same_rows() {
    let db = database();
    let (mut s, mut consumer) = (db.session(), db.session());
    s.run(SHOP);
    s.run("INSERT INTO orders VALUES (1, 1.0, 'epoch', 'a'), (2, 2.0, 'epoch', 'a'), (3, 3, NULL, NULL); INSERT INTO audit VALUES ('x'), ('x');
           CREATE TABLE numbered (no serial PRIMARY KEY); INSERT INTO numbered DEFAULT VALUES;
           CREATE TABLE quiet (no serial PRIMARY KEY)");
    s.run("SELECT once.snapshot('before', '{orders,audit,numbered,quiet}', '{orders.seen}')");
    s.run("SELECT once.snapshot('other''s \\name', '{orders}')");
    assert!(lines(&mut s, "once.compare('before')").is_empty());
    consumer.run("UPDATE orders SET total = 1.00, seen = now(), made_by = 'b' WHERE id = 1; DELETE FROM orders WHERE id = 2;
                  INSERT INTO orders (id) VALUES (4); INSERT INTO audit VALUES ('x'), ('y'); INSERT INTO numbered DEFAULT VALUES;
                  SELECT nextval('quiet_no_seq')");
    let found = [
        "- audit - inserted - - x - -",
        "- audit - inserted - - y - -",
        "- numbered 2 inserted - - (2) - -",
        "- orders 1 changed made_by a b - -",
        "- orders 2 deleted - (2,2.0,a,1) - - -",
        "- orders 4 inserted - - (4,,,1) - -",
        "- quiet_no_seq - sequence - - 1 - -",
    ];
    let expected: Vec<String> =
        found.iter().map(|line| line.replace("- - (2) - -", "- - 2 - -")).collect();
    assert_eq!(lines(&mut s, "once.compare('before')"), expected);
    assert_eq!(lines(&mut s, "once.compare('other''s \\name')").len(), 4);
    // A transaction that reads compares what it sees.
    s.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    assert_eq!(lines(&mut s, "once.compare('before')").len(), 7);
    s.run("COMMIT");
    s.run("SELECT once.drop_snapshot('before')");
    assert_eq!(refused(&mut s, "once.compare('before')").code, "42704");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM pg_class WHERE relname LIKE 'state\\_%' AND relkind = 'r' AND relnamespace = 'once'::regnamespace"), 3);
    s.run("SELECT once.drop_snapshot('other''s \\name')");
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM once.state_snapshot")
            + s.get::<i64>("SELECT count(*) FROM once.state_sequence"),
        0
    );
}

#[test]
fn a_table_that_is_no_longer_what_it_was_is_not_compared() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    for (change, code) in [
        ("ALTER TABLE audit ADD more int", "55000"),
        ("ALTER TABLE audit RENAME what TO other", "55000"),
        // Two equal rows were kept; with a key they would be joined to the one that is left, and be no difference.
        (
            "DELETE FROM audit; INSERT INTO audit VALUES ('twice'); ALTER TABLE audit ADD PRIMARY KEY (what)",
            "55000",
        ),
        ("CREATE TABLE heir () INHERITS (audit)", "55000"),
        ("DROP TABLE audit", "42P01"),
        ("SELECT once.drop_snapshot('s')", "42704"),
    ] {
        s.run("TRUNCATE audit; INSERT INTO audit VALUES ('twice'), ('twice')");
        s.run("SELECT once.snapshot('s', '{audit}')");
        assert_eq!(
            s.try_run("SELECT once.snapshot('s', '{orders}')").expect_err("taken").code,
            "42710"
        );
        s.run(&format!("BEGIN; {change}"));
        let failure = refused(&mut s, "once.compare('s')");
        assert_eq!(failure.code, code, "{change}: {failure}");
        s.run("ROLLBACK");
        // Its rows may well be replaced as a whole: what was there before is kept elsewhere.
        s.run("TRUNCATE audit; INSERT INTO audit VALUES ('twice'), ('twice'); ALTER TABLE audit ALTER what SET STORAGE MAIN");
        assert!(lines(&mut s, "once.compare('s')").is_empty());
        s.run("SELECT once.drop_snapshot('s')");
    }
}

#[test]
fn a_snapshot_is_its_owners_and_no_dump_carries_it() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    let (one, two) = (db.role("keeper"), db.role("other"));
    let (mut a, mut b) = (db.session_of(&one), db.session_of(&two));
    s.run(&format!(
        "GRANT USAGE ON SCHEMA once TO {one}, {two}; GRANT SELECT ON orders TO {one}, {two}"
    ));
    let failure = a.try_run("SELECT once.snapshot('s', '{orders}')").expect_err("no CREATE");
    assert_eq!(failure.code, "42501");
    // The hint is a statement to be pasted.
    s.run(&failure.hint);
    a.run("SELECT once.snapshot('s', '{orders}')");
    assert!(lines(&mut a, "once.compare('s')").is_empty());
    assert_eq!(
        a.try_run("SELECT once.snapshot('t', '{audit}')").expect_err("no SELECT").code,
        "42501"
    );
    for call in ["SELECT * FROM once.compare('s')", "SELECT once.drop_snapshot('s')"] {
        assert_eq!(b.try_run(call).expect_err("not theirs").code, "42501", "{call}");
    }
    let kept: String = s.get("SELECT kept_in::text FROM once.state_snapshot");
    assert_eq!(b.try_run(&format!("TABLE {kept}")).expect_err("not theirs").code, "42501");
    assert_eq!(
        s.get::<String>(&format!(
            "SELECT relowner::regrole::text FROM pg_class WHERE oid = '{kept}'::regclass"
        )),
        one
    );
    let dump = pg_once_tests::account::run(db.cluster().client("pg_dump").arg(db.name()));
    assert!(!dump.contains("state_") && dump.contains("CREATE TABLE public.orders"), "{dump}");
    a.run("SELECT once.drop_snapshot('s')");
    a.run("SELECT once.snapshot('s', '{orders}')");
    s.run("DROP EXTENSION pg_once");
}
