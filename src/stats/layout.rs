//! Where what is counted lies in the shared words.
//!
//! A head, then the identities of all entries side by side (so that looking for one reads few lines of
//! memory), then the entries, and behind them one more, the "other" entry, for what found no place.

use crate::domain::age::BUCKETS;
use crate::domain::key::MAX_EFFECT_BYTES;

/// Changes with whatever the words mean, and the file's first word with it.
pub const NAME: &std::ffi::CStr = c"pg_once statistics 2";

/// How many (database, store, effect) are counted apart in a server.
pub const ENTRIES: usize = 1024;
/// The entry for everything beyond them, of all databases together.
pub const OTHER: usize = ENTRIES;

/// When somebody last looked for entries to free, an instant.
pub const SWEPT_AT: usize = 0;
/// Words of the head: a line of memory.
const HEAD: usize = 8;

/// Words of the effect's bytes.
pub const EFFECT_WORDS: usize = MAX_EFFECT_BYTES / 8;

/// Raised whenever the entry stops being what it was. In the "other" entry: whenever any entry was freed.
pub const CHANGES: usize = 0;
/// The database's oid and the store's.
pub const OWNER: usize = 1;
/// Bytes of the effect.
pub const LENGTH: usize = 2;
/// The effect.
pub const EFFECT: usize = 3;
/// The instant since which the entry counts.
pub const SINCE: usize = EFFECT + EFFECT_WORDS;
/// The first of what is counted; everything from here on is added to, and zeroed by a reset.
pub const COUNTS: usize = SINCE + 1;
/// Answers, by outcome: see [`Kind`](super::Kind).
pub const OUTCOMES: usize = COUNTS;
/// Answers that another transaction was waited for.
pub const WAITS: usize = OUTCOMES + super::OUTCOMES;
/// How long, in microseconds.
pub const WAITED: usize = WAITS + 1;
/// The greatest age of a duplicate, in microseconds.
pub const OLDEST: usize = WAITED + 1;
/// Duplicates in the last tenth of the window that refused them.
pub const LATE: usize = OLDEST + 1;
/// Duplicates by age.
pub const AGES: usize = LATE + 1;
/// What became of effects outside the database: see [`Event`](super::Event).
pub const EVENTS: usize = AGES + BUCKETS;
/// Behind the last count.
pub const END: usize = EVENTS + super::EVENTS;

/// Words of an entry: whole lines, so that two entries share none.
const STRIDE: usize = END.next_multiple_of(8);
const FIRST: usize = HEAD + ENTRIES;

/// All words.
pub const WORDS: usize = FIRST + (ENTRIES + 1) * STRIDE;

/// The word that says whose an entry is; 0 of a free one.
pub const fn identity(entry: usize) -> usize {
    HEAD + entry
}

/// A word of an entry.
pub const fn word(entry: usize, field: usize) -> usize {
    FIRST + entry * STRIDE + field
}
