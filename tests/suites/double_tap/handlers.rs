//! Handlers: functions and procedures, of a row or of jsonb; each message as if it came in a transaction of its own.

use pg_once_tests::shared::database;

use crate::scene::{SHOP, call, handler, lines, refused, tapped};

#[test]
fn functions_and_procedures_take_a_row_or_jsonb() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE SCHEMA \"Odd\"; CREATE TYPE \"Odd\".\"Msg\" AS (\"Amount\" numeric, id int);
           CREATE FUNCTION by_row(m message) RETURNS SETOF int LANGUAGE sql AS 'INSERT INTO audit VALUES (m.key) RETURNING 1';
           CREATE FUNCTION by_json(m jsonb, more text DEFAULT 'x') RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit VALUES (m->>'key'); RETURN m; END $$;
           CREATE PROCEDURE \"Odd\".\"By\"(m \"Odd\".\"Msg\") LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit VALUES ('order-' || m.id); END $$;
           CREATE PROCEDURE proc_json(INOUT m jsonb) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit VALUES (m->>'key'); END $$");
    let log = "SELECT * FROM message ORDER BY id";
    // Columns are matched by name, not by place; what the row type does not have is the key's business.
    let odd = "SELECT key, id, amount AS \"Amount\" FROM message ORDER BY id -- ; done\n;  ";
    for (log, handler) in [
        (log, "by_row(message)"),
        ("SELECT amount, id, key FROM message ORDER BY id", "by_row(message)"),
        ("SELECT m FROM message m ORDER BY id", "by_row(message)"),
        ("TABLE message ORDER BY id;", "by_json(jsonb,text)"),
        ("VALUES (1, 'order-1')", "by_json(jsonb,text)"),
        ("SELECT key FROM message", "proc_json(jsonb)"),
        (odd, "\"Odd\".\"By\"(\"Odd\".\"Msg\")"),
    ] {
        let log = log.replace('\'', "''");
        let found = lines(&mut s, &format!("once.double_tap('{log}', '{handler}', '{{audit}}')"));
        let expected = if log.starts_with("VALUES") { 1 } else { 4 };
        assert_eq!(found.len(), expected, "{log} {handler}: {found:?}");
    }
    // Messages are those of the log as it was, whatever the handler does to it.
    handler(&mut s, "DELETE FROM message; INSERT INTO audit VALUES (m.key)");
    assert_eq!(tapped(&mut s, "audit", "").len(), 4);
    s.run("DELETE FROM message");
    let report: String = s
        .get(&format!("SELECT {}", call("audit", "").replace("double_tap(", "double_tap_report(")));
    assert!(report.contains("The log is empty"), "{report}");
}

#[test]
fn what_cannot_take_a_message_or_is_no_log_is_refused_before_anything_runs() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE FUNCTION nothing() RETURNS void LANGUAGE sql AS ''; CREATE FUNCTION two(a jsonb, b int) RETURNS void LANGUAGE sql AS '';
           CREATE FUNCTION number(a int) RETURNS void LANGUAGE sql AS ''; CREATE FUNCTION many(VARIADIC a jsonb[]) RETURNS void LANGUAGE sql AS '';
           CREATE FUNCTION ok(a jsonb) RETURNS void LANGUAGE sql AS ''; CREATE FUNCTION typed(m message) RETURNS void LANGUAGE sql AS ''");
    for (log, handler, code) in [
        ("SELECT 1 AS id", "nothing()", "22023"),
        ("SELECT 1 AS id", "two(jsonb,int)", "22023"),
        ("SELECT 1 AS id", "number(int)", "22023"),
        ("SELECT 1 AS id", "many(jsonb[])", "22023"),
        ("SELECT 1 AS id", "sum(int)", "22023"),
        ("SELECT 1 AS id", "typed(message)", "42703"),
        ("SELECT", "ok(jsonb)", "22023"),
        ("", "ok(jsonb)", "22023"),
        ("SELECT 1; SELECT 2", "ok(jsonb)", "22023"),
        ("SELECT 1) q; DELETE FROM orders; SELECT (1", "ok(jsonb)", "42601"),
        ("DELETE FROM orders", "ok(jsonb)", "22023"),
        ("SELECT * FROM nowhere", "ok(jsonb)", "42P01"),
        ("SELECT nothing", "ok(jsonb)", "42703"),
    ] {
        let failure =
            refused(&mut s, &format!("once.double_tap('{log}', '{handler}', '{{orders}}')"));
        assert_eq!(failure.code, code, "{log} {handler}: {failure}");
    }
    for null in [
        "NULL, 'ok(jsonb)', '{orders}'",
        "'SELECT 1', NULL, '{orders}'",
        "'SELECT 1', 'ok(jsonb)', NULL",
        "'SELECT 1', 'ok(jsonb)', '{NULL}'",
        "'SELECT 1', 'ok(jsonb)', '{orders}', '{NULL}'",
    ] {
        assert_eq!(refused(&mut s, &format!("once.double_tap({null})")).code, "22004", "{null}");
    }
    let earlier = "once.double_tap('SELECT 1 AS id', 'ok(jsonb)', '{orders}', later => '-1 s')";
    assert_eq!(refused(&mut s, earlier).code, "22023");
}

