//! What an import says while it runs: where it begins, how far it is every few seconds, and what came
//! of it.

use super::Tally;
use super::source::Source;
use crate::domain::counted::counted;
use crate::domain::day::Instant;
use crate::domain::shown::shown;

/// How often it is said how far it is (microseconds).
const EVERY: i64 = 5_000_000;

/// An import under way.
pub struct Progress<'a> {
    store: &'a str,
    source: &'a Source,
    clock: fn() -> Instant,
    began: Instant,
    said: Instant,
}

impl<'a> Progress<'a> {
    /// Says what is going to be read.
    pub fn begin(store: &'a str, source: &'a Source, clock: fn() -> Instant) -> Progress<'a> {
        let now = clock();
        let name = shown(source.name());
        let rows = source
            .estimated_rows()
            .map_or_else(String::new, |rows| format!(", about {rows:.0} rows"));
        pgrx::notice!("{store}: importing claims from {name}: {} pages{rows}", source.pages());
        Progress { store, source, clock, began: now, said: now }
    }

    /// Says how far it is, unless it did a moment ago.
    pub fn tick(&mut self, page: u32, tally: &Tally) {
        let now = (self.clock)();
        if now - self.said < EVERY {
            return;
        }
        self.said = now;
        let share = self.source.share(page);
        let Tally { read, imported, .. } = tally;
        let total = (*read as f64 / share).max(*read as f64);
        pgrx::notice!(
            "{}: {read} of about {total:.0} rows read ({:.0} %), {imported} imported, {:.0} rows/s",
            self.store,
            share * 100.0,
            self.rate(*read, now)
        );
    }

    /// Says that keys held by others come now.
    pub fn settling(&self, count: usize) {
        if count > 0 {
            pgrx::notice!(
                "{}: {} held by other transactions; waiting for what becomes of that",
                self.store,
                counted(i64::try_from(count).unwrap_or(i64::MAX), "key is", "keys are")
            );
        }
    }

    /// Says what came of it, and warns of rows that were left out.
    pub fn end(&self, tally: &Tally) {
        let Tally { read, imported, already_there, expired, ahead, .. } = tally;
        let (store, refused) = (self.store, tally.refused());
        pgrx::notice!(
            "{store}: {} read, {imported} imported, {already_there} claimed already, \
             {expired} expired, {refused} refused, {:.0} rows/s",
            counted(*read, "row", "rows"),
            self.rate(*read, (self.clock)())
        );
        if *ahead > 0 {
            pgrx::notice!(
                "{store}: {} ahead of the clock, so that they count as processed now",
                counted(*ahead, "row has a time", "rows have times")
            );
        }
        if refused > 0 {
            pgrx::warning!(
                "{store}: {refused} rows were left out and refuse nothing: {} without a key, {} with a key \
                 longer than pg_once.max_key_bytes, {} without an effect or with one too long, {} without a time",
                tally.no_key,
                tally.long_key,
                tally.no_effect,
                tally.no_time
            );
        }
    }

    fn rate(&self, rows: u64, now: Instant) -> f64 {
        rows as f64 * 1e6 / (now - self.began).max(1) as f64
    }
}
