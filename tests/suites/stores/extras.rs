//! A leaf that carries more than ours: every index stays right, every check and constraint holds, whether a claim is new, replaces an expired one, or comes in a batch.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::wait;

/// Claims of every kind: new, duplicate, replaced, batch, rolled back, in savepoints.
pub(crate) fn exercise(s: &mut Session, salt: &str) {
    let claim = |s: &mut Session, key: &str, ttl: &str| -> bool {
        s.get_with(
            "SELECT once.claim_once($1::text, $2::text::interval)",
            &[&format!("{salt} {key}"), &ttl],
        )
    };
    assert!(claim(s, "new", "1 hour"));
    assert!(!claim(s, "new", "1 hour"));
    for _ in 0..3 {
        assert!(claim(s, "short", "1 microsecond"));
    }
    s.run("BEGIN");
    assert!(claim(s, "undone", "1 hour"));
    assert!(claim(s, "short", "1 microsecond"));
    s.run("ROLLBACK; BEGIN; SAVEPOINT a");
    assert!(claim(s, "undone", "1 hour"));
    s.run("ROLLBACK TO a");
    assert!(claim(s, "undone", "1 hour"));
    assert!(claim(s, "short", "1 microsecond"));
    s.run("COMMIT");
    let fresh: i64 = s.get(&format!(
        "SELECT count(*) FROM once.claim_many(ARRAY(SELECT '{salt} b' || g % 50 FROM generate_series(1, 100) g)) WHERE claimed"
    ));
    assert_eq!(fresh, 50);
    let again: i64 = s.get(&format!(
        "SELECT count(*) FROM once.claim_many(ARRAY['{salt} b1', '{salt} short', '{salt} b2', '{salt} fresh'], '1 microsecond') WHERE claimed"
    ));
    assert_eq!(again, 2);
    for key in ["new", "undone", "b7"] {
        assert!(!claim(s, key, "1 hour"), "{key}");
    }
}

/// Today's leaf, qualified and quoted.
pub(crate) fn today(s: &mut Session) -> String {
    s.get("SELECT format('once.%I', leaf) FROM once.partitions WHERE state = 'current' AND store = 'processed_events'")
}

#[test]
fn every_added_index_holds_every_claim_of_every_session() {
    let db = database();
    let amcheck = db.cluster().server().ships("amcheck");
    let (mut cached, mut ddl) = (db.session(), db.session());
    exercise(&mut cached, "plain");
    let leaf = today(&mut ddl);
    for (number, index) in [
        "btree (expires_at)",
        "btree (claimed_at, key)",
        "btree (lower(key))",
        "btree (key) WHERE effect = ''",
        "hash (key)",
        "gin (to_tsvector('simple', key))",
        "brin (claimed_at)",
        "btree (effect, key) INCLUDE (expires_at)",
    ]
    .iter()
    .enumerate()
    {
        ddl.run(&format!("CREATE INDEX extra{number} ON {leaf} USING {index}"));
        exercise(&mut cached, &format!("index {number}"));
        exercise(&mut db.session(), &format!("index {number}, new session"));
    }
    ddl.run(&format!("CREATE UNIQUE INDEX unique_pair ON {leaf} (effect, key)"));
    exercise(&mut cached, "unique");
    cached.verify("once.processed_events", amcheck);
    // What each index finds is what is there.
    let all: i64 = cached.get("SELECT count(*) FROM once.processed_events");
    cached.run("SET enable_seqscan = off");
    for condition in [
        "expires_at > '-infinity'",
        "claimed_at > '-infinity'",
        "lower(key) > ''",
        "effect = '' AND key > ''",
    ] {
        let found: i64 = cached.get(&format!("SELECT count(*) FROM {leaf} WHERE {condition}"));
        assert_eq!(found, all, "{condition}");
    }
    assert_eq!(
        cached.get::<i64>(&format!("SELECT count(*) FROM {leaf} WHERE key = 'plain new'")),
        1
    );
    for number in 0..8 {
        ddl.run(&format!("DROP INDEX once.extra{number}"));
    }
    ddl.run("DROP INDEX once.unique_pair");
    exercise(&mut cached, "plain again");
    cached.verify("once.processed_events", amcheck);
}

#[test]
fn an_index_built_concurrently_misses_no_claim_made_meanwhile() {
    let db = database();
    let (mut holder, mut cached, mut observer) = (db.session(), db.session(), db.session());
    exercise(&mut cached, "plain");
    for round in 0..3 {
        holder.run("BEGIN");
        assert!(holder.claim(&format!("held {round}")));
        let leaf = today(&mut observer);
        let building = db.session().background(move |s| {
            s.run(&format!("CREATE INDEX CONCURRENTLY extra{round} ON {leaf} (expires_at, key)"));
        });
        wait::blocked(&mut observer, building.pid());
        exercise(&mut cached, &format!("meanwhile {round}"));
        assert!(holder.claim(&format!("held too {round}")));
        holder.run("COMMIT");
        building.join();
        exercise(&mut cached, &format!("afterwards {round}"));
    }
    let valid: bool = observer.get("SELECT bool_and(indisvalid) FROM pg_index WHERE indexrelid::regclass::text LIKE 'once.extra%'");
    assert!(valid);
    cached.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn a_claim_does_not_lock_the_parent_of_a_leaf_that_carries_more_either() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    ddl.run("ALTER TABLE once.processed_events ADD COLUMN source text DEFAULT 'x', ADD CHECK (key <> 'never')");
    ddl.run("CREATE INDEX ON once.processed_events (expires_at)");
    s.run("BEGIN");
    assert!(s.claim("k") && s.claim_many(&["l", "m"])[0].1);
    let parent: Vec<String> = s.column(
        "SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'once.processed_events'::regclass",
    );
    assert_eq!(parent, [""; 0]);
    s.run("COMMIT");
    ddl.run("BEGIN; LOCK TABLE ONLY once.processed_events IN ACCESS EXCLUSIVE MODE");
    for s in [&mut s, &mut db.session()] {
        s.run("SET lock_timeout = '2s'");
        let key = format!("n{}", s.pid());
        assert!(s.claim(&key) && !s.claim(&key));
    }
    ddl.run("COMMIT");
}

