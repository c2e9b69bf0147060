//! What the keys of one effect look like, and what can be said of it, with the evidence.
//!
//! The rule: a finding says what it was seen by, and no more than that supports. A sample says what keys look like, counters
//! say whether any came twice. That none did is worth what could have come: few claims, a short time or no counters are no
//! evidence, and even many claims only bound how rarely one is redelivered.

use super::day::{DAY, Instant};
use super::figures::{
    claims, duplicates as counted_duplicates, keys as counted_keys, number, percent, span,
};
use super::kind::{Kind, Kinds, kinds};
use super::wrong::{Wrong, wrong};

/// With fewer keys shares say little.
const FEW: usize = 100;
/// So many claims and so long without a duplicate are worth a warning.
const MANY_CLAIMS: i64 = 10_000;
const LONG: Instant = DAY;
/// A share that counts as all, because a few keys of another kind do not change the picture.
const NEARLY_ALL: f64 = 0.95;
/// A share that is no accident.
const SOME: f64 = 0.01;

/// What was counted for an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Claims cannot be counted in this server.
    Unavailable,
    /// They are not counted now.
    Off,
    /// No answer was counted.
    Nothing,
    /// Answers since an instant.
    Since {
        /// Claims that were made.
        claimed: i64,
        /// Duplicates.
        duplicates: i64,
        /// Answers that another transaction had the key, which is a key that came twice, too.
        in_progress: i64,
        /// For how long, in microseconds.
        time: Instant,
    },
}

/// Something to be said of an effect's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether somebody has to look.
    pub is_warning: bool,
    /// In words.
    pub words: String,
}

/// Keys of an effect, as they are read.
#[derive(Default)]
pub struct Tally {
    lengths: Vec<u16>,
    sure: [usize; Kind::ALL.len()],
    /// Digests that may be uuids without hyphens: random, made from the clock.
    unsure: [usize; 2],
    /// Digests of 32 digits, those included.
    of_32: usize,
    wrong: Vec<(Wrong, usize)>,
}

/// What keys look like.
#[derive(Clone, Debug, PartialEq)]
pub struct Portrait {
    /// How many were looked at.
    pub sampled: usize,
    /// The share of each kind, in the order of [`Kind::ALL`]; of no keys all are 0.
    pub shares: [f64; Kind::ALL.len()],
    /// Bytes of the shortest, the one in the middle and the longest; None of no keys.
    pub lengths: Option<[u16; 3]>,
}

impl Tally {
    /// One more key.
    pub fn add(&mut self, key: &[u8]) {
        self.lengths.push(u16::try_from(key.len()).unwrap_or(u16::MAX));
        let kinds = kinds(key);
        let is_digest = kinds.has(Kind::Hash);
        self.of_32 += usize::from(is_digest && key.len() == 32);
        if is_digest && kinds != Kinds::NONE.and(Kind::Hash) {
            self.unsure[usize::from(kinds.has(Kind::TimeBased))] += 1;
        } else if let Some(kind) = kinds.each().next() {
            self.sure[kind as usize] += 1;
        }
        if let Some(why) = wrong(key) {
            match self.wrong.iter_mut().find(|(known, _)| *known == why) {
                Some((_, count)) => *count += 1,
                None => self.wrong.push((why, 1)),
            }
        }
    }

    /// What the keys look like. Of true digests one in 64 looks like a random uuid without hyphens and one in 16
    /// like one made from the clock; where it is more than one in four, they are what they look like.
    pub fn portrait(&self) -> Portrait {
        let mut counts = self.sure;
        for (kind, unsure) in [Kind::UuidV4, Kind::TimeBased].into_iter().zip(self.unsure) {
            let is_uuid = unsure * 4 > self.of_32;
            counts[if is_uuid { kind } else { Kind::Hash } as usize] += unsure;
        }
        let sampled = self.lengths.len();
        let mut lengths = self.lengths.clone();
        lengths.sort_unstable();
        let ends = lengths.first().zip(lengths.last());
        Portrait {
            sampled,
            shares: counts.map(|count| count as f64 / sampled.max(1) as f64),
            lengths: ends.map(|(&first, &last)| [first, lengths[(sampled - 1) / 2], last]),
        }
    }

