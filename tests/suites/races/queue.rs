//! What a claimer knows when its turn on a key comes: the time and the leaves of that moment, not those of
//! when it began to queue.
//!
//! A trigger on a leaf runs under the key's lock, so one that waits holds up the key for as long as a test
//! wants, and everything else is done meanwhile.

use pg_once_tests::background::Background;
use pg_once_tests::clock::Instant;
use pg_once_tests::database::Database;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, database};
use pg_once_tests::wait;

/// A key, held under its lock by a claim that will fail, and who held it up.
pub(crate) struct HeldUp {
    gate: Session,
    claimer: Background<String>,
}

impl HeldUp {
    /// Today's leaf gets a trigger; a session runs a claim and stands in it.
    pub(crate) fn begin(db: &Database<'_>, observer: &mut Session, claim: &str) -> HeldUp {
        let leaf: String = observer
            .get("SELECT format('once.%I', leaf) FROM once.partitions WHERE state = 'current'");
        observer.run(&format!(
            "CREATE OR REPLACE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF current_setting('test.hold_up', true) = 'yes' THEN
                     PERFORM pg_advisory_xact_lock(1);
                     RAISE 'let go' USING ERRCODE = 'P1234';
                 END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER hold_up BEFORE INSERT ON {leaf} FOR EACH ROW EXECUTE FUNCTION hold_up()"
        ));
        let (mut gate, mut first) = (db.session(), db.session());
        gate.run("SELECT pg_advisory_lock(1)");
        first.run("SET test.hold_up = 'yes'");
        let claim = claim.to_owned();
        let claimer = first.background(move |s| s.fails(&claim).code);
        wait::blocked(observer, claimer.pid());
        HeldUp { gate, claimer }
    }

    /// A session that queues for the key, to run a query when its turn comes.
    pub(crate) fn queue(
        &self,
        mut s: Session,
        observer: &mut Session,
        query: &str,
    ) -> Background<bool> {
        // It has used the store before, so what it knows is in its cache.
        s.claim("another");
        let query = query.to_owned();
        let queued = s.background(move |s| s.get::<bool>(&query));
        let waits = "SELECT count(*) = 1 FROM pg_locks WHERE pid = $1 AND NOT granted
                        AND locktype = 'advisory' AND objsubid = 20302";
        let pid = queued.pid();
        wait::until("it queues for the key's lock", || observer.get_with(waits, &[&pid]));
        queued
    }

    /// The claim that stood in the trigger fails, and the key is free.
    pub(crate) fn end(self) {
        let HeldUp { mut gate, claimer } = self;
        gate.run("SELECT pg_advisory_unlock(1)");
        assert_eq!(claimer.join().1, "P1234");
    }
}

#[test]
fn a_window_begins_when_the_turn_comes_and_not_when_the_queue_is_joined() {
    let cluster = clocked();
    let db = cluster.database();
    cluster.clock().set(Instant::midnight(2021, 6, 1).plus(36_000.0));
    let mut observer = db.session();
    observer.load();
    let held_up = HeldUp::begin(&db, &mut observer, "SELECT once.claim_once('k')");
    let claim = "SELECT once.claim_once('k', '10 minutes')";
    let queued = held_up.queue(db.session(), &mut observer, claim);
    // Longer than the window: by the time the queue was joined it would be over as it begins.
    cluster.clock().step(3_600.0);
    held_up.end();
    assert!(queued.join().1);
    assert!(!observer.get::<bool>(claim), "the window has only begun");
    cluster.clock().step(590.0);
    assert!(!observer.get::<bool>(claim), "and lasts ten minutes");
    cluster.clock().step(11.0);
    assert!(observer.get::<bool>(claim));
}

#[test]
fn a_turn_that_comes_after_midnight_is_a_claim_of_the_new_day() {
    let cluster = clocked();
    let db = cluster.database();
    let midnight = Instant::midnight(2021, 6, 3);
    cluster.clock().set(midnight.plus(-60.0));
    let mut observer = db.session();
    observer.load();
    let held_up = HeldUp::begin(&db, &mut observer, "SELECT once.claim_once('k')");
    let queued = held_up.queue(db.session(), &mut observer, "SELECT once.claim_once('k', '1 day')");
    cluster.clock().set(midnight.plus(60.0));
    held_up.end();
    assert!(queued.join().1);
    assert_eq!(observer.leaves_of("k"), ["processed_events_20210603"]);
    cluster.clock().set(midnight.days(1).plus(30.0));
    assert!(!observer.claim("k"), "a day from then");
}

#[test]
fn a_day_that_is_attached_while_a_claimer_queues_is_looked_into() {
    let db = database();
    let (mut ddl, mut observer) = (db.session(), db.session());
    ddl.load();
    // A day that had been put aside, with a live claim of the key in it.
    ddl.run(
        "CREATE TABLE once.aside (LIKE once.processed_events INCLUDING ALL, PRIMARY KEY (key, effect));
         INSERT INTO once.aside (key, claimed_at, expires_at)
             SELECT 'k', day - interval '1 hour', day + interval '6 days'
               FROM date_trunc('day', clock_timestamp(), 'UTC') AS day",
    );
    let held_up = HeldUp::begin(&db, &mut observer, "SELECT once.claim_once('k')");
    let single = held_up.queue(db.session(), &mut observer, "SELECT once.claim_once('k')");
    let batch =
        held_up.queue(db.session(), &mut observer, "SELECT claimed FROM once.claim_many('{k}')");
    ddl.run(
        "DO $$ DECLARE day timestamptz := date_trunc('day', clock_timestamp(), 'UTC');
         BEGIN
             EXECUTE format('ALTER TABLE once.processed_events ATTACH PARTITION once.aside
                             FOR VALUES FROM (%L) TO (%L)', day - interval '24 hours', day);
         END $$",
    );
    held_up.end();
    assert!(!single.join().1, "what was committed before its turn counts");
    assert!(!batch.join().1);
    assert_eq!(observer.leaves_of("k"), ["aside"]);
    assert_eq!(observer.key_locks(), 0);
}
