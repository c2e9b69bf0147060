//! What consumers were told, in order, and what can never have been told: a fence twice, a good fence beside a newer one,
//! two answers, attempts that do not count up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use pg_once_tests::failure::Failure;
use pg_once_tests::session::Session;
use rand::Rng;

use crate::scene::{Begun, Calls};

/// Something that a consumer was told: when it asked and when it was told, as numbers in one order.
#[derive(Debug, Clone)]
struct Told {
    key: String,
    fence: i64,
    asked: usize,
    told: usize,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Given { attempt: i32 },
    Extended,
    Failed,
    Done { answer: String },
}

/// Everything that was told.
#[derive(Debug, Default)]
pub(crate) struct History {
    clock: AtomicUsize,
    told: Mutex<Vec<Told>>,
}

impl History {
    fn asks(&self) -> usize {
        self.clock.fetch_add(1, SeqCst)
    }

    fn tells(&self, key: &str, fence: i64, asked: usize, what: What) {
        let told = self.clock.fetch_add(1, SeqCst);
        let entry = Told { key: key.to_owned(), fence, asked, told, what };
        self.told.lock().expect("no panic holds it").push(entry);
    }

    /// A consumer begins an effect; what it was given is written down.
    pub(crate) fn begins(
        &self,
        s: &mut impl Calls,
        key: &str,
        lease: &str,
    ) -> Result<Begun, Failure> {
        let asked = self.asks();
        let begun = s.try_begin(key, lease)?;
        self.was_given(key, &begun, asked);
        Ok(begun)
    }

    fn was_given(&self, key: &str, begun: &Begun, asked: usize) {
        if let Some(fence) = begun.fence {
            let attempt = begun.attempt.expect("an attempt has a number");
            self.tells(key, fence, asked, What::Given { attempt });
        }
    }

    /// A consumer runs an effect to some end, or to none.
    pub(crate) fn runs(
        &self,
        s: &mut impl Calls,
        key: &str,
        fence: i64,
        chance: &mut impl Rng,
    ) -> Result<(), Failure> {
        let lets = |told: Result<bool, Failure>| match told {
            Err(failure) if failure.code == "OC008" => Ok(false),
            other => other,
        };
        match chance.random_range(0..8) {
            // It dies.
            0 => return Ok(()),
            1 => {
                let asked = self.asks();
                match s.try_fail(key, fence, "0") {
                    Ok(_) => self.tells(key, fence, asked, What::Failed),
                    Err(failure) if failure.code == "OC008" => {}
                    Err(failure) => return Err(failure),
                }
                return Ok(());
            }
            2 => {
                let asked = self.asks();
                if lets(s.try_extend(key, fence, "60 milliseconds").map(|_| true))? {
                    self.tells(key, fence, asked, What::Extended);
                }
            }
            // Longer than its lease.
            3 => std::thread::sleep(Duration::from_millis(chance.random_range(20..80))),
            _ => {}
        }
        let (asked, answer) = (self.asks(), fence.to_string());
        if lets(s.try_complete(key, fence, &format!("'{answer}'")))? {
            self.tells(key, fence, asked, What::Done { answer });
        }
        Ok(())
    }

    /// How many effects were done.
    pub(crate) fn done(&self) -> usize {
        let told = self.told.lock().expect("no panic holds it");
        told.iter().filter(|entry| matches!(entry.what, What::Done { .. })).count()
    }

    /// Holds what was told against what can be, and against what is there. `all_known`: no acknowledgement was lost.
    pub(crate) fn check(&self, s: &mut Session, all_known: bool) {
        let told = self.told.lock().expect("no panic holds it");
        let mut of_keys: BTreeMap<&str, Vec<&Told>> = BTreeMap::new();
        for entry in told.iter() {
            of_keys.entry(&entry.key).or_default().push(entry);
        }
        let mut fences = BTreeSet::new();
        for entry in told.iter().filter(|entry| matches!(entry.what, What::Given { .. })) {
            assert!(fences.insert(entry.fence), "fence {} was given twice", entry.fence);
        }
        for (key, entries) in of_keys {
            let mut given: Vec<(i64, i32, usize)> = entries
                .iter()
                .filter_map(|entry| match entry.what {
                    What::Given { attempt } => Some((entry.fence, attempt, entry.told)),
                    _ => None,
                })
                .collect();
            given.sort_unstable();
            for (place, pair) in given.windows(2).enumerate() {
                assert!(pair[0].1 < pair[1].1, "{key}: attempts do not count up: {given:?}");
                let next = place as i32 + 2;
                assert!(!all_known || pair[1].1 == next, "{key}: an attempt is missing: {given:?}");
            }
            for entry in &entries {
                let newer = given
                    .iter()
                    .find(|(fence, _, since)| *fence > entry.fence && *since < entry.asked);
                assert!(newer.is_none(), "{key}: {entry:?}, after {newer:?} was given");
            }
            let done: Vec<&str> = entries
                .iter()
                .filter_map(|entry| match &entry.what {
                    What::Done { answer } => Some(answer.as_str()),
                    _ => None,
                })
                .collect();
            assert!(done.len() <= 1, "{key} was done more than once: {done:?}");
            let stored: Vec<Option<String>> =
                s.column(&format!("SELECT result::text FROM once.lookup('{key}')"));
            assert_eq!(stored.len(), 1, "{key} has no claim");
            if let [answer] = done[..] {
                assert_eq!(stored[0].as_deref(), Some(answer), "{key}");
                let last = given.last().map(|(fence, ..)| fence.to_string());
                assert_eq!(last.as_deref(), Some(answer), "{key}: not the last fence: {given:?}");
                assert_eq!(s.state_of(key), [""; 0], "{key} is done");
            } else if all_known {
                assert_eq!(stored[0], None, "{key} has an answer that nobody gave");
                assert_eq!(s.state_of(key).len(), 1, "{key} is lost");
            } else {
                let unfinished = s.state_of(key).len();
                assert_eq!(unfinished, usize::from(stored[0].is_none()), "{key} is lost");
            }
        }
    }
}
