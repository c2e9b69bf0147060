//! What Cargo.toml promises: the lints, the pin, no test or bench that Cargo finds by itself.

use crate::text::root;

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The lines of a table of a manifest.
fn table<'a>(manifest: &'a str, name: &str) -> Vec<&'a str> {
    let header = format!("[{name}]");
    let lines = manifest.lines().skip_while(|line| line.trim() != header).skip(1);
    lines.take_while(|line| !line.starts_with('[')).map(str::trim).collect()
}

#[test]
fn the_lints_of_the_house_are_denied() {
    let manifest = read("Cargo.toml");
    let rust = table(&manifest, "workspace.lints.rust");
    for lint in ["unsafe_code", "unsafe_op_in_unsafe_fn", "ffi_unwind_calls"] {
        assert!(rust.contains(&format!("{lint} = \"deny\"").as_str()), "{lint} is not denied");
    }
    let clippy = table(&manifest, "workspace.lints.clippy");
    let denied = [
        "undocumented_unsafe_blocks",
        "unwrap_used",
        "expect_used",
        "panic",
        "todo",
        "unimplemented",
        "dbg_macro",
        "print_stdout",
        "wildcard_imports",
    ];
    for lint in denied {
        assert!(
            clippy.contains(&format!("{lint} = \"deny\"").as_str()),
            "clippy::{lint} is not denied"
        );
    }
    assert_eq!(table(&manifest, "lints").first(), Some(&"workspace = true"));
    let ours = read("tests/Cargo.toml");
    assert!(table(&ours, "lints.rust").contains(&"unsafe_code = \"forbid\""));
}

#[test]
fn unsafe_code_is_allowed_in_one_place() {
    let mut places = Vec::new();
    for (path, text) in crate::text::files("src", &["rs"]) {
        if text.contains("allow(unsafe_code") {
            places.push(path);
        }
    }
    assert_eq!(places, ["src/pg/mod.rs"]);
}

#[test]
fn pgrx_is_pinned_exactly() {
    let manifest = read("Cargo.toml");
    let pgrx = table(&manifest, "dependencies")
        .into_iter()
        .find(|line| line.starts_with("pgrx "))
        .expect("pgrx");
    assert!(pgrx.contains("\"=0."), "{pgrx}");
    for automatic in ["autotests", "autobenches", "autoexamples"] {
        assert!(
            table(&manifest, "package").contains(&format!("{automatic} = false").as_str()),
            "{automatic}"
        );
    }
}

#[test]
fn one_version_is_named_everywhere() {
    let manifest = read("Cargo.toml");
    let version = table(&manifest, "package")
        .into_iter()
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        .expect("a version");
    let control = read("pg_once.control");
    assert!(control.contains(&format!("default_version = '{version}'")), "pg_once.control");
    assert!(
        root().join(format!("sql/pg_once--{version}.sql")).exists(),
        "sql/pg_once--{version}.sql"
    );
    let changelog = root().join("CHANGELOG.md");
    if changelog.exists() {
        assert!(read("CHANGELOG.md").contains(version), "CHANGELOG.md does not name {version}");
    }
}
