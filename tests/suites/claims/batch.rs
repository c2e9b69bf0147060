//! Batches: one answer an element in input order, no first conflict that ends the rest, no deadlock
//! between two batches of the same keys in whatever order.

use std::collections::HashMap;

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::{race, wait};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

fn answers(s: &mut Session, keys: &[&str]) -> Vec<bool> {
    let rows = s.claim_many(keys);
    assert_eq!(rows.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), keys, "input order");
    rows.into_iter().map(|(_, claimed)| claimed).collect()
}

#[test]
fn a_key_claimed_before_does_not_stop_the_rest_of_the_batch() {
    let db = database();
    let mut s = db.session();
    assert!(s.claim("b"));
    assert_eq!(answers(&mut s, &["a", "b", "c", "b", "d"]), [true, false, true, false, true]);
    assert_eq!(answers(&mut s, &["d", "e", "a"]), [false, true, false]);
}

#[test]
fn of_equal_keys_the_first_can_be_true() {
    let db = database();
    let mut s = db.session();
    assert_eq!(answers(&mut s, &["a", "b", "a"]), [true, true, false]);
    assert_eq!(answers(&mut s, &["z", "z", "y", "z", "a"]), [true, false, true, false, false]);
    s.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(answers(&mut s, &["q", "p", "q", "a"]), [true, true, false, false]);
    s.run("COMMIT; BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(answers(&mut s, &["s", "r", "s", "q"]), [true, true, false, false]);
    s.run("COMMIT");
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
}

#[test]
fn an_empty_array_gives_no_rows() {
    let db = database();
    let mut s = db.session();
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.claim_many('{}')"), 0);
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM once.claim_many(ARRAY[]::text[], '1 hour', 'e')"),
        0
    );
}

#[test]
fn an_array_may_begin_at_any_index() {
    let db = database();
    let mut s = db.session();
    let rows: Vec<String> =
        s.column("SELECT key || claimed FROM once.claim_many('[0:2]={a,b,a}'::text[]) WITH ORDINALITY o ORDER BY ordinality");
    assert_eq!(rows, ["atrue", "btrue", "afalse"]);
    let rows: Vec<String> =
        s.column("SELECT key || claimed FROM once.claim_many('[-5:-4]={b,c}'::text[])");
    assert_eq!(rows, ["bfalse", "ctrue"]);
}

#[test]
fn ten_thousand_keys_with_a_duplicate_first_in_the_middle_or_last() {
    let db = database();
    let mut s = db.session();
    for (batch, position) in [(0, 1), (1, 5_000), (2, 10_000)] {
        assert!(s.claim(&format!("b{batch}-{position}")));
        let wrong: i64 = s.get(&format!(
            "SELECT count(*) FROM once.claim_many(ARRAY(SELECT 'b{batch}-' || g FROM generate_series(1, 10000) g))
               WITH ORDINALITY AS m (key, claimed, n)
              WHERE key <> 'b{batch}-' || n OR claimed <> (n <> {position})"
        ));
        assert_eq!(wrong, 0, "duplicate at position {position}");
    }
}

#[test]
fn a_hundred_thousand_elements_of_which_half_are_repeats() {
    let db = database();
    let mut s = db.session();
    let keys = "ARRAY(SELECT 'k' || (g * 7919 % 50000) FROM generate_series(0, 99999) g)";
    let firsts: String = s.get(&format!(
        "SELECT concat_ws(' ', count(*), count(*) FILTER (WHERE claimed),
                          count(*) FILTER (WHERE claimed AND n > 50000), count(DISTINCT key))
           FROM once.claim_many({keys}) WITH ORDINALITY AS m (key, claimed, n)"
    ));
    assert_eq!(firsts, "100000 50000 0 50000");
    assert_eq!(
        s.get::<i64>(&format!("SELECT count(*) FROM once.claim_many({keys}) WHERE claimed")),
        0
    );
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn every_key_is_claimed_even_when_fewer_rows_are_read() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT * FROM once.claim_many('{a,b,c}') LIMIT 1");
    s.run("SELECT once.claim_many('{d,e,f}') LIMIT 1");
    s.run("SELECT EXISTS (SELECT FROM once.claim_many('{g,h,i}'))");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 9);
}

