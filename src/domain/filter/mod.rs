//! A filter over the keys of days that are over: it answers, from one page, which of up to [`MOST_DAYS`] days
//! may hold a key. It errs only towards "may".
//!
//! Of each key it keeps one entry of 16 bits: a piece of the key's hash and the number of the day. The top
//! bits of the hash choose a bucket, about ten entries long; neighbouring buckets share a page, so that a
//! look-up touches one page, and in it two or three cache lines, however many days there are. Compared
//! with a Bloom filter a day, whose errors add up over the days, one entry a key costs fewer bytes for the
//! same rate of error, needs no common size of the days, and can be merged with others without reading
//! the keys again.
//!
//! A page: the entries (2 bytes each), a bucket's in rising order; the end of each bucket (2 each); number of
//! entries (2), number of buckets (2), number of the page (4), id of the filter (8). All little-endian. The
//! id makes a page say whose it is: whoever reads one that is not what was asked for knows it. What is read
//! first stands at the end, where it can be fetched before anything is known of the page.

pub mod merge;
pub mod page;

/// How many days one filter can tell apart.
pub const MOST_DAYS: usize = 128;

/// Bits of an entry.
const ENTRY_BITS: u32 = 16;

/// Entries of a bucket at most, on average; at least half of that.
const LOAD: u64 = 12;

/// What must be known of a filter to look into its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Which filter it is; on every page.
    pub id: u64,
    /// How many pages it has.
    pub pages: u32,
    /// There are 2 to the power of this many buckets, at least 1.
    pub bucket_bits: u32,
    /// Bits of an entry that say which day.
    pub day_bits: u32,
}

impl Shape {
    /// The shape for so many entries of so many days. `tries` counts from 0: each time there is more room,
    /// for entries that happen to crowd on one page.
    pub fn fit(id: u64, entries: u64, days: usize, tries: u32) -> Shape {
        let day_bits = days.next_power_of_two().trailing_zeros();
        let bucket_bits = entries.div_ceil(LOAD).next_power_of_two().trailing_zeros().max(1);
        // Evenly hashed entries stay within five standard deviations of the mean, once in millions of pages
        // not.
        let load = (entries as f64 / (1_u64 << bucket_bits) as f64).max(1.0);
        let full = page::ROOM as f64 / (1.0 + 1.0 / load) - 1.0;
        let room = (full - 5.0 * full.sqrt()) / 1.1_f64.powi(tries as i32);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive and small
        let pages = ((entries as f64 / room).ceil() as u32).clamp(1, 1 << bucket_bits);
        Shape { id, pages, bucket_bits, day_bits }
    }

    /// Bits of an entry that come from the hash.
    fn rest_bits(&self) -> u32 {
        ENTRY_BITS - self.day_bits
    }

    /// How many of a hash's top bits can be told from the place and the content of an entry.
    pub fn known_bits(&self) -> u32 {
        self.bucket_bits + self.rest_bits()
    }

    /// Whether entries of another filter are known well enough to be put into this one.
    pub fn takes(&self, other: &Shape) -> bool {
        other.known_bits() >= self.known_bits()
    }

    /// Whether these values can be a shape: they come from a table.
    pub fn is_sound(&self) -> bool {
        let days_fit = (1_usize << self.day_bits.min(31)) <= MOST_DAYS;
        (1..=40).contains(&self.bucket_bits)
            && days_fit
            && self.pages >= 1
            && u64::from(self.pages) <= 1 << self.bucket_bits
    }

    fn bucket(&self, hash: u64) -> u64 {
        hash >> (u64::BITS - self.bucket_bits)
    }

    fn rest(&self, hash: u64) -> u16 {
        let known = hash >> (u64::BITS - self.known_bits());
        (known & ((1 << self.rest_bits()) - 1)) as u16
    }

    /// The page to look at for a hash.
    pub fn page_of(&self, hash: u64) -> u32 {
        self.page_of_bucket(self.bucket(hash))
    }

    #[allow(clippy::cast_possible_truncation)] // less than the number of pages
    fn page_of_bucket(&self, bucket: u64) -> u32 {
        ((u128::from(bucket) * u128::from(self.pages)) >> self.bucket_bits) as u32
    }

    /// The first bucket of a page.
    #[allow(clippy::cast_possible_truncation)] // at most the number of buckets
    fn first_bucket(&self, page: u32) -> u64 {
        // Nearly always, and several times faster.
        if self.bucket_bits <= u32::BITS {
            return (u64::from(page) << self.bucket_bits).div_ceil(u64::from(self.pages));
        }
        (u128::from(page) << self.bucket_bits).div_ceil(u128::from(self.pages)) as u64
    }
}

#[cfg(test)]
mod tests;
