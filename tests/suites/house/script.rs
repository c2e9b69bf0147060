//! The SQL script and the library agree: every C function that the script names is there, and every
//! function of the library is named; every object has a comment; nothing trusts what it finds.

use std::collections::BTreeSet;

use crate::text::{files, root, word};

fn script() -> String {
    let control = std::fs::read_to_string(root().join("pg_once.control")).expect("pg_once.control");
    let version =
        control.split("default_version = '").nth(1).and_then(|rest| rest.split('\'').next());
    let name = format!("sql/pg_once--{}.sql", version.expect("a default version"));
    std::fs::read_to_string(root().join(name)).expect("the script of the default version")
}

/// `claim` for every `'MODULE_PATHNAME', 'claim_wrapper'` of the script.
fn named_in_the_script() -> BTreeSet<String> {
    script()
        .split("'MODULE_PATHNAME', '")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next()?.strip_suffix("_wrapper"))
        .map(str::to_owned)
        .collect()
}

/// The names of functions that stand after `#[pg_extern`.
fn exported_by_the_library() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in files("src", &["rs"]) {
        for after in text.split("#[pg_extern").skip(1) {
            let name = after.split("fn ").nth(1).expect("an attribute stands before a function");
            names.insert(name.chars().take_while(|c| word(*c)).collect());
        }
    }
    names
}

#[test]
fn the_script_and_the_library_name_the_same_functions() {
    let (script, library) = (named_in_the_script(), exported_by_the_library());
    assert!(!script.is_empty());
    assert_eq!(script, library, "left: the script, right: #[pg_extern] in src");
}

#[test]
fn every_object_of_the_script_has_a_comment() {
    let script = script();
    let statements: Vec<&str> = script.split(';').map(str::trim).collect();
    for kind in ["TABLE", "TYPE", "FUNCTION", "PROCEDURE", "VIEW", "SCHEMA"] {
        for after in script.split(&format!("\nCREATE {kind} ")).skip(1) {
            let name: String = after.chars().take_while(|c| word(*c) || *c == '.').collect();
            let comments = statements
                .iter()
                .filter(|s| s.starts_with(&format!("COMMENT ON {kind} {name}")))
                .count();
            let made = script.matches(&format!("\nCREATE {kind} {name}")).count();
            assert!(comments >= made.min(1) && comments >= 1, "{kind} {name} has no comment");
        }
    }
    let functions = script.matches("\nCREATE FUNCTION ").count();
    assert_eq!(
        script.matches("\nCOMMENT ON FUNCTION ").count(),
        functions,
        "one comment a function"
    );
}

#[test]
fn the_script_replaces_nothing_and_takes_nothing_over() {
    for (path, text) in files("sql", &["sql"]) {
        let statements: String =
            text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        let lower = statements.to_lowercase();
        for trust in [
            "or replace",
            "if not exists",
            "if exists",
            "security definer",
            "drop schema",
            "search_path",
        ] {
            assert!(!lower.contains(trust), "{path} has {trust}");
        }
        assert!(text.contains("\\quit"), "{path} can be run by hand by mistake");
    }
}

#[test]
fn every_function_of_the_script_says_that_it_is_unsafe_in_parallel_or_why_not() {
    for function in script().split("\nCREATE FUNCTION ").skip(1) {
        let body = function.split(';').next().expect("a statement");
        assert!(body.contains("PARALLEL "), "{}", body.lines().next().unwrap_or_default());
    }
}
