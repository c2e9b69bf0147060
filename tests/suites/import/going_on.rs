//! An import while claims go on: one live claim a key, nobody deadlocks, and a key in flight is waited for
//! with nothing in hand.

use pg_once_tests::shared::{cluster, database};
use pg_once_tests::{race, wait};

use crate::counts::{Counts, FROM_OLD, OLD, import};

#[test]
fn of_an_import_and_eight_sessions_on_the_same_keys_one_wins_each_key() {
    const KEYS: i64 = 300;
    const ROUNDS: i64 = 12;
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('moved', retention => '7 days')");
    let mut sessions = db.sessions(9);
    let (mut imported, mut claimed) = (0, 0);
    for round in 0..ROUNDS {
        // Half of each source lies in today's leaf, half in older ones.
        s.run(&format!(
            "CREATE TABLE old{round} AS SELECT 'r{round}-' || n AS k,
                    now() - (n % 2) * interval '1 day' - (n % 5) * interval '1 minute' AS at FROM generate_series(1, {KEYS}) n"
        ));
        let won = race::all(&mut sessions, |number, s| {
            if number == 0 {
                let size = [1, 50, 10_000][round as usize % 3];
                let from = format!("'moved', 'old{round}', 'k', 'at', batch_size => {size}");
                return import(s, &from).imported;
            }
            let mut won = 0;
            // In the order of the import and in one that each session has for itself; some roll back.
            for n in 0..KEYS {
                let order = (n * [1, 3, 7, 9][number % 4] + number as i64 * 50) % KEYS + 1;
                let key = format!("r{round}-{order}");
                let undo = (n + number as i64) % 5 == 0;
                s.run("BEGIN");
                let claim = format!("SELECT once.claim_once('{key}', store => 'moved')");
                won += i64::from(s.get::<bool>(&claim) && !undo);
                s.run(if undo { "ROLLBACK" } else { "COMMIT" });
            }
            won
        });
        imported += won[0];
        claimed += won[1..].iter().sum::<i64>();
    }
    println!("{imported} imported, {claimed} claimed");
    assert_eq!(imported + claimed, ROUNDS * KEYS);
    assert!(imported > 0 && claimed > 0, "no race took place");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.moved"), ROUNDS * KEYS);
    assert_eq!(s.claimed_twice("once.moved"), [""; 0]);
    s.verify("once.moved", cluster().server().ships("amcheck"));
}

#[test]
fn two_imports_of_one_table_at_once_make_each_claim_once() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("INSERT INTO old SELECT 'k' || n, now() - n * interval '20 seconds' FROM generate_series(1, 20000) n");
    let counts = race::all(&mut db.sessions(3), |number, s| {
        import(s, &format!("{FROM_OLD}, batch_size => {}", 300 * (number + 1)))
    });
    assert_eq!(counts.iter().map(|c| c.imported).sum::<i64>(), 20_000, "{counts:?}");
    assert_eq!(s.get::<i64>("SELECT count(DISTINCT key) FROM once.moved"), 20_000);
    assert_eq!(s.claimed_twice("once.moved"), [""; 0]);
}

#[test]
fn keys_in_flight_are_left_to_the_end_and_waited_for_with_nothing_in_hand() {
    for (end, imported) in [("ROLLBACK", 1_000), ("COMMIT", 999)] {
        let db = database();
        let mut s = db.session();
        s.run(OLD);
        s.run("INSERT INTO old SELECT 'k' || n, now() FROM generate_series(1, 1000) n");
        let mut holder = db.session();
        holder.run("BEGIN");
        assert!(holder.get::<bool>("SELECT once.claim_once('k500', store => 'moved')"));
        // What the import reads and waits under must not matter: it acts on nothing it has read.
        let mut importer = db.session();
        importer.run("SET default_transaction_isolation = 'repeatable read'");
        let importing = importer.background(|s| import(s, FROM_OLD));
        wait::blocked(&mut s, importing.pid());
        assert_eq!(s.get::<i64>("SELECT count(*) FROM once.moved"), 999);
        // It holds nothing that the holder could wait for: no deadlock, no wait.
        holder.run("SET LOCAL lock_timeout = '5s'");
        for key in ["k1", "k499", "k501", "k1000"] {
            assert!(
                !holder.get::<bool>(&format!("SELECT once.claim_once('{key}', store => 'moved')")),
                "{key}"
            );
        }
        holder.run(end);
        let (_, counts) = importing.join();
        let expected =
            Counts { read: 1_000, imported, already_there: 1_000 - imported, ..Counts::default() };
        assert_eq!(counts, expected, "{end}");
        assert_eq!(s.claimed_twice("once.moved"), [""; 0]);
        assert_eq!(s.get::<i64>("SELECT count(*) FROM once.moved"), 1_000);
    }
}

#[test]
fn an_import_into_days_that_are_missing_reaches_sessions_that_knew_the_store_before() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    let mut sessions = db.sessions(4);
    for known in &mut sessions {
        // Each of them has the store as it is now in its cache, and a leaf of it open.
        known.run("BEGIN; SELECT once.claim_once('own ' || pg_backend_pid(), store => 'moved')");
    }
    s.run("INSERT INTO old SELECT 'k' || n, now() - n * interval '1 day' FROM generate_series(1, 6) n");
    assert_eq!(import(&mut s, FROM_OLD).imported, 6);
    for known in &mut sessions {
        for n in 1..=6 {
            assert!(
                !known.get::<bool>(&format!("SELECT once.claim_once('k{n}', store => 'moved')"))
            );
        }
        known.run("COMMIT");
    }
}
