//! Pauses: spans of time in which a store's windows stand still, because somebody holds them for a replay or
//! because the consumers or the server were away. Time in a pause does not count: a window that was open when
//! it began is open for as much longer as it lasted.

use super::day::Instant;

/// Pauses in order, merged so that none meets another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses(Vec<(Instant, Instant)>);

impl Pauses {
    /// From spans in any order, which may overlap; the end of time as an end means that it is not over.
    pub fn new(mut spans: Vec<(Instant, Instant)>) -> Pauses {
        spans.sort_unstable();
        let mut merged: Vec<(Instant, Instant)> = Vec::new();
        for (since, until) in spans {
            match merged.last_mut() {
                Some(last) if since <= last.1 => last.1 = last.1.max(until),
                _ if since < until => merged.push((since, until)),
                _ => {}
            }
        }
        Pauses(merged)
    }

    /// These and one more.
    pub fn with(&self, span: (Instant, Instant)) -> Pauses {
        let mut spans = self.0.clone();
        spans.push(span);
        Pauses::new(spans)
    }

    /// When a window that was to reach from `from` to `until` ends. Never before `until`; of two windows of
    /// which one lies within the other, the inner one ends no later.
    pub fn end(&self, from: Instant, until: Instant) -> Instant {
        self.0.iter().fold(until, |end, &(since, over)| {
            let begins = since.max(from);
            if begins < end && begins < over {
                if over == Instant::MAX { over } else { end.saturating_add(over - begins) }
            } else {
                end
            }
        })
    }

    /// Whether one is in force.
    pub fn in_force(&self, now: Instant) -> bool {
        self.0.iter().any(|&(since, until)| since <= now && now < until)
    }

    /// The latest instant to which a window from `from` may have been meant to reach if it is over by `now`.
    pub fn over_by(&self, from: Instant, now: Instant) -> Instant {
        // The end grows with what was meant, so halving finds where it passes `now`.
        let (mut over, mut open) = (from.min(now), now.saturating_add(1));
        while over + 1 < open {
            let middle = over + (open - over) / 2;
            if self.end(from, middle) <= now { over = middle } else { open = middle }
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::Pauses;

    #[test]
    fn a_window_open_when_a_pause_begins_is_open_for_as_much_longer() {
        let pauses = Pauses::new(vec![(100, 130)]);
        assert_eq!(pauses.end(50, 120), 150, "open through it");
        assert_eq!(pauses.end(50, 100), 100, "closed when it began");
        assert_eq!(pauses.end(110, 115), 135, "opened within it: what is left of it");
        assert_eq!(pauses.end(130, 140), 140, "opened after it");
        assert_eq!(pauses.end(0, 50), 50, "closed long before");
    }

    #[test]
    fn a_pause_that_is_not_over_keeps_windows_open() {
        let pauses = Pauses::new(vec![(100, i64::MAX)]);
        assert_eq!(pauses.end(50, 101), i64::MAX);
        assert_eq!(pauses.end(200, 201), i64::MAX);
        assert_eq!(pauses.end(50, 100), 100);
        assert!(pauses.in_force(100) && pauses.in_force(i64::MAX - 1) && !pauses.in_force(99));
    }

    #[test]
    fn a_later_pause_counts_if_an_earlier_one_has_kept_the_window_open() {
        let pauses = Pauses::new(vec![(130, 140), (100, 120)]);
        assert_eq!(pauses.end(50, 115), 145);
        assert_eq!(pauses.end(50, 110), 130, "closed the moment the second begins");
    }

    #[test]
    fn what_is_over_by_an_instant_is_found_exactly() {
        let pauses = Pauses::new(vec![(100, 120), (130, 140)]);
        for now in 50..200 {
            let over = pauses.over_by(50, now);
            assert!(over == 50 || pauses.end(50, over) <= now);
            assert!(pauses.end(50, over + 1) > now, "{now}: {over}");
        }
        assert_eq!(Pauses::default().over_by(50, 90), 90);
    }

    #[test]
    fn time_in_two_pauses_at_once_counts_once() {
        let pauses = Pauses::new(vec![(100, 130), (110, 120), (120, 140), (140, 150)]);
        assert_eq!(pauses, Pauses::new(vec![(100, 150)]));
        assert_eq!(pauses.end(90, 101), 151);
        assert_eq!(Pauses::new(vec![(5, 5), (9, 7)]), Pauses::default());
    }

    #[test]
    fn an_inner_window_never_outlives_an_outer_one() {
        // A leaf's promise is an outer window of every claim in it.
        let mut state = 12_345_u64;
        let mut next = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i64::try_from((state >> 33) % bound).unwrap_or(0)
        };
        for _ in 0..20_000 {
            let spans: Vec<(i64, i64)> = (0..next(5))
                .map(|_| {
                    let since = next(100);
                    (since, since + next(30))
                })
                .collect();
            let pauses = Pauses::new(spans.clone());
            let (from, length) = (next(80), 1 + next(60));
            let (inner, rest) = (from + next(10), next(10));
            let (outer_end, inner_end) = (from + length + 10, from + length + 10 - rest);
            if inner < inner_end {
                let (outer, within) = (pauses.end(from, outer_end), pauses.end(inner, inner_end));
                assert!(within <= outer, "{spans:?} {from} {inner} {inner_end} {outer_end}");
                assert!(within >= inner_end);
            }
        }
    }
}
