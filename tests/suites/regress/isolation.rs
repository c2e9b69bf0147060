//! The protocol in PostgreSQL's own notation for interleavings: every file of `tests/isolation/specs`, run by
//! `isolationtester` and compared with `tests/isolation/expected`. `PG_ONCE_ACCEPT=1` writes what came out over
//! what was expected, to be read before it is committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use pg_once_tests::shared::database;
use pg_once_tests::{account, tools};

/// In the order a reader may want.
const SPECS: [&str; 6] = ["winner", "snapshot", "expired", "no_wait", "bounded_wait", "batches"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("isolation")
}

/// Runs one; what it printed, complaints included.
fn run(spec: &str) -> String {
    let db = database();
    let input = fs::File::open(folder().join("specs").join(format!("{spec}.spec")));
    // Whoever has it can point it at a server of any major.
    let mut tester = account::command(tools::path("PG_ONCE_ISOLATIONTESTER"));
    let socket = db.cluster().folder().display();
    tester.arg(format!("host={socket} port=5432 user=postgres dbname={}", db.name()));
    // It would give up by itself after six minutes.
    tester.env("PGISOLATIONTIMEOUT", "60");
    let output =
        account::output(tester.stdin(input.expect("a readable file")).stderr(Stdio::piped()));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn interleaved_sessions_are_told_what_is_written_down() {
    let mut complaints = String::new();
    for spec in SPECS {
        let came = run(spec);
        let path = folder().join("expected").join(format!("{spec}.out"));
        if std::env::var_os("PG_ONCE_ACCEPT").is_some() {
            fs::write(&path, &came).expect("tests/isolation/expected is writable");
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if came != expected {
            complaints.push_str(&format!("--- {spec} differs; this came out:\n{came}\n"));
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
}

#[test]
fn every_spec_is_run_and_every_permutation_is_expected() {
    for (part, ending) in [("specs", ".spec"), ("expected", ".out")] {
        let mut names: Vec<String> = fs::read_dir(folder().join(part))
            .expect("a folder of tests/isolation")
            .flatten()
            .map(|file| file.file_name().to_string_lossy().replace(ending, ""))
            .collect();
        names.sort();
        let mut run = SPECS.map(str::to_owned);
        run.sort();
        assert_eq!(names, run, "{part}");
    }
    for spec in SPECS {
        let read = |part: &str, ending: &str| {
            let path = folder().join(part).join(format!("{spec}.{ending}"));
            fs::read_to_string(path).expect("a readable file")
        };
        let asked = read("specs", "spec").matches("\npermutation ").count();
        let answered = read("expected", "out").matches("\nstarting permutation: ").count();
        assert!(
            asked > 0 && asked == answered,
            "{spec}: {asked} permutations, {answered} expected"
        );
    }
}
