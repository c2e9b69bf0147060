//! What an import makes of each row, and what claims answer afterwards.

use pg_once_tests::shared::{cluster, database};

use crate::counts::{Counts, FROM_OLD, OLD, import, said};

#[test]
fn what_was_imported_is_refused_and_everything_else_is_new() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run(
        "INSERT INTO old SELECT 'k' || n, now() - n * interval '30 seconds' FROM generate_series(1, 15000) n",
    );
    let counts = import(&mut s, FROM_OLD);
    assert_eq!(counts, Counts { read: 15_000, imported: 15_000, ..Counts::default() });
    let claimed: i64 =
        s.get("SELECT count(*) FROM old WHERE once.claim_once(message_id, store => 'moved')");
    assert_eq!(claimed, 0);
    assert!(s.get::<bool>("SELECT once.claim_once('k15001', store => 'moved')"));
    assert!(s.get::<bool>("SELECT once.claim_once('k1', effect => 'other', store => 'moved')"));
    assert!(s.get::<bool>("SELECT bool_and(m.claimed_at = o.processed_at AND m.expires_at = o.processed_at + interval '168 hours')
                             FROM old o JOIN once.moved m ON m.key = o.message_id AND m.effect = ''"));
    s.verify("once.moved", cluster().server().ships("amcheck"));
}

#[test]
fn a_second_run_imports_nothing_more_and_writes_nothing() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("INSERT INTO old SELECT 'k' || n, now() - n * interval '1 minute' FROM generate_series(1, 9000) n");
    assert_eq!(import(&mut s, FROM_OLD).imported, 9_000);
    let rows = "SELECT md5(string_agg(ctid::text || key || claimed_at || expires_at, ',' ORDER BY key, claimed_at)) FROM once.moved";
    let before: String = s.get(rows);
    let again = import(&mut s, FROM_OLD);
    assert_eq!(again, Counts { read: 9_000, already_there: 9_000, ..Counts::default() });
    assert_eq!(s.get::<String>(rows), before);
    s.run("INSERT INTO old VALUES ('new', now())");
    assert_eq!(import(&mut s, FROM_OLD).imported, 1);
}

#[test]
fn rows_that_cannot_refuse_are_counted_each_for_its_reason_and_said() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("INSERT INTO old VALUES (NULL, now()), ('', now()), (repeat('x', 1025), now()), ('no time', NULL),
                  ('over', now() - interval '8 days'), ('long over', '-infinity'), ('good', now()),
                  (repeat('y', 1024), now() - interval '6 days')");
    let expected = Counts { read: 8, imported: 2, expired: 2, refused: 4, ..Counts::default() };
    assert_eq!(import(&mut s, FROM_OLD), expected);
    let said = said(cluster(), &mut s, &format!("CALL once.import_claims({FROM_OLD})"));
    assert!(
        said.contains(
            "WARNING:  moved: 4 rows were left out and refuse nothing: 2 without a key, 1 with a key longer \
             than pg_once.max_key_bytes, 0 without an effect or with one too long, 1 without a time"
        ),
        "{said}"
    );
    assert!(
        said.contains("8 rows read, 0 imported, 2 claimed already, 2 expired, 4 refused"),
        "{said}"
    );
    // No day is made for what is over.
    let days: i64 = s.get("SELECT count(*) FROM once.partitions WHERE day < current_date - 7");
    assert_eq!(days, 0);
}

#[test]
fn a_time_ahead_of_the_clock_counts_as_now() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("INSERT INTO old VALUES ('skewed', now() + interval '3 seconds'), ('far', now() + interval '90 days'), ('ever', 'infinity')");
    let said = said(cluster(), &mut s, &format!("CALL once.import_claims({FROM_OLD})"));
    assert!(said.contains("3 rows have times ahead of the clock"), "{said}");
    assert_eq!(
        s.get::<i64>(
            "SELECT count(*) FROM once.moved WHERE claimed_at <= clock_timestamp()
              AND claimed_at > clock_timestamp() - interval '1 minute' AND expires_at - claimed_at = '7 days'"
        ),
        3
    );
    assert!(!s.get::<bool>("SELECT once.claim_once('ever', store => 'moved')"));
}

#[test]
fn the_window_is_counted_from_each_rows_own_time_in_utc() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("SET TimeZone = 'America/New_York'");
    s.run("INSERT INTO old VALUES ('a', now() - interval '47 hours'), ('b', now() - interval '49 hours')");
    let counts = import(&mut s, &format!("{FROM_OLD}, ttl => '2 days'"));
    assert_eq!((counts.imported, counts.expired), (1, 1));
    assert!(s.get::<bool>("SELECT expires_at - claimed_at = interval '48 hours' FROM once.moved"));
    assert!(s.get::<bool>("SELECT once.claim_once('b', store => 'moved')"));
}

#[test]
fn days_that_are_missing_are_made_by_utc_whatever_the_zone_of_the_session() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("SET TimeZone = 'Pacific/Kiritimati'");
    s.run("INSERT INTO old SELECT 'last ' || d, ((date_trunc('day', now() AT TIME ZONE 'UTC') - d * interval '1 day') AT TIME ZONE 'UTC') - interval '1 microsecond' FROM generate_series(0, 5) d
           UNION ALL SELECT 'first ' || d, (date_trunc('day', now() AT TIME ZONE 'UTC') - d * interval '1 day') AT TIME ZONE 'UTC' FROM generate_series(0, 5) d");
    assert_eq!(import(&mut s, FROM_OLD).imported, 12);
    let wrong: i64 = s.get(
        "SELECT count(*) FROM once.moved WHERE once.leaf_day(tableoid) <> (claimed_at AT TIME ZONE 'UTC')::date",
    );
    assert_eq!(wrong, 0);
    let days: Vec<i32> = s.column(
        "SELECT (now() AT TIME ZONE 'UTC')::date - day FROM once.partitions WHERE day < (now() AT TIME ZONE 'UTC')::date ORDER BY 1",
    );
    assert_eq!(days, (1..=6).collect::<Vec<_>>());
    s.run("CALL once.maintain()");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.moved"), 12, "none of those days is due");
}

#[test]
fn an_expired_claim_makes_room_in_its_own_day_and_a_live_one_in_any_day_does_not() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("SELECT once.claim_once('short', '1 millisecond', store => 'moved'), once.claim_once('live', store => 'moved'), pg_sleep(0.01)");
    s.run("INSERT INTO old VALUES ('short', now()), ('live', now() - interval '3 days'), ('live', now())");
    let counts = import(&mut s, FROM_OLD);
    assert_eq!((counts.imported, counts.already_there), (1, 2));
    assert!(!s.get::<bool>("SELECT once.claim_once('short', store => 'moved')"));
    assert_eq!(s.claimed_twice("once.moved"), [""; 0]);
    s.verify("once.moved", cluster().server().ships("amcheck"));
}

#[test]
fn of_rows_with_one_key_the_newest_of_a_batch_stands() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("INSERT INTO old VALUES ('k', now() - interval '3 days'), ('k', now() - interval '1 day'), ('k', now() - interval '1 day' - interval '1 second')");
    let counts = import(&mut s, FROM_OLD);
    assert_eq!((counts.imported, counts.already_there), (1, 2));
    assert!(
        s.get::<bool>("SELECT claimed_at = (SELECT max(processed_at) FROM old) FROM once.moved")
    );
}
