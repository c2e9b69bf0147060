//! When to try again what has failed: after twice the usual pause, then four times, and so on up to a
//! limit. What succeeds once is treated as if it had never failed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longest that anything is left alone, unless the usual pause itself is longer.
pub const LONGEST: Duration = Duration::from_secs(60 * 60);

/// What has failed, by number, and when its turn comes.
#[derive(Debug, Default)]
pub struct Backoff(BTreeMap<u32, Failure>);

#[derive(Debug)]
struct Failure {
    times: u32,
    next: Instant,
}

impl Backoff {
    /// Whether it is time to try.
    pub fn is_due(&self, number: u32, now: Instant) -> bool {
        self.0.get(&number).is_none_or(|failure| failure.next <= now)
    }

    /// It went well.
    pub fn succeeded(&mut self, number: u32) {
        self.0.remove(&number);
    }

    /// It failed; `usual` is the pause where nothing fails.
    pub fn failed(&mut self, number: u32, now: Instant, usual: Duration) {
        let times = self.0.get(&number).map_or(1, |failure| failure.times.saturating_add(1));
        let factor = 2_u32.saturating_pow(times);
        let pause = usual.saturating_mul(factor).min(LONGEST.max(usual));
        self.0.insert(number, Failure { times, next: now + pause });
    }

    /// Forgets what is no longer there.
    pub fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        self.0.retain(|&number, _| is_there(number));
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, LONGEST};
    use std::time::{Duration, Instant};

    #[test]
    fn pauses_double_up_to_a_limit_and_end_with_a_success() {
        let usual = Duration::from_secs(600);
        let mut now = Instant::now();
        let mut backoff = Backoff::default();
        assert!(backoff.is_due(1, now));
        for minutes in [20, 40, 60, 60] {
            backoff.failed(1, now, usual);
            let pause = Duration::from_secs(minutes * 60);
            assert!(!backoff.is_due(1, now + pause - Duration::from_secs(1)), "{minutes}");
            now += pause;
            assert!(backoff.is_due(1, now) && backoff.is_due(2, now), "{minutes}");
        }
        backoff.succeeded(1);
        backoff.failed(1, now, usual);
        assert!(backoff.is_due(1, now + 2 * usual));
    }

    #[test]
    fn a_long_pause_is_not_cut_short_and_nothing_overflows() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        for _ in 0..100 {
            backoff.failed(1, now, 24 * LONGEST);
        }
        assert!(!backoff.is_due(1, now + 23 * LONGEST) && backoff.is_due(1, now + 24 * LONGEST));
        backoff.keep(|number| number != 1);
        assert!(backoff.is_due(1, now));
    }
}
