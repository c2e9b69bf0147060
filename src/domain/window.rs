//! How long a claim holds. A ttl is a PostgreSQL interval added to the claim's instant in UTC, so
//! no session's time zone can lengthen or shorten it; a retention is a fixed length. Nothing here
//! overflows: a sum out of range is "too long", never an expiry in the past.

use super::day::{DAY, Day, Instant, civil_from_days, days_from_civil, days_in_month};

/// Latest instant PostgreSQL can store (294276-12-31), exclusive.
const END_OF_TIME: i128 = 9_223_371_331_200_000_000;

/// A PostgreSQL interval: months, days and microseconds are separate quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Calendar months.
    pub months: i32,
    /// Days of 24 hours.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// What is wrong with a ttl or a retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanFault {
    /// Zero or negative where it would be added.
    NotPositive,
    /// Longer than what is allowed, or than time itself.
    TooLong,
}

impl Span {
    /// `at` plus the span, in UTC: first the months (clipped to the end of a shorter month), then
    /// the days, then the rest, as PostgreSQL adds an interval to a timestamp.
    fn after(self, at: Instant) -> i128 {
        let mut days = at.div_euclid(DAY);
        if self.months != 0 {
            let (year, month, day) = civil_from_days(days);
            let months = year * 12 + (month - 1) + i64::from(self.months);
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            days = days_from_civil(year, month, day.min(days_in_month(year, month)));
        }
        let days = i128::from(days) + i128::from(self.days);
        days * i128::from(DAY) + i128::from(at.rem_euclid(DAY)) + i128::from(self.micros)
    }

    /// The span as a fixed length in microseconds, a month counting as 31 days: a retention is
    /// never shorter than the calendar would have made it.
    pub fn length(self) -> Result<i64, SpanFault> {
        let days = i128::from(self.months) * 31 + i128::from(self.days);
        let micros = days * i128::from(DAY) + i128::from(self.micros);
        if micros <= 0 {
            return Err(SpanFault::NotPositive);
        }
        // Half of time is left for the instants it is added to.
        match i64::try_from(micros) {
            Ok(micros) if i128::from(micros) < END_OF_TIME / 2 => Ok(micros),
            _ => Err(SpanFault::TooLong),
        }
    }
}

/// When a claim made at `now` expires: after `ttl`, or after `retention` where no ttl is given.
/// The ttl must be positive at this instant and not longer than the retention.
pub fn expiry(now: Instant, ttl: Option<Span>, retention: i64) -> Result<Instant, SpanFault> {
    let longest = now.saturating_add(retention);
    let Some(ttl) = ttl else { return Ok(longest) };
    let end = ttl.after(now);
    if end <= i128::from(now) {
        return Err(SpanFault::NotPositive);
    }
    match i64::try_from(end) {
        Ok(end) if end <= longest => Ok(end),
        _ => Err(SpanFault::TooLong),
    }
}

/// Until when a leaf that ends with `day` must be kept for claims of this retention.
pub fn keep_until(day: Day, retention: i64) -> Instant {
    day.end().saturating_add(retention)
}

/// The retention of a new store: what was chosen, or `factor` times the retry horizon, or `default`
/// where nothing is known.
pub fn choose(retention: Option<i64>, horizon: Option<i64>, factor: i64, default: i64) -> i64 {
    retention.or_else(|| horizon.map(|h| h.saturating_mul(factor))).unwrap_or(default)
}