    /// What is to be said, warnings first.
    pub fn findings(&self, counted: Counted) -> Vec<Finding> {
        let portrait = self.portrait();
        let n = portrait.sampled;
        let mut findings = Vec::new();
        for (why, count) in &self.wrong {
            let each = if *count == 1 { "it" } else { "each" };
            findings.push(Finding {
                is_warning: true,
                words: format!(
                    "{} of {} sampled keys name nothing: {each} {}",
                    number(*count as i64),
                    number(n as i64),
                    why.words()
                ),
            });
        }
        if n == 0 {
            return vec![said(false, "no key of it was in the sample".to_owned())];
        }
        for kind in [Kind::UuidV4, Kind::TimeBased, Kind::Hash] {
            let share = portrait.shares[kind as usize];
            if share >= NEARLY_ALL {
                findings.push(nearly_all(kind, share, n, counted));
            } else if share >= SOME && n >= FEW && kind != Kind::Hash {
                let (percent, ids) = (percent(share), ids(kind));
                findings.push(said(
                    false,
                    format!(
                        "{percent} of the keys are {ids} among others: some sender may make one up where its message has none"
                    ),
                ));
            }
        }
        if let Counted::Since { claimed, duplicates, time, .. } = counted
            && duplicates > claimed
            && duplicates >= 1_000
        {
            findings.push(said(
                false,
                format!(
                    "{} duplicates for {} in {}: the sender redelivers that much, or the key names more than one intent, \
                     so that work is refused that was never done; compare two messages with one key",
                    number(duplicates),
                    claims(claimed),
                    span(time)
                ),
            ));
        }
        if n < FEW {
            findings
                .push(said(false, format!("a sample of {} says little", counted_keys(n as i64))));
        }
        findings.sort_by_key(|finding| !finding.is_warning);
        findings
    }
}

fn said(is_warning: bool, words: String) -> Finding {
    Finding { is_warning, words }
}

/// Nearly all keys are of one kind that somebody made up, and here is whether any came twice.
fn nearly_all(kind: Kind, share: f64, n: usize, counted: Counted) -> Finding {
    let all = format!("{} {}", percent(share), ids(kind));
    let untold = |why: &str| {
        said(
            false,
            format!(
                "{all} in a sample of {}; whether any came twice cannot be told: {why}",
                number(n as i64)
            ),
        )
    };
    match counted {
        Counted::Unavailable => untold(
            "claims are not counted on this server, which takes shared_preload_libraries = 'pg_once'",
        ),
        Counted::Off => untold("pg_once.track_claims is off"),
        Counted::Nothing => {
            untold("nothing was counted for this effect since the statistics began")
        }
        Counted::Since { claimed, duplicates: 0, in_progress: 0, time } => {
            let seen =
                format!("{all} and not one duplicate in {} with {}", span(time), claims(claimed));
            if claimed < MANY_CLAIMS || time < LONG || n < FEW {
                return said(false, format!("{seen}, which is too little to judge by"));
            }
            let meaning = match kind {
                Kind::Hash => {
                    "if these are digests of whole messages, whatever changes from delivery to delivery, such as a timestamp, \
                     makes each another key, and they guard nothing"
                }
                _ => "these identify the attempt, not the intent, so they guard nothing",
            };
            // The rule of three: of n tries without an event, at 95 % confidence.
            let bound = number(claimed / 3);
            said(
                kind != Kind::Hash,
                format!(
                    "{seen}: {meaning}; unless fewer than 1 message in {bound} was delivered again (95 % confidence)"
                ),
            )
        }
        Counted::Since { claimed, duplicates, in_progress, time } => {
            let in_flight = match in_progress {
                0 => String::new(),
                n => format!(" and {} in flight", counted_keys(n)),
            };
            said(
                false,
                format!(
                    "{all}, and {}{in_flight} for {} in {}: the sender keeps at least some of them when it delivers \
                     again",
                    counted_duplicates(duplicates),
                    claims(claimed),
                    span(time)
                ),
            )
        }
    }
}

fn ids(kind: Kind) -> &'static str {
    match kind {
        Kind::UuidV4 => "random UUIDs",
        Kind::TimeBased => "ids made from the clock",
        Kind::Hash => "digests",
        Kind::Natural => "natural keys",
    }
}

#[cfg(test)]
mod tests {
    use super::{Counted, DAY, Tally};

    fn of(keys: impl IntoIterator<Item = String>) -> Tally {
        let mut tally = Tally::default();
        keys.into_iter().for_each(|key| tally.add(key.as_bytes()));
        tally
    }

