//! A list of names as a setting holds it: `app, "my app"`. Names are taken as they are, byte for byte
//! and case for case; the empty list and `*` mean everything.

use super::naming::MAX_NAME_BYTES;
use std::ffi::CStr;

/// What a list names.
#[derive(Debug, PartialEq, Eq)]
pub enum Names {
    /// Everything there is.
    All,
    /// These, in the order given.
    These(Vec<Vec<u8>>),
}

impl Names {
    /// Reads a list. What is wrong with one that cannot be read comes back as a sentence.
    pub fn parse(list: &[u8]) -> Result<Names, &'static CStr> {
        let mut rest = list.trim_ascii();
        if rest.is_empty() || rest == b"*" {
            return Ok(Names::All);
        }
        let mut names = Vec::new();
        loop {
            let (name, after) = first(rest)?;
            if name.is_empty() {
                return Err(c"A name in the list is empty.");
            }
            if name.len() > MAX_NAME_BYTES {
                return Err(c"A name in the list is longer than 63 bytes.");
            }
            names.push(name);
            match after.trim_ascii().split_first() {
                None => return Ok(Names::These(names)),
                Some((b',', after)) => rest = after.trim_ascii(),
                Some(_) => return Err(c"Names in the list must be separated by commas."),
            }
        }
    }

    /// Whether the list has a name.
    pub fn has(&self, name: &[u8]) -> bool {
        match self {
            Names::All => true,
            Names::These(names) => names.iter().any(|listed| listed == name),
        }
    }
}

/// The first name of a list, and what comes after it.
fn first(list: &[u8]) -> Result<(Vec<u8>, &[u8]), &'static CStr> {
    let Some(mut rest) = list.strip_prefix(b"\"") else {
        let end = list.iter().position(|&c| c == b',').unwrap_or(list.len());
        let (name, after) = list.split_at(end);
        let name = name.trim_ascii();
        return if name == b"*" {
            Err(c"* stands for all databases and only alone.")
        } else if name.iter().any(|&c| c == b'"' || c.is_ascii_whitespace()) {
            Err(c"A name with spaces, commas or double quotes in it must stand in double quotes.")
        } else {
            Ok((name.to_owned(), after))
        };
    };
    let mut name = Vec::new();
    loop {
        match rest {
            [b'"', b'"', after @ ..] => {
                name.push(b'"');
                rest = after;
            }
            [b'"', after @ ..] => return Ok((name, after)),
            [c, after @ ..] => {
                name.push(*c);
                rest = after;
            }
            [] => return Err(c"A double quote is not closed."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Names;
    use std::ffi::CStr;

    fn these(names: &[&str]) -> Result<Names, &'static CStr> {
        Ok(Names::These(names.iter().map(|name| name.as_bytes().to_owned()).collect()))
    }

    #[test]
    fn nothing_and_a_star_mean_everything() {
        for list in ["", "  ", "*", " * "] {
            assert_eq!(Names::parse(list.as_bytes()), Ok(Names::All), "{list:?}");
        }
        assert!(Names::All.has(b"any"));
    }

    #[test]
    fn names_are_taken_as_they_are() {
        assert_eq!(Names::parse(b"app"), these(&["app"]));
        assert_eq!(Names::parse(b" App ,reports "), these(&["App", "reports"]));
        assert_eq!(
            Names::parse(br#""my app", "a,b" ,"say ""hi""", "*""#),
            these(&["my app", "a,b", "say \"hi\"", "*"])
        );
        assert!(these(&["App"]).is_ok_and(|names| names.has(b"App") && !names.has(b"app")));
    }

    #[test]
    fn what_cannot_be_a_list_is_refused() {
        let long = "x".repeat(64);
        for list in [
            ",",
            "a,",
            ",a",
            "a,,b",
            "\"a",
            "\"\"",
            "a b",
            "a\"b",
            "\"a\" b",
            "a, *",
            long.as_str(),
        ] {
            assert!(Names::parse(list.as_bytes()).is_err(), "{list:?}");
        }
        assert!(Names::parse("x".repeat(63).as_bytes()).is_ok());
    }
}
