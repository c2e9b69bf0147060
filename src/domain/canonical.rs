//! One way to write a JSON value, so that two payloads that say the same give the same part of a key.
//!
//! The rule: numbers are plain decimals, exact and without zeros that say nothing (1.0, 1 and 10e-1 are `1`); objects
//! have their names in the order of their bytes; there is no space. A string stands as it is, unless it could be
//! taken for another value: then it stands in its JSON quotation marks, so that "1" differs from 1.
//!
//! Read is what PostgreSQL writes for jsonb: well-formed, numbers without an exponent, no name twice in an
//! object, each string escaped in one way. Bytes are those of the database's encoding.

/// How deep a value may be nested.
const DEEPEST: usize = 100;

/// Why a value cannot be part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFault {
    /// It is nested too deep.
    TooDeep,
    /// It is not what was to be read.
    Malformed,
}

/// Whether a JSON value is null.
pub fn is_null(json: &[u8]) -> bool {
    json == b"null"
}

/// Whether a canonical value is the empty string.
pub fn is_blank(value: &[u8]) -> bool {
    value == b"\"\""
}

/// A JSON value, canonical.
pub fn canonical(json: &[u8]) -> Result<Vec<u8>, ValueFault> {
    let mut reader = Reader { json, at: 0 };
    let mut value = Vec::with_capacity(json.len());
    reader.value(&mut value, 0)?;
    if reader.peek().is_some() {
        return Err(ValueFault::Malformed);
    }
    if value.first() == Some(&b'"') {
        let plain = unescaped(&value)?;
        if !could_be_another(&plain) {
            return Ok(plain);
        }
    }
    Ok(value)
}

struct Reader<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.json.get(self.at) {
            self.at += 1;
        }
        self.json.get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, into: &mut Vec<u8>, depth: usize) -> Result<(), ValueFault> {
        if depth > DEEPEST {
            return Err(ValueFault::TooDeep);
        }
        match self.peek().ok_or(ValueFault::Malformed)? {
            b'{' => self.object(into, depth),
            b'[' => self.array(into, depth),
            b'"' => {
                into.extend(self.string()?);
                Ok(())
            }
            _ => {
                let from = self.at;
                let ends = |byte: &u8| b",]} \t\n\r".contains(byte);
                let rest = &self.json[from..];
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
                match &self.json[from..self.at] {
                    word @ (b"true" | b"false" | b"null") => into.extend(word),
                    number => into.extend(plain_number(number).ok_or(ValueFault::Malformed)?),
                }
                Ok(())
            }
        }
    }

    fn object(&mut self, into: &mut Vec<u8>, depth: usize) -> Result<(), ValueFault> {
        self.take(b'{');
        // What a name says, which orders it, how it is written, and its value.
        let mut members: Vec<(Vec<u8>, &[u8], Vec<u8>)> = Vec::new();
        while !self.take(b'}') {
            if !members.is_empty() && !self.take(b',') {
                return Err(ValueFault::Malformed);
            }
            self.peek();
            let name = self.string()?;
            if !self.take(b':') {
                return Err(ValueFault::Malformed);
            }
            let mut value = Vec::new();
            self.value(&mut value, depth + 1)?;
            members.push((unescaped(name)?, name, value));
        }
        members.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        into.push(b'{');
        for (place, (_, name, value)) in members.iter().enumerate() {
            if place > 0 {
                into.push(b',');
            }
            into.extend(*name);
            into.push(b':');
            into.extend(value);
        }
        into.push(b'}');
        Ok(())
    }

    fn array(&mut self, into: &mut Vec<u8>, depth: usize) -> Result<(), ValueFault> {
        self.take(b'[');
        into.push(b'[');
        let mut is_first = true;
        while !self.take(b']') {
            if !is_first {
                if !self.take(b',') {
                    return Err(ValueFault::Malformed);
                }
                into.push(b',');
            }
            self.value(into, depth + 1)?;
            is_first = false;
        }
        into.push(b']');
        Ok(())
    }

    /// A string with its quotation marks, as it is written.
    fn string(&mut self) -> Result<&'a [u8], ValueFault> {
        let (json, from) = (self.json, self.at);
        if json.get(from) != Some(&b'"') {
            return Err(ValueFault::Malformed);
        }
        self.at += 1;
        loop {
            match json.get(self.at).ok_or(ValueFault::Malformed)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        json.get(from..self.at).ok_or(ValueFault::Malformed)
    }
}

