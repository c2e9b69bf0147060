//! The page docs/double-tap.md, run as it stands: from psql and pg_restore, as a CI job, from Python and Node. Its SQL is run
//! by the suite `regress`.

use std::path::Path;
use std::process::Command;

use pg_once_tests::database::Database;
use pg_once_tests::shared::database;
use pg_once_tests::{account, tools, warden};

/// The blocks of one language.
fn blocks(language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/double-tap.md");
    let text = std::fs::read_to_string(page).expect("the page");
    let fence = format!("```{language}");
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == fence {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push(body.join("\n"));
        }
    }
    assert!(!found.is_empty(), "the page has no block of {language}");
    found
}

/// A database with what the page's first two blocks make.
fn prepared() -> Database<'static> {
    let db = database();
    for block in &blocks("sql")[..2] {
        db.session().run(block);
    }
    db
}

/// Points a program at the database, by the variables that every client knows.
fn pointed(command: &mut Command, db: &Database<'_>, handler: &str) {
    let server = db.cluster().server();
    let path = format!("{}:{}", server.bin.display(), std::env::var("PATH").unwrap_or_default());
    let folder = warden::folder("t");
    command.current_dir(&folder).env("PATH", path).env("PGHOST", db.cluster().folder());
    command.env("PGPORT", "5432").env("PGUSER", "postgres").env("PGDATABASE", db.name());
    command.env("HANDLER", handler);
}

/// What a program says with the faulty handler, which it must end with a failure for, and that it is content with the
/// mended one.
fn tells_apart(db: &Database<'_>, program: impl Fn() -> Command) -> String {
    let mut faulty = program();
    pointed(&mut faulty, db, "handle(paid)");
    let output = account::output(&mut faulty);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let mut mended = program();
    pointed(&mut mended, db, "handle_once(paid)");
    assert_eq!(account::run(&mut mended), "");
    assert_eq!(db.session().get::<i64>("SELECT count(*) FROM invoice"), 0);
    said
}

fn shell(script: &str) -> Command {
    let mut sh = account::command("sh");
    sh.args(["-e", "-c", script]);
    sh
}

#[test]
fn a_copy_by_pg_restore_gives_the_verdict() {
    let db = prepared();
    let [script] = &blocks("sh")[..] else { panic!("one shell script") };
    // Tests run at the same time, and databases are the server's.
    let mut run = shell(&script.replace("copy", &format!("copy_{}", db.name())));
    pointed(&mut run, &db, "");
    let said = account::run(&mut run);
    assert!(said.starts_with("READY: 100 messages, delivered again, and twice more"), "{said}");
}

#[test]
fn the_ci_job_fails_on_any_row() {
    let db = prepared();
    let [job] = &blocks("yaml")[..] else { panic!("one job") };
    let run = job.split("run: |\n").nth(1).expect("a step that runs");
    let said = tells_apart(&db, || shell(run));
    assert_eq!(said.lines().filter(|line| line.starts_with("2|")).count(), 200, "{said}");
    assert!(said.contains("3|invoice|1|changed|sent_at|"), "{said}");
}

#[test]
fn the_program_in_python_tells_a_faulty_handler_from_a_mended_one() {
    let db = prepared();
    let [program] = &blocks("python")[..] else { panic!("one program") };
    let said = tells_apart(&db, || {
        let mut python = account::command("python3");
        python.arg("-B").arg("-c").arg(program);
        python.env("PYTHONPATH", tools::path("PG_ONCE_PSYCOPG"));
        python
    });
    assert!(said.contains("journal None inserted None None invoice for 7 order-7:paid"), "{said}");
}

#[test]
fn the_program_for_node_tells_a_faulty_handler_from_a_mended_one() {
    let db = prepared();
    let [program] = &blocks("js")[..] else { panic!("one program") };
    let said = tells_apart(&db, || {
        let mut node = account::command(tools::path("PG_ONCE_NODE"));
        node.arg("-e").arg(program);
        node.env("NODE_PATH", tools::path("PG_ONCE_NODE_MODULES"));
        node
    });
    assert!(said.contains("journal null inserted null null invoice for 7 order-7:paid"), "{said}");
}
