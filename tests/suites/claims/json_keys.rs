//! `once.key_from_json`: fields are found by documented paths, what is missing is refused by its name, and equal
//! values give one part however they are written.

use std::collections::HashMap;

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value};

use crate::rewritten::rewritten;

const PAYLOAD: &str = r#"{"id": 17, "event": "paid", "order": {"id": "17", "lines": [{"sku": "a"}, {"sku": "b:c"}]},
    "a.b": {"c\"d": 1.50}, "none": null, "empty": "", "0": "zero", "list": [[1, 2], [3]]}"#;

fn key(s: &mut Session, payload: &str, paths: &[&str]) -> String {
    s.get_with(
        "SELECT once.key_from_json($1::text::jsonb, VARIADIC $2::text[])",
        &[&payload, &paths],
    )
}

#[test]
fn fields_are_picked_by_path_and_joined_as_a_natural_key() {
    let mut s = database().session();
    for (paths, wanted) in [
        (&["event"][..], "paid"),
        (&["id", "event"], "17:paid"),
        (&["order.id", "event"], "\"17\":paid"),
        (&["order.lines[0].sku"], "a"),
        (&["order.lines[-1].sku", "id"], r"b\:c:17"),
        (&["[\"a.b\"][\"c\\\"d\"]"], "1.5"),
        (&["order.lines[1]"], r#"{"sku"\:"b\:c"}"#),
        (&["list[0][1]", "list[1]"], "2:[3]"),
        (&["0"], "zero"),
        (&["empty", "id"], "\"\":17"),
    ] {
        assert_eq!(key(&mut s, PAYLOAD, paths), wanted, "{paths:?}");
    }
    assert_eq!(key(&mut s, r#"[{"id": "evt_1"}]"#, &["[0].id"]), "evt_1");
}

#[test]
fn the_field_of_an_event_is_the_key_that_its_consumer_would_take_by_hand() {
    let mut s = database().session();
    s.claim("evt_1");
    assert!(
        !s.get::<bool>("SELECT once.claim_once(once.key_from_json('{\"id\": \"evt_1\"}', 'id'))")
    );
    let uuid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
    assert_eq!(key(&mut s, &format!("{{\"id\": \"{uuid}\"}}"), &["id"]), uuid);
}

#[test]
fn numbers_are_exact_and_have_one_form() {
    let mut s = database().session();
    let mut of = |number: &str| key(&mut s, &format!("{{\"n\": {number}}}"), &["n"]);
    for number in ["1", "1.0", "1e0", "10e-1", "0.01e2", "1.000"] {
        assert_eq!(of(number), "1", "{number}");
    }
    assert_eq!(of("\"1\""), "\"1\"");
    assert_eq!(of("-0.0"), "0");
    // Two that are one in binary floating point.
    assert_ne!(of("9007199254740993"), of("9007199254740992"));
    assert_eq!(of("1e30"), format!("1{}", "0".repeat(30)));
    assert_eq!(of("1.10e-7"), "0.00000011");
    let long = "12345678901234567890123456789012345678901234567890.000000000000000000000000000001";
    assert_eq!(of(long), long);
}

#[test]
fn what_is_missing_or_null_is_refused_by_its_name() {
    let mut s = database().session();
    let mut refused =
        |paths: &str| s.fails(&format!("SELECT once.key_from_json('{PAYLOAD}', {paths})"));
    for path in ["nothing", "order.nothing", "order.lines[2].sku", "event.id", "id[0]", "order[0]"]
    {
        let failure = refused(&format!("'event', '{path}'"));
        assert_eq!(failure.code, "2203A", "{path}");
        assert_eq!(failure.message, format!("the payload has no field \"{path}\""));
        assert!(!failure.detail.is_empty() && !failure.hint.is_empty(), "{failure}");
    }
    let failure = refused("'none'");
    assert_eq!((failure.code.as_str(), failure.message.contains("none")), ("22004", true));
    let failure = refused("'a..b'");
    assert_eq!((failure.code.as_str(), failure.detail.contains("byte 3")), ("22023", true));
    let failure = refused("'event', NULL");
    assert_eq!(failure.message, "path 2 of the key is NULL");
    assert!(!failure.hint.contains("coalesce"), "an empty path is none: {failure}");
    assert_eq!(refused("'empty'").code, "22023");
    assert_eq!(refused("VARIADIC '{}'").code, "22023");
    assert_eq!(refused("VARIADIC NULL::text[]").code, "22004");
    let failure = refused("VARIADIC '{{event},{id}}'");
    assert_eq!((failure.code.as_str(), failure.message.starts_with("paths ")), ("2202E", true));
    assert_eq!(s.fails("SELECT once.key_from_json(NULL, 'id')").code, "22004");
    assert_eq!(s.fails("SELECT once.key_from_json('17', 'id')").code, "2203A");
}

#[test]
fn a_field_nested_too_deep_is_refused_and_never_exhausts_the_stack() {
    let mut s = database().session();
    let nested = |depth: usize| format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(key(&mut s, &nested(90), &["a"]).len(), 180);
    let failure = s.fails(&format!("SELECT once.key_from_json('{}', 'a')", nested(5_000)));
    assert_eq!(failure.code, "22023", "{failure}");
}

/// A value as chance has it, over strings that could be taken for something else.
fn random_value(random: &mut SmallRng, depth: usize) -> Value {
    let strings =
        ["", "1", "-1.5", "true", "null", "a", "a:b", "\\", "\"", "[]", "{\"a\":1}", "é\n"];
    let string = |random: &mut SmallRng| strings[random.random_range(0..strings.len())].to_owned();
    match random.random_range(0..if depth > 2 { 4 } else { 7 }) {
        0 => Value::Bool(random.random()),
        1 => Value::from(random.random_range(-3..4)),
        2 => Value::from(f64::from(random.random_range(-9..10)) / 4.0),
        3 | 4 => Value::String(string(random)),
        5 => {
            let count = random.random_range(0..3);
            Value::Array((0..count).map(|_| random_value(random, depth + 1)).collect())
        }
        _ => {
            let count = random.random_range(0..4);
            let members: Map<String, Value> =
                (0..count).map(|_| (string(random), random_value(random, depth + 1))).collect();
            Value::Object(members)
        }
    }
}

/// Two values are the same if they are written the same once whole numbers have no fraction.
fn identity(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 => format!("{float:.0}").replace("-0", "0"),
            _ => number.to_string(),
        },
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(identity).collect::<Vec<_>>().join(","))
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{}:{}", Value::String(name.clone()), identity(value))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[test]
fn random_payloads_have_one_key_if_and_only_if_they_say_the_same() {
    let mut s = database().session();
    let seed: u64 = std::env::var("PG_ONCE_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("PG_ONCE_SEED is a number"));
    println!("PG_ONCE_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut by_key, mut by_value) = (HashMap::new(), HashMap::new());
    for _ in 0..3_000 {
        let values = [random_value(&mut random, 0), random_value(&mut random, 0)];
        if values.iter().all(|value| value == &Value::String(String::new())) {
            continue;
        }
        let payload = serde_json::json!({ "a": values[0], "b": values[1] });
        let text = rewritten(&payload, &mut random);
        let key = key(&mut s, &text, &["a", "b"]);
        let identity = format!("{}|{}", identity(&values[0]), identity(&values[1]));
        let known = by_key.entry(key.clone()).or_insert_with(|| identity.clone());
        assert_eq!(known, &identity, "two payloads give {key:?}; the last was {text}");
        let known = by_value.entry(identity.clone()).or_insert_with(|| key.clone());
        assert_eq!(known, &key, "{identity} gives two keys; the last was of {text}");
    }
    assert!(by_key.len() > 500, "{}", by_key.len());
}
