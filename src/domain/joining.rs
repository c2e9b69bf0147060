//! Joining parts into one key so that no two lists of parts give the same key, and ordinary parts stay readable.
//!
//! The rule: parts are separated by `:`, and a `:` or `\` within a part has a `\` before it. So the separators are
//! the colons without a backslash of their own, and what lies between them gives the parts back, which is the
//! proof. In every server encoding these two bytes stand for nothing else.

/// Parts of a key.
const SEPARATOR: u8 = b':';
const ESCAPE: u8 = b'\\';

/// What is wrong with a list of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinFault {
    /// There are none.
    NoParts,
    /// There is nothing in any of them.
    Blank,
}

/// One key of all parts, of which at least one must not be empty.
pub fn join<P: AsRef<[u8]>>(parts: &[P]) -> Result<Vec<u8>, JoinFault> {
    if parts.is_empty() {
        return Err(JoinFault::NoParts);
    }
    if parts.iter().all(|part| part.as_ref().is_empty()) {
        return Err(JoinFault::Blank);
    }
    let mut key = Vec::with_capacity(parts.iter().map(|part| part.as_ref().len() + 1).sum());
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            key.push(SEPARATOR);
        }
        escape(part.as_ref(), &mut key);
    }
    Ok(key)
}

/// An effect and its key as one name: the effect escaped, `:`, and the key as it is. The first colon without a
/// backslash of its own ends the effect, so that a key needs no escaping.
pub fn scoped(effect: &[u8], key: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(effect.len() + 1 + key.len());
    escape(effect, &mut name);
    name.push(SEPARATOR);
    name.extend(key);
    name
}

fn escape(part: &[u8], into: &mut Vec<u8>) {
    for &byte in part {
        if byte == SEPARATOR || byte == ESCAPE {
            into.push(ESCAPE);
        }
        into.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::{JoinFault, join, scoped};

    /// The parts of a joined key.
    fn split(key: &[u8]) -> Vec<Vec<u8>> {
        let mut parts = vec![Vec::new()];
        let mut bytes = key.iter();
        while let Some(&byte) = bytes.next() {
            let last = parts.len() - 1;
            match byte {
                b':' => parts.push(Vec::new()),
                b'\\' => parts[last].extend(bytes.next()),
                other => parts[last].push(other),
            }
        }
        parts
    }

    /// Every string of at most `len` bytes over an alphabet of what matters.
    fn strings(len: usize) -> Vec<Vec<u8>> {
        let mut all = vec![Vec::new()];
        let mut longest = all.clone();
        for _ in 0..len {
            longest = longest
                .iter()
                .flat_map(|s| b"a:\\".iter().map(|&c| [s.as_slice(), &[c]].concat()))
                .collect();
            all.extend(longest.clone());
        }
        all
    }

    #[test]
    fn ordinary_parts_stay_readable() {
        assert_eq!(join(&["order", "17", "paid"]).as_deref(), Ok(b"order:17:paid".as_slice()));
        assert_eq!(join(&["a", "b:c"]).as_deref(), Ok(br"a:b\:c".as_slice()));
        assert_eq!(join(&["a:b", "c"]).as_deref(), Ok(br"a\:b:c".as_slice()));
        assert_eq!(join(&[r"C:\x", ""]).as_deref(), Ok(br"C\:\\x:".as_slice()));
    }

    #[test]
    fn no_parts_and_nothing_but_empty_parts_are_refused() {
        assert_eq!(join::<&str>(&[]), Err(JoinFault::NoParts));
        assert_eq!(join(&[""]), Err(JoinFault::Blank));
        assert_eq!(join(&["", ""]), Err(JoinFault::Blank));
    }

    #[test]
    fn the_parts_of_every_short_list_can_be_read_off_its_key() {
        let (one, short) = (strings(6), strings(3));
        for part in &one[1..] {
            let back = join(&[part]).map(|key| split(&key));
            assert_eq!(back, Ok(vec![part.clone()]));
        }
        let mut seen = 0;
        for a in &short {
            for b in &short {
                for c in &short {
                    for parts in [vec![a, b], vec![a, b, c]] {
                        let Ok(key) = join(&parts) else { continue };
                        let back = split(&key);
                        assert!(back.iter().eq(parts.iter().copied()), "{parts:?} gave {key:?}");
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 100_000, "{seen}");
    }

    #[test]
    fn no_two_pairs_of_effect_and_key_have_one_name() {
        let short = strings(3);
        let mut names: Vec<Vec<u8>> = short
            .iter()
            .flat_map(|effect| short.iter().map(move |key| scoped(effect, key)))
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(scoped(b"invoice", b"order:17"), b"invoice:order:17");
    }
}
