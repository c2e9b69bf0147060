//! What a key looks like: an id made at random, one made from the clock, a digest, or natural.
//!
//! The rule: told is only what the key's own bytes say. Where they can be two things (32 hexadecimal digits are an MD5, and
//! may as well be a uuid without hyphens), both are given, and whoever has many keys can tell by how many there are of
//! each. Everything that is nothing else is natural.

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A random UUID, version 4.
    UuidV4,
    /// An id made from the clock: UUID versions 1, 2, 6 and 7, and ULID.
    TimeBased,
    /// A digest: MD5, SHA-1, SHA-2 in hexadecimal digits or base64; UUID versions 3 and 5.
    Hash,
    /// Anything else.
    Natural,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::UuidV4, Kind::TimeBased, Kind::Hash, Kind::Natural];

    /// What it is called in SQL.
    pub fn label(self) -> &'static str {
        match self {
            Kind::UuidV4 => "uuidv4",
            Kind::TimeBased => "time_based",
            Kind::Hash => "hash",
            Kind::Natural => "natural",
        }
    }

    /// What it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Kind::UuidV4 => "a random UUID (uuidv4)",
            Kind::TimeBased => "an id made from the clock (time_based)",
            Kind::Hash => "a digest (hash)",
            Kind::Natural => "no id made at random or from the clock, and no digest (natural)",
        }
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// None.
    pub const NONE: Kinds = Kinds(0);

    /// The set with one more.
    pub const fn and(self, kind: Kind) -> Kinds {
        Kinds(self.0 | 1 << kind as u8)
    }

    /// Whether a kind is in it.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Whether every kind of it is in another.
    pub fn within(self, other: Kinds) -> bool {
        self.0 & !other.0 == 0
    }

    /// The kinds in it.
    pub fn each(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |&kind| self.has(kind))
    }

    /// The set with the kind of this label; None where there is no such kind.
    pub fn and_labelled(self, label: &[u8]) -> Option<Kinds> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.label().as_bytes() == label)?;
        Some(self.and(kind))
    }
}

/// Length of a uuid's text form.
const HYPHENATED: usize = 36;
/// Lengths of digests in hexadecimal digits: MD5, SHA-1, SHA-224, SHA-256, SHA-384, SHA-512.
const HEX: [usize; 6] = [32, 40, 56, 64, 96, 128];
/// The same in base64, with the number of padding characters.
const BASE64: [(usize, usize); 5] = [(24, 2), (28, 1), (40, 2), (44, 1), (88, 2)];
const ULID: usize = 26;

/// The kinds that a key may be of: at least one.
pub fn kinds(key: &[u8]) -> Kinds {
    let bare = strip(key, b"urn:uuid:", b"").or_else(|| strip(key, b"{", b"}")).unwrap_or(key);
    if let Some(kind) = hyphenated(bare) {
        return Kinds::NONE.and(kind);
    }
    let digest = [b"md5:".as_slice(), b"sha1:", b"sha256:", b"sha384:", b"sha512:"];
    let digest = digest.iter().find_map(|prefix| strip(key, prefix, b"")).unwrap_or(key);
    if HEX.contains(&digest.len()) && one_case(digest, u8::is_ascii_hexdigit) {
        // Without a prefix that says what it is, a uuid that has lost its hyphens looks the same.
        let uuid = (digest.len() == 32 && digest.len() == key.len())
            .then(|| by_version(digest[12], digest[16]))
            .flatten();
        let digest = Kinds::NONE.and(Kind::Hash);
        return uuid.map_or(digest, |kind| digest.and(kind));
    }
    if is_base64(digest) {
        return Kinds::NONE.and(Kind::Hash);
    }
    Kinds::NONE.and(if is_ulid(key) { Kind::TimeBased } else { Kind::Natural })
}

fn strip<'a>(key: &'a [u8], before: &[u8], behind: &[u8]) -> Option<&'a [u8]> {
    key.strip_prefix(before)?.strip_suffix(behind)
}

/// The kind of a uuid with hyphens; None for what is none, or of a version that says nothing.
fn hyphenated(key: &[u8]) -> Option<Kind> {
    let is_hyphen = |place| matches!(place, 8 | 13 | 18 | 23);
    let fits = |(place, byte): (usize, &u8)| {
        if is_hyphen(place) { *byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    let is_uuid = key.len() == HYPHENATED && key.iter().enumerate().all(fits);
    is_uuid.then(|| by_version(key[14], key[19])).flatten()
}

/// RFC 9562: the digit of the version, and the one that has the variant in its upper bits.
fn by_version(version: u8, variant: u8) -> Option<Kind> {
    if !matches!(variant.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b') {
        return None;
    }
    match version {
        b'4' => Some(Kind::UuidV4),
        b'1' | b'2' | b'6' | b'7' => Some(Kind::TimeBased),
        b'3' | b'5' => Some(Kind::Hash),
        _ => None,
    }
}

/// Whether all bytes are allowed, there are letters and digits, and the letters are all large or all small.
fn one_case(bytes: &[u8], allowed: fn(&u8) -> bool) -> bool {
    let any = |test: fn(&u8) -> bool| bytes.iter().any(test);
    bytes.iter().all(allowed)
        && any(u8::is_ascii_digit)
        && any(u8::is_ascii_lowercase) != any(u8::is_ascii_uppercase)
}

/// Padded base64, in either alphabet, of as many bytes as a digest has, and mixed as one is.
fn is_base64(key: &[u8]) -> bool {
    let Some(&(_, padding)) = BASE64.iter().find(|(len, _)| *len == key.len()) else {
        return false;
    };
    let (body, end) = key.split_at(key.len() - padding);
    let any = |test: fn(&u8) -> bool| body.iter().any(test);
    end.iter().all(|&byte| byte == b'=')
        && body.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte))
        && any(u8::is_ascii_lowercase)
        && any(u8::is_ascii_uppercase)
        && (any(u8::is_ascii_digit) || key.len() < 40)
}