/// Refuses, with the horizon, a retention that is shorter than it.
pub fn cover(retention: i64, horizon: Option<i64>) -> Result<(), i64> {
    match horizon {
        Some(horizon) if retention < horizon => Err(horizon),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Span, SpanFault, choose, cover, expiry, keep_until};
    use crate::domain::day::{DAY, Day, days_from_civil};

    const WEEK: i64 = 7 * DAY;

    fn at(year: i64, month: i64, day: i64) -> i64 {
        days_from_civil(year, month, day) * DAY
    }

    fn span(months: i32, days: i32, micros: i64) -> Option<Span> {
        Some(Span { months, days, micros })
    }

    #[test]
    fn no_ttl_means_the_retention() {
        assert_eq!(expiry(0, None, WEEK), Ok(WEEK));
    }

    #[test]
    fn the_retention_itself_is_allowed_and_a_microsecond_more_is_not() {
        assert_eq!(expiry(5, span(0, 7, 0), WEEK), Ok(WEEK + 5));
        assert_eq!(expiry(5, span(0, 7, 1), WEEK), Err(SpanFault::TooLong));
    }

    #[test]
    fn zero_and_negative_are_refused_and_a_microsecond_is_not() {
        assert_eq!(expiry(0, span(0, 0, 0), WEEK), Err(SpanFault::NotPositive));
        assert_eq!(expiry(0, span(0, 0, -1), WEEK), Err(SpanFault::NotPositive));
        assert_eq!(expiry(0, span(0, 0, 1), WEEK), Ok(1));
    }

    #[test]
    fn a_month_minus_31_days_is_judged_by_the_month_it_falls_in() {
        let ttl = span(1, -31, 0);
        // January has 31 days: nothing is left. April has 30: less than nothing.
        assert_eq!(expiry(at(2026, 1, 1), ttl, WEEK), Err(SpanFault::NotPositive));
        assert_eq!(expiry(at(2026, 4, 1), ttl, WEEK), Err(SpanFault::NotPositive));
        assert_eq!(expiry(at(2026, 1, 1), span(1, -30, 0), WEEK), Ok(at(2026, 1, 2)));
    }

    #[test]
    fn a_month_is_clipped_to_the_end_of_a_shorter_one() {
        let retention = 40 * DAY;
        assert_eq!(expiry(at(2026, 1, 31), span(1, 0, 0), retention), Ok(at(2026, 2, 28)));
        assert_eq!(expiry(at(2024, 1, 31), span(1, 0, 0), retention), Ok(at(2024, 2, 29)));
    }

    #[test]
    fn what_overflows_is_too_long_and_never_in_the_past() {
        for ttl in [
            span(i32::MAX, i32::MAX, i64::MAX),
            span(300_000 * 12, 0, 0),
            span(0, i32::MAX, 0),
            span(0, 0, i64::MAX),
        ] {
            assert_eq!(expiry(at(2026, 11, 30), ttl, WEEK), Err(SpanFault::TooLong));
        }
        assert_eq!(
            expiry(at(2026, 11, 30), span(i32::MIN, i32::MIN, i64::MIN), WEEK),
            Err(SpanFault::NotPositive)
        );
    }

    #[test]
    fn a_retention_has_a_fixed_length() {
        let month = Span { months: 1, days: 0, micros: 0 };
        assert_eq!(month.length(), Ok(31 * DAY));
        assert_eq!(Span { months: 0, days: 0, micros: 0 }.length(), Err(SpanFault::NotPositive));
        let infinite = Span { months: i32::MAX, days: i32::MAX, micros: i64::MAX };
        assert_eq!(infinite.length(), Err(SpanFault::TooLong));
    }

    #[test]
    fn a_retention_follows_the_horizon_unless_it_is_chosen() {
        assert_eq!(choose(None, None, 3, WEEK), WEEK);
        assert_eq!(choose(None, Some(DAY), 3, WEEK), 3 * DAY);
        assert_eq!(choose(Some(2 * DAY), Some(DAY), 3, WEEK), 2 * DAY);
        assert_eq!(cover(DAY, Some(DAY)), Ok(()));
        assert_eq!(cover(DAY - 1, Some(DAY)), Err(DAY));
    }

    #[test]
    fn a_leaf_is_kept_for_the_claim_of_its_last_microsecond() {
        let day = Day(9_000);
        assert!(expiry(day.end() - 1, None, WEEK).unwrap_or(i64::MAX) <= keep_until(day, WEEK));
    }
}
