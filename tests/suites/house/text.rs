//! Reading the repository: its files, and Rust source without its comments and strings.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the tests lie in the repository").to_owned()
}

/// Every file below a folder of the repository that has one of the extensions, as (path from the
/// root, text). What is built or got is left out.
pub(crate) fn files(folder: &str, extensions: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(&root().join(folder), extensions, &mut found);
    found.sort();
    found
}

fn walk(folder: &Path, extensions: &[&str], found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                walk(&path, extensions, found);
            }
        } else if path.extension().is_some_and(|e| extensions.contains(&&*e.to_string_lossy())) {
            let text = std::fs::read_to_string(&path).expect("source is text");
            let place = path.strip_prefix(root()).expect("below the root");
            found.push((place.to_string_lossy().into_owned(), text));
        }
    }
}

/// Rust source with the content of comments, strings and characters blanked out; lines stay.
pub(crate) fn code(source: &str) -> String {
    let bytes: Vec<char> = source.chars().collect();
    let at = |i: usize| bytes.get(i).copied().unwrap_or('\0');
    let mut out = String::with_capacity(source.len());
    let mut i = 0;
    while i < bytes.len() {
        let end = match (at(i), at(i + 1)) {
            ('/', '/') => find(&bytes, i, |j| at(j) == '\n'),
            ('/', '*') => find(&bytes, i + 2, |j| at(j - 1) == '*' && at(j) == '/') + 1,
            ('"', _) => find(&bytes, i + 1, |j| at(j) == '"' && !escaped(&bytes, j)) + 1,
            ('\'', _) if at(i + 1) == '\\' => find(&bytes, i + 3, |j| at(j) == '\'') + 1,
            ('\'', _) if at(i + 2) == '\'' => i + 3,
            ('r', '"') if !word(at(i.wrapping_sub(1))) => find(&bytes, i + 2, |j| at(j) == '"') + 1,
            ('r', '#') if at(i + 2) == '"' => {
                find(&bytes, i + 3, |j| at(j) == '"' && at(j + 1) == '#') + 2
            }
            _ => {
                out.push(bytes[i]);
                i += 1;
                continue;
            }
        };
        out.extend(bytes[i..end.min(bytes.len())].iter().filter(|c| **c == '\n'));
        out.push(' ');
        i = end;
    }
    out
}

fn find(bytes: &[char], from: usize, holds: impl Fn(usize) -> bool) -> usize {
    (from..bytes.len()).find(|j| holds(*j)).unwrap_or(bytes.len())
}

/// Whether an odd number of backslashes stands before place `j`.
fn escaped(bytes: &[char], j: usize) -> bool {
    bytes[..j].iter().rev().take_while(|c| **c == '\\').count() % 2 == 1
}

/// Whether a character can be part of a Rust word.
pub(crate) fn word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a piece of source.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !word(c)).filter(|w| !w.is_empty())
}

#[test]
fn comments_and_strings_are_no_code() {
    let source = "a(\"unsafe \\\" x\"); // unsafe\nb('\\'', '\"', 'c'); /* unsafe\n */ r#\"unsafe\"# c\"unsafe\" d<'x>()";
    let seen: Vec<String> = words(&code(source)).map(str::to_owned).collect();
    assert_eq!(seen, ["a", "b", "c", "d", "x"]);
    assert_eq!(code(source).lines().count(), source.lines().count());
}
