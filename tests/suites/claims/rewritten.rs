//! The same JSON written in another way: members in another order, numbers in another form, spaces, escapes.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde_json::Value;

/// A text that says the same as a value, written as chance has it.
pub(crate) fn rewritten(value: &Value, random: &mut SmallRng) -> String {
    let space = |random: &mut SmallRng| ["", "", " ", "\n\t"][random.random_range(0..4)];
    match value {
        Value::Null | Value::Bool(_) => value.to_string(),
        Value::Number(number) => of_number(&number.to_string(), random),
        Value::String(string) => of_string(string, random),
        Value::Array(elements) => {
            let elements: Vec<String> =
                elements.iter().map(|element| rewritten(element, random)).collect();
            format!("[{}{}]", space(random), elements.join(&format!(",{}", space(random))))
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.shuffle(random);
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| {
                    let (name, value) = (of_string(name, random), rewritten(value, random));
                    format!("{name}{}:{}{value}", space(random), space(random))
                })
                .collect();
            format!("{{{}}}", members.join(&format!("{},", space(random))))
        }
    }
}

fn of_number(number: &str, random: &mut SmallRng) -> String {
    let is_whole = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match random.random_range(0..4) {
        0 if is_whole => format!("{number}.000"),
        1 if is_whole => format!("{number}e0"),
        2 if is_whole && number != "0" => format!("{number}00E-2"),
        _ => number.to_owned(),
    }
}

fn of_string(string: &str, random: &mut SmallRng) -> String {
    let mut text = String::from("\"");
    for c in string.chars() {
        let must = c < ' ' || c == '"' || c == '\\';
        if must || random.random_range(0..8) == 0 {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
        }
    }
    text + "\""
}
