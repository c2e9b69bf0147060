//! One page of a filter: written from entries, asked for a hash, read back for a merge.

use super::Shape;

/// Bytes of a page at most: what fits a row that fills a block of a table.
pub const SIZE: usize = 8_132;

/// What stands at the end of a page.
const FOOT: usize = 16;

/// How many entries and bucket ends fit.
pub(super) const ROOM: usize = (SIZE - FOOT) / 2;

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
        page.extend(entries.iter().flat_map(|&(hash, day)| self.entry(hash, day).to_le_bytes()));
        let mut done = 0;
        for bucket in first..end {
            let crowd = entries[done..].iter().take_while(|(hash, _)| self.bucket(*hash) == bucket);
            let from = done;
            done += crowd.count();
            // In the order of what is kept of them, which is the order of their hashes too.
            let part = &mut page[2 * from..2 * done];
            let mut values: Vec<u16> =
                part.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            values.sort_unstable();
            for (place, value) in part.chunks_exact_mut(2).zip(values) {
                place.copy_from_slice(&value.to_le_bytes());
            }
            page.extend((done as u16).to_le_bytes());
        }
        debug_assert_eq!(done, entries.len());
        page.extend((entries.len() as u16).to_le_bytes());
        page.extend((buckets as u16).to_le_bytes());
        page.extend(number.to_le_bytes());
        page.extend(self.id.to_le_bytes());
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
        let (entries, ends) = self.parts(page, number)?;
        let bucket = (self.bucket(hash) - self.first_bucket(number)) as usize;
        let from = if bucket == 0 { 0 } else { number_at(ends, bucket - 1) as usize };
        let to = number_at(ends, bucket) as usize;
        let rest = self.rest(hash);
        for pair in entries.get(2 * from..2 * to)?.chunks_exact(2) {
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
        let (kept, ends) = self.parts(page, number)?;
        let first = self.first_bucket(number);
        let mut from = 0;
        for bucket in 0..ends.len() / 2 {
            let to = number_at(ends, bucket) as usize;
            for pair in kept.get(2 * from..2 * to)?.chunks_exact(2) {
                let entry = u16::from_le_bytes([pair[0], pair[1]]);
                let rest = u64::from(entry >> self.day_bits);
                let known = ((first + bucket as u64) << self.rest_bits()) | rest;
                let day = (entry & ((1 << self.day_bits) - 1)) as u8;
                entries.push((known << (u64::BITS - self.known_bits()), day));
            }
            from = to;
        }
        (2 * from == kept.len()).then_some(())
    }

    /// How far before the end of its page it is written where a hash's bucket ends.
    pub fn depth_of(&self, hash: u64) -> usize {
        let bucket = self.bucket(hash);
        let end = self.first_bucket(self.page_of_bucket(bucket) + 1);
        FOOT + 2 * (end - bucket) as usize
    }

    /// The entries and the bucket ends of a page, if it is the one.
    fn parts<'a>(&self, page: &'a [u8], number: u32) -> Option<(&'a [u8], &'a [u8])> {
        let (rest, foot) = page.split_at_checked(page.len().checked_sub(FOOT)?)?;
        let is_it = foot[4..8] == number.to_le_bytes() && foot[8..] == self.id.to_le_bytes();
        let (entries, buckets) = (number_at(foot, 0) as usize, number_at(foot, 1) as usize);
        let expected = self.first_bucket(number + 1) - self.first_bucket(number);
        let whole = rest.len() == 2 * (entries + buckets);
        (is_it && whole && buckets as u64 == expected).then(|| rest.split_at(2 * entries))
    }
}

fn number_at(bytes: &[u8], place: usize) -> u16 {
    u16::from_le_bytes([bytes[2 * place], bytes[2 * place + 1]])
}
