//! Keys and effects: exact bytes, compared byte for byte, limited in bytes, never by characters or
//! by what compresses. The hash only chooses which key lock to take; no answer depends on it.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Longest effect name in bytes. With the longest key (2048) the primary key's index row stays
/// under the 2704 bytes a btree page allows.
pub const MAX_EFFECT_BYTES: usize = 256;

/// Upper limit of `pg_once.max_key_bytes`.
pub const MAX_KEY_BYTES: i32 = 2048;

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// The key has no bytes.
    Empty,
    /// The key has `len` bytes where `max` are allowed.
    TooLong {
        /// Bytes of the key.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
}

/// Refuses an empty key and one of more than `max` bytes.
pub fn check(key: &[u8], max: usize) -> Result<(), KeyFault> {
    match key.len() {
        0 => Err(KeyFault::Empty),
        len if len > max => Err(KeyFault::TooLong { len, max }),
        _ => Ok(()),
    }
}

/// The number under which (store, effect, key) is locked while a claim decides.
///
/// Part of the protocol: every session of a database must compute the same number, so a change of
/// this function must not run beside an older version. Two keys with one number wait for each other
/// for microseconds and nothing else. Hash: XXH3 (Yann Collet), chained over effect and key, so
/// that ('a','b:c') and ('a:b','c') do not meet by construction.
pub fn lock_number(store: u32, effect: &[u8], key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, xxh3_64_with_seed(effect, u64::from(store)))
}

#[cfg(test)]
mod tests {
    use super::{KeyFault, check, lock_number};

    #[test]
    fn the_limit_itself_is_allowed_and_one_byte_more_is_not() {
        assert_eq!(check(&[b'x'; 1024], 1024), Ok(()));
        assert_eq!(check(&[b'x'; 1025], 1024), Err(KeyFault::TooLong { len: 1025, max: 1024 }));
        assert_eq!(check(b"", 1024), Err(KeyFault::Empty));
    }

    #[test]
    fn effect_and_key_are_not_joined() {
        assert_ne!(lock_number(1, b"a", b"b:c"), lock_number(1, b"a:b", b"c"));
        assert_ne!(lock_number(1, b"", b"ab"), lock_number(1, b"a", b"b"));
    }

    #[test]
    fn stores_do_not_share_locks() {
        assert_ne!(lock_number(1, b"", b"k"), lock_number(2, b"", b"k"));
    }

    #[test]
    fn keys_that_collide_in_32_bits_of_postgres_do_not_collide_here() {
        for (a, b) in
            [("evt-111195", "evt-162408"), ("evt-79994", "evt-120903"), ("evt-13760", "evt-183382")]
        {
            assert_ne!(lock_number(1, b"", a.as_bytes()), lock_number(1, b"", b.as_bytes()));
        }
    }

    #[test]
    fn the_number_is_the_same_in_every_build() {
        // A changed value here is a changed protocol: see lock_number.
        assert_eq!(lock_number(0, b"", b""), 4_696_993_233_866_070_003);
    }
}
