//! The SQL that a superuser runs at CREATE EXTENSION trusts nothing that somebody else may have made: `pgspot`
//! looks over every script, and no finding of it is ignored.

use std::path::Path;
use std::process::{Command, Output};

use crate::text::{files, root};
use pg_once_tests::tools;

/// What CREATE EXTENSION sets for a script: the control file's schema, and temporary objects last.
const PATH: &str = "SET search_path TO pg_catalog, pg_temp;\n";

fn pgspot(script: &Path) -> Output {
    let home = tools::path("PG_ONCE_PGSPOT");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("path.sql");
    std::fs::write(&path, PATH).expect("our folder");
    let mut command = Command::new("python3");
    command.arg("-B").arg(home.join("bin/pgspot")).env("PYTHONPATH", home);
    command.arg("--append").arg(path).arg(script).output().expect("python3 runs")
}

#[test]
fn no_script_trusts_what_somebody_may_have_made_beforehand() {
    let control = std::fs::read_to_string(root().join("pg_once.control")).expect("pg_once.control");
    assert!(control.contains("\nschema = 'pg_catalog'\n"), "it decides the path of the scripts");
    let scripts = files("sql", &["sql"]);
    assert!(!scripts.is_empty());
    for (path, _) in scripts {
        let output = pgspot(&root().join(&path));
        let said = String::from_utf8_lossy(&output.stdout);
        let clean = said.contains("TOTAL: Errors: 0 Warnings: 0 Unknown: 0");
        assert!(
            output.status.success() && clean,
            "{path}\n{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_script_that_does_is_spotted() {
    // The test above is worth something only if a fault shows.
    let folder = tempfile::tempdir().expect("a folder");
    for (fault, code) in [
        ("CREATE SCHEMA IF NOT EXISTS once", "PS010"),
        ("CREATE TABLE IF NOT EXISTS once.store_policy (a int)", "PS012"),
        ("CREATE OR REPLACE FUNCTION once.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "PS002"),
        (
            "CREATE FUNCTION once.f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
            "PS003",
        ),
        ("SET search_path TO once; SELECT now() > '2020-01-01'", "PS001"),
    ] {
        let script = folder.path().join("script.sql");
        std::fs::write(&script, format!("{fault};\n")).expect("our folder");
        let output = pgspot(&script);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(code), "{fault}\n{said}{}", String::from_utf8_lossy(&output.stderr));
    }
}
