//! Days of every size, more of them than one filter tells apart, and little memory to read them in.

use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;

use crate::scene::{claim, denied, noon, sealed};

/// Claims so many keys on each day before the 4th of May, and seals all days; the settings are those of the pass.
#[track_caller]
fn days(s: &mut Session, clock: &pg_once_tests::clock::Clock, sizes: &[i64], settings: &str) {
    clock.set(noon(4 - sizes.len() as i64));
    s.run("SELECT once.create_store('processed_events', retention => '400 days')");
    for (day, size) in (0..).zip(sizes) {
        clock.set(noon(4 - sizes.len() as i64 + day));
        s.run(&format!(
            "SELECT count(*) FROM once.claim_many(ARRAY(SELECT 'day{day}-' || g FROM generate_series(1, {size}) g), '400 days')"
        ));
    }
    clock.set(noon(4));
    s.run("SELECT once.claim_once('today', '400 days')");
    s.run(settings);
    s.run("CALL once.maintain()");
    s.run("RESET maintenance_work_mem");
}

/// No key of any day can be had again, and few others are looked for.
#[track_caller]
fn all_there(s: &mut Session, sizes: &[i64]) {
    for (day, size) in (0..).zip(sizes) {
        let again: i64 = s.get(&format!(
            "SELECT count(*) FILTER (WHERE claimed) FROM once.claim_many(ARRAY(
                 SELECT 'day{day}-' || g FROM generate_series(1, {size}) g), '400 days')"
        ));
        assert_eq!(again, 0, "day {day} of {size}");
        if *size > 0 {
            assert!(!claim(s, &format!("day{day}-{size}")));
            let leaves: i64 = s.get(&format!(
                "SELECT count(*) FROM once.filter_probe('processed_events', 'day{day}-1')"
            ));
            assert!((1..=6).contains(&leaves), "day {day}: {leaves}");
        }
    }
}

#[test]
fn days_of_every_size_read_in_parts_and_whole() {
    let cluster = clocked();
    let sizes = [0, 1, 10, 200_000, 3, 5_000];
    // The least that a server allows.
    let least = if cluster.server().major >= 17 { "64kB" } else { "1MB" };
    for memory in [least, "2MB", "64MB"] {
        let db = cluster.database();
        let mut s = db.session();
        days(&mut s, cluster.clock(), &sizes, &format!("SET maintenance_work_mem = '{memory}'"));
        // An empty one, made ahead, too.
        assert_eq!(sealed(&mut s).len(), sizes.len(), "{memory}");
        all_there(&mut s, &sizes);
        all_there(&mut db.session(), &sizes);
        // A row that comes to the large day, and what it looks like once it is read anew.
        let (late, leaf) = (denied(&mut s), "once.processed_events_20110501");
        s.run(&format!(
            "INSERT INTO {leaf} (claimed_at, expires_at, key, effect) VALUES ('2011-05-01 10:00+00', '2012-01-01', '{late}', '')"
        ));
        assert!(!claim(&mut s, &late));
        s.run(&format!("SET maintenance_work_mem = '{memory}'"));
        s.run("CALL once.maintain()");
        assert!(!claim(&mut s, &late));
        assert!(claim(&mut s, &format!("new {memory}")));
    }
}

#[test]
fn more_days_than_one_filter_tells_apart() {
    let cluster = clocked();
    let db = cluster.database();
    let mut s = db.session();
    let sizes = [20; 140];
    days(&mut s, cluster.clock(), &sizes, "SELECT 1");
    assert_eq!(sealed(&mut s).len(), 140);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.filters WHERE NOT retired"), 2);
    all_there(&mut s, &sizes);
    all_there(&mut db.session(), &sizes);
    // Days go and come: 30 at a time, until every first one is gone.
    for later in [5, 6, 40, 41] {
        cluster.clock().set(noon(4).days(later));
        assert!(claim(&mut s, &format!("day {later} later")));
        s.run("CALL once.maintain()");
        all_there(&mut s, &sizes);
        assert!(!claim(&mut s, &format!("day {later} later")) && !claim(&mut s, "today"));
    }
}

#[test]
fn a_key_that_is_in_many_sealed_days_is_refused_by_the_one_that_is_live() {
    let cluster = clocked();
    let db = cluster.database();
    let mut s = db.session();
    days(&mut s, cluster.clock(), &[5; 10], "SELECT 1");
    // In each day, expired in all but one: more places than a claim keeps in mind.
    s.run(
        "INSERT INTO once.processed_events (claimed_at, expires_at, key, effect)
         SELECT timestamptz '2011-05-03 10:00+00' - g * interval '1 day',
                timestamptz '2011-05-04 00:00+00' + CASE WHEN g = 7 THEN 30 ELSE -g END * interval '1 day', 'often', ''
           FROM generate_series(0, 9) g",
    );
    s.run("CALL once.maintain()");
    assert_eq!(sealed(&mut s).len(), 10);
    let found: i64 = s.get("SELECT count(*) FROM once.filter_probe('processed_events', 'often')");
    assert_eq!(found, 10);
    assert!(!claim(&mut s, "often") && !s.claim_many(&["often", "x"])[0].1);
    cluster.clock().set(noon(4).days(31));
    assert!(claim(&mut s, "often") && !claim(&mut s, "often"));
}

#[test]
fn days_whose_keys_fill_a_little_more_than_one_page_of_a_filter_or_two() {
    let cluster = clocked();
    // Spread over two pages these leave each of them half empty, where a second row has room.
    for size in (3_000..4_400).step_by(100).chain([7_000, 7_200, 7_400]) {
        let db = cluster.database();
        let mut s = db.session();
        days(&mut s, cluster.clock(), &[size], "SELECT 1");
        assert_eq!(sealed(&mut s).len(), 1, "a day of {size}");
        all_there(&mut s, &[size]);
    }
}
