//! Ten, four hundred and a thousand older days: what a claim locks does not grow with them, and neither does
//! what it reads, as long as the days are over or were never written to. Counted, not timed.

use std::time::Duration;

use pg_once_tests::database::Database;
use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

const SIZES: [i32; 3] = [10, 400, 1_000];

/// A store with that many leaves before today's, each attached by plain SQL.
fn store_of(s: &mut Session, older: i32) -> String {
    let store = format!("s{older}");
    s.run(&format!("SELECT once.create_store('{store}', retention => '3000 days')"));
    s.run(&format!(
        "DO $$
         DECLARE day timestamptz;
         BEGIN
             FOR n IN 1..{older} LOOP
                 day := date_trunc('day', clock_timestamp(), 'UTC') - n * interval '24 hours';
                 EXECUTE format('CREATE TABLE once.{store}_%s (LIKE once.{store} INCLUDING ALL, PRIMARY KEY (key, effect))', n);
                 EXECUTE format('ALTER TABLE once.{store} ATTACH PARTITION once.{store}_%s FOR VALUES FROM (%L) TO (%L)',
                                n, day, day + interval '24 hours');
                 IF n % 50 = 0 THEN COMMIT; END IF;
             END LOOP;
         END $$"
    ));
    store
}

/// Says for every older leaf of every store until when it was promised.
fn promise(s: &mut Session, until: &str) {
    s.run(&format!(
        "DELETE FROM once.leaf_promise WHERE once.leaf_day(leaf) < (now() AT TIME ZONE 'UTC')::date;
         INSERT INTO once.leaf_promise
             SELECT inhrelid, inhparent, {until} FROM pg_inherits JOIN once.store_policy ON store = inhparent
              WHERE once.leaf_day(inhrelid) < (now() AT TIME ZONE 'UTC')::date"
    ));
}

/// The most locks on relations that ten claims in a transaction leave behind, whatever the plan.
fn locks(db: &Database<'_>, store: &str, word: &str) -> Vec<usize> {
    let mut s = db.session();
    let mut counts = Vec::new();
    for mode in ["auto", "force_generic_plan"] {
        s.run(&format!(
            "SET plan_cache_mode = {mode};
             PREPARE {mode} AS SELECT once.claim_once($1::text, $2, store => '{store}')"
        ));
        for prepared in [true, false] {
            s.run("BEGIN");
            for n in 0..10 {
                let key = format!("{word} {mode} {prepared} {n}");
                let call = if prepared {
                    format!("EXECUTE {mode}('{key}', '1 day')")
                } else {
                    format!("SELECT once.claim_once('{key}', '1 day', store => '{store}')")
                };
                assert_eq!(s.column::<bool>(&call), [true], "{call}");
            }
            counts.push(s.relation_locks().len());
            s.run("COMMIT");
        }
    }
    counts
}

/// Pages that a claim of a new key reads, in a session that has claimed before.
fn pages(db: &Database<'_>, store: &str, word: &str) -> i64 {
    let mut s = db.session();
    for n in 0..3 {
        s.run(&format!("SELECT once.claim_once('{word} warm {n}', store => '{store}')"));
    }
    let plan = s.column::<String>(&format!(
        "EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off)
         SELECT once.claim_once('{word} counted', store => '{store}')"
    ));
    // The first line is the statement's: what planning took stands below.
    let line = plan.iter().find(|line| line.contains("Buffers: shared")).expect("a claim reads");
    let counts = line.split_whitespace().filter_map(|part| {
        let (what, count) = part.split_once('=')?;
        matches!(what, "hit" | "read").then(|| count.parse::<i64>().expect("a number"))
    });
    counts.sum()
}

#[test]
fn a_claim_locks_and_reads_the_same_with_ten_older_days_and_with_a_thousand() {
    let db = database();
    // A thousand leaves are soon made, but a busy machine may take minutes.
    let mut s = db.session().patience(Duration::from_secs(300));
    let stores = SIZES.map(|older| store_of(&mut s, older));
    let days = s.column::<i32>("SELECT days FROM once.stores ORDER BY days");
    assert_eq!(days, SIZES.map(|older| older + 4), "all of them are there");
    for (word, until) in [
        ("unwritten", "now() + interval '1000 days'"),
        ("live", "now() + interval '1000 days'"),
        // With all that is in them: only the promise says that nothing has to be looked for any more.
        ("over", "now() - interval '1 second'"),
    ] {
        promise(&mut s, until);
        if word == "live" {
            for store in &stores {
                s.run(&format!(
                    "INSERT INTO once.{store} (key, claimed_at, expires_at)
                     SELECT 'old', once.leaf_day(inhrelid)::timestamp AT TIME ZONE 'UTC', now() + interval '900 days'
                       FROM pg_inherits WHERE inhparent = 'once.{store}'::regclass
                        AND once.leaf_day(inhrelid) < (now() AT TIME ZONE 'UTC')::date"
                ));
                let again = format!("SELECT once.claim_once('old', store => '{store}')");
                assert!(!s.get::<bool>(&again), "{store}");
            }
        }
        let counts: Vec<usize> = stores.iter().flat_map(|store| locks(&db, store, word)).collect();
        assert!(
            counts.iter().all(|count| *count == counts[0] && *count < 16),
            "{word}: {counts:?} locks"
        );
        let pages = stores.each_ref().map(|store| pages(&db, store, word));
        println!("{word}: {} locks; pages read with {SIZES:?} older days: {pages:?}", counts[0]);
        if word == "live" {
            // Days that hold live claims are each looked into: what that costs is known and grows.
            assert!(pages[0] < pages[1] && pages[1] < pages[2], "{pages:?}");
        } else {
            assert_eq!(pages, [pages[0]; 3], "{word}");
        }
    }
}
