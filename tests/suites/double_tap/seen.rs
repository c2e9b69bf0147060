//! Which tables are seen, and how their rows are told apart. What cannot be seen whole is an error.

use pg_once_tests::shared::database;

use crate::scene::{SHOP, TURN, call, handler, in_turn, refused, tapped};

#[test]
fn a_partitioned_table_is_one_table_and_a_row_that_moves_is_a_row_that_changed() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE TABLE part (id int, day int, n int DEFAULT 0, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
           CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
           CREATE TABLE part_2 (n int, day int NOT NULL, gone int, id int NOT NULL);
           ALTER TABLE part_2 DROP COLUMN gone; ALTER TABLE part_2 ALTER n SET DEFAULT 0;
           ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES FROM (10) TO (100);
           INSERT INTO part VALUES (1, 5), (2, 15)");
    handler(&mut s, "IF m.id = 1 THEN UPDATE part SET n = n + 1; END IF");
    let both = ["2 part (1,5) changed n 1 2 1 order-1", "2 part (2,15) changed n 1 2 1 order-1"];
    assert_eq!(tapped(&mut s, "part", ""), both);
    // Each row once, however often it is asked for.
    assert_eq!(tapped(&mut s, "part,part_1,part_2,part", ""), both);
    assert_eq!(tapped(&mut s, "part_2", ""), ["2 part_2 (2,15) changed n 1 2 1 order-1"]);
    // Without the key that holds the day, the same row in another partition is what it was.
    s.run(
        "CREATE TABLE moves (id int, day int) PARTITION BY RANGE (day);
           CREATE TABLE moves_1 PARTITION OF moves FOR VALUES FROM (0) TO (10);
           CREATE TABLE moves_2 PARTITION OF moves FOR VALUES FROM (10) TO (100);
           INSERT INTO moves VALUES (1, 5)",
    );
    handler(&mut s, "IF m.id = 1 THEN UPDATE moves SET day = 24 - day; END IF");
    assert!(tapped(&mut s, "moves", ", ignore => '{moves.day}'").is_empty());
    assert_eq!(
        tapped(&mut s, "moves", ""),
        ["2 moves - inserted - - (1,5) 1 order-1", "2 moves - deleted - (1,19) - - -"]
    );
}

#[test]
fn tables_that_inherit_are_compared_each_by_itself_with_their_own_columns() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE TABLE base (id int PRIMARY KEY, n int DEFAULT 0);
           CREATE TABLE heir (extra int DEFAULT 0, PRIMARY KEY (id)) INHERITS (base);
           CREATE TABLE both_ (PRIMARY KEY (id)) INHERITS (heir);
           INSERT INTO base VALUES (1); INSERT INTO heir (id) VALUES (1); INSERT INTO both_ (id) VALUES (1)");
    handler(
        &mut s,
        "IF m.id = 1 THEN UPDATE base SET n = n + 1; UPDATE heir SET extra = extra + 1; END IF",
    );
    assert_eq!(
        tapped(&mut s, "base,heir", ""),
        [
            "2 base 1 changed n 1 2 1 order-1",
            "2 both_ 1 changed extra 1 2 1 order-1",
            "2 both_ 1 changed n 1 2 1 order-1",
            "2 heir 1 changed extra 1 2 1 order-1",
            "2 heir 1 changed n 1 2 1 order-1",
        ]
    );
}

#[test]
fn a_table_without_a_key_is_a_multiset() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE TABLE bag (a int, b numeric); INSERT INTO bag VALUES (1, 1.0), (1, 1.00), (NULL, NULL), (NULL, NULL)");
    // The same rows in another order, at other places.
    handler(
        &mut s,
        "CREATE TEMP TABLE b AS SELECT a, b * 1.0 AS b FROM bag ORDER BY random(); DELETE FROM bag; INSERT INTO bag SELECT * FROM b; DROP TABLE b",
    );
    assert!(tapped(&mut s, "bag", "").is_empty());
    handler(
        &mut s,
        "IF m.id = 4 THEN INSERT INTO bag VALUES (NULL, NULL); DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE a = 1); END IF",
    );
    assert_eq!(
        tapped(&mut s, "bag", ""),
        ["2 bag - inserted - - (,) 4 order-4", "2 bag - deleted - (1,1.00) - - -"]
    );
    // A key of which a part is ignored is none.
    s.run("CREATE TABLE keyed (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), key text)");
    handler(&mut s, "DELETE FROM keyed WHERE key = m.key; INSERT INTO keyed (key) VALUES (m.key)");
    assert_eq!(tapped(&mut s, "keyed", "").len(), 8);
    assert!(tapped(&mut s, "keyed", ", ignore => '{id}'").is_empty());
}

