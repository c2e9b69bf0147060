//! Names of leaves: `<store>_YYYYMMDD`, always within PostgreSQL's 63 bytes, never cut in the
//! middle of a character, and different for stores that share a long beginning.

use super::day::Day;
use xxhash_rust::xxh3::xxh3_64;

/// Longest identifier in bytes (NAMEDATALEN - 1).
pub const MAX_NAME_BYTES: usize = 63;

/// The name a leaf gets, `attempt` counting from 0 when earlier ones are taken by other tables.
pub fn leaf_name(store: &str, day: Day, attempt: u32) -> String {
    let date = day.compact();
    let suffix = if attempt == 0 { format!("_{date}") } else { format!("_{date}_{}", attempt + 1) };
    if store.len() + suffix.len() <= MAX_NAME_BYTES {
        return format!("{store}{suffix}");
    }
    // Eight hex digits of a hash keep apart the stores whose cut names are equal.
    let digest = format!("_{:08x}", xxh3_64(store.as_bytes()) >> 32);
    let room = MAX_NAME_BYTES - suffix.len() - digest.len();
    let cut = (0..=room).rev().find(|&i| store.is_char_boundary(i)).unwrap_or(0);
    format!("{}{digest}{suffix}", &store[..cut])
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME_BYTES, leaf_name};
    use crate::domain::day::Day;

    #[test]
    fn a_short_name_is_readable() {
        assert_eq!(leaf_name("processed_events", Day(0), 0), "processed_events_20000101");
        assert_eq!(leaf_name("processed_events", Day(0), 1), "processed_events_20000101_2");
    }

    #[test]
    fn long_names_stay_within_63_bytes_and_apart() {
        for len in 50..=63 {
            let (a, b) = ("x".repeat(len - 1) + "a", "x".repeat(len - 1) + "b");
            for attempt in 0..3 {
                let (a, b) = (leaf_name(&a, Day(1), attempt), leaf_name(&b, Day(1), attempt));
                assert!(a.len() <= MAX_NAME_BYTES && b.len() <= MAX_NAME_BYTES);
                assert_ne!(a, b);
            }
            assert_ne!(leaf_name(&a, Day(1), 0), leaf_name(&a, Day(2), 0));
        }
    }

    #[test]
    fn a_multibyte_name_is_cut_between_characters() {
        let name = leaf_name(&"é".repeat(31), Day(0), 0);
        assert!(name.len() <= MAX_NAME_BYTES && name.ends_with("_20000101"));
    }
}