/// A plain decimal without zeros that say nothing; None for what is none.
fn plain_number(number: &[u8]) -> Option<Vec<u8>> {
    let (sign, digits) = match number.split_first()? {
        (b'-', digits) => (b"-".as_slice(), digits),
        _ => (b"".as_slice(), number),
    };
    let point = digits.iter().position(|&byte| byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    let are_digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let whole = &whole[whole.iter().take(whole.len() - 1).take_while(|&&d| d == b'0').count()..];
    let zeros = fraction.iter().rev().take_while(|&&digit| digit == b'0').count();
    let fraction = &fraction[..fraction.len() - zeros];
    let sign = if whole == b"0" && fraction.is_empty() { b"" } else { sign };
    let point: &[u8] = if fraction.is_empty() { b"" } else { b"." };
    Some([sign, whole, point, fraction].concat())
}

/// What a string with its quotation marks says.
fn unescaped(string: &[u8]) -> Result<Vec<u8>, ValueFault> {
    let mut plain = Vec::with_capacity(string.len());
    let mut bytes = string[1..string.len() - 1].iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        plain.push(match bytes.next().ok_or(ValueFault::Malformed)? {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let digits: Vec<u8> = bytes.by_ref().take(4).collect();
                let code = std::str::from_utf8(&digits).ok();
                let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
                // PostgreSQL writes only control characters so.
                code.filter(u8::is_ascii).ok_or(ValueFault::Malformed)?
            }
            other => other,
        });
    }
    Ok(plain)
}

/// Whether a string could be taken for a value that is no string, or for one in quotation marks.
fn could_be_another(string: &[u8]) -> bool {
    matches!(string, b"" | b"true" | b"false" | b"null")
        || matches!(string[0], b'"' | b'[' | b'{')
        || is_number(string)
}

