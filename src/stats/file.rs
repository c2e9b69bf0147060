//! What is counted outlives a restart in good order: written when the server stops, read when it starts, and
//! then removed, so that after a crash no old counts come back. Only where the library is preloaded.
//!
//! A file that is not what this version wrote, or not whole, is thrown away with a line in the log. Nothing
//! that happens here keeps a server from starting or stopping.

use super::layout::WORDS;
use crate::pg::log;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use xxhash_rust::xxh3::xxh3_64;

/// Below the data folder, which is where the postmaster runs.
const FILE: &str = "pg_stat/pg_once.stat";

/// The first word: changes with whatever the words mean, as [`layout::NAME`](super::layout::NAME) does.
const VERSION: u64 = u64::from_be_bytes(*b"pgonce\0\x02");

/// Fills the words from the file, if there is one.
pub fn load(words: &[AtomicU64]) {
    let file = Path::new(FILE);
    match std::fs::read(file) {
        Ok(bytes) => match decode(&bytes) {
            Some(counts) => {
                for (word, count) in words.iter().zip(counts) {
                    word.store(count, Relaxed);
                }
            }
            None => {
                log::line(&format!("pg_once: \"{FILE}\" is damaged or of another version: ignored"))
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => log::line(&format!("pg_once: could not read \"{FILE}\": {error}")),
    }
    if let Err(error) = std::fs::remove_file(file) {
        log::line(&format!("pg_once: could not remove \"{FILE}\": {error}"));
    }
}

/// Writes the words to the file.
pub fn save(words: &[AtomicU64]) {
    let counts: Vec<u64> = words.iter().map(|word| word.load(Relaxed)).collect();
    let aside = format!("{FILE}.tmp");
    let written = write(&aside, &encode(&counts)).and_then(|()| std::fs::rename(&aside, FILE));
    if let Err(error) = written {
        log::line(&format!("pg_once: could not write \"{FILE}\": {error}"));
        // What is left of it is of no use; that it cannot be removed is said already.
        let _ = std::fs::remove_file(&aside);
    }
}

fn write(path: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all(bytes)?;
    // So that the name never leads to a half-written file, whatever the disk does after.
    file.sync_all()
}

fn encode(counts: &[u64]) -> Vec<u8> {
    let words = std::iter::once(&VERSION).chain(counts);
    let mut bytes: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
    bytes.extend(xxh3_64(&bytes).to_ne_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vec<u64>> {
    let (content, sum) = bytes.split_last_chunk::<8>()?;
    if xxh3_64(content) != u64::from_ne_bytes(*sum) {
        return None;
    }
    let (words, rest) = content.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let is_ours = rest.is_empty() && words.len() == 1 + WORDS && words.next() == Some(VERSION);
    is_ours.then(|| words.collect())
}

#[cfg(test)]
mod tests {
    use super::{WORDS, decode, encode};

    #[test]
    fn what_was_written_is_read() {
        let counts: Vec<u64> = (0..WORDS as u64).map(|n| n * n).collect();
        assert_eq!(decode(&encode(&counts)), Some(counts));
    }

    #[test]
    fn a_file_that_was_cut_or_changed_is_not_read() {
        let whole = encode(&vec![7; WORDS]);
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&whole[..whole.len() - 1]), None);
        assert_eq!(decode(&whole[..8]), None);
        for place in [0, 8, whole.len() / 2, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            assert_eq!(decode(&changed), None, "byte {place}");
        }
    }

    #[test]
    fn a_file_with_another_number_of_entries_is_not_read() {
        assert_eq!(decode(&encode(&vec![7; WORDS - 8])), None);
    }
}
