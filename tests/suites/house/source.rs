//! How source files look: opened by what they are, short, unsafe only where it may be.

use crate::text::{code, files, root, words};

#[test]
fn every_rust_file_opens_by_saying_what_it_is() {
    for (path, text) in files("src", &["rs"]).into_iter().chain(files("tests", &["rs"])) {
        assert!(text.starts_with("//! "), "{path} does not open with //!");
        let first: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(first.len() > 30, "{path} says too little about itself: {first}");
    }
}

#[test]
fn no_source_file_is_longer_than_400_lines() {
    for (path, text) in files("", &["rs", "sql", "sh", "py"]) {
        // What was released stays as it was; a script is one file by nature.
        if path.starts_with("sql/") {
            continue;
        }
        let lines = text.lines().count();
        assert!(lines <= 400, "{path} has {lines} lines: would a reader find two rooms in it?");
    }
}

#[test]
fn unsafe_code_is_in_src_pg_alone() {
    for (path, text) in files("src", &["rs"]).into_iter().chain(files("tests", &["rs"])) {
        let unsafe_words = words(&code(&text)).filter(|word| *word == "unsafe").count();
        assert!(
            unsafe_words == 0 || path.starts_with("src/pg/"),
            "{path} has {unsafe_words} x unsafe"
        );
    }
}

#[test]
fn every_unsafe_block_has_a_reason_near_it() {
    // clippy asks for it at each block; this one counts what clippy is told to let pass.
    for (path, text) in files("src", &["rs"]) {
        let allowed = text.matches("allow(clippy::undocumented_unsafe_blocks").count();
        assert_eq!(allowed, 0, "{path} lets undocumented unsafe blocks pass");
    }
}

#[test]
fn nothing_is_left_unfinished_or_skipped() {
    let unfinished = ["todo", "unimplemented", "dbg"];
    for (path, text) in files("src", &["rs"]).into_iter().chain(files("tests", &["rs"])) {
        let code = code(&text);
        for name in unfinished {
            assert!(!code.contains(&format!("{name}!")), "{path} has {name}!");
        }
        assert!(!code.contains("#[ignore"), "{path} skips a test");
        for mark in [["FIX", "ME"], ["XX", "X:"]] {
            assert!(!text.contains(&mark.concat()), "{path} has a mark of unfinished work");
        }
    }
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    let here = root().to_string_lossy().into_owned();
    let homes = [here, ["/tmp", "/w/"].concat(), ["/root", "/"].concat(), ["/home", "/"].concat()];
    for (path, text) in files("", &["rs", "sql", "sh", "py", "md", "toml"]) {
        // Written by pgrx-config/servers, and not committed.
        if path == "pgrx-config/config.toml" {
            continue;
        }
        for home in &homes {
            // A fence of the demo's output, say, would show it.
            assert!(!text.contains(home.as_str()), "{path} names {home}");
        }
    }
}

#[test]
fn statements_inside_the_library_name_their_tables_in_full() {
    // Names of ours that a caller's search_path could lead elsewhere.
    for (path, text) in files("src", &["rs"]) {
        for keyword in ["FROM", "INTO", "UPDATE", "JOIN"] {
            for ours in ["store_policy", "leaf_promise", "processed_events"] {
                let bare = format!("{keyword} {ours}");
                assert!(!text.contains(&bare), "{path}: {bare} without its schema");
            }
        }
    }
}
