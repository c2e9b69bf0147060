//! Figures as a person reads them in a finding.
//!
//! The rule: never more than they are. What is rounded is rounded down.

use super::counted::counted;
use super::day::{DAY, Instant};

/// Never more than it is: 99.96 % are not 100 %.
pub fn percent(share: f64) -> String {
    if share >= 1.0 {
        "100 %".to_owned()
    } else {
        format!("{:.1} %", (share * 1_000.0).floor() / 10.0)
    }
}

/// 2.1 million, 12,345, 678.
pub fn number(n: i64) -> String {
    let large = [(1_000_000_000, "billion"), (1_000_000, "million")];
    if let Some((unit, name)) = large.into_iter().find(|(unit, _)| n >= *unit) {
        return format!("{:.1} {name}", (n / (unit / 10)) as f64 / 10.0);
    }
    if n >= 1_000 { format!("{},{:03}", n / 1_000, n % 1_000) } else { n.to_string() }
}

/// `1 claim`, `2.1 million claims`.
pub fn claims(n: i64) -> String {
    format!("{} {}", number(n), if n == 1 { "claim" } else { "claims" })
}

/// `1 duplicate`, `12,345 duplicates`.
pub fn duplicates(n: i64) -> String {
    format!("{} {}", number(n), if n == 1 { "duplicate" } else { "duplicates" })
}

/// `1 key`, `20 keys`.
pub fn keys(n: i64) -> String {
    counted(n, "key", "keys")
}

/// A time in whole days, hours or minutes.
pub fn span(time: Instant) -> String {
    let hour = DAY / 24;
    match time {
        _ if time >= 2 * DAY => counted(time / DAY, "day", "days"),
        _ if time >= 2 * hour => counted(time / hour, "hour", "hours"),
        _ => counted(time.max(0) / (hour / 60), "minute", "minutes"),
    }
}

#[cfg(test)]
mod tests {
    use super::{DAY, number, percent, span};

    #[test]
    fn figures_are_never_more_than_they_are() {
        assert_eq!(
            [number(999), number(12_345), number(1_999_999)],
            ["999", "12,345", "1.9 million"]
        );
        assert_eq!([percent(1.0), percent(0.9999), percent(0.955)], ["100 %", "99.9 %", "95.5 %"]);
        assert_eq!(
            [span(9 * DAY), span(DAY), span(DAY / 48)],
            ["9 days", "24 hours", "30 minutes"]
        );
    }
}
