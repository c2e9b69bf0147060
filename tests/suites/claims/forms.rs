//! Duplicates of rows in every form that PostgreSQL may store them in: changed in place and elsewhere, written and undone
//! in one transaction, compressed, out of line, older than some of the leaf's columns.

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, database};

const LEAF: &str = "SELECT pg_catalog.format('once.%I', leaf) FROM once.partitions WHERE store = 'processed_events' AND state = 'current'";

/// What the one who asks first, who asks again, a new session and a batch are told of a key.
#[track_caller]
fn refused(s: &mut Session, key: &str, when: &str) {
    let mut other = s.another();
    for s in [&mut *s, &mut other] {
        assert!(!s.claim(key) && !s.claim(key), "{when}");
        assert!(
            s.claim_many(&[key, &format!("{key} beside, {}", s.pid())])
                .iter()
                .any(|(k, c)| k == key && !c),
            "{when}"
        );
    }
}

#[test]
fn a_row_that_plain_sql_has_changed_in_place_or_elsewhere_is_a_duplicate_still() {
    let db = database();
    let (mut s, mut dba) = (db.session(), db.session());
    s.load();
    let leaf: String = dba.get(LEAF);
    for moved in [false, true] {
        if moved {
            // From now on no change of expires_at stays within its page's chain.
            dba.run(&format!("CREATE INDEX ON {leaf} (expires_at)"));
        }
        for (what, change) in [
            ("a longer window", "expires_at = expires_at + interval '1 second'"),
            ("an answer", "result = '{\"a\": 1}'"),
            (
                "a long answer",
                "result = to_jsonb((SELECT string_agg(md5(g::text), '') FROM generate_series(1, 300) g))",
            ),
            ("nothing", "key = key"),
        ] {
            let key = format!("{what} {moved}");
            assert!(s.claim(&key));
            for round in 0..3 {
                dba.run(&format!("UPDATE once.processed_events SET {change} WHERE key = '{key}'"));
                refused(&mut s, &key, &format!("{key}, {round}"));
            }
            dba.run(&format!("VACUUM {leaf}"));
            refused(&mut s, &key, &format!("{key}, vacuumed"));
            // Within the transaction that changes it, and after it was undone.
            for ending in ["ROLLBACK", "COMMIT"] {
                s.run(&format!(
                    "BEGIN; UPDATE once.processed_events SET {change} WHERE key = '{key}'"
                ));
                assert!(!s.claim(&key) && !s.claim_many(&[&key])[0].1, "{key}, own");
                s.run(ending);
                refused(&mut s, &key, &format!("{key}, {ending}"));
            }
        }
    }
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn a_row_deleted_and_written_anew_in_one_transaction_or_a_savepoint_counts_as_it_ends() {
    let db = database();
    let mut s = db.session();
    s.load();
    let insert = |key: &str| {
        format!(
            "INSERT INTO once.processed_events (claimed_at, expires_at, key)
             VALUES (clock_timestamp(), clock_timestamp() + interval '1 hour', '{key}')"
        )
    };
    let delete = |key: &str| format!("DELETE FROM once.processed_events WHERE key = '{key}'");
    for key in ["k", "l", "m", "n"] {
        assert!(s.claim(key));
    }
    for _ in 0..3 {
        s.run(&format!("BEGIN; {}; {}", delete("k"), insert("k")));
        assert!(!s.claim("k"), "its own row");
        s.run("COMMIT");
        refused(&mut s, "k", "written anew");
    }
    // Deleted in a savepoint that is undone: by the same transaction, and by one that ends otherwise.
    for ending in ["COMMIT", "ROLLBACK"] {
        s.run(&format!("BEGIN; SAVEPOINT a; {}; ROLLBACK TO a", delete("l")));
        assert!(!s.claim("l"), "the delete was undone");
        s.run(&format!(
            "SAVEPOINT b; {}; RELEASE b; SAVEPOINT c; {}; ROLLBACK TO c",
            delete("m"),
            insert("m")
        ));
        assert!(s.claim("m"), "deleted, and what came after it was undone");
        s.run(ending);
        for key in ["l", "m"] {
            refused(&mut s, key, ending);
        }
    }
    // Claimed in a savepoint, undone, claimed again, beside one that somebody else sees.
    s.run("BEGIN");
    for round in 0..40 {
        s.run("SAVEPOINT a");
        assert!(s.claim("o"), "{round}");
        assert!(!s.claim("o") && !s.claim("n"), "{round}");
        s.run("ROLLBACK TO a");
    }
    assert!(s.claim("o") && !s.claim("o"));
    s.run("COMMIT");
    refused(&mut s, "o", "after forty that were undone");
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn keys_that_the_leaf_stores_compressed_or_out_of_line_are_duplicates_and_expire() {
    let db = database();
    let mut s = db.session();
    s.load();
    let leaf: String = s.get(LEAF);
    // Random enough that nothing compresses it, and the opposite.
    let mixed: String = s.get("SELECT string_agg(md5(g::text), '') FROM generate_series(1, 31) g");
    let same = "a".repeat(990);
    for storage in ["EXTENDED", "EXTERNAL", "MAIN", "PLAIN"] {
        s.run(&format!(
            "ALTER TABLE {leaf} ALTER COLUMN key SET STORAGE {storage}; ALTER TABLE {leaf} SET (toast_tuple_target = 128)"
        ));
        for (kind, long) in [("mixed", &mixed), ("same", &same)] {
            for length in [100, 130, 300, 600, 930] {
                let key = format!("{storage} {kind} {}", &long[..length]);
                let effect = format!("{storage} {}", &long[..length.min(240)]);
                let ask = "SELECT once.claim_once($1::text, $2::text::interval, effect => $3)";
                let mut claim = |ttl: &str| -> bool { s.get_with(ask, &[&key, &ttl, &effect]) };
                for _ in 0..3 {
                    assert!(claim("1 microsecond"), "{storage}, {kind}, {length}");
                }
                assert!(
                    claim("1 hour") && !claim("1 hour") && !claim("1 hour"),
                    "{storage}, {kind}, {length}"
                );
                let plain = format!("{key}, plain");
                assert!(s.claim(&plain));
                refused(&mut s, &plain, storage);
            }
        }
    }
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn rows_older_than_the_columns_of_their_leaf_are_duplicates() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2014, 7, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut s = db.session();
    s.claim("k");
    let rest = "fingerprint bytea, ADD COLUMN result jsonb, ADD PRIMARY KEY (key, effect)";
    db.session().run(&format!(
        "CREATE TABLE once.august (claimed_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, key text COLLATE \"C\");
         INSERT INTO once.august SELECT '2014-08-05 00:00+00', '2014-08-30 00:00+00', repeat('k', g) FROM generate_series(1, 40) g;
         ALTER TABLE once.august ADD COLUMN effect text COLLATE \"C\" NOT NULL DEFAULT '', ADD COLUMN {rest};
         ALTER TABLE once.processed_events ATTACH PARTITION once.august FOR VALUES FROM ('2014-08-01 00:00+00') TO ('2014-09-01 00:00+00');
         CREATE TABLE once.september (claimed_at timestamptz NOT NULL, expires_at timestamptz NOT NULL);
         INSERT INTO once.september VALUES ('2014-09-05 00:00+00', '2014-09-30 00:00+00');
         ALTER TABLE once.september ADD COLUMN key text COLLATE \"C\" NOT NULL DEFAULT 'the only one',
             ADD COLUMN effect text COLLATE \"C\" NOT NULL DEFAULT '', ADD COLUMN {rest};
         ALTER TABLE once.processed_events ATTACH PARTITION once.september FOR VALUES FROM ('2014-09-01 00:00+00') TO ('2014-10-01 00:00+00')",
    ));
    cluster.clock().set(noon.days(40));
    for length in 1..=40 {
        refused(&mut s, &"k".repeat(length), "without the column of the effect");
    }
    assert!(s.get::<bool>("SELECT once.claim_once('k', effect => 'mail')"));
    cluster.clock().set(noon.days(70));
    refused(&mut s, "the only one", "without the column of the key");
    cluster.clock().set(noon.days(95).plus(-1.0));
    s.verify("once.processed_events", cluster.server().ships("amcheck"));
}

#[test]
fn a_leaf_made_unlogged_or_moved_to_another_place_goes_on() {
    let db = database();
    let (mut s, mut dba) = (db.session(), db.session());
    s.load();
    let leaves: Vec<String> = dba.column(
        "SELECT pg_catalog.format('once.%I', leaf) FROM once.partitions WHERE store = 'processed_events' AND state IN ('current', 'future')",
    );
    assert!(s.claim("k") && leaves.len() > 1);
    for how in ["SET UNLOGGED", "SET LOGGED"] {
        for leaf in &leaves {
            dba.run(&format!("ALTER TABLE {leaf} {how}"));
            refused(&mut s, "k", how);
        }
        assert!(s.claim(how));
        refused(&mut s, how, how);
    }
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
}