#[test]
fn a_handler_that_raises_stops_the_run_with_the_message_and_its_own_error() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE TABLE once_only (id int PRIMARY KEY)");
    handler(&mut s, "INSERT INTO orders VALUES (m.id); INSERT INTO audit VALUES ('x')");
    let failure = refused(&mut s, &call("orders,audit", ""));
    assert_eq!(failure.code, "OC005");
    assert_eq!(failure.message, "the handler failed on message 1 of pass 2");
    assert!(failure.detail.starts_with("Key order-1. 23505: duplicate key value"), "{failure}");
    assert!(failure.detail.contains("PL/pgSQL function handler(message)"), "{failure}");
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM orders") + s.get::<i64>("SELECT count(*) FROM audit"),
        0
    );
    handler(
        &mut s,
        "IF m.id = 3 THEN RAISE EXCEPTION 'no stock' USING ERRCODE = 'SH001', DETAIL = 'none left'; END IF",
    );
    // Whoever catches it goes on as if nothing had been run, in the same transaction.
    s.run("BEGIN; INSERT INTO audit VALUES ('before')");
    s.run(&format!(
        "DO $$ BEGIN PERFORM * FROM {}; EXCEPTION WHEN SQLSTATE 'OC005' THEN INSERT INTO audit VALUES (SQLERRM); END $$",
        call("orders", "")
    ));
    assert_eq!(
        s.column::<String>("SELECT what FROM audit"),
        ["before", "the handler failed on message 3 of pass 1"]
    );
    assert!(s.get::<bool>("SELECT now() <= clock_timestamp() AND current_setting('application_name') NOT LIKE 'pg_once%'"));
    s.run("COMMIT");
    let failure = refused(&mut s, &call("orders", ""));
    assert!(failure.detail.starts_with("Key order-3. SH001: no stock\nnone left"), "{failure}");
    s.run("CREATE PROCEDURE commits(m message) LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$");
    let failure =
        refused(&mut s, "once.double_tap('TABLE message', 'commits(message)', '{orders}')");
    assert_eq!(failure.code, "2D000");
    assert!(failure.hint.contains("once.snapshot()"), "{failure}");
}

#[test]
fn a_message_has_what_a_transaction_has_of_its_own() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    // Its time, a later one with each message; SET LOCAL ends with it; what is deferred has its turn.
    s.run("CREATE TABLE seen (id int, at timestamptz, local text);
           CREATE TABLE child (id int PRIMARY KEY, parent int NOT NULL);
           CREATE TABLE parent (id int PRIMARY KEY);
           ALTER TABLE child ADD FOREIGN KEY (parent) REFERENCES parent DEFERRABLE INITIALLY DEFERRED");
    handler(
        &mut s,
        "INSERT INTO seen VALUES (m.id, now(), coalesce(current_setting('my.local', true), ''));
         SET LOCAL my.local = 'left over';
         INSERT INTO child VALUES (m.id, m.id) ON CONFLICT DO NOTHING; INSERT INTO parent VALUES (m.id) ON CONFLICT DO NOTHING",
    );
    tapped(&mut s, "child,parent", ", keep => true");
    assert_eq!(s.get::<i64>("SELECT count(DISTINCT at) FROM seen"), 8);
    assert!(s.get::<bool>(
        "SELECT bool_and(local = '') AND array_agg(id ORDER BY at) = '{1,2,3,4,1,2,3,4}' FROM seen"
    ));
    assert!(s.get::<bool>("SELECT min(b.at) - max(a.at) BETWEEN '25:01:01' AND '25:03:00' FROM (SELECT at FROM seen ORDER BY at LIMIT 4) a, (SELECT at FROM seen ORDER BY at DESC LIMIT 4) b"));
    // A violation is the message's that made it.
    handler(
        &mut s,
        "INSERT INTO child VALUES (100 + m.id, CASE m.id WHEN 2 THEN 77 ELSE m.id END)",
    );
    let failure = refused(&mut s, &call("child", ""));
    assert_eq!(failure.message, "the handler failed on message 2 of pass 1", "{failure}");
    assert!(failure.detail.contains("23503"), "{failure}");
}

#[test]
fn a_message_is_told_also_where_the_handler_works_in_savepoints() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    handler(
        &mut s,
        "BEGIN INSERT INTO orders VALUES (m.id, 0); EXCEPTION WHEN unique_violation THEN UPDATE orders SET total = total + 1 WHERE id = m.id; END",
    );
    let found = tapped(&mut s, "orders", "");
    assert_eq!(found[2], "2 orders 3 changed total 0 1 3 order-3");
    // A savepoint that failed has marked the row since, and did not write it.
    handler(
        &mut s,
        "IF m.id = 1 THEN INSERT INTO orders VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET total = orders.total + 1; END IF;
         IF m.id = 2 THEN BEGIN UPDATE orders SET total = 9; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END; END IF",
    );
    assert_eq!(tapped(&mut s, "orders", ""), ["2 orders 1 changed total 0 1 1 order-1"]);
    // As often as that the server has numbers for pairs of commands that are like those of other messages' commands.
    handler(
        &mut s,
        "INSERT INTO orders VALUES (m.id, 0) ON CONFLICT (id) DO UPDATE SET total = orders.total + 1;
         FOR n IN 1..5 LOOP
             BEGIN UPDATE orders SET total = 9; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END;
         END LOOP",
    );
    let expected = (1..=4).map(|n| format!("2 orders {n} changed total 0 1 {n} order-{n}"));
    assert_eq!(tapped(&mut s, "orders", ""), expected.collect::<Vec<_>>());
}
