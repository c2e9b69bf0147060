//! Which filters to make one of, and the order of entries that come from several.
//!
//! Every day that is over brings a filter of its own; a claim asks each filter of a store. So few filters
//! are wanted, but making one of two writes both of them again. The rule: a new filter takes in its elder
//! neighbour as long as that is not more than [`GROWTH`] times its size. Like the levels of a log-structured
//! merge tree (O'Neil and others, 1996) that keeps the number of filters to the logarithm of the number of
//! days, and so the number of times that a key's entry is written.

use super::page::Entry;

/// A filter takes in its elder neighbour if that has at most so many times its own entries.
const GROWTH: u64 = 2;

/// A filter that is there: its entries, and how many of its days still count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elder {
    /// Entries of the days that still count.
    pub entries: u64,
    /// How many those are.
    pub days: usize,
}

/// How many of the filters that are there, youngest first, become one with new days of so many entries.
/// `most` is the number of days that one filter may have.
pub fn taken_in(elders: &[Elder], entries: u64, days: usize, most: usize) -> usize {
    let (mut entries, mut days, mut taken) = (entries, days, 0);
    for elder in elders {
        // Days without many claims cost nothing to write again.
        let small = elder.entries <= (GROWTH * entries).max(4_096);
        if !small || days + elder.days > most {
            break;
        }
        (entries, days, taken) = (entries + elder.entries, days + elder.days, taken + 1);
    }
    taken
}

/// A source of entries in the order of their hashes.
pub trait Source {
    /// The next entry, without taking it.
    fn peek(&mut self) -> Option<Entry>;
    /// Takes it.
    fn advance(&mut self);
}

/// The entry with the lowest hash of all sources, taken.
pub fn next<S: Source>(sources: &mut [S]) -> Option<Entry> {
    let lowest = sources
        .iter_mut()
        .enumerate()
        .filter_map(|(place, source)| Some((source.peek()?, place)))
        .min_by_key(|((hash, _), _)| *hash)?;
    sources[lowest.1].advance();
    Some(lowest.0)
}
