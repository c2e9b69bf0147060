//! Paths into a JSON payload: `order.id`, `items[0].sku`, `["a.b"].c`.
//!
//! The rule: names are separated by dots and have none of `.`, `[`, `]`, `"` in them; `[0]` is an element of an array,
//! counted from 0, from the end with a minus; `["..."]` is a name with any characters, `\"` and `\\` for
//! these two. Nothing is taken for a path that could be meant otherwise.

/// What is wrong with a path, and at which byte, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFault {
    /// Where.
    pub at: usize,
    /// What was expected there.
    pub expected: &'static str,
}

const NAME: &str = "a name";
const INSIDE: &str = "an index such as [0], or a name such as [\"a.b\"]";

/// The steps of a path, in order: names, and indexes in decimal.
pub fn steps(path: &[u8]) -> Result<Vec<Vec<u8>>, PathFault> {
    let mut steps = Vec::new();
    let mut at = 0;
    let fault = |at: usize, expected| Err(PathFault { at: at + 1, expected });
    loop {
        match path.get(at) {
            Some(b'[') => {
                let (step, end) = in_brackets(path, at + 1)?;
                steps.push(step);
                at = end;
            }
            // A name stands at the beginning or behind a dot.
            Some(_) if steps.is_empty() || path[at - 1] == b'.' => {
                let rest = &path[at..];
                let len = rest.iter().position(|b| b".[]\"".contains(b)).unwrap_or(rest.len());
                if len == 0 {
                    return fault(at, NAME);
                }
                steps.push(rest[..len].to_vec());
                at += len;
            }
            _ => return fault(at, NAME),
        }
        match path.get(at) {
            None => return Ok(steps),
            Some(b'.') => {
                at += 1;
                // No dot before a bracket, and none at the end.
                if matches!(path.get(at), None | Some(b'[')) {
                    return fault(at, NAME);
                }
            }
            Some(b'[') => {}
            Some(_) => return fault(at, "a dot, a bracket or the end"),
        }
    }
}

/// The step that begins behind a bracket, and where what follows it begins.
fn in_brackets(path: &[u8], from: usize) -> Result<(Vec<u8>, usize), PathFault> {
    let fault = |at: usize| Err(PathFault { at: at + 1, expected: INSIDE });
    let mut at = from;
    let mut step = Vec::new();
    if path.get(at) == Some(&b'"') {
        at += 1;
        loop {
            match (path.get(at), path.get(at + 1)) {
                (Some(b'"'), _) => break,
                (Some(b'\\'), Some(&escaped @ (b'"' | b'\\'))) => {
                    step.push(escaped);
                    at += 1;
                }
                (None | Some(b'\\'), _) => return fault(at),
                (Some(&byte), _) => step.push(byte),
            }
            at += 1;
        }
        at += 1;
    } else {
        let rest = &path[at..];
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        // As many as surely fit.
        if !(1..=9).contains(&digits) {
            return fault(at);
        }
        step.extend(&rest[..sign + digits]);
        at += step.len();
    }
    if path.get(at) != Some(&b']') { fault(at) } else { Ok((step, at + 1)) }
}

#[cfg(test)]
mod tests {
    use super::steps;

    fn of(path: &str) -> Vec<String> {
        match steps(path.as_bytes()) {
            Ok(steps) => steps.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect(),
            Err(fault) => vec![format!("{path}: {fault:?}")],
        }
    }

    #[test]
    fn names_indexes_and_names_with_dots_are_told_apart() {
        assert_eq!(of("id"), ["id"]);
        assert_eq!(of("order.id"), ["order", "id"]);
        assert_eq!(of("items[0].sku"), ["items", "0", "sku"]);
        assert_eq!(of("[0]"), ["0"]);
        assert_eq!(of("[-1][2]"), ["-1", "2"]);
        assert_eq!(of(r#"["a.b"].c"#), ["a.b", "c"]);
        assert_eq!(of(r#"a["b\"c\\d[0]"]"#), ["a", r#"b"c\d[0]"#]);
        assert_eq!(of(r#"[""]"#), [""]);
        assert_eq!(of("detail-type.$id.größe"), ["detail-type", "$id", "größe"]);
    }

    #[test]
    fn what_could_be_meant_otherwise_is_no_path() {
        for (path, at) in [
            ("", 1),
            (".", 1),
            (".a", 1),
            ("a.", 3),
            ("a..b", 3),
            ("a.[0]", 3),
            ("a[", 3),
            ("a[]", 3),
            ("a[x]", 3),
            ("a[1", 4),
            ("a[1x]", 4),
            ("a[1234567890]", 3),
            ("a]", 2),
            ("a\"b", 2),
            ("\"a\"", 1),
            ("a[0]b", 5),
            ("[\"a\"", 5),
            ("[\"a", 4),
            ("[\"a\\x\"]", 4),
            ("[--1]", 2),
        ] {
            let fault = steps(path.as_bytes()).map_err(|fault| fault.at);
            assert_eq!(fault, Err(at), "{path}");
        }
    }
}
