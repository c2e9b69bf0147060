//! What a DBA does to leaves under open sessions: rename, detach, attach, rewrite, replace.

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, database};
use pg_once_tests::{race, wait};

/// The leaf of today.
pub(crate) fn today(s: &mut Session) -> String {
    s.get("SELECT leaf FROM once.partitions WHERE state = 'current'")
}

#[test]
fn a_renamed_leaf_goes_on_under_its_new_name() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("k");
    let leaf = today(&mut ddl);
    s.run("BEGIN");
    assert!(s.claim("before"));
    let renaming =
        ddl.background(move |s| s.run(&format!("ALTER TABLE once.{leaf} RENAME TO \"Heute\"")));
    wait::blocked(&mut db.session(), renaming.pid());
    assert!(!s.claim("k"));
    assert!(s.claim("while it waits"));
    s.run("COMMIT");
    renaming.join();
    assert!(!s.claim("k"));
    assert!(s.claim("after"));
    assert_eq!(s.leaves_of("after"), ["Heute"]);
    s.run("CALL once.maintain()");
    assert_eq!(today(&mut s), "Heute");
}

#[test]
fn an_older_leaf_that_is_detached_no_longer_counts_and_attached_again_it_does() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2015, 3, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let (mut s, mut ddl) = (db.session(), db.session());
    assert!(s.get::<bool>("SELECT once.claim_once('k') AND once.claim_once('l')"));
    cluster.clock().set(noon.days(1));
    assert!(!s.claim("k"));
    s.run("PREPARE p AS SELECT once.claim_once($1::text, '1 minute')");
    for how in ["", " CONCURRENTLY"] {
        ddl.run(&format!(
            "ALTER TABLE once.processed_events DETACH PARTITION once.processed_events_20150301{how}"
        ));
        assert_eq!(s.column::<bool>("EXECUTE p('k')"), [true], "detached{how}");
        s.run("DELETE FROM once.processed_events WHERE key = 'k'");
        ddl.run(
            "ALTER TABLE once.processed_events ATTACH PARTITION once.processed_events_20150301
                 FOR VALUES FROM ('2015-03-01 00:00:00+00') TO ('2015-03-02 00:00:00+00')",
        );
        assert_eq!(s.column::<bool>("EXECUTE p('k')"), [false], "attached again");
        assert_eq!(s.column::<bool>("EXECUTE p('l')"), [false]);
    }
}

#[test]
fn a_leaf_dropped_under_open_transactions_is_no_error() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2015, 5, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut sessions = db.sessions(4);
    sessions[0].claim("k");
    cluster.clock().set(noon.days(1));
    for s in &mut sessions {
        s.run("BEGIN");
        let key = format!("a{}", s.pid());
        assert!(s.claim(&key), "looks into the older leaf and holds nothing on it");
    }
    let mut ddl = db.session();
    ddl.run("SET lock_timeout = '5s'");
    ddl.run("DROP TABLE once.processed_events_20150501");
    for s in &mut sessions {
        let key = format!("b{}", s.pid());
        assert!(s.claim(&key));
        assert!(!s.claim(&key));
        s.run("COMMIT");
    }
}

#[test]
fn a_leaf_that_a_dba_made_is_used_when_its_day_comes() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2015, 7, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut s = db.session();
    s.claim("k");
    // A whole month, with the columns in another order.
    db.session().run(
        "CREATE TABLE once.august (key text COLLATE \"C\" NOT NULL, result jsonb, effect text COLLATE \"C\" NOT NULL DEFAULT '',
             expires_at timestamptz NOT NULL, claimed_at timestamptz NOT NULL, fingerprint bytea, PRIMARY KEY (key, effect));
         ALTER TABLE once.processed_events ATTACH PARTITION once.august
             FOR VALUES FROM ('2015-08-01 00:00:00+00') TO ('2015-09-01 00:00:00+00')",
    );
    for day in [31, 40, 61] {
        cluster.clock().set(noon.days(day));
        let key = format!("k{day}");
        assert!(s.claim(&key));
        assert!(!s.claim(&key) && !s.claim_many(&[&key])[0].1);
        assert_eq!(s.leaves_of(&key), ["august"]);
        cluster.clock().set(noon.days(day).plus(7_200.0));
        assert!(s.claim(&key), "expired, and replaced");
    }
    s.run("CALL once.maintain()");
    cluster.clock().set(noon.days(63));
    assert!(s.claim("september"));
    assert!(s.get::<bool>("SELECT once.leaf_day('once.august') IS NULL"));
    s.verify("once.processed_events", cluster.server().ships("amcheck"));
}

#[test]
fn a_leaf_without_the_primary_key_is_refused_and_says_so() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let mut ddl = db.session();
    let leaf = today(&mut ddl);
    ddl.run(&format!("ALTER TABLE once.{leaf} DROP CONSTRAINT {leaf}_pkey"));
    for s in [&mut s, &mut db.session()] {
        let failure = s.fails("SELECT once.claim_once('k')");
        assert_eq!(failure.code, "55000", "{failure}");
        assert!(failure.message.contains(&leaf) && !failure.hint.is_empty(), "{failure}");
    }
    ddl.run(&format!("ALTER TABLE once.{leaf} ADD PRIMARY KEY (key, effect)"));
    assert!(!s.claim("k"));
    assert!(s.claim("l"));
}