#[test]
fn a_check_that_fails_claims_nothing() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    let leaf = today(&mut ddl);
    ddl.run(&format!("ALTER TABLE {leaf} ADD CONSTRAINT no_tests CHECK (key NOT LIKE 'test%')"));
    assert_eq!(s.fails("SELECT once.claim_once('test 1')").code, "23514");
    assert_eq!(s.fails("SELECT * FROM once.claim_many('{fine,test 1}')").code, "23514");
    exercise(&mut s, "checked");
    assert_eq!(
        s.get::<i64>(
            "SELECT count(*) FROM once.processed_events WHERE key LIKE 'test%' OR key = 'fine'"
        ),
        0
    );
}

#[test]
fn generated_and_further_columns_are_filled() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    exercise(&mut s, "plain");
    ddl.run(
        "ALTER TABLE once.processed_events ADD COLUMN shard int GENERATED ALWAYS AS (length(key) % 4) STORED,
             ADD COLUMN source text DEFAULT current_user NOT NULL, ADD COLUMN empty int",
    );
    exercise(&mut s, "more columns");
    exercise(&mut db.session(), "new session");
    let wrong: i64 = s.get(
        "SELECT count(*) FROM once.processed_events
          WHERE shard <> length(key) % 4 OR source <> 'postgres' OR empty IS NOT NULL",
    );
    assert_eq!(wrong, 0);
    ddl.run("ALTER TABLE once.processed_events ADD COLUMN must int NOT NULL DEFAULT 0");
    ddl.run("ALTER TABLE once.processed_events ALTER COLUMN must DROP DEFAULT");
    assert_eq!(
        s.fails("SELECT once.claim_once('k')").code,
        "23502",
        "a column that must be given cannot be"
    );
    ddl.run(
        "ALTER TABLE once.processed_events DROP COLUMN must, DROP COLUMN shard, DROP COLUMN empty",
    );
    exercise(&mut s, "dropped columns");
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn a_rule_on_the_leaf_neither_diverts_nor_doubles_a_claim() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    let leaf = today(&mut ddl);
    ddl.run(&format!("CREATE RULE nothing AS ON INSERT TO {leaf} DO INSTEAD NOTHING"));
    // Rules rewrite statements; a claim is none. What counts: a true has its row.
    exercise(&mut s, "rule");
    assert_eq!(s.leaves_of("rule new").len(), 1);
    ddl.run(&format!("DROP RULE nothing ON {leaf}"));
    exercise(&mut s, "no rule");
}

#[test]
fn a_foreign_key_to_a_leaf_keeps_an_expired_row_that_something_refers_to() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    let leaf = today(&mut ddl);
    ddl.run(&format!("CREATE TABLE invoice (key text, effect text DEFAULT '', FOREIGN KEY (key, effect) REFERENCES {leaf})"));
    assert!(s.get::<bool>("SELECT once.claim_once('k', '1 microsecond')"));
    s.run("INSERT INTO invoice VALUES ('k')");
    assert!(s.claim("k"), "replaced: the key itself stays");
    assert!(!s.claim("k"));
    let dangling: i64 = s.get("SELECT count(*) FROM invoice i WHERE NOT EXISTS (SELECT FROM once.processed_events p WHERE p.key = i.key)");
    assert_eq!(dangling, 0);
}

#[test]
fn an_exclusion_or_unique_constraint_of_the_dbas_refuses_as_its_own_error() {
    let db = database();
    let (mut s, mut ddl) = (db.session(), db.session());
    s.claim("load");
    let leaf = today(&mut ddl);
    ddl.run(&format!("CREATE UNIQUE INDEX one_prefix ON {leaf} (left(key, 3))"));
    assert!(s.claim("abc1"));
    assert_eq!(s.fails("SELECT once.claim_once('abc2')").code, "23505");
    assert!(!s.claim("abc1"));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events WHERE key LIKE 'abc%'"), 1);
    ddl.run(&format!(
        "DROP INDEX once.one_prefix; ALTER TABLE {leaf} ADD CONSTRAINT apart EXCLUDE USING btree (left(key, 3) WITH =)"
    ));
    assert_eq!(s.fails("SELECT once.claim_once('abc3')").code, "23P01");
    assert!(s.claim("xyz1"));
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}