    /// Digits that look like chance.
    fn digits(n: u64) -> String {
        let mixed = (u128::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        format!("{:032x}", mixed ^ (mixed >> 61))
    }

    fn uuid(n: u64) -> String {
        let d = digits(n);
        format!("{}-{}-4{}-a{}-{}", &d[..8], &d[8..12], &d[13..16], &d[17..20], &d[20..])
    }

    fn since(claimed: i64, duplicates: i64, days: i64) -> Counted {
        Counted::Since { claimed, duplicates, in_progress: 0, time: days * DAY }
    }

    fn only(tally: &Tally, counted: Counted) -> (bool, String) {
        let findings = tally.findings(counted);
        assert_eq!(findings.len(), 1, "{findings:?}");
        (findings[0].is_warning, findings[0].words.clone())
    }

    #[test]
    fn random_ids_without_a_duplicate_are_a_warning_where_many_could_have_come() {
        let tally = of((0..1_000).map(uuid));
        assert_eq!(tally.portrait().shares, [1.0, 0.0, 0.0, 0.0]);
        let (is_warning, words) = only(&tally, since(2_100_000, 0, 9));
        assert!(is_warning);
        let said = "100 % random UUIDs and not one duplicate in 9 days with 2.1 million claims: these identify the attempt, \
                    not the intent, so they guard nothing";
        assert!(words.starts_with(said), "{words}");
        assert!(words.contains("1 message in 700,000"), "{words}");
    }

    #[test]
    fn where_little_was_seen_it_is_said_and_no_warning() {
        let tally = of((0..1_000).map(uuid));
        for (counted, said) in [
            (Counted::Unavailable, "not counted on this server"),
            (Counted::Off, "track_claims is off"),
            (Counted::Nothing, "nothing was counted"),
            (since(9_999, 0, 30), "9,999 claims, which is too little"),
            (
                Counted::Since { claimed: 50_000, duplicates: 0, in_progress: 0, time: DAY / 2 },
                "12 hours with 50,000",
            ),
            (since(50_000, 3, 30), "3 duplicates for 50,000 claims in 30 days: the sender keeps"),
            // Whoever does not wait is never told duplicate while the first is at work.
            (
                Counted::Since { claimed: 50_000, duplicates: 0, in_progress: 2, time: 30 * DAY },
                "0 duplicates and 2 keys in flight for 50,000 claims in 30 days: the sender keeps",
            ),
        ] {
            let (is_warning, words) = only(&tally, counted);
            assert!(!is_warning && words.contains(said), "{words}");
        }
        let few = of((0..20).map(uuid)).findings(since(50_000, 0, 30));
        assert!(few.iter().all(|finding| !finding.is_warning), "{few:?}");
        assert!(
            few.iter().any(|finding| finding.words.contains("a sample of 20 keys says little"))
        );
    }

    #[test]
    fn natural_keys_are_nothing_to_speak_of() {
        let tally = of((0..500).map(|n| format!("order-{n}:paid")));
        assert_eq!(tally.findings(since(2_100_000, 0, 9)), []);
        assert_eq!(tally.findings(since(2_100_000, 2_000, 9)), []);
        assert_eq!(tally.portrait().lengths, Some([12, 14, 14]));
        let (_, words) = only(&tally, since(1_000, 5_000, 9));
        assert!(words.starts_with("5,000 duplicates for 1,000 claims"), "{words}");
    }

    #[test]
    fn random_ids_among_others_and_keys_that_name_nothing_are_told() {
        let natural = (0..970).map(|n| format!("order-{n}:paid"));
        let tally = of(natural.chain((0..28).map(uuid)).chain(["null".into(), "null".into()]));
        let findings = tally.findings(since(50_000, 0, 9));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].is_warning && findings[0].words.starts_with("2 of 1,000 sampled keys"));
        assert!(findings[1].words.starts_with("2.8 % of the keys are random UUIDs among others"));
    }

    #[test]
    fn a_uuid_without_hyphens_is_told_from_a_digest_by_how_many_there_are() {
        let bare = of((0..640).map(|n| uuid(n).replace('-', "")));
        assert_eq!(bare.portrait().shares, [1.0, 0.0, 0.0, 0.0]);
        let digests = of((0..640).map(digits));
        let shares = digests.portrait().shares;
        assert!(shares[2] > 0.99, "{shares:?}");
        let (is_warning, words) = only(&digests, since(50_000, 0, 9));
        assert!(!is_warning && words.contains("digests of whole messages"), "{words}");
    }

    #[test]
    fn no_keys_are_no_evidence() {
        let tally = Tally::default();
        assert_eq!((tally.portrait().sampled, tally.portrait().lengths), (0, None));
        assert!(only(&tally, since(50_000, 0, 9)).1.contains("no key of it"));
    }
}