/// Whether a string is a number as JSON writes them.
fn is_number(string: &[u8]) -> bool {
    let digits = |from: usize| {
        string[from.min(string.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut at = usize::from(string[0] == b'-');
    let whole = digits(at);
    if whole == 0 || (whole > 1 && string[at] == b'0') {
        return false;
    }
    at += whole;
    if string.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return false;
        }
        at += 1 + fraction;
    }
    if let Some(b'e' | b'E') = string.get(at) {
        at += 1 + usize::from(matches!(string.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at);
        if exponent == 0 {
            return false;
        }
        at += exponent;
    }
    at == string.len()
}

#[cfg(test)]
mod tests {
    use super::{ValueFault, canonical};

    fn of(json: &str) -> String {
        canonical(json.as_bytes()).map_or_else(
            |fault| format!("{json}: {fault:?}"),
            |value| String::from_utf8_lossy(&value).into_owned(),
        )
    }

    #[test]
    fn numbers_have_one_form_and_keep_every_digit() {
        for (json, form) in [
            ("1", "1"),
            ("1.0", "1"),
            ("1.00", "1"),
            ("100", "100"),
            ("1.50", "1.5"),
            ("0", "0"),
            ("0.0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("-1.10", "-1.1"),
            ("0.000001", "0.000001"),
            ("9007199254740993", "9007199254740993"),
            ("12345678901234567890.10", "12345678901234567890.1"),
        ] {
            assert_eq!(of(json), form);
        }
    }

    #[test]
    fn a_string_stands_as_it_is_unless_it_could_be_another_value() {
        for (json, form) in [
            (r#""paid""#, "paid"),
            (r#""1b4e28ba-2fa1-11d2-883f-0016d3cca427""#, "1b4e28ba-2fa1-11d2-883f-0016d3cca427"),
            (r#""2024-01-05""#, "2024-01-05"),
            (r#""007""#, "007"),
            (r#""-""#, "-"),
            (r#""1.""#, "1."),
            (r#""1e""#, "1e"),
            (r#""NULL""#, "NULL"),
            (r#""a\"b\\c\nd\u0001""#, "a\"b\\c\nd\u{1}"),
            (r#""1""#, r#""1""#),
            (r#""-1.50e+7""#, r#""-1.50e+7""#),
            (r#""true""#, r#""true""#),
            (r#""null""#, r#""null""#),
            (r#""""#, r#""""#),
            (r#""{}""#, r#""{}""#),
            (r#""[1]""#, r#""[1]""#),
            (r#""\"1\"""#, r#""\"1\"""#),
        ] {
            assert_eq!(of(json), form);
        }
    }

    #[test]
    fn objects_are_ordered_by_name_at_every_depth() {
        let form = r#"{"a":[{"b":1,"c":2},"1"],"a b":true,"aa":null,"b":{"x":"1.0","y":1}}"#;
        for json in [
            r#"{"a": [{"b": 1, "c": 2}, "1"], "a b": true, "aa": null, "b": {"x": "1.0", "y": 1}}"#,
            r#"{"b":{"y":1.0,"x":"1.0"},"aa":null,"a b":true,"a":[{"c":2.00,"b":1},"1"]}"#,
        ] {
            assert_eq!(of(json), form);
        }
        // By what names say, not by how they are escaped.
        let form = r#"{"":1,"a":2,"a\n":3,"a\"":4,"a#":5,"aA":6,"a\\":7,"aa":8}"#;
        let escaped = r#"{"aa":8,"a\\":7,"aA":6,"a#":5,"a\"":4,"a\n":3,"a":2,"":1}"#;
        assert_eq!(of(escaped), form);
        assert_eq!(of(" [ ] "), "[]");
        assert_eq!(of("{ }"), "{}");
    }

    /// Values over what can be confused, and whether two are the same value is known by their numbers.
    #[test]
    fn no_two_values_have_one_form() {
        let texts =
            ["", "1", "-1", "1.5", "true", "null", "a", "\"", "\"1\"", "[", "[]", "{}", "1:2"];
        let mut values: Vec<String> =
            texts.iter().map(|t| format!("\"{}\"", t.replace('"', "\\\""))).collect();
        values.extend(["1", "-1", "1.5", "true", "false"].map(str::to_owned));
        let plain = values.clone();
        values.push("[]".to_owned());
        values.push("{}".to_owned());
        for a in &plain {
            values.push(format!("[{a}]"));
            values.push(format!("{{\"k\":{a}}}"));
            values.extend(plain.iter().map(|b| format!("[{a},{b}]")));
        }
        let mut forms: Vec<String> = values.iter().map(|v| of(v)).collect();
        forms.sort();
        forms.dedup();
        assert_eq!(forms.len(), values.len());
    }

    #[test]
    fn what_is_too_deep_or_no_json_is_refused_and_ends() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert_eq!(canonical(deep.as_bytes()), Err(ValueFault::TooDeep));
        assert!(canonical(("[".repeat(90) + &"]".repeat(90)).as_bytes()).is_ok());
        for bad in [
            "", "[", "{", "{\"a\"", "{\"a\":", "\"", "\"\\", "\"\\\"", "[1", "[1 2]", "1 2", "x",
            "-", "{1:2}",
        ] {
            assert_eq!(canonical(bad.as_bytes()), Err(ValueFault::Malformed), "{bad}");
        }
    }
}
