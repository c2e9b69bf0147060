//! A log of messages, tables, and what a double tap says of a handler.

use pg_once_tests::failure::Failure;
use pg_once_tests::session::Session;

/// Messages of (id, key, amount), and two tables that handlers write to.
pub(crate) const SHOP: &str = "
    CREATE TABLE message (id int, key text, amount numeric);
    INSERT INTO message SELECT n, 'order-' || n, n * 1.50 FROM generate_series(1, 4) n;
    CREATE TABLE orders (id int PRIMARY KEY, total numeric, seen timestamptz, made_by text, times int DEFAULT 1);
    CREATE TABLE audit (what text)";

/// One message.
pub(crate) const ONE: &str = "CREATE TABLE message (id int, key text, amount numeric); INSERT INTO message VALUES (1, 'k', 1)";

/// What [`in_turn`] counts by.
pub(crate) const TURN: &str = "CREATE TABLE turn (n int); INSERT INTO turn VALUES (0)";

/// The body of a handler that runs a statement in one call alone; calls are counted from 1 over all passes.
pub(crate) fn in_turn(call: i32, statement: &str) -> String {
    format!("UPDATE turn SET n = n + 1; IF (SELECT n FROM turn) = {call} THEN {statement}; END IF")
}

/// Makes `handler(message)` with this body; `m` is the message.
pub(crate) fn handler(s: &mut Session, body: &str) {
    s.run(&format!(
        "CREATE OR REPLACE FUNCTION handler(m message) RETURNS void LANGUAGE plpgsql AS $$ BEGIN {body}; END $$"
    ));
}

/// The call, with more arguments.
pub(crate) fn call(watch: &str, more: &str) -> String {
    format!(
        "once.double_tap('SELECT * FROM message ORDER BY id', 'handler(message)', '{{{watch}}}'{more})"
    )
}

/// Each difference as one line: pass, relation, key, kind, column, before, after, message, its key; - for NULL.
pub(crate) fn lines(s: &mut Session, from: &str) -> Vec<String> {
    try_lines(s, from).unwrap_or_else(|failure| panic!("{from}\n{failure}"))
}

/// The same, or the error.
pub(crate) fn try_lines(s: &mut Session, from: &str) -> Result<Vec<String>, Failure> {
    s.try_column(&format!(
        "SELECT format('%s %s %s %s %s %s %s %s %s', coalesce(pass::text, '-'), relation, coalesce(primary_key, '-'), kind,
                       coalesce(column_name, '-'), coalesce(before, '-'), coalesce(after, '-'),
                       coalesce(message::text, '-'), coalesce(message_key, '-'))
           FROM {from}"
    ))
}

/// What a handler with this body changes in a table made by `table`.
pub(crate) fn tapped(s: &mut Session, watch: &str, more: &str) -> Vec<String> {
    lines(s, &call(watch, more))
}

/// The code of what it fails with.
#[track_caller]
pub(crate) fn refused(s: &mut Session, from: &str) -> Failure {
    try_lines(s, from).expect_err("it must be refused")
}
