//! The page docs/http-idempotency.md shows what the examples do, and in their words.

use std::path::Path;

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The blocks of one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or("").to_owned())
        .collect()
}

#[test]
fn every_piece_of_code_on_the_page_is_in_the_examples_as_it_stands() {
    let page = read("docs/http-idempotency.md");
    let examples = [
        ("python", vec!["python/payments.py", "python/charges.py"]),
        ("js", vec!["node/payments.js", "node/charges.js"]),
    ];
    for (language, files) in examples {
        let source: String =
            files.iter().map(|file| read(&format!("examples/http/{file}"))).collect();
        let shown = blocks(&page, language);
        assert!(!shown.is_empty(), "the page has no {language}");
        for block in shown {
            assert!(source.contains(&block), "not in {files:?}:\n{block}");
        }
    }
    let schema = read("examples/http/schema.sql");
    let shown = blocks(&page, "sql");
    assert!(shown.iter().any(|block| schema.contains(block.as_str())), "the page shows the schema");
}

#[test]
fn what_the_examples_want_is_pinned_in_one_version_everywhere() {
    let list = read("pgrx-config/versions");
    for (name, lock, mark) in [
        ("http-python", read("examples/http/python/requirements.txt"), "--hash=sha256:"),
        ("http-node", read("examples/http/node/package-lock.json"), "\"integrity\": \"sha512-"),
    ] {
        let line = list.lines().find(|line| line.starts_with(name)).expect("a line of the list");
        let packages = line.split_whitespace().nth(2).expect("packages");
        let source = if name == "http-python" {
            read("examples/http/python/requirements.in")
        } else {
            read("examples/http/node/package.json")
        };
        for package in packages.split(',') {
            let (package, version) = package.split_once("==").expect("a version");
            assert!(
                source.contains(package) && source.contains(version),
                "{package} {version}: {source}"
            );
        }
        assert!(lock.contains(mark), "{name} is not pinned by hashes");
    }
}
