//! Keys of real payloads: every example in `@octokit/webhooks-examples` of npm, as GitHub sent it and rewritten.
//!
//! The oracle is serde_json: two values are the same if it says so.

use std::collections::HashMap;
use std::path::Path;

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::tools;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::Value;

use crate::rewritten::rewritten;

/// The fields that name what happened, for events whose payload says it. GitHub's own id of a delivery is in
/// a header, which the examples do not have.
const FIELDS: [(&str, &[&str]); 12] = [
    ("check_run", &["check_run.id", "action", "check_run.status"]),
    ("commit_comment", &["comment.id", "action", "comment.updated_at"]),
    ("discussion", &["discussion.node_id", "action", "discussion.updated_at"]),
    ("issue_comment", &["comment.id", "action", "comment.updated_at"]),
    ("issues", &["issue.id", "action", "issue.updated_at"]),
    ("pull_request", &["pull_request.id", "action", "pull_request.updated_at"]),
    ("pull_request_review", &["review.id", "action", "review.submitted_at"]),
    ("push", &["repository.id", "ref", "before", "after"]),
    ("release", &["release.id", "action"]),
    ("status", &["repository.id", "id"]),
    ("workflow_job", &["workflow_job.id", "workflow_job.run_attempt", "action"]),
    ("workflow_run", &["workflow_run.id", "workflow_run.run_attempt", "action"]),
];

/// Event and payload of every example.
fn examples() -> Vec<(String, Value)> {
    let folder = tools::path("PG_ONCE_WEBHOOKS").join("@octokit/webhooks-examples");
    let mut examples = Vec::new();
    for part in ["api.github.com", "ghes-35"] {
        let path = Path::new(&folder).join(part).join("index.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let events: Value = serde_json::from_str(&text).expect("JSON");
        for event in events.as_array().expect("a list of events") {
            let name = event["name"].as_str().expect("a name");
            let payloads = event["examples"].as_array().expect("a list of examples");
            examples.extend(payloads.iter().map(|payload| (name.to_owned(), payload.clone())));
        }
    }
    assert!(examples.len() > 400, "{} examples", examples.len());
    examples
}

/// The key of each path by itself, for a payload as it is written.
fn keys(s: &mut Session, payload: &str, paths: &[String]) -> Vec<String> {
    let rows = s.rows(
        "SELECT once.key_from_json(p.payload, q.path) \
           FROM (SELECT $1::text::jsonb AS payload) p, \
                unnest($2::text[]) WITH ORDINALITY AS q (path, n) ORDER BY n",
        &[&payload, &paths],
    );
    rows.iter().map(|row| row.get(0)).collect()
}

fn seeded() -> SmallRng {
    let seed: u64 = std::env::var("PG_ONCE_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("PG_ONCE_SEED is a number"));
    println!("PG_ONCE_SEED={seed}");
    SmallRng::seed_from_u64(seed)
}

#[test]
fn every_field_of_every_payload_has_one_key_however_it_is_written_and_shares_it_with_no_other_value()
 {
    let mut s = database().session();
    let mut random = seeded();
    let (mut by_key, mut by_value) = (HashMap::new(), HashMap::new());
    let mut looked = 0;
    for (event, payload) in examples() {
        let members = payload.as_object().expect("an object");
        let picked = members.iter().filter(|(_, value)| !value.is_null() && *value != "");
        let (paths, values): (Vec<String>, Vec<&Value>) = picked
            .map(|(name, value)| (format!("[{}]", Value::from(name.as_str())), value))
            .unzip();
        let sent = keys(&mut s, &payload.to_string(), &paths);
        for _ in 0..2 {
            let other = rewritten(&payload, &mut random);
            assert_eq!(keys(&mut s, &other, &paths), sent, "{event}: {other}");
        }
        for (key, value) in sent.into_iter().zip(values) {
            let known = by_key.entry(key.clone()).or_insert_with(|| value.clone());
            assert_eq!(known, value, "{event}: two values give {key}");
            let known = by_value.entry(value.to_string()).or_insert_with(|| key.clone());
            assert_eq!(known, &key, "{event}: one value gives two keys");
            looked += 1;
        }
    }
    println!("{looked} fields, {} values", by_key.len());
    assert!(looked > 2_000 && by_key.len() > 500, "{looked} fields, {} values", by_key.len());
}

#[test]
fn the_fields_that_name_what_happened_tell_deliveries_apart_and_know_them_again() {
    let mut s = database().session();
    let mut random = seeded();
    let mut examples = examples();
    examples.dedup();
    for (event, fields) in FIELDS {
        let mut seen: HashMap<String, Vec<Value>> = HashMap::new();
        let of_it: Vec<&Value> =
            examples.iter().filter(|(name, _)| name == event).map(|(_, payload)| payload).collect();
        assert!(of_it.len() > 1, "{event}");
        for payload in of_it {
            let picked: Vec<Value> = fields
                .iter()
                .map(|path| path.split('.').fold(payload, |at, name| &at[name]).clone())
                .collect();
            let mut key = |text: &str| -> Result<String, String> {
                let call = "SELECT once.key_from_json($1::text::jsonb, VARIADIC $2::text[])";
                s.try_get(call, &[&text, &fields]).map_err(|failure| failure.code)
            };
            let sent = key(&payload.to_string());
            assert_eq!(key(&rewritten(payload, &mut random)), sent, "{event}");
            match sent {
                Ok(key) => seen.entry(key).or_default().push(Value::Array(picked)),
                // A field that this message does not have, or has no value for: it is said, not guessed.
                Err(code) => assert!(
                    picked.contains(&Value::Null) && ["2203A", "22004"].contains(&code.as_str()),
                    "{event}: {code} for {picked:?}"
                ),
            }
        }
        println!("{event}: {} keys", seen.len());
        assert!(seen.len() > 1, "{event}");
        for (key, same) in &seen {
            assert!(
                same.iter().all(|picked| picked == &same[0]),
                "{event}: {key} stands for {same:?}"
            );
        }
        let distinct: std::collections::HashSet<String> =
            seen.values().map(|same| same[0].to_string()).collect();
        assert_eq!(distinct.len(), seen.len(), "{event}: one occurrence has two keys");
    }
}
