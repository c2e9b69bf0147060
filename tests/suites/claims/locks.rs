//! What a claim leaves behind in the transaction: locks on today's leaf and nothing else; no WAL and
//! no transaction id for a duplicate.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

/// Locks after a claim of a new key: today's leaf and its primary key.
fn on_todays_leaf(s: &mut Session) -> Vec<String> {
    let mut names: Vec<String> = s.column(
        "SELECT unnest(ARRAY[x.indrelid, x.indexrelid])::regclass::text || ' RowExclusiveLock'
           FROM once.partitions p JOIN pg_index x ON x.indrelid = format('once.%I', p.leaf)::regclass
          WHERE p.state = 'current' AND p.store = 'processed_events'",
    );
    names.sort();
    names
}

#[test]
fn a_new_key_leaves_a_lock_on_todays_leaf_and_its_index_and_on_nothing_else() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let expected = on_todays_leaf(&mut db.session());
    for (n, call) in [
        "once.claim_once('k')",
        "once.claim('l')",
        "once.claim_many('{m,n,o,p}')",
        "once.claim_once(5)",
    ]
    .into_iter()
    .enumerate()
    {
        s.run("BEGIN");
        s.run(&format!("SELECT {call}"));
        assert_eq!(s.relation_locks(), expected, "{n}: {call}");
        s.run("COMMIT");
    }
}

#[test]
fn no_lock_of_a_key_outlives_the_call() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("BEGIN");
    s.claim("k");
    s.claim("k");
    s.claim_many(&["a", "b", "k"]);
    s.run("SAVEPOINT a");
    s.claim("c");
    s.run("ROLLBACK TO a");
    let others: Vec<String> = s.column(
        "SELECT locktype || ' ' || mode FROM pg_locks WHERE pid = pg_backend_pid()
            AND locktype NOT IN ('relation', 'virtualxid', 'transactionid')",
    );
    assert_eq!(others, [""; 0]);
    s.run("COMMIT");
    // Nothing of the session either: an error in the middle of a call leaves no key locked.
    let mut holder = db.session();
    holder.run("BEGIN");
    holder.claim("held");
    s.run("SET lock_timeout = '100ms'");
    s.fails("SELECT once.claim_once('held')");
    s.fails("SELECT * FROM once.claim_many('{x1,held,x2}')");
    assert_eq!(s.key_locks(), 0);
}

#[test]
fn the_number_of_locks_does_not_grow_with_the_days_of_the_store_or_the_plan() {
    let db = database();
    let mut s = db.session();
    let mut counts = Vec::new();
    for days in [1, 30] {
        let store = format!("d{days}");
        s.run(&format!("SET pg_once.precreate_days = {days}; SELECT once.create_store('{store}')"));
        for mode in ["auto", "force_generic_plan"] {
            s.run(&format!("SET plan_cache_mode = {mode}"));
            s.run(&format!(
                "PREPARE p{days}_{mode} AS SELECT once.claim_once($1::text, $2, store => '{store}')"
            ));
            s.run("BEGIN");
            for n in 0..10 {
                let claimed =
                    s.column::<bool>(&format!("EXECUTE p{days}_{mode}('{mode}{n}', '1 day')"));
                assert_eq!(claimed, [true]);
            }
            counts.push(s.relation_locks().len());
            s.run("COMMIT");
        }
    }
    assert!(counts.iter().all(|count| *count == counts[0] && *count < 16), "{counts:?}");
}

#[test]
fn four_hundred_days_that_may_all_hold_claims_cost_no_locks() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    // Older leaves that nobody promised anything for: each has to be looked into. Each has a row.
    ddl.run(
        "DO $$
         DECLARE day timestamptz;
         BEGIN
             FOR n IN 1..400 LOOP
                 day := date_trunc('day', clock_timestamp(), 'UTC') - n * interval '24 hours';
                 EXECUTE format('CREATE TABLE once.old%s (LIKE once.processed_events INCLUDING ALL, PRIMARY KEY (key, effect))', n);
                 EXECUTE format('INSERT INTO once.old%s VALUES (%L, %L, %L)', n, day, day + interval '1000 days', 'old' || n);
                 EXECUTE format('ALTER TABLE once.processed_events ATTACH PARTITION once.old%s FOR VALUES FROM (%L) TO (%L)',
                                n, day, day + interval '24 hours');
                 COMMIT;
             END LOOP;
         END $$",
    );
    let mut counts = Vec::new();
    for mode in ["auto", "force_generic_plan", "force_custom_plan"] {
        s.run(&format!(
            "SET plan_cache_mode = {mode}; PREPARE {mode} AS SELECT once.claim_once($1::text)"
        ));
        s.run("BEGIN");
        for n in 0..10 {
            assert_eq!(s.column::<bool>(&format!("EXECUTE {mode}('{mode}{n}')")), [true]);
            assert_eq!(s.column::<bool>(&format!("EXECUTE {mode}('old{}')", n * 40 + 1)), [false]);
        }
        let fresh = s.claim_many(&["old400", "old77", &format!("new {mode}")]);
        assert_eq!(
            fresh.iter().map(|(_, claimed)| *claimed).collect::<Vec<_>>(),
            [false, false, true]
        );
        counts.push(s.relation_locks().len());
        s.run("COMMIT");
    }
    assert!(counts.iter().all(|count| *count < 16), "{counts:?}");
    // Sixteen sessions at once, at the default size of the lock table.
    let answers = pg_once_tests::race::all(&mut db.sessions(16), |_, s| {
        s.run("BEGIN");
        let answer = (s.claim("old200"), s.claim("one for all"));
        s.run("COMMIT");
        answer
    });
    assert!(answers.iter().all(|(old, _)| !old));
    assert_eq!(answers.iter().filter(|(_, new)| *new).count(), 1);
}

