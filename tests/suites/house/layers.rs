//! Imports run downward only. Rooms side by side may use each other one way, never in a circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::text::{code, files, word};

/// The floors, from the top down.
const FLOORS: [&[&str]; 7] = [
    &["lib"],
    &["api", "worker"],
    &["claim", "effects", "maintenance", "double_tap"],
    &["storage", "catalog"],
    &["stats"],
    &["gucs", "error"],
    &["domain", "pg"],
];

fn floor(room: &str) -> usize {
    let floor = FLOORS.iter().position(|rooms| rooms.contains(&room));
    floor.unwrap_or_else(|| {
        panic!("room {room} has no floor: give it one in FLOORS and in src/lib.rs")
    })
}

/// The room a file belongs to: `claim` for src/claim/batch.rs, `error` for src/error.rs.
fn room(path: &str) -> &str {
    let inside = path.strip_prefix("src/").expect("a file of the extension");
    inside
        .split('/')
        .next()
        .and_then(|name| name.strip_suffix(".rs").or(Some(name)))
        .expect("a name")
}

/// The rooms a piece of source names by `crate::`, one or several in braces.
fn imported(code: &str) -> BTreeSet<String> {
    let squeezed: String =
        code.split_whitespace().collect::<Vec<_>>().join(" ").replace(":: ", "::");
    let mut rooms = BTreeSet::new();
    for after in squeezed.split("crate::").skip(1) {
        if let Some(list) = after.strip_prefix('{') {
            rooms.extend(first_words(list));
        } else {
            rooms.insert(after.chars().take_while(|c| word(*c)).collect());
        }
    }
    rooms
}

/// The first word of each entry of a list in braces, whose opening brace is already passed.
fn first_words(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut entries = vec![String::new()];
    for c in list.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => entries.push(String::new()),
            c if depth == 0 => entries.last_mut().expect("never empty").push(c),
            _ => {}
        }
    }
    let first = |entry: &String| entry.trim().chars().take_while(|c| word(*c)).collect::<String>();
    entries.iter().map(first).filter(|name| !name.is_empty()).collect()
}

/// Which room names which, and where.
fn imports() -> BTreeMap<(String, String), Vec<String>> {
    let mut found: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (path, text) in files("src", &["rs"]) {
        for other in imported(&code(&text)) {
            found.entry((room(&path).to_owned(), other)).or_default().push(path.clone());
        }
    }
    found
}

#[test]
fn imports_run_downward_only() {
    for ((from, to), places) in imports() {
        if from == "lib" || from == to {
            continue;
        }
        assert!(
            floor(&from) <= floor(&to),
            "{from} is below {to} but imports it, in {}",
            places.join(", ")
        );
    }
}

#[test]
fn rooms_side_by_side_do_not_import_each_other_in_a_circle() {
    let all = imports();
    for (from, to) in
        all.keys().filter(|(from, to)| from != to && from != "lib" && floor(from) == floor(to))
    {
        assert!(
            !all.contains_key(&(to.clone(), from.clone())),
            "{from} and {to} import each other"
        );
    }
}

#[test]
fn the_lowest_rooms_import_nothing_of_ours() {
    for ((from, to), places) in imports() {
        if ["domain", "pg"].contains(&from.as_str()) && from != to {
            panic!("{from} imports {to} in {}", places.join(", "));
        }
    }
}

#[test]
fn nobody_climbs_out_of_a_room_by_super() {
    for (path, text) in files("src", &["rs"]) {
        let code = code(&text);
        let inner = path.ends_with("mod.rs") || path.matches('/').count() == 1;
        // Inside a test module one super leads to the file itself.
        let outside_tests = code.split("mod tests").next().expect("a first part");
        assert!(!outside_tests.contains("super::super"), "{path}");
        assert!(
            !(inner && outside_tests.contains("super::")),
            "{path}: super leads out of its room"
        );
    }
}

#[test]
fn every_form_of_import_is_seen() {
    let code = "use crate::a::b; use crate::{c::{d, e}, f, g::h as i}; fn x() { crate::j::k() } pub use crate :: l;";
    let seen: Vec<String> = imported(&code.replace("crate ::", "crate::")).into_iter().collect();
    assert_eq!(seen, ["a", "c", "f", "g", "j", "l"]);
}
