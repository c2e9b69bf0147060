//! What is counted is what was answered.

use pg_once_tests::{race, wait};

use crate::{Counted, answers, clusters, counted};

#[test]
fn sixteen_sessions_at_once_are_counted_to_the_last_answer() {
    for cluster in clusters() {
        let db = cluster.database();
        db.session().claim("load");
        let mut sessions = db.sessions(16);
        let told = race::all(&mut sessions, |number, s| {
            // Nothing but counting in one entry, so that additions that are no additions meet.
            let hot = "SELECT count(*) FILTER (WHERE once.claim_once($1)), count(*) FROM generate_series(1, 3000)";
            let row = &s.rows(hot, &[&format!("hot-{number}")])[0];
            let (mut yes, all): (i64, i64) = (row.get(0), row.get(1));
            let mut no = all - yes;
            for n in 0..200 {
                // Half the keys are fought over, half are asked for twice by one session.
                let key = if n % 2 == 0 { format!("k{n}") } else { format!("{number}-{}", n % 50) };
                if s.claim(&key) {
                    yes += 1
                } else {
                    no += 1
                }
                let batch = s.claim_many(&[&key, "twice", "twice", &format!("b{n}")]);
                let claimed = batch.iter().filter(|(_, claimed)| *claimed).count() as i64;
                (yes, no) = (yes + claimed, no + 4 - claimed);
            }
            (yes, no)
        });
        let (yes, no) = told.iter().fold((1, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!(yes > 100 && no > 1000, "{yes} {no}");
        let mut s = db.session();
        assert_eq!(answers(&mut s), (yes, no));
        let ages = counted(&mut s, "processed_events", "").ages;
        assert_eq!(ages.iter().sum::<i64>(), no, "every duplicate has an age");
        let histogram = s.get::<i64>(
            "SELECT duplicates FROM once.stat_duplicate_ages WHERE store = 'processed_events' AND le = '+Inf'",
        );
        assert_eq!(histogram, no);
    }
}

#[test]
fn effects_stores_and_databases_are_counted_apart() {
    for cluster in clusters() {
        let (db, other) = (cluster.database(), cluster.database());
        let mut s = db.session();
        s.run("SELECT once.create_store('orders')");
        s.run("SELECT once.claim_once('k'); SELECT once.claim_once('k', effect => 'invoice')");
        s.run("SELECT once.claim_once('k', effect => 'invoice')");
        s.run("SELECT once.claim_once('k', effect => 'invoice', store => 'orders')");
        s.run("SELECT once.claim_once(7, effect => repeat('ä', 128), store => 'orders')");
        let long = "ä".repeat(128);
        let mut of = |store, effect| {
            let Counted { claimed, duplicates, .. } = counted(&mut s, store, effect);
            (claimed, duplicates)
        };
        assert_eq!(of("processed_events", ""), (1, 0));
        assert_eq!(of("processed_events", "invoice"), (1, 1));
        assert_eq!(of("orders", "invoice"), (1, 0));
        assert_eq!(of("orders", &long), (1, 0));
        assert_eq!(of("orders", ""), (0, 0));
        let mut s = other.session();
        assert_eq!(
            s.get::<i64>("SELECT count(*) FROM once.stat_claims WHERE store IS NOT NULL"),
            0
        );
    }
}

#[test]
fn a_wait_is_counted_with_its_time_and_not_waiting_as_in_progress() {
    for cluster in clusters() {
        let db = cluster.database();
        let (mut winner, waiter, mut s) = (db.session(), db.session(), db.session());
        winner.claim("load");
        winner.run("BEGIN");
        winner.claim("k");
        assert_eq!(
            s.get::<String>("SELECT outcome::text FROM once.claim('k', wait => false)"),
            "in_progress"
        );
        let waiting = waiter.background(|s| s.claim("k"));
        wait::blocked(&mut s, waiting.pid());
        s.run("SELECT pg_sleep(0.2)");
        winner.run("COMMIT");
        assert!(!waiting.join().1);
        let Counted { claimed, duplicates, in_progress, waits, .. } =
            counted(&mut s, "processed_events", "");
        assert_eq!((claimed, duplicates, in_progress, waits), (2, 1, 1, 1));
        let ms: f64 = s.get("SELECT wait_time FROM once.stat_claims");
        assert!((200.0..60_000.0).contains(&ms), "{ms}");
        // Nobody else was waited for.
        s.claim("k");
        assert_eq!(s.get::<i64>("SELECT waits FROM once.stat_claims"), 1);
    }
}

#[test]
fn answers_stored_claims_released_and_other_requests_are_counted_once_each() {
    for cluster in clusters() {
        let db = cluster.database();
        let mut s = db.session();
        s.run("SELECT once.claim('k', fingerprint => 'one'); SELECT once.claim('k', fingerprint => 'two')");
        s.run("SELECT once.claim('k', fingerprint => 'two'); SELECT once.claim('k', fingerprint => 'one')");
        s.run("SELECT once.complete('k', '1'); SELECT once.complete('k', '1')");
        assert_eq!(s.fails("SELECT once.complete('k', '2')").code, "OC007");
        s.run("SELECT once.claim_once('l'); SELECT once.release('l', 'test'); SELECT once.release('l', 'test')");
        s.run("SELECT once.claim_many('{a,b,c}')");
        s.run("SELECT once.release_many($$VALUES ('a'), ('b'), ('none')$$, 'test')");
        let row = &s.rows(
            "SELECT claimed, duplicates, mismatch, completed, released,
                    (SELECT sum(a)::bigint FROM unnest(ages) a) FROM once.stat_claims",
            &[],
        )[0];
        let counts: Vec<i64> = (0..5).map(|column| row.get(column)).collect();
        assert_eq!(counts, [5, 1, 2, 1, 3]);
        assert_eq!(row.get::<_, i64>(5), 1, "a mismatch has no age");
    }
}

#[test]
fn what_was_answered_stays_counted_when_it_is_rolled_back_and_what_failed_is_not() {
    for cluster in clusters() {
        let db = cluster.database();
        let mut s = db.session();
        s.claim("load");
        s.run("BEGIN");
        s.claim("k");
        s.run("ROLLBACK");
        s.claim("k");
        assert_eq!(answers(&mut s), (3, 0));
        // The second key of the array fails, after the first was claimed.
        s.run(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.key = 'm' THEN RAISE 'no'; END IF; RETURN NEW; END $$;
             CREATE TRIGGER no BEFORE INSERT ON once.processed_events FOR EACH ROW EXECUTE FUNCTION no()",
        );
        assert_eq!(s.fails("SELECT * FROM once.claim_many('{l,m}')").code, "P0001");
        assert_eq!(s.fails("SELECT once.claim_once('x', '100 days')").code, "22023");
        assert_eq!(answers(&mut s), (3, 0));
        s.claim_many(&["l", "n"]);
        assert_eq!(answers(&mut s), (5, 0));
    }
}

#[test]
fn switched_off_nothing_is_counted() {
    for cluster in clusters() {
        let db = cluster.database();
        let mut s = db.session();
        s.run("SET pg_once.track_claims = off");
        s.claim("k");
        s.claim("k");
        s.claim_many(&["k", "l"]);
        assert_eq!(answers(&mut s), (0, 0));
        s.run("SET pg_once.track_claims = on");
        s.claim("k");
        assert_eq!(answers(&mut s), (0, 1));
    }
}

#[test]
fn looking_up_and_read_only_refusals_count_nothing() {
    for cluster in clusters() {
        let db = cluster.database();
        let mut s = db.session();
        s.claim("k");
        s.run("SELECT * FROM once.lookup('k')");
        s.run("BEGIN READ ONLY");
        assert_eq!(s.fails("SELECT once.claim_once('k')").code, "25006");
        s.run("ROLLBACK");
        assert_eq!(answers(&mut s), (1, 0));
    }
}
