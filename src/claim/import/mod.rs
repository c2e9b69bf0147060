//! Moving in: the keys that another table says were processed become claims, each with its own time and
//! so in the leaf of its own day, while claims go on.
//!
//! Each range of pages is a transaction. Every key goes through the protocol, and within such a transaction
//! none is waited for: it holds rows that others wait for, and a wait the other way round would be a
//! deadlock, perhaps at a claimer's cost. A key that somebody else has in flight is set aside and has
//! its turn alone, in a transaction that holds nothing.

mod batch;
mod progress;
pub mod source;

use self::batch::{Batch, Judge};
use self::progress::Progress;
use self::source::{Columns, Source};
use crate::catalog::cache::{self, Store};
use crate::catalog::leaves;
use crate::claim::arbiter::{self, Arbiter, Wanted};
use crate::claim::{Outcome, Settings, Terms, check_effect};
use crate::domain::day::{Day, Instant};
use crate::domain::window::{Span, SpanFault};
use crate::error::{Refusal, SourceFault};
use crate::pg::inval;
use crate::pg::privilege::TableRight;
use crate::pg::procedure::in_own_memory;
use crate::pg::query::Position;
use crate::pg::text::Text;
use pgrx::pg_sys::Oid;
use std::rc::Rc;

/// Limits of `batch_size`.
const BATCH_SIZES: std::ops::RangeInclusive<i32> = 1..=1_000_000;
/// Rows a page can hold at most, about: what the first range is reckoned with.
const FULL_PAGE: u32 = 300;

/// An import as it is ordered.
pub struct Import<'a> {
    /// The store's name.
    pub store: &'a [u8],
    /// The table to read.
    pub source: Oid,
    /// Its columns.
    pub columns: Columns<'a>,
    /// The effect of every row where there is no column of effects.
    pub effect: &'a [u8],
    /// The window, counted from each row's time; None is the store's retention.
    pub ttl: Option<Span>,
    /// About how many rows are committed together.
    pub batch_size: i32,
    /// The settings.
    pub settings: &'a Settings,
    /// Ends the transaction of a batch and starts the next.
    pub commit: &'a dyn Fn(),
}

/// What became of the rows so far.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    /// Rows read: the sum of what follows, but `ahead`.
    pub read: u64,
    /// Claims made.
    pub imported: u64,
    /// Their key was claimed already.
    pub already_there: u64,
    /// Their window is over.
    pub expired: u64,
    /// The key is NULL or empty.
    pub no_key: u64,
    /// The key is longer than `pg_once.max_key_bytes`.
    pub long_key: u64,
    /// The effect is NULL or too long.
    pub no_effect: u64,
    /// The time is NULL.
    pub no_time: u64,
    /// Imported or there already, with a time that lies ahead: as if processed now.
    pub ahead: u64,
}

impl Tally {
    /// Rows that name nothing that could be claimed.
    pub fn refused(&self) -> u64 {
        self.no_key + self.long_key + self.no_effect + self.no_time
    }
}

/// A key that was in flight elsewhere when its batch was written.
struct Aside {
    key: Vec<u8>,
    effect: Vec<u8>,
    at: Instant,
}

