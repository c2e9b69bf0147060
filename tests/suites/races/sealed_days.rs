//! Days that are over, in the way this run has them (`PG_ONCE_FILTERS`): that it is so, or the other races would say less
//! than they seem to; and races for the keys of those days.

use pg_once_tests::clock::Instant;
use pg_once_tests::filters::{DAYS_BEHIND, Filters};
use pg_once_tests::race;
use pg_once_tests::shared::{clocked, database};

/// Whether a day of this name stays open in this run.
fn stays_open(leaf: &str) -> bool {
    match Filters::now() {
        Filters::On => false,
        Filters::Off => true,
        Filters::Half => leaf.ends_with(['1', '3', '5', '7', '9']),
    }
}

#[test]
fn claims_look_into_the_days_that_are_open_and_ask_filters_for_those_that_are_sealed() {
    let db = database();
    let (mut s, mut holder) = (db.session(), db.session());
    s.load();
    let behind: Vec<String> = s.column(
        "SELECT leaf FROM once.partitions WHERE day < (now() AT TIME ZONE 'UTC')::date ORDER BY day",
    );
    assert_eq!(behind.len() as i64, DAYS_BEHIND, "{behind:?}");
    let sealed: Vec<String> = s.column(
        "SELECT c.relname::text FROM once.sealed_leaves('once.processed_events') l
           JOIN pg_class c ON c.oid = l.leaf ORDER BY 1",
    );
    let (open, closed): (Vec<String>, Vec<String>) =
        behind.iter().cloned().partition(|leaf| stays_open(leaf));
    assert_eq!(sealed, closed);
    println!("PG_ONCE_FILTERS={:?}: sealed {sealed:?}, open {open:?}", Filters::now());
    assert_eq!(Filters::now() == Filters::Half, !open.is_empty() && !closed.is_empty());
    // Who looks into a leaf that somebody has locked waits. A key that the filters, where there are some, deny.
    s.run("SET lock_timeout = '250ms'");
    let maybe = "SELECT count(*) FROM once.filter_probe('processed_events', $1)";
    let mut new = (0..).map(|n| format!("new {n}"));
    for batch in [false, true] {
        for leaf in &behind {
            let key = new
                .find(|key| s.get_with::<i64>(maybe, &[key]) == 0)
                .expect("a filter denies nearly everything");
            holder.run(&format!("BEGIN; LOCK TABLE once.{leaf} IN ACCESS EXCLUSIVE MODE"));
            let claimed = if batch {
                s.try_claim_many(&[&key]).map(|answers| answers[0].1)
            } else {
                s.try_claim(&key)
            };
            holder.run("ROLLBACK");
            match claimed {
                Ok(claimed) => assert!(claimed && !stays_open(leaf), "{leaf} is not looked into"),
                Err(failure) => {
                    assert_eq!(failure.code, "55P03", "{failure}");
                    assert!(stays_open(leaf), "{leaf} is looked into");
                }
            }
        }
    }
}

#[test]
fn of_sixteen_sessions_none_gets_a_live_key_of_a_day_behind_and_one_each_that_has_expired() {
    let cluster = clocked();
    let db = cluster.database();
    let today = Instant::midnight(2022, 10, 20);
    cluster.clock().set(today.plus(43_200.0));
    let mut sessions = db.sessions(16);
    sessions[0].load();
    // The windows of the day furthest behind end on the day after tomorrow, ten minutes apart; those of all the
    // others are open.
    let of_last = |n: i64| format!("behind {DAYS_BEHIND}-{n}");
    for (over, with_a_pass) in [(0, false), (20, true), (60, false), (100, true)] {
        cluster.clock().set(today.days(2).plus(300.0 + 600.0 * over as f64));
        if with_a_pass {
            sessions[0].run("CALL once.maintain()");
        }
        let won = race::all(&mut sessions, |number, s| {
            let mut won = Vec::new();
            for n in 1..=100 {
                let n = (n + number as i64 * 6) % 100 + 1;
                let (old, other) =
                    (of_last(n), format!("behind {}-{n}", 1 + n % (DAYS_BEHIND - 1)));
                let new = format!("new {over} {n}");
                if number % 4 == 0 {
                    let answers = s.claim_many(&[&new, &old, &other]);
                    won.extend(answers.into_iter().filter(|(_, claimed)| *claimed).map(|(k, _)| k));
                } else {
                    won.extend([old, other, new].into_iter().filter(|key| s.claim(key)));
                }
            }
            won
        });
        let mut won = won.concat();
        won.sort();
        // What was given in the round before was given for an hour.
        let mut expected: Vec<String> = (1..=100).map(|n| format!("new {over} {n}")).collect();
        expected.extend((1..=over).map(of_last));
        expected.sort();
        assert_eq!(won, expected, "{over} windows are over");
    }
    assert_eq!(sessions[0].claimed_twice("once.processed_events"), [""; 0]);
    assert_eq!(sessions[0].overlapping("once.processed_events"), [""; 0]);
}
