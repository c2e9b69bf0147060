//! Every state of an effect through every call, against the table that docs/effects.md draws.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

use crate::scene::{Calls, expired, overdue};

/// The states: how an effect of this key comes into it. Two fences: that of an attempt that was taken over, if there was
/// one, and that of the last.
const STATES: [&str; 10] = [
    "new",
    "running",
    "overdue",
    "taken over",
    "waiting",
    "failed",
    "gave up",
    "done",
    "expired",
    "claimed anew",
];

/// What the calls are: by whom, and what for.
const CALLS: [&str; 8] = [
    "begin",
    "extend",
    "complete",
    "fail",
    "complete, stale fence",
    "extend, stale fence",
    "fail, stale fence",
    "complete, other answer",
];

/// The row of a state: what each call answers, and the state after it.
fn table() -> Vec<Vec<String>> {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/effects.md");
    let docs = std::fs::read_to_string(docs).expect("docs/effects.md");
    let lines = docs.lines().skip_while(|line| !line.starts_with("| state |"));
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    lines.take_while(|line| line.starts_with('|')).map(cells).collect()
}

fn stage(s: &mut Session, key: &str, state: &str) -> (i64, i64) {
    // Of something else that was over long ago.
    let stale = 0;
    match state {
        "new" => (stale, stale),
        "running" => (stale, s.begin(key, "1 minute").held()),
        "overdue" => {
            let fence = s.begin(key, "1 minute").held();
            overdue(s, key);
            (stale, fence)
        }
        "taken over" => {
            let first = s.begin(key, "1 minute").held();
            overdue(s, key);
            (first, s.begin(key, "1 minute").held())
        }
        "waiting" | "failed" => {
            let fence = s.begin(key, "1 minute").held();
            let after = if state == "waiting" { "1 minute" } else { "0" };
            assert_eq!(s.fail(key, fence, after), "failed");
            (stale, fence)
        }
        "gave up" => {
            let first = s.begin(key, "1 minute").held();
            overdue(s, key);
            let fence = s.begin(key, "1 minute").held();
            overdue(s, key);
            s.begin(key, "1 minute");
            overdue(s, key);
            assert_eq!(s.begin(key, "1 minute").outcome, "gave_up");
            let _ = first;
            (fence, s.get_with("SELECT fence FROM once.effect_state WHERE key = $1", &[&key]))
        }
        "done" => {
            let fence = s.begin(key, "1 minute").held();
            assert!(s.complete(key, fence, "'1'"));
            (stale, fence)
        }
        "expired" => {
            let fence = s.begin(key, "1 minute").held();
            expired(s, key);
            (stale, fence)
        }
        "claimed anew" => {
            let fence = s.begin(key, "1 minute").held();
            expired(s, key);
            assert!(s.claim(key), "the window is over");
            (stale, fence)
        }
        other => panic!("no such state: {other}"),
    }
}

fn call(s: &mut Session, key: &str, call: &str, (stale, fence): (i64, i64)) -> String {
    let answered = match call {
        "begin" => s.try_begin(key, "1 minute").map(|begun| begun.outcome),
        "extend" => s
            .try_extend(key, fence, "1 minute")
            .map(|ahead| (if ahead { "yes" } else { "no" }).to_owned()),
        "complete" => s.try_complete(key, fence, "'1'").map(|now| now.to_string()),
        "fail" => s.try_fail(key, fence, "1 minute"),
        "complete, stale fence" => s.try_complete(key, stale, "'2'").map(|now| now.to_string()),
        "extend, stale fence" => {
            s.try_extend(key, stale, "1 minute").map(|ahead| ahead.to_string())
        }
        "fail, stale fence" => s.try_fail(key, stale, "1 minute"),
        "complete, other answer" => s.try_complete(key, fence, "'2'").map(|now| now.to_string()),
        other => panic!("no such call: {other}"),
    };
    answered.unwrap_or_else(|failure| failure.code)
}

/// Which state the effect of a key is in, by what everybody can see.
fn state(s: &mut Session, key: &str) -> String {
    let lookup: Vec<Option<String>> =
        s.column(&format!("SELECT result::text FROM once.lookup('{key}')"));
    let shown = s.state_of(key);
    let attempt: Vec<i32> =
        s.column(&format!("SELECT attempt FROM once.effects WHERE key = '{key}'"));
    match (lookup.first(), shown.first().map(String::as_str)) {
        (None, None) => "new",
        (Some(_), Some("running")) if attempt[0] > 1 => "taken over",
        (Some(_), Some("gave_up")) => "gave up",
        (Some(None), Some("expired")) => "claimed anew",
        (_, Some(state)) => return state.to_owned(),
        (Some(Some(_)), None) => "done",
        (Some(None), None) => "claimed",
    }
    .to_owned()
}

#[test]
fn every_call_in_every_state_answers_and_leaves_what_the_documentation_says() {
    let mut s = database().session();
    s.run("SELECT once.create_store('processed_events', max_attempts => 3)");
    let table = table();
    assert_eq!(table[0][1..], CALLS.map(str::to_owned), "the head of the table");
    let rows = &table[2..];
    let states: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(states, STATES);
    let mut wrong = Vec::new();
    for (from, row) in rows.iter().enumerate() {
        for (number, one) in CALLS.iter().enumerate() {
            let key = format!("k-{from}-{number}");
            let fences = stage(&mut s, &key, STATES[from]);
            assert_eq!(state(&mut s, &key), STATES[from], "staging {one}");
            let before: Vec<String> = s.column(&format!(
                "SELECT s::text FROM once.effect_state s WHERE key = '{key}' UNION ALL
                 SELECT c::text FROM once.processed_events c WHERE key = '{key}'"
            ));
            let answer = call(&mut s, &key, one, fences);
            let after = state(&mut s, &key);
            let came =
                if after == STATES[from] { answer.clone() } else { format!("{answer} -> {after}") };
            if came != row[number + 1] {
                wrong.push(format!("{} {one}: {came}, not {}", STATES[from], row[number + 1]));
            }
            if answer.starts_with("OC") {
                let left: Vec<String> = s.column(&format!(
                    "SELECT s::text FROM once.effect_state s WHERE key = '{key}' UNION ALL
                     SELECT c::text FROM once.processed_events c WHERE key = '{key}'"
                ));
                assert_eq!(
                    left, before,
                    "{} {one}: what was refused has changed something",
                    STATES[from]
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
