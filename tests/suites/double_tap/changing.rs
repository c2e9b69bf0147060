//! Handlers that change what there is to compare: tables, columns, children, functions, constraints. Whatever cannot be
//! followed is an error; a difference is never lost because a table is not what it was when the run began.

use pg_once_tests::shared::database;

use crate::scene::{SHOP, TURN, call, handler, in_turn, lines, refused, tapped};

#[test]
fn a_column_that_the_first_pass_added_is_compared() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    handler(
        &mut s,
        "ALTER TABLE orders ADD COLUMN IF NOT EXISTS tries int DEFAULT 0;
         INSERT INTO orders (id) VALUES (m.id) ON CONFLICT (id) DO UPDATE SET tries = orders.tries + 1",
    );
    assert_eq!(
        tapped(&mut s, "orders", ""),
        (1..=4)
            .map(|n| format!("2 orders {n} changed tries 0 1 {n} order-{n}"))
            .collect::<Vec<_>>()
    );
    // One that was dropped is gone, and no longer asked for.
    handler(
        &mut s,
        "ALTER TABLE orders DROP COLUMN IF EXISTS seen; INSERT INTO orders (id) VALUES (m.id) ON CONFLICT DO NOTHING",
    );
    assert!(tapped(&mut s, "orders", "").is_empty());
}

#[test]
fn a_table_that_came_to_inherit_from_a_watched_one_is_watched_too() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE TABLE log (what text)");
    handler(
        &mut s,
        "CREATE TABLE IF NOT EXISTS log_today () INHERITS (log); INSERT INTO log_today VALUES (m.key)",
    );
    let found = tapped(&mut s, "log", "");
    assert_eq!(found.len(), 4, "{found:?}");
    // One that came in the second pass cannot be compared.
    s.run(TURN);
    handler(
        &mut s,
        &in_turn(5, "CREATE TABLE log_late () INHERITS (log); INSERT INTO log_late VALUES ('x')"),
    );
    assert_eq!(refused(&mut s, &call("log", "")).code, "55000");
}

#[test]
fn a_table_that_took_a_watched_ones_name_is_no_substitute() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run(TURN);
    handler(
        &mut s,
        &("INSERT INTO audit VALUES (m.key);".to_owned()
            + &in_turn(8, "ALTER TABLE audit RENAME TO audit_old; CREATE TABLE audit (what text)")),
    );
    assert_eq!(refused(&mut s, &call("audit", "")).code, "55000");
    // Made anew in the first pass: what was to be watched is gone.
    handler(&mut s, "DROP TABLE audit; CREATE TABLE audit (what text)");
    assert_eq!(refused(&mut s, &call("audit", "")).code, "42P01");
}

#[test]
fn a_key_that_the_second_pass_dropped_is_an_error() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run(TURN);
    // Two rows of one key, both joined to the row of before, and both equal to it.
    handler(
        &mut s,
        &(in_turn(
            5,
            "ALTER TABLE orders DROP CONSTRAINT orders_pkey; UPDATE orders SET times = times; INSERT INTO orders (id) VALUES (1)",
        ) + "; IF (SELECT n FROM turn) = 1 THEN INSERT INTO orders (id) VALUES (1); END IF"),
    );
    assert_eq!(refused(&mut s, &call("orders", "")).code, "55000");
}

#[test]
fn a_handler_that_a_call_could_mistake_for_another_is_refused() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE FUNCTION twin(m jsonb, more text DEFAULT 'x') RETURNS void LANGUAGE sql AS 'INSERT INTO audit VALUES (more)';
           CREATE FUNCTION twin(m jsonb) RETURNS void LANGUAGE sql AS ''");
    let from = "once.double_tap('TABLE message', 'twin(jsonb,text)', '{audit}')";
    assert_eq!(refused(&mut s, from).code, "42725");
    s.run("DROP FUNCTION twin(jsonb)");
    assert_eq!(lines(&mut s, from).len(), 4);
}

#[test]
fn constraints_of_others_do_not_disturb() {
    let db = database();
    let (mut owner, mut other) = (db.session(), db.session());
    owner.run(SHOP);
    handler(&mut owner, "INSERT INTO audit VALUES (m.key)");
    // In a schema and a temporary schema of somebody else, and of a name that two tables use.
    owner.run("CREATE SCHEMA hidden; CREATE TABLE hidden.t (a int CONSTRAINT far UNIQUE DEFERRABLE INITIALLY DEFERRED);
               CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1);
               CREATE TABLE c1 (a int CONSTRAINT same REFERENCES p DEFERRABLE INITIALLY DEFERRED);
               CREATE TABLE c2 (a int CONSTRAINT same REFERENCES p);
               DROP ROLE IF EXISTS tap_stranger; CREATE ROLE tap_stranger;
               GRANT USAGE ON SCHEMA once TO tap_stranger; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA once TO tap_stranger;
               GRANT SELECT, INSERT ON audit, message TO tap_stranger");
    other.run("CREATE TEMP TABLE theirs (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    assert_eq!(tapped(&mut owner, "audit", "").len(), 4);
    owner.run("SET ROLE tap_stranger");
    assert_eq!(tapped(&mut owner, "audit", "").len(), 4);
    owner.run("RESET ROLE; DROP OWNED BY tap_stranger; DROP ROLE tap_stranger");
}
