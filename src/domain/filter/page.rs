//! One page of a filter: written from entries, asked for a hash, read back for a merge.

use super::Shape;

/// Bytes of a page at most: what fits a row that fills a block of a table.
pub const SIZE: usize = 8_132;

const HEAD: usize = 16;

/// How many entries and bucket ends fit.
pub(super) const ROOM: usize = (SIZE - HEAD) / 2;

/// An entry: the hash of a key, of which the top bits count, and the number of its day.
pub type Entry = (u64, u8);

/// The entries crowd: they do not fit the page they belong to.
#[derive(Debug, PartialEq, Eq)]
pub struct Crowded;

impl Shape {
    /// Writes page `number` from its entries, which come in the order of their hashes.
    pub fn write(&self, number: u32, entries: &[Entry], page: &mut Vec<u8>) -> Result<(), Crowded> {
        let (first, end) = (self.first_bucket(number), self.first_bucket(number + 1));
        let buckets = (end - first) as usize;
        if entries.len() + buckets > ROOM {
            return Err(Crowded);
        }
        page.clear();
        page.extend(self.id.to_le_bytes());
        page.extend(number.to_le_bytes());
        page.extend((entries.len() as u16).to_le_bytes());
        page.extend((buckets as u16).to_le_bytes());
        let mut done = 0;
        for bucket in first..end {
            done +=
                entries[done..].iter().take_while(|(hash, _)| self.bucket(*hash) == bucket).count();
            page.extend((done as u16).to_le_bytes());
        }
        debug_assert_eq!(done, entries.len());
        let begin = page.len();
        page.extend(entries.iter().flat_map(|&(hash, day)| self.entry(hash, day).to_le_bytes()));
        // Those of one bucket in the order of what is kept of them, which is the order of their hashes too.
        let mut from = 0;
        for bucket in 0..buckets {
            let to = number_at(page, HEAD + 2 * bucket) as usize;
            let part = &mut page[begin + 2 * from..begin + 2 * to];
            let mut values: Vec<u16> =
                part.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            values.sort_unstable();
            for (place, value) in part.chunks_exact_mut(2).zip(values) {
                place.copy_from_slice(&value.to_le_bytes());
            }
            from = to;
        }
        Ok(())
    }

    fn entry(&self, hash: u64, day: u8) -> u16 {
        // With as many day bits as an entry has there would be nothing to shift; a shape has 7 at most.
        (self.rest(hash) << self.day_bits) | u16::from(day)
    }

    /// Calls `each` with the number of every day that may hold the hash. None where the bytes are not the
    /// page of this filter that was asked for.
    pub fn look(&self, page: &[u8], hash: u64, mut each: impl FnMut(u8)) -> Option<()> {
        let number = self.page_of(hash);
        let (entries, buckets) = self.head(page, number)?;
        let bucket = (self.bucket(hash) - self.first_bucket(number)) as usize;
        debug_assert!(bucket < buckets);
        let end_of = |bucket: usize| number_at(page, HEAD + 2 * bucket) as usize;
        let from = if bucket == 0 { 0 } else { end_of(bucket - 1) };
        let to = end_of(bucket);
        if to > entries {
            return None;
        }
        let begin = HEAD + 2 * buckets;
        let rest = self.rest(hash);
        for pair in page.get(begin + 2 * from..begin + 2 * to)?.chunks_exact(2) {
            let entry = u16::from_le_bytes([pair[0], pair[1]]);
            if entry >> self.day_bits == rest {
                each((entry & ((1 << self.day_bits) - 1)) as u8);
            }
        }
        Some(())
    }

    /// The entries of page `number`, in the order of their hashes, of which the [`Shape::known_bits`] are
    /// right and the others 0. None where the bytes are not that page.
    pub fn read(&self, page: &[u8], number: u32, entries: &mut Vec<Entry>) -> Option<()> {
        entries.clear();
        let (count, buckets) = self.head(page, number)?;
        let first = self.first_bucket(number);
        let begin = HEAD + 2 * buckets;
        let mut from = 0;
        for bucket in 0..buckets {
            let to = number_at(page, HEAD + 2 * bucket) as usize;
            for pair in page.get(begin + 2 * from..begin + 2 * to)?.chunks_exact(2) {
                let entry = u16::from_le_bytes([pair[0], pair[1]]);
                let rest = u64::from(entry >> self.day_bits);
                let known = ((first + bucket as u64) << self.rest_bits()) | rest;
                let day = (entry & ((1 << self.day_bits) - 1)) as u8;
                entries.push((known << (u64::BITS - self.known_bits()), day));
            }
            from = to;
        }
        (from == count).then_some(())
    }

    /// How many entries and buckets the page says it has, if it is the one.
    fn head(&self, page: &[u8], number: u32) -> Option<(usize, usize)> {
        let head = page.get(..HEAD)?;
        let is_it = head[..8] == self.id.to_le_bytes() && head[8..12] == number.to_le_bytes();
        let (entries, buckets) = (number_at(head, 12) as usize, number_at(head, 14) as usize);
        let expected = self.first_bucket(number + 1) - self.first_bucket(number);
        let whole = page.len() == HEAD + 2 * (entries + buckets);
        (is_it && whole && buckets as u64 == expected).then_some((entries, buckets))
    }
}

fn number_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
