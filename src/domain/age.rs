//! How old a duplicate is when it arrives: the time from the claim that refuses it to the refusal, sorted
//! into buckets whose bounds are part of the interface (`once.stat_bounds()`).

/// Upper bounds of the buckets in seconds, inclusive, each one and a half to three times (to five, at the start) the one before:
/// from a second to ninety days. One more bucket, without a bound, follows the last.
pub const BOUNDS: [i64; 24] = [
    1,
    5,
    15,
    MINUTE,
    3 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    4 * HOUR,
    8 * HOUR,
    16 * HOUR,
    DAY,
    2 * DAY,
    3 * DAY,
    5 * DAY,
    7 * DAY,
    10 * DAY,
    14 * DAY,
    21 * DAY,
    30 * DAY,
    45 * DAY,
    60 * DAY,
    90 * DAY,
];

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// How many buckets there are.
pub const BUCKETS: usize = BOUNDS.len() + 1;

const SECOND: i64 = 1_000_000;

/// The bucket of an age in microseconds. A clock that went back makes no age negative: that is the first.
pub fn bucket(age: i64) -> usize {
    BOUNDS.partition_point(|bound| bound * SECOND < age)
}

/// Whether an age lies in the last tenth of the window that refuses the duplicate: a little later, and
/// it would have been claimed anew.
pub fn is_in_last_tenth(age: i64, window: i64) -> bool {
    // Written so that it cannot overflow: ages and windows go up to the end of time.
    age >= window - window / 10
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS, BUCKETS, SECOND, bucket, is_in_last_tenth};

    #[test]
    fn a_bound_belongs_to_its_own_bucket_and_one_microsecond_more_to_the_next() {
        for (place, bound) in BOUNDS.iter().enumerate() {
            assert_eq!(bucket(bound * SECOND), place);
            assert_eq!(bucket(bound * SECOND + 1), place + 1);
        }
    }

    #[test]
    fn every_age_has_a_bucket() {
        assert_eq!(bucket(i64::MIN), 0);
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(i64::MAX), BUCKETS - 1);
    }

    #[test]
    fn bounds_rise_by_no_more_than_five_times() {
        for pair in BOUNDS.windows(2) {
            assert!(pair[0] < pair[1] && pair[1] <= 5 * pair[0], "{pair:?}");
        }
    }

    #[test]
    fn the_last_tenth_begins_at_nine_tenths() {
        assert!(!is_in_last_tenth(89, 100));
        assert!(is_in_last_tenth(90, 100));
        assert!(is_in_last_tenth(i64::MAX, i64::MAX));
        assert!(!is_in_last_tenth(0, i64::MAX));
    }
}
