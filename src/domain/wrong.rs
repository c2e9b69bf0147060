//! Keys that are certainly none: what a program writes where a value is missing, and a template nobody filled in.
//!
//! The rule: only what no sender means. A message about it may quote the word, which is nobody's data, and never any
//! other key.

/// Why a key is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is nothing in it but space.
    Blank,
    /// It is what a language writes for a value that is missing.
    Missing(&'static str),
    /// It has the text in it that JavaScript makes of an object.
    Object,
    /// It has a template in it that was not filled in.
    Template,
    /// It is the uuid that a variable has before anybody sets it, or the one with every bit set.
    UnsetUuid,
}

impl Wrong {
    /// What the key is, behind "it".
    pub fn words(self) -> String {
        match self {
            Wrong::Blank => "is nothing but space".to_owned(),
            Wrong::Missing(word) => format!("is {word}, which stands for a value that is missing"),
            Wrong::Object => {
                "has [object Object] in it, which JavaScript makes of an object".to_owned()
            }
            Wrong::Template => "has a template in it that was not filled in".to_owned(),
            Wrong::UnsetUuid => "is the uuid of a variable that was never set".to_owned(),
        }
    }
}

/// What languages write for a value that is missing, as whole keys: SQL, JSON, JavaScript, Python, Ruby, Go, C#.
const MISSING: [&str; 16] = [
    "null",
    "NULL",
    "Null",
    "undefined",
    "None",
    "nil",
    "<nil>",
    "(nil)",
    "(null)",
    "<null>",
    "NaN",
    "{}",
    "[]",
    "\"\"",
    "''",
    "%!s(<nil>)",
];

const UNSET: [&[u8]; 2] =
    [b"00000000-0000-0000-0000-000000000000", b"ffffffff-ffff-ffff-ffff-ffffffffffff"];

/// What opens and closes a template: shell, JavaScript and Spring; Mustache and Jinja; Ruby; ERB; Python.
const TEMPLATES: [(&[u8], &[u8]); 5] =
    [(b"${", b"}"), (b"{{", b"}}"), (b"#{", b"}"), (b"<%=", b"%>"), (b"%(", b")s")];

/// Why a key is certainly wrong; None for every other.
pub fn wrong(key: &[u8]) -> Option<Wrong> {
    if key.iter().all(u8::is_ascii_whitespace) {
        return Some(Wrong::Blank);
    }
    if let Some(word) = MISSING.into_iter().find(|word| word.as_bytes() == key) {
        return Some(Wrong::Missing(word));
    }
    if UNSET.iter().any(|uuid| uuid.eq_ignore_ascii_case(key)) {
        return Some(Wrong::UnsetUuid);
    }
    if find(key, b"[object Object]").is_some() {
        return Some(Wrong::Object);
    }
    TEMPLATES.iter().any(|(open, close)| has_template(key, open, close)).then_some(Wrong::Template)
}

fn find(key: &[u8], text: &[u8]) -> Option<usize> {
    key.windows(text.len()).position(|part| part == text)
}

/// Whether anywhere there is a name between what opens and what closes.
fn has_template(key: &[u8], open: &[u8], close: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-$@ ".contains(byte);
    let mut rest = key;
    while let Some(at) = find(rest, open) {
        rest = &rest[at + open.len()..];
        let Some(end) = find(rest, close) else { return false };
        let name = rest[..end].trim_ascii();
        // What closes with a letter may be the beginning of a word, which somebody means.
        let is_whole = !close.ends_with(b"s")
            || !rest.get(end + close.len()).is_some_and(u8::is_ascii_alphanumeric);
        let is_name = name.first().is_some_and(|b| !b.is_ascii_digit()) && name.iter().all(fits);
        if is_whole && is_name {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Wrong, wrong};

    #[test]
    fn what_no_sender_means_is_told() {
        for (key, why) in [
            (" ", Wrong::Blank),
            ("\t\n", Wrong::Blank),
            ("null", Wrong::Missing("null")),
            ("undefined", Wrong::Missing("undefined")),
            ("None", Wrong::Missing("None")),
            ("NaN", Wrong::Missing("NaN")),
            ("{}", Wrong::Missing("{}")),
            ("%!s(<nil>)", Wrong::Missing("%!s(<nil>)")),
            ("[object Object]", Wrong::Object),
            ("order:[object Object]:paid", Wrong::Object),
            ("${id}", Wrong::Template),
            ("order-${order.id}", Wrong::Template),
            ("{{ id }}", Wrong::Template),
            ("#{order_id}:paid", Wrong::Template),
            ("<%= @id %>", Wrong::Template),
            ("order-%(id)s", Wrong::Template),
            ("%(id)s:paid", Wrong::Template),
            ("${1}-${id}", Wrong::Template),
            ("00000000-0000-0000-0000-000000000000", Wrong::UnsetUuid),
            ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", Wrong::UnsetUuid),
        ] {
            assert_eq!(wrong(key.as_bytes()), Some(why), "{key}");
        }
    }

    #[test]
    fn whatever_somebody_may_mean_is_let_pass() {
        for key in [
            "order-42:paid",
            "nullable",
            "Null Island",
            "none",
            "order:null",
            "0",
            "-1",
            "a b",
            "{",
            "${",
            "${}",
            "{{}}",
            "{\"a\":{\"b\":1}}",
            "{1}",
            "${1}",
            "a{2}",
            "100%",
            "50%(net)sum",
            "[1]",
            "[object",
            "00000000-0000-0000-0000-000000000001",
        ] {
            assert_eq!(wrong(key.as_bytes()), None, "{key}");
        }
    }
}
