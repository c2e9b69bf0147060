//! UTC days and instants. An instant is a count of microseconds since 2000-01-01 00:00 UTC, as
//! PostgreSQL stores a `timestamptz`; a day is a count of days from the same origin. No time zone
//! is ever consulted: every instant belongs to exactly one day.

/// Microseconds since 2000-01-01 00:00:00 UTC.
pub type Instant = i64;

/// Microseconds in a UTC day.
pub const DAY: i64 = 86_400_000_000;

/// Days between 1970-01-01 and 2000-01-01.
const UNIX_TO_PG: i64 = 10_957;

/// A UTC day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i32);

impl Day {
    /// The day that holds `at`.
    #[allow(clippy::cast_possible_truncation)] // i64 microseconds are at most 1e8 days
    pub fn of(at: Instant) -> Day {
        Day(at.div_euclid(DAY) as i32)
    }

    /// The first instant of the day.
    pub fn start(self) -> Instant {
        i64::from(self.0) * DAY
    }

    /// The first instant after the day.
    pub fn end(self) -> Instant {
        Day(self.0 + 1).start()
    }

    /// The day `n` days later.
    pub fn plus(self, n: i32) -> Day {
        Day(self.0 + n)
    }

    /// `YYYYMMDD`, as leaf names carry it.
    pub fn compact(self) -> String {
        let (year, month, day) = self.civil();
        format!("{year:04}{month:02}{day:02}")
    }

    /// The start of the day as a literal that reads the same under every TimeZone and DateStyle.
    pub fn bound(self) -> String {
        let (year, month, day) = self.civil();
        format!("{year:04}-{month:02}-{day:02} 00:00:00+00")
    }

    fn civil(self) -> (i64, i64, i64) {
        civil_from_days(i64::from(self.0))
    }
}

/// An instant as a literal that reads the same under every TimeZone and DateStyle.
pub fn stamp(at: Instant) -> String {
    let day = Day::of(at);
    let rest = at - day.start();
    let (seconds, micros) = (rest / 1_000_000, rest % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds % 3_600 / 60, seconds % 60);
    format!("{} {hours:02}:{minutes:02}:{seconds:02}.{micros:06}+00", &day.bound()[..10])
}

/// Year, month and day of the month of a day count from 2000-01-01.
///
/// The proleptic Gregorian calendar by eras of 400 years (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms").
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + UNIX_TO_PG + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`].
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 - UNIX_TO_PG
}

/// Days in a month of the proleptic Gregorian calendar.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_civil(next_year, next_month, 1) - days_from_civil(year, month, 1)
}

#[cfg(test)]
mod tests {
    use super::{Day, civil_from_days, days_from_civil, days_in_month, stamp};

    #[test]
    fn the_origin_is_the_first_of_january_2000() {
        assert_eq!(Day(0).compact(), "20000101");
        assert_eq!(Day(0).bound(), "2000-01-01 00:00:00+00");
    }

    #[test]
    fn an_instant_before_the_origin_belongs_to_the_day_before_it() {
        assert_eq!(Day::of(-1), Day(-1));
        assert_eq!(Day(-1).compact(), "19991231");
    }

    #[test]
    fn the_last_microsecond_and_the_first_fall_on_different_days() {
        let midnight = Day(9_830).start();
        assert_eq!(Day::of(midnight - 1), Day(9_829));
        assert_eq!(Day::of(midnight), Day(9_830));
        assert_eq!(Day(9_829).end(), midnight);
    }

    #[test]
    fn an_instant_is_written_to_the_microsecond() {
        assert_eq!(stamp(0), "2000-01-01 00:00:00.000000+00");
        assert_eq!(stamp(-1), "1999-12-31 23:59:59.999999+00");
        assert_eq!(stamp(3_723_000_004), "2000-01-01 01:02:03.000004+00");
    }

    #[test]
    fn civil_dates_round_trip_over_four_centuries() {
        for days in -80_000..80_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!((1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day));
        }
    }

    #[test]
    fn february_has_its_leap_day() {
        assert_eq!(days_in_month(2024, 2), 29);
        assert_eq!(days_in_month(2100, 2), 28);
        assert_eq!(days_in_month(2000, 2), 29);
    }
}