#[test]
fn dropped_columns_long_values_generated_columns_triggers_and_foreign_keys_do_not_disturb() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE TABLE parent (id int PRIMARY KEY);
           INSERT INTO parent SELECT generate_series(1, 4);
           CREATE TABLE t (gone int, id int PRIMARY KEY REFERENCES parent, doc text, twice int GENERATED ALWAYS AS (id * 2) STORED, again int);
           ALTER TABLE t DROP COLUMN gone; ALTER TABLE t ALTER doc SET STORAGE EXTERNAL;
           CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.again := coalesce(OLD.again, 0) + 1; RETURN NEW; END $$;
           CREATE TRIGGER touch BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION touch()");
    let same = "INSERT INTO t (id, doc) VALUES (m.id, repeat('long ', 10000)) ON CONFLICT (id)";
    handler(&mut s, &format!("{same} DO NOTHING"));
    assert!(tapped(&mut s, "t,parent", ", shuffle => true").is_empty());
    // What a trigger does is what the handler did.
    handler(&mut s, &format!("{same} DO UPDATE SET doc = excluded.doc"));
    let found = tapped(&mut s, "t,parent", "");
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(found[0], "2 t 1 changed again - 1 1 order-1");
    assert!(tapped(&mut s, "t", ", ignore => '{public.t.again}'").is_empty());
    // A long value that changed in its middle has.
    handler(
        &mut s,
        &format!("{same} DO UPDATE SET doc = overlay(t.doc placing 'X' from 20000 + t.again * 7)"),
    );
    assert_eq!(tapped(&mut s, "t", ", ignore => '{again}'").len(), 4);
    // A row that was only locked, by a key that refers to it too, is none.
    handler(&mut s, "PERFORM FROM parent FOR UPDATE");
    assert!(tapped(&mut s, "parent,t", "").is_empty());
}

#[test]
fn what_is_no_table_or_cannot_be_compared_is_an_error() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    handler(&mut s, "NULL");
    s.run("CREATE VIEW v AS SELECT * FROM orders; CREATE MATERIALIZED VIEW mv AS SELECT * FROM orders; CREATE SEQUENCE sq");
    for relation in ["v", "mv", "sq", "orders_pkey"] {
        let failure = refused(&mut s, &call(relation, ""));
        assert_eq!(failure.code, "42809", "{relation}: {failure}");
        assert!(failure.message.contains(relation), "{failure}");
    }
    assert_eq!(refused(&mut s, &call("4294967000", "")).code, "42P01");
    assert_eq!(refused(&mut s, &call("", "")).code, "22023");
    for ignore in ["nothing", "orders.nothing", "audit.total", "other.orders.total", "a.b.c.d"] {
        let failure =
            refused(&mut s, &call("orders,audit", &format!(", ignore => '{{{ignore}}}'")));
        assert_eq!(failure.code, "42703", "{failure}");
        assert!(failure.message.contains(ignore), "{failure}");
    }
    assert_eq!(refused(&mut s, &call("audit", ", ignore => '{what}'")).code, "42809");
    let mut other = db.session();
    other.run("CREATE TEMP TABLE mine (a int)");
    let theirs: String = other.get("SELECT 'mine'::regclass::oid::text");
    let failure = refused(&mut s, &call(&theirs, ""));
    assert_eq!(
        (failure.code.as_str(), failure.detail.contains("another session")),
        ("42809", true),
        "{failure}"
    );
    // One's own can be watched.
    s.run("CREATE TEMP TABLE mine (a int)");
    handler(&mut s, "INSERT INTO mine VALUES (m.id)");
    assert_eq!(tapped(&mut s, "mine", "").len(), 4);
    // Rows that are replaced as a whole leave nothing to compare with.
    for statement in
        ["TRUNCATE audit", "ALTER TABLE audit ADD more int; ALTER TABLE audit DROP more"]
    {
        handler(&mut s, statement);
        let failure = refused(&mut s, &call("audit", ""));
        assert_eq!(failure.code, "55000", "{statement} {failure}");
    }
    s.run("CREATE TABLE p (a int) PARTITION BY LIST (a); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); INSERT INTO p VALUES (1);
           CREATE TABLE p2 (a int); INSERT INTO p2 VALUES (2)");
    s.run(TURN);
    for change in [
        "DROP TABLE p1",
        "ALTER TABLE p DETACH PARTITION p1",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2)",
    ] {
        handler(&mut s, &in_turn(5, change));
        assert_eq!(refused(&mut s, &call("p", "")).code, "55000", "{change}");
    }
}
