//! Where the entries of a new filter come from: leaves that are read, and filters that are taken in.

use super::Day;
use super::leaf::Read;
use crate::catalog::filters::Known;
use crate::domain::filter::Shape;
use crate::domain::filter::merge;
use crate::domain::filter::page::Entry;
use crate::error::Refusal;
use crate::pg::pages::{self, Pages};
use pgrx::pg_sys::Oid;

pub enum Source {
    Read(Read),
    Stored(Stored),
}

impl Source {
    /// All of it was read; or the table of the filter comes back whose pages are not what was written to them.
    pub fn finish(self) -> Result<Option<Oid>, Refusal> {
        match self {
            Source::Read(read) => read.finish().map(|()| None),
            Source::Stored(stored) => Ok(stored.finish()),
        }
    }
}

impl merge::Source for Source {
    fn peek(&mut self) -> Option<Entry> {
        match self {
            Source::Read(read) => read.peek(),
            Source::Stored(stored) => stored.entries.get(stored.place).copied(),
        }
    }

    fn advance(&mut self) {
        match self {
            Source::Read(read) => read.advance(),
            Source::Stored(stored) => {
                stored.place += 1;
                stored.refill();
            }
        }
    }
}

/// The entries of a filter that is taken in, page by page, its days numbered anew and without those that count no
/// more.
pub struct Stored {
    table: Oid,
    shape: Shape,
    pages: Pages,
    numbers: Vec<Option<u8>>,
    next: u32,
    entries: Vec<Entry>,
    place: usize,
    /// A page is not what was written to it.
    spoilt: bool,
}

impl Stored {
    /// The days that count get numbers from `first`.
    pub fn new(filter: &Known, days: &[(usize, Day)], first: usize) -> Result<Stored, Refusal> {
        let lost = || Refusal::Internal(format!("filter {} is gone", filter.table));
        let count = days.iter().map(|(place, _)| place + 1).max().unwrap_or(0);
        let mut numbers = vec![None; count];
        for (offset, (place, _)) in days.iter().enumerate() {
            numbers[*place] = u8::try_from(first + offset).ok();
        }
        let pages = Pages::find(filter.table, filter.shape.pages).ok_or_else(lost)?;
        let mut stored = Stored {
            table: filter.table,
            shape: filter.shape,
            pages,
            numbers,
            next: 0,
            entries: Vec::new(),
            place: 0,
            spoilt: false,
        };
        stored.refill();
        Ok(stored)
    }

    fn refill(&mut self) {
        while self.place == self.entries.len() && self.next < self.shape.pages && !self.spoilt {
            let number = self.next;
            self.next += 1;
            self.place = 0;
            // Nobody drops it: that takes the right to build, which is held.
            let asked = std::iter::once((0, &self.pages, number));
            let (shape, entries, spoilt) = (&self.shape, &mut self.entries, &mut self.spoilt);
            pages::read(asked, |_, page| {
                *spoilt = shape.read(page, number, entries).is_none();
            });
            let numbers = &self.numbers;
            self.entries.retain_mut(|(_, day)| {
                let number = numbers.get(usize::from(*day)).copied().flatten();
                *day = number.unwrap_or(0);
                number.is_some()
            });
        }
    }

    fn finish(self) -> Option<Oid> {
        self.spoilt.then_some(self.table)
    }
}