#[test]
fn a_batch_waits_for_a_key_in_flight_and_goes_on() {
    let db = database();
    let (mut holder, mut observer) = (db.session(), db.session());
    holder.claim("load");
    for (key, ending, expected) in [("k1", "COMMIT", false), ("k2", "ROLLBACK", true)] {
        holder.run("BEGIN");
        assert!(holder.claim(key));
        let (before, after) = (format!("a{key}"), format!("z{key}"));
        let batch = [after.clone(), key.to_owned(), before.clone()];
        let waiting = db.session().background(move |s| {
            let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
            answers(s, &batch)
        });
        wait::blocked(&mut observer, waiting.pid());
        holder.run(ending);
        assert_eq!(waiting.join().1, [true, expected, true]);
        assert!(!observer.claim(&before) && !observer.claim(&after));
    }
}

#[test]
fn a_batch_that_rolls_back_frees_every_key() {
    let db = database();
    let mut s = db.session();
    assert!(s.claim("b"));
    s.run("BEGIN");
    assert_eq!(answers(&mut s, &["a", "b", "c"]), [true, false, true]);
    s.run("SAVEPOINT one");
    assert_eq!(answers(&mut s, &["c", "d"]), [false, true]);
    s.run("ROLLBACK TO one");
    assert_eq!(answers(&mut s, &["c", "d"]), [false, true]);
    s.run("ROLLBACK");
    assert_eq!(answers(&mut s, &["a", "b", "c", "d"]), [true, false, true, true]);
}

#[test]
fn two_batches_of_the_same_keys_in_any_order_never_deadlock() {
    let db = database();
    let mut sessions = db.sessions(2);
    sessions[0].claim("load");
    sessions.iter_mut().for_each(|s| s.run("SET deadlock_timeout = '50ms'"));
    let rounds = 200;
    let counts = race::all(&mut sessions, |number, s| {
        let mut random = StdRng::seed_from_u64(7);
        let mut won: HashMap<usize, usize> = HashMap::new();
        for round in 0..rounds {
            let mut keys: Vec<String> = (0..500).map(|n| format!("r{round}-{n:03}")).collect();
            if number == 1 {
                keys.shuffle(&mut random);
            }
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            s.run("BEGIN");
            let rows = s
                .try_claim_many(&keys)
                .unwrap_or_else(|failure| panic!("round {round}: {failure}"));
            s.run("COMMIT");
            won.insert(round, rows.iter().filter(|(_, claimed)| *claimed).count());
        }
        won
    });
    for round in 0..rounds {
        let (a, b) = (counts[0][&round], counts[1][&round]);
        assert_eq!(a + b, 500, "round {round}: {a} and {b}");
    }
    assert_eq!(sessions[0].claimed_twice("once.processed_events"), [""; 0]);
}

#[test]
fn eight_overlapping_batches_that_partly_roll_back_share_the_keys_out() {
    let db = database();
    let mut sessions = db.sessions(8);
    sessions[0].claim("load");
    sessions[0].run("CREATE TABLE wins (key text)");
    for round in 0..5_u64 {
        race::all(&mut sessions, |number, s| {
            let mut random = StdRng::seed_from_u64(round * 100 + number as u64);
            let mut keys: Vec<String> = (0..300).map(|n| format!("r{round}-{n}")).collect();
            keys.shuffle(&mut random);
            let keys: Vec<&str> = keys[..200].iter().map(String::as_str).collect();
            s.run("BEGIN");
            s.rows(
                "INSERT INTO wins SELECT key FROM once.claim_many($1::text[]) WHERE claimed RETURNING key",
                &[&keys],
            );
            s.run(if number % 3 == 0 { "ROLLBACK" } else { "COMMIT" });
        });
    }
    let s = &mut sessions[0];
    assert_eq!(
        s.column::<String>("SELECT key FROM wins GROUP BY key HAVING count(*) > 1"),
        [""; 0]
    );
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
    let differ: i64 = s.get(
        "SELECT count(*) FROM (SELECT key FROM once.processed_events WHERE key <> 'load') p
           FULL JOIN wins w USING (key) WHERE p.key IS NULL OR w.key IS NULL",
    );
    assert_eq!(differ, 0, "a claim without its effect, or an effect without its claim");
}