impl Import<'_> {
    /// Carries it out and counts.
    pub fn run(&self) -> Result<Tally, Refusal> {
        let store = self.store()?;
        self.check(&store)?;
        let source = Source::new(self.source, &self.columns, &store)?;
        let size = u32::try_from(self.batch_size).unwrap_or(1);
        let name = store.display_name();
        let mut progress = Progress::begin(&name, &source, self.settings.clock);
        let mut tally = Tally::default();
        let mut aside = Vec::new();
        let (mut page, mut step) = (0, (size / FULL_PAGE).max(1));
        while page < source.pages() {
            let to = page.saturating_add(step).min(source.pages());
            let before = tally.read;
            let position = Position::new(&where_it_is(&source, page, to, &tally));
            match in_own_memory(|| self.range(&source, (page, to), tally, &mut aside)) {
                Ok(so_far) => tally = so_far,
                Err(refusal) => {
                    position.stay();
                    return Err(refusal);
                }
            }
            drop(position);
            // As many pages as would have held a batch, twice as many as before at most.
            let rows = u32::try_from(tally.read - before).unwrap_or(u32::MAX).max(1);
            let fitting = u64::from(to - page) * u64::from(size) / u64::from(rows);
            step = u32::try_from(fitting).unwrap_or(u32::MAX).clamp(1, step.saturating_mul(2));
            page = to;
            if aside.len() >= size as usize {
                self.settle(&mut aside, &mut tally, &progress)?;
            }
            progress.tick(page, &tally);
        }
        self.settle(&mut aside, &mut tally, &progress)?;
        progress.end(&tally);
        Ok(tally)
    }

    fn store(&self) -> Result<Rc<Store>, Refusal> {
        inval::accept();
        let store = cache::find(self.store)?.ok_or_else(|| arbiter::unknown(self.store))?;
        arbiter::require(&store, TableRight::Insert)?;
        Ok(store)
    }

    fn check(&self, store: &Store) -> Result<(), Refusal> {
        if !BATCH_SIZES.contains(&self.batch_size) {
            return Err(SourceFault::BatchSize(self.batch_size).into());
        }
        if self.columns.effect.is_some() && !self.effect.is_empty() {
            return Err(SourceFault::TwoEffects.into());
        }
        check_effect(self.effect)?;
        // Reckoned as a retention is, so that no month of the past makes it longer than the retention.
        match self.ttl.map_or(Ok(0), Span::length) {
            Ok(length) if length <= store.retention => Ok(()),
            Err(SpanFault::NotPositive) => Err(Refusal::TtlNotPositive),
            _ => {
                Err(Refusal::TtlTooLong { store: store.display_name(), retention: store.retention })
            }
        }
    }

    fn judge<'s>(&'s self, store: &'s Store) -> Judge<'s> {
        Judge {
            settings: self.settings,
            ttl: self.ttl,
            store,
            effect: self.columns.effect.is_none().then_some(self.effect),
            now: (self.settings.clock)(),
        }
    }

    /// One range of pages, in a transaction of its own.
    fn range(
        &self,
        source: &Source,
        (from, to): (u32, u32),
        mut tally: Tally,
        aside: &mut Vec<Aside>,
    ) -> Result<Tally, Refusal> {
        let store = self.store()?;
        let judge = self.judge(&store);
        let mut batch = Batch::default();
        let mut taken = Ok(());
        source.read(from, to, |row| {
            if taken.is_ok() {
                taken = batch.take(&row, &judge, &mut tally);
            }
        })?;
        taken?;
        tally.already_there += batch.sort() as u64;
        self.make_days(&store, &batch.days())?;
        drop(store);
        for group in batch.groups() {
            let effect = group.first().map_or(self.effect, |entry| batch.effect(entry));
            let terms =
                Terms { store: self.store, effect, ttl: self.ttl, event_time: None, wait: false };
            let mut arbiter = Arbiter::new(&terms, self.settings).in_bulk().backdating();
            let key = |place: usize, wanted: &mut Wanted| {
                wanted.key.set(batch.key(&group[place]));
                wanted.at = Some(group[place].at);
            };
            crate::claim::batch::in_runs(&mut arbiter, group.len(), key, &mut |place, outcome| {
                let entry = &group[place];
                match outcome {
                    Outcome::Claimed => tally.imported += 1,
                    Outcome::Duplicate | Outcome::TooLate | Outcome::Mismatch => {
                        tally.already_there += 1;
                    }
                    Outcome::InProgress => aside.push(Aside {
                        key: batch.key(entry).to_vec(),
                        effect: effect.to_vec(),
                        at: entry.at,
                    }),
                }
            })?;
        }
        (self.commit)();
        Ok(tally)
    }

    /// Makes the leaves that the claims go to, each committed before anything is written to it.
    fn make_days(&self, store: &Store, days: &[Day]) -> Result<(), Refusal> {
        for &day in days {
            if !store.leaves.iter().any(|leaf| leaf.meets(day)) {
                leaves::make(store.table, day, || ())?;
                (self.commit)();
            }
        }
        Ok(())
    }

    /// Gives the keys that were set aside their turn, each in a transaction of its own, which waits for
    /// whoever holds the key and holds nothing itself.
    fn settle(
        &self,
        aside: &mut Vec<Aside>,
        tally: &mut Tally,
        progress: &Progress,
    ) -> Result<(), Refusal> {
        progress.settling(aside.len());
        for Aside { key, effect, at } in aside.drain(..) {
            in_own_memory(|| {
                let store = self.store()?;
                let terms = Terms {
                    store: self.store,
                    effect: &effect,
                    ttl: self.ttl,
                    event_time: None,
                    wait: true,
                };
                let mut arbiter = Arbiter::new(&terms, self.settings).backdating();
                if self.judge(&store).is_over(at)? {
                    tally.expired += 1;
                } else if arbiter.claim_as_of(&Text::new(&key), Some(at))?.outcome
                    == Outcome::Claimed
                {
                    tally.imported += 1;
                } else {
                    tally.already_there += 1;
                }
                drop(arbiter);
                (self.commit)();
                Ok::<(), Refusal>(())
            })?;
        }
        Ok(())
    }
}

/// The context of an error.
fn where_it_is(source: &Source, from: u32, to: u32, tally: &Tally) -> Vec<u8> {
    let pages = format!(
        ", pages {from} to {}; {} rows before them are done and stay so",
        to.saturating_sub(1),
        tally.read
    );
    [b"once.import_claims() from ", source.name(), pages.as_bytes()].concat()
}
