//! Claims from real clients, each with its driver's own way of preparing, passing values and opening
//! transactions, on a connection of its own and behind a transaction pooler.

use std::path::{Path, PathBuf};
use std::process::Command;

use pg_once_tests::database::Database;
use pg_once_tests::pooler::Pooler;
use pg_once_tests::shared::database;
use pg_once_tests::{account, tools, warden};

/// What every driver must say. `prepared` tells whether the server had a prepared claim at last: where the
/// connection is the client's own it must, or the test would not be about prepared statements.
fn transcript(prepared: bool) -> String {
    format!(
        "claim true false
redelivered false
fails later true
error 22012
again true
savepoint true true false
first true true true true true true true true true true
second false false false false false false false false false false
prepared {prepared}
uuid true false
bigint true false
many b true order-1 false a true b false
outcome duplicate
"
    )
}

/// A copy of tests/drivers where the servers' user can read it.
fn programs() -> PathBuf {
    let place = warden::folder("d");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers");
    for file in std::fs::read_dir(source).expect("tests/drivers").flatten() {
        let copy = place.join(file.file_name());
        std::fs::copy(file.path(), &copy).expect("a readable file");
        account::hand_over(&copy);
    }
    place
}

/// Runs a program on a connection of its own and behind a pooler that has three connections.
fn both_ways(db: &Database<'_>, program: impl Fn() -> Command) {
    let mut s = db.session();
    s.claim("load");
    s.run("CREATE TABLE work (key text)");
    let pooler = Pooler::start(db.cluster(), 3);
    for (way, (folder, port)) in
        [("direct", (db.cluster().folder(), 5432)), ("pooled", pooler.place())]
    {
        s.run("TRUNCATE once.processed_events, work");
        let mut run = program();
        run.arg(folder).arg(port.to_string()).arg(db.name()).arg(way);
        assert_eq!(account::run(&mut run), transcript(way == "direct"), "{way}");
        assert_eq!(s.column::<String>("SELECT key FROM work"), ["order-1"], "{way}");
        // What the answers said is what is there: no claim of a transaction that went back, each once.
        let rows: i64 = s.get("SELECT count(*) FROM once.processed_events");
        assert_eq!(rows, 3 + 10 + 2 + 2, "{way}");
    }
}

#[test]
fn a_consumer_in_python_with_psycopg_claims_each_key_once() {
    let db = database();
    let place = programs();
    both_ways(&db, || {
        let mut python = account::command("python3");
        python.arg("-B").arg(place.join("from_python.py"));
        python.env("PYTHONPATH", tools::path("PG_ONCE_PSYCOPG"));
        python
    });
}

#[test]
fn a_consumer_in_javascript_with_node_pg_claims_each_key_once() {
    let db = database();
    let place = programs();
    both_ways(&db, || {
        let mut node = account::command(tools::path("PG_ONCE_NODE"));
        node.arg(place.join("from_node.js"));
        node.env("NODE_PATH", tools::path("PG_ONCE_NODE_MODULES"));
        node
    });
}

#[test]
fn a_consumer_in_java_with_jdbc_claims_each_key_once() {
    let db = database();
    let place = programs();
    let java = tools::path("PG_ONCE_JAVA");
    // Compiled first, because the driver looks for the socket's class by its name.
    let mut compile = account::command(&java);
    compile.args(["-m", "jdk.compiler/com.sun.tools.javac.Main", "-Xlint:all", "-Werror", "-d"]);
    account::run(compile.arg(&place).arg(place.join("FromJava.java")));
    let classes = format!("{}:{}", place.display(), tools::path("PG_ONCE_JDBC").display());
    both_ways(&db, || {
        let mut run = account::command(&java);
        run.args(["-cp", &classes, "FromJava"]);
        run
    });
}