#[test]
fn claims_in_a_default_partition_count() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2015, 10, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut s = db.session();
    s.claim("load");
    db.session().run(
        "CREATE TABLE once.overflow (LIKE once.processed_events INCLUDING ALL, PRIMARY KEY (key, effect));
         ALTER TABLE once.processed_events ATTACH PARTITION once.overflow DEFAULT;
         INSERT INTO once.processed_events (claimed_at, expires_at, key)
             VALUES (clock_timestamp() - interval '1 day', clock_timestamp() + interval '5 days', 'old')",
    );
    for day in 0..3 {
        cluster.clock().set(noon.days(day));
        assert!(!s.claim("old"), "day {day}");
        assert!(!s.claim_many(&["old"])[0].1, "day {day}");
        assert!(s.claim(&format!("new{day}")), "day {day}");
    }
    // Beyond the days made ahead: a day is made although there is a default partition.
    cluster.clock().set(noon.days(4));
    assert!(s.claim("later"));
    assert!(!s.claim("old"));
    s.run("CALL once.maintain()");
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
}

#[test]
fn a_lock_on_an_older_leaf_makes_a_claim_wait_and_not_fail() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2015, 12, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut s = db.session();
    assert!(s.get::<bool>("SELECT once.claim_once('k')"));
    cluster.clock().set(noon.days(1));
    s.claim("load");
    let mut ddl = db.session();
    ddl.run("BEGIN; LOCK TABLE once.processed_events_20151201 IN ACCESS EXCLUSIVE MODE");
    let waiting = s.background(|s| (s.claim("k"), s.claim("new")));
    wait::blocked(&mut db.session(), waiting.pid());
    // It waits with no key held: another session asks for the same key and waits beside it.
    let beside = db.session().background(|s| s.claim("k"));
    wait::blocked(&mut db.session(), beside.pid());
    assert_eq!(db.session().key_locks(), 0);
    ddl.run("ROLLBACK");
    assert_eq!(waiting.join().1, (false, true));
    assert!(!beside.join().1);
}

#[test]
fn a_leaf_dropped_while_a_claim_waits_for_it_is_no_error() {
    let db = database();
    let (mut dba, mut observer) = (db.session(), db.session());
    dba.claim("load");
    let leaf = today(&mut dba);
    dba.run(&format!("BEGIN; DROP TABLE once.{leaf}"));
    let waiting = db.session().background(|s| s.claim("k"));
    wait::blocked(&mut observer, waiting.pid());
    dba.run("COMMIT");
    let (mut s, claimed) = waiting.join();
    assert!(claimed, "it starts over, with a leaf that is made anew");
    assert!(!s.claim("k"));
}

#[test]
fn a_leaf_that_is_no_ordinary_table_is_refused_and_never_passed_over() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let old = "('2001-01-01 00:00+00') TO ('2001-01-02 00:00+00')";
    s.run(&format!(
        "CREATE TABLE once.parted PARTITION OF once.processed_events FOR VALUES FROM {old} \
         PARTITION BY HASH (key)"
    ));
    assert_eq!(s.fails("SELECT once.claim_once('k')").code, "55000");
    assert_eq!(s.fails("SELECT * FROM once.lookup('k')").code, "55000");
    s.run("DROP TABLE once.parted");
    assert!(s.claim("k"));
    // As today's leaf, where it would be written to.
    let leaf = today(&mut s);
    let bound: String = s.get(&format!(
        "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = 'once.{leaf}'::regclass"
    ));
    s.run(&format!("DROP TABLE once.{leaf}"));
    s.run(&format!(
        "CREATE TABLE once.parted PARTITION OF once.processed_events \
         (PRIMARY KEY (key, effect)) {bound} PARTITION BY HASH (key)"
    ));
    s.run(
        "CREATE TABLE once.part PARTITION OF once.parted FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    );
    assert_eq!(s.fails("SELECT once.claim_once('l')").code, "55000");
}

#[test]
fn a_day_that_is_covered_in_part_is_an_error_and_no_endless_loop() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("SET statement_timeout = '30s'");
    let leaf = today(&mut s);
    for (from, to) in [("0 hours", "1 microsecond"), ("23:59:59.999999", "24 hours")] {
        s.run(&format!("DROP TABLE IF EXISTS once.{leaf}, once.bit"));
        let edge = |offset: &str| -> String {
            format!("(date_trunc('day', now() AT TIME ZONE 'UTC') + '{offset}') AT TIME ZONE 'UTC'")
        };
        let (from, to): (String, String) = (
            s.get(&format!("SELECT ({})::text", edge(from))),
            s.get(&format!("SELECT ({})::text", edge(to))),
        );
        s.run(&format!(
            "CREATE TABLE once.bit PARTITION OF once.processed_events (PRIMARY KEY (key, effect)) \
             FOR VALUES FROM ('{from}') TO ('{to}')"
        ));
        let refused = s.fails("SELECT once.claim_once('k')");
        assert_eq!(refused.code, "55000", "{refused:?}");
    }
}

#[test]
fn a_plain_update_that_moves_the_row_of_a_live_claim_hides_it_from_nobody() {
    let db = database();
    let mut sessions = db.sessions(4);
    sessions[0].claim("k");
    let leaf = today(&mut sessions[0]);
    // Makes every update write a new index entry.
    sessions[0].run(&format!("CREATE INDEX ON once.{leaf} (result)"));
    race::all(&mut sessions, |number, s| {
        for n in 0..3_000 {
            if number == 0 {
                s.run(&format!(
                    "UPDATE once.processed_events SET result = '{n}'::jsonb WHERE key = 'k'"
                ));
            } else {
                assert!(!s.claim("k"), "session {number}, call {n}");
            }
        }
    });
}

#[test]
fn a_worker_makes_the_day_whatever_the_database_defaults_to() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let name: String = s.get("SELECT current_database()");
    for setting in
        ["default_transaction_isolation = serializable", "default_transaction_read_only = off"]
    {
        s.run(&format!("ALTER DATABASE \"{name}\" SET {setting}"));
        let leaf = today(&mut s);
        s.run(&format!("DROP TABLE once.{leaf}"));
        assert!(db.session().claim(setting));
    }
}