#[test]
fn claims_do_not_wait_for_whoever_locks_the_parent() {
    let db = database();
    let (mut ddl, mut s) = (db.session(), db.session());
    s.claim("load");
    ddl.run("BEGIN; LOCK TABLE ONLY once.processed_events IN ACCESS EXCLUSIVE MODE");
    for s in [&mut s, &mut db.session()] {
        s.run("SET lock_timeout = '2s'");
        let key = format!("k{}", s.pid());
        assert!(s.claim(&key));
        assert!(!s.claim(&key));
        assert!(s.claim_many(&[&format!("m{key}")])[0].1);
    }
    ddl.run("COMMIT");
}

#[test]
fn a_duplicate_writes_no_wal_and_takes_no_transaction_id() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    s.claim_many(&["a", "b", "c"]);
    // A first look sets hint bits, which may be written; after a checkpoint they are on disk.
    s.run("SELECT once.claim_once('k'), (SELECT count(*) FROM once.claim_many('{a,b,c,k}'))");
    for call in [
        "SELECT once.claim_once('k')",
        "SELECT once.claim_once('k', '1 day')",
        "SELECT outcome FROM once.claim('k')",
        "SELECT outcome FROM once.claim('k', wait => false)",
        "SELECT * FROM once.claim_many('{a,b,c,k,a}')",
        "SELECT * FROM once.lookup('k')",
    ] {
        s.run("BEGIN");
        let plan =
            s.column::<String>(&format!("EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off) {call}"));
        let wal: Vec<&String> = plan.iter().filter(|line| line.contains("WAL:")).collect();
        assert!(wal.is_empty(), "{call} writes: {wal:?}");
        assert!(
            s.get::<bool>("SELECT pg_current_xact_id_if_assigned() IS NULL"),
            "{call} took an xid"
        );
        s.run("COMMIT");
    }
    s.run("BEGIN");
    s.claim("new");
    assert!(
        s.get::<bool>("SELECT pg_current_xact_id_if_assigned() IS NOT NULL"),
        "a new key takes one"
    );
    s.run("COMMIT");
}

#[test]
fn explain_shows_the_wal_of_a_new_key() {
    // The test above is worth something only if a write shows.
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let plan = s.column::<String>(
        "EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off) SELECT once.claim_once('k')",
    );
    assert!(plan.iter().any(|line| line.contains("WAL:") && line.contains("records=")), "{plan:?}");
}

#[test]
fn a_claim_waits_for_a_transaction_and_shows_that_in_pg_locks() {
    let db = database();
    let (mut holder, mut observer) = (db.session(), db.session());
    holder.claim("load");
    holder.run("BEGIN");
    holder.claim("k");
    let waiting = db.session().background(|s| s.claim("k"));
    pg_once_tests::wait::blocked(&mut observer, waiting.pid());
    let waits: Vec<String> = observer
        .rows("SELECT locktype FROM pg_locks WHERE pid = $1 AND NOT granted", &[&waiting.pid()])
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(waits, ["transactionid"]);
    // While it waits it holds no key, so others of the same key and of any other are not behind it.
    assert_eq!(observer.key_locks(), 0);
    assert_eq!(
        observer.get::<String>("SELECT outcome::text FROM once.claim('k', wait => false)"),
        "in_progress"
    );
    holder.run("COMMIT");
    assert!(!waiting.join().1);
}

#[test]
fn two_claimers_of_two_keys_in_opposite_order_deadlock_and_one_is_told() {
    // Single claims in one transaction cannot be sorted: PostgreSQL's detector ends it, as for rows.
    let db = database();
    let (mut a, mut observer) = (db.session(), db.session());
    a.claim("load");
    a.run("SET deadlock_timeout = '10s'; BEGIN");
    a.claim("1");
    let mut b = db.session();
    b.run("SET deadlock_timeout = '100ms'; BEGIN");
    b.claim("2");
    let waiting = a.background(|s| s.try_claim("2"));
    pg_once_tests::wait::blocked(&mut observer, waiting.pid());
    assert_eq!(b.try_claim("1").expect_err("the detector picks who looks first").code, "40P01");
    b.run("ROLLBACK");
    assert_eq!(waiting.join().1, Ok(true));
}
