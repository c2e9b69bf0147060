//! Tables whose rows are elsewhere: nothing says what they were after the first pass, so watching one is an error, also as a
//! part of a table that can be watched.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

use crate::scene::{SHOP, TURN, call, handler, in_turn, lines, refused, tapped, try_lines};

/// A server that foreign tables can be made of without any extension, and that nobody can read.
const NOWHERE: &str =
    "CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing";

/// Refused as what cannot be seen, with the name of the table to blame.
#[track_caller]
fn unseen(s: &mut Session, watch: &str, blamed: &str, why: &str) {
    let snapshot = format!("once.snapshot('s', '{{{watch}}}')");
    let report = format!("SELECT {}", call(watch, "")).replace("double_tap(", "double_tap_report(");
    let failures = [
        refused(s, &call(watch, "")),
        s.try_run(&report).expect_err("a report of it is refused"),
        s.try_run(&format!("SELECT {snapshot}")).expect_err("a snapshot of it is refused"),
    ];
    for failure in failures {
        assert_eq!(failure.code, "42809", "{watch}: {failure}");
        assert!(failure.message.contains(blamed), "{watch}: {failure}");
        assert!(failure.to_string().contains(why), "{watch}: {failure}");
    }
}

#[test]
fn a_foreign_table_is_an_error_by_itself_as_a_partition_at_any_depth_and_as_an_heir() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run(NOWHERE);
    handler(&mut s, "NULL");
    s.run("CREATE FOREIGN TABLE far (id int, n int) SERVER nowhere;
           CREATE TABLE part (id int, day int) PARTITION BY RANGE (day);
           CREATE TABLE part_near PARTITION OF part FOR VALUES FROM (0) TO (10);
           CREATE FOREIGN TABLE part_far PARTITION OF part FOR VALUES FROM (10) TO (20) SERVER nowhere;
           CREATE TABLE deep (id int, day int) PARTITION BY RANGE (day);
           CREATE TABLE deep_1 PARTITION OF deep FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
           CREATE FOREIGN TABLE deep_far PARTITION OF deep_1 FOR VALUES FROM (0) TO (10) SERVER nowhere;
           CREATE TABLE base (id int PRIMARY KEY);
           CREATE TABLE heir () INHERITS (base);
           CREATE FOREIGN TABLE heir_far () INHERITS (heir) SERVER nowhere");
    let itself = "foreign table";
    unseen(&mut s, "far", "far", itself);
    unseen(&mut s, "audit,far", "far", itself);
    unseen(&mut s, "part", "part", "foreign partition");
    unseen(&mut s, "deep", "deep", "foreign partition");
    unseen(&mut s, "base", "heir_far", itself);
    unseen(&mut s, "heir", "heir_far", itself);
    // What is here of them can be watched by itself.
    assert!(tapped(&mut s, "part_near", "").is_empty());
    s.run(
        "ALTER FOREIGN TABLE heir_far NO INHERIT heir; ALTER TABLE part DETACH PARTITION part_far",
    );
    assert!(tapped(&mut s, "base,part", "").is_empty());
}

#[test]
fn a_foreign_part_that_the_handler_made_is_an_error_whichever_pass_it_came_in() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run(NOWHERE);
    s.run(
        "CREATE TABLE part (id int, day int) PARTITION BY RANGE (day);
           CREATE TABLE base (id int)",
    );
    s.run(TURN);
    let made = [
        (
            "part",
            "CREATE FOREIGN TABLE part_far PARTITION OF part FOR VALUES FROM (10) TO (20) SERVER nowhere",
        ),
        ("base", "CREATE FOREIGN TABLE heir_far () INHERITS (base) SERVER nowhere"),
    ];
    for (watch, statement) in made {
        for (message, code) in [(1, "42809"), (5, "55000")] {
            handler(&mut s, &in_turn(message, statement));
            assert_eq!(refused(&mut s, &call(watch, "")).code, code, "{statement}");
        }
    }
}

#[test]
fn a_table_of_another_server_is_an_error_where_it_can_be_read_as_well() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    if let Err(failure) = s.try_run("CREATE EXTENSION postgres_fdw") {
        // Debian's servers have it, and those that are got here.
        println!("this server has no postgres_fdw: {failure}");
        assert_eq!(failure.code, "0A000");
        return;
    }
    s.run("DO $$ BEGIN EXECUTE format('CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
                                      split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database()); END $$;
           CREATE USER MAPPING FOR CURRENT_USER SERVER here;
           CREATE FOREIGN TABLE far_audit (what text) SERVER here OPTIONS (table_name 'audit');
           INSERT INTO audit VALUES ('there')");
    assert_eq!(s.get::<String>("SELECT what FROM far_audit"), "there");
    handler(&mut s, "INSERT INTO far_audit VALUES (m.key)");
    unseen(&mut s, "far_audit", "far_audit", "foreign table");
    // The handler may write to it: the other session's transaction is rolled back too. What it holds is told of no table
    // here, nor is it named among those that were written to.
    assert!(try_lines(&mut s, &call("orders", "")).is_ok_and(|found| found.is_empty()));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM audit"), 1);
    // And as an heir of a table that is watched.
    s.run("CREATE TABLE base (what text); ALTER FOREIGN TABLE far_audit INHERIT base");
    unseen(&mut s, "base", "far_audit", "foreign table");
    s.run("SELECT once.snapshot('s', '{audit}')");
    assert!(lines(&mut s, "once.compare('s')").is_empty());
}