/// Milliseconds since 1970 of 2005 and 2100: an id of another time is none.
const PLAUSIBLE: std::ops::Range<u64> = 1_104_537_600_000..4_102_444_800_000;

/// 26 characters of Crockford's base 32, which leaves out I, L, O and U; the first ten are a time.
fn is_ulid(key: &[u8]) -> bool {
    let digit = |byte: u8| {
        let place = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ".iter().position(|&d| d == byte);
        place.map(|place| place as u64)
    };
    let allowed = |byte: &u8| digit(byte.to_ascii_uppercase()).is_some();
    key.len() == ULID
        && one_case(key, |byte| byte.is_ascii_alphanumeric())
        && key.iter().all(allowed)
        && {
            let time = key[..10].iter().fold(0_u64, |time, byte| {
                time << 5 | digit(byte.to_ascii_uppercase()).unwrap_or(0)
            });
            PLAUSIBLE.contains(&time)
        }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Kinds, kinds};

    fn labels(key: &str) -> Vec<&'static str> {
        kinds(key.as_bytes()).each().map(Kind::label).collect()
    }

    #[test]
    fn ids_made_at_random_or_from_the_clock_and_digests_are_told() {
        for (key, kind) in [
            ("6f1e9b52-7c8e-4d2a-9b1e-0a1b2c3d4e5f", "uuidv4"),
            ("6F1E9B52-7C8E-4D2A-AB1E-0A1B2C3D4E5F", "uuidv4"),
            ("{6f1e9b52-7c8e-4d2a-9b1e-0a1b2c3d4e5f}", "uuidv4"),
            ("urn:uuid:6f1e9b52-7c8e-4d2a-9b1e-0a1b2c3d4e5f", "uuidv4"),
            ("1b4e28ba-2fa1-11d2-883f-0016d3cca427", "time_based"),
            ("1ef21d2f-1207-6660-8c4f-419efbd44d48", "time_based"),
            ("01909a3e-6b3e-7c2a-9f1e-2b3c4d5e6f70", "time_based"),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "time_based"),
            ("01arz3ndektsv4rrffq69g5fav", "time_based"),
            ("ff0d761e-8b49-59ac-8be1-9b779d0e6f5c", "hash"),
            ("da39a3ee5e6b4b0d3255bfef95601890afd80709", "hash"),
            ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "hash"),
            ("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "hash"),
            ("D41D8CD98F00B204E9800998ECF8427E", "hash"),
            ("1B2M2Y8AsgTpgAmY7PhCfg==", "hash"),
            ("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "hash"),
        ] {
            assert_eq!(labels(key), [kind], "{key}");
        }
    }

    #[test]
    fn everything_else_is_natural() {
        for key in [
            "order-42:paid",
            "evt_1NG8Du2eZvKYlo2CUI79vXWy",
            "6f1e9b52-7c8e-4d2a-9b1e-0a1b2c3d4e5f:paid",
            "00000000-0000-0000-0000-000000000000",
            "6f1e9b52-7c8e-4d2a-1b1e-0a1b2c3d4e5f",
            "6f1e9b52-7c8e-8d2a-9b1e-0a1b2c3d4e5f",
            "6f1e9b52x7c8e-4d2a-9b1e-0a1b2c3d4e5f",
            "12345678901234567890123456789012",
            "da39A3ee5e6b4b0d3255bfef95601890afd80709",
            "ABCDEFGHJKMNPQRSTVWXYZABCD",
            "ZZZZZZZZZZTSV4RRFFQ69G5FAV",
            "4711",
            "",
            "{",
        ] {
            assert_eq!(labels(key), ["natural"], "{key}");
        }
    }

    #[test]
    fn a_uuid_without_hyphens_may_be_a_digest() {
        assert_eq!(labels("6f1e9b527c8e4d2a9b1e0a1b2c3d4e5f"), ["uuidv4", "hash"]);
        assert_eq!(labels("01909a3e6b3e7c2a9f1e2b3c4d5e6f70"), ["time_based", "hash"]);
        assert_eq!(labels("md5:6f1e9b527c8e4d2a9b1e0a1b2c3d4e5f"), ["hash"]);
        let both = kinds(b"6f1e9b527c8e4d2a9b1e0a1b2c3d4e5f");
        assert!(!both.within(Kinds::NONE.and(Kind::Hash)));
        assert!(both.within(Kinds::NONE.and(Kind::Hash).and(Kind::UuidV4)));
    }

    #[test]
    fn every_label_is_read_back() {
        for kind in Kind::ALL {
            assert_eq!(
                Kinds::NONE.and_labelled(kind.label().as_bytes()),
                Some(Kinds::NONE.and(kind))
            );
        }
        assert_eq!(Kinds::NONE.and_labelled(b"uuid"), None);
    }
}
