//! What the documentation shows works: every `sql` block of a page runs, in order, in a database that
//! has just got the extension; every `sql error` block raises the SQLSTATE its comment names.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use pg_once_tests::shared::{cluster, database};

/// The blocks of a page: what stands behind the three backquotes, and the text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = std::fs::read_to_string(&path).expect("a page of the documentation");
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((kind.to_owned(), body.join("\n")));
        }
    }
    found
}

/// Runs a block by psql, statement by statement; whether it went through, and what psql said.
fn run(database: &str, block: &str) -> (bool, String) {
    let mut psql = cluster()
        .client("psql")
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-d", database])
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql starts");
    psql.stdin.take().expect("piped").write_all(block.as_bytes()).expect("psql reads");
    let output = psql.wait_with_output().expect("psql ends");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The code that a block's comment promises: `-- 22023: ...`.
fn promised(block: &str) -> &str {
    let comment = block.split("-- ").nth(1).expect("an error block says its SQLSTATE");
    comment.split([':', ' ', '\n']).next().expect("a word")
}

fn check(page: &str) {
    let db = database();
    let name: String = db.session().get("SELECT current_database()::text");
    let (mut good, mut bad) = (0, 0);
    for (kind, block) in blocks(page) {
        let (went_through, said) = run_if_sql(&name, &kind, &block);
        match kind.as_str() {
            "sql" => {
                assert!(went_through, "{page}:\n{block}\n{said}");
                good += 1;
            }
            "sql error" => {
                let code = promised(&block);
                assert!(said.contains(&format!("ERROR:  {code}:")), "{page}:\n{block}\n{said}");
                bad += 1;
            }
            _ => {}
        }
    }
    assert!(good > 0, "{page} shows no SQL at all");
    println!("{page}: {good} blocks, {bad} errors");
}

fn run_if_sql(database: &str, kind: &str, block: &str) -> (bool, String) {
    if kind.starts_with("sql") { run(database, block) } else { (true, String::new()) }
}

#[test]
fn what_the_readme_shows_works() {
    check("README.md");
}

#[test]
fn what_the_reference_shows_works() {
    check("docs/reference.md");
}

#[test]
fn what_the_operations_page_shows_works() {
    check("docs/operations.md");
}

#[test]
fn what_the_page_on_keys_shows_works() {
    check("docs/keys.md");
}

#[test]
fn what_the_page_on_settings_shows_works() {
    check("docs/settings.md");
}

#[test]
fn what_the_page_on_the_double_tap_shows_works() {
    check("docs/double-tap.md");
}

#[test]
fn what_the_page_on_http_shows_works() {
    check("docs/http-idempotency.md");
}

#[test]
fn what_the_page_on_answers_shows_works() {
    check("docs/answers.md");
}

#[test]
fn what_the_page_on_effects_shows_works() {
    check("docs/effects.md");
}
