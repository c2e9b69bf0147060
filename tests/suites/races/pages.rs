//! Keys of every shape, pages of every age: what the index's pages look like never changes an answer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pg_once_tests::race;
use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// A piece of text of so many bytes: one character repeated (compressible), or random letters, or
/// characters of several bytes.
fn text(random: &mut StdRng, bytes: usize) -> String {
    match random.random_range(0..4) {
        0 => "a".repeat(bytes),
        1 => format!("{}{}", "\u{e9}".repeat(bytes / 2), "z".repeat(bytes % 2)),
        2 => (0..bytes).map(|_| char::from(random.random_range(b' '..=b'~'))).collect(),
        _ => (0..bytes).map(|_| ['a', 'b', '\u{1}', '~'][random.random_range(0..4)]).collect(),
    }
}

/// Lengths at which the stored form changes: eight bytes of a sort key, the short header's 126, what
/// an index may compress, the limit.
fn length(random: &mut StdRng, most: usize) -> usize {
    let around =
        [1, 2, 7, 8, 9, 16, 124, 125, 126, 127, 128, 129, 255, 500, 512, 530, 1000, 1023, 1024];
    let fitting: Vec<usize> = around.into_iter().filter(|length| *length <= most).collect();
    fitting[random.random_range(0..fitting.len())]
}

fn claim(s: &mut Session, key: &str, effect: &str) -> bool {
    s.get_with("SELECT once.claim_once($1::text, effect => $2)", &[&key, &effect])
}

#[test]
fn keys_and_effects_of_every_length_and_shape_agree_with_a_set() {
    let db = database();
    let mut sessions = db.sessions(3);
    sessions[0].load();
    let seed: u64 = std::env::var("PG_ONCE_SEED")
        .map_or_else(|_| rand::rng().random(), |s| s.parse().expect("a number"));
    println!("PG_ONCE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let prefixes: Vec<String> =
        (0..6).map(|n| if n == 0 { String::new() } else { text(&mut random, n * 20) }).collect();
    let effects: Vec<String> =
        [0, 1, 125, 126, 127, 128, 200, 256].iter().map(|n| text(&mut random, *n)).collect();
    let mut known: HashSet<(String, String)> = HashSet::new();
    for step in 0..2500 {
        let s = &mut sessions[step % 3];
        let effect = effects[random.random_range(0..effects.len())].clone();
        let fresh = |random: &mut StdRng| {
            let prefix = &prefixes[random.random_range(0..prefixes.len())];
            let rest = length(random, 1024 - prefix.len());
            format!("{prefix}{}", text(random, rest))
        };
        let again = |random: &mut StdRng, known: &HashSet<(String, String)>| {
            let skip = random.random_range(0..known.len().max(1));
            known.iter().nth(skip).map(|(key, _)| key.clone())
        };
        if step % 10 == 0 {
            let mut keys: Vec<String> = (0..20).map(|_| fresh(&mut random)).collect();
            keys.extend((0..5).filter_map(|_| again(&mut random, &known)));
            keys.extend_from_within(0..3);
            keys.shuffle(&mut random);
            let rows = s.rows(
                "SELECT key, claimed FROM once.claim_many($1::text[], effect => $2)",
                &[&keys, &effect],
            );
            assert_eq!(rows.len(), keys.len());
            for (key, row) in keys.iter().zip(rows) {
                assert_eq!(row.get::<_, &str>(0), key);
                let new = known.insert((key.clone(), effect.clone()));
                assert_eq!(
                    row.get::<_, bool>(1),
                    new,
                    "seed {seed}, step {step}: {key:?} / {effect:?} in a batch"
                );
            }
        } else {
            let old = if step % 3 == 0 { again(&mut random, &known) } else { None };
            let key = old.unwrap_or_else(|| fresh(&mut random));
            let new = known.insert((key.clone(), effect.clone()));
            assert_eq!(
                claim(s, &key, &effect),
                new,
                "seed {seed}, step {step}: {key:?} / {effect:?}"
            );
        }
    }
    for (key, effect) in &known {
        assert!(
            !claim(&mut sessions[0], key, effect),
            "seed {seed}: {key:?} / {effect:?} at the end"
        );
    }
    let s = &mut sessions[1];
    assert_eq!(s.own_claims(), known.len() as i64 + 1);
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn one_key_with_thousands_of_dead_entries_is_still_one_key() {
    let db = database();
    let (mut s, mut old) = (db.session().patience(Duration::from_secs(120)), db.session());
    s.load();
    s.claim_many(&["a", "j", "k\u{1}", "ka", "l", "z"]);
    // Nothing may be cleaned away while this looks.
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM once.processed_events");
    s.run(
        "DO $$
         BEGIN
             FOR i IN 1..4000 LOOP
                 BEGIN
                     IF NOT once.claim_once('k') THEN RAISE 'refused at %', i; END IF;
                     RAISE EXCEPTION USING ERRCODE = 'P0003';
                 EXCEPTION WHEN SQLSTATE 'P0003' THEN NULL;
                 END;
             END LOOP;
         END $$",
    );
    for expected in [true, false] {
        let answers = s.claim_many(&["j", "k", "ka", "k\u{1}"]);
        assert_eq!(
            answers.iter().map(|(_, c)| *c).collect::<Vec<_>>(),
            [false, expected, false, false]
        );
        assert!(!db.session().claim("k"));
    }
    old.run("COMMIT");
    s.run("VACUUM once.processed_events");
    assert!(!s.claim("k") && s.claim("kk"));
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn one_key_claimed_anew_thousands_of_times_is_still_one_key() {
    let db = database();
    let (mut s, mut old) = (db.session().patience(Duration::from_secs(120)), db.session());
    s.load();
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM once.processed_events");
    s.run(
        "DO $$
         BEGIN
             FOR i IN 1..3000 LOOP
                 IF NOT once.claim_once('k', '1 microsecond') THEN RAISE 'refused at %', i; END IF;
                 IF NOT once.claim_once('filler' || i, '1 microsecond') THEN RAISE 'filler refused at %', i; END IF;
                 COMMIT;
             END LOOP;
         END $$",
    );
    assert!(s.claim("k"));
    assert!(!s.claim("k") && !db.session().claim("k"));
    old.run("COMMIT");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events WHERE key = 'k'"), 1);
    let fillers: i64 = s.get(
        "SELECT count(*) FROM once.claim_many(ARRAY(SELECT 'filler' || g FROM generate_series(1, 3000) g)) WHERE claimed",
    );
    assert_eq!(fillers, 3000, "all have expired");
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn big_overlapping_batches_split_pages_under_each_other_and_share_the_keys_out() {
    let db = database();
    let mut sessions = db.sessions(8);
    sessions[0].load();
    let won: i64 = race::all(&mut sessions, |number, s| {
        let mut random = StdRng::seed_from_u64(number as u64);
        let mut won = 0;
        for part in 0..3 {
            let mut keys: Vec<String> =
                (0..12_000).map(|n| format!("p{part}-{:07}", (n * 7919) % 12_000)).collect();
            keys.shuffle(&mut random);
            let keys: Vec<&str> = keys[..9_000].iter().map(String::as_str).collect();
            won += s.claim_many(&keys).iter().filter(|(_, claimed)| *claimed).count() as i64;
        }
        won
    })
    .iter()
    .sum();
    let s = &mut sessions[0];
    assert_eq!(s.own_claims(), won + 1);
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn pages_emptied_and_given_back_by_vacuum_lose_no_key_and_find_none_twice() {
    let db = database();
    let mut sessions = db.sessions(6);
    sessions[0].load();
    sessions[0].run("CREATE TABLE wins (key text)");
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let done = over.clone();
    let cleaner = db.session().background(move |s| {
        for round in 0..25 {
            // Whole ranges go, so that whole pages are emptied, deleted and used again.
            let (from, to) = (round % 5 * 2, round % 5 * 2 + 2);
            s.run(&format!("DELETE FROM once.processed_events WHERE key >= 'k{from}' AND key < 'k{to}' AND key <> 'k'"));
            s.run("VACUUM (INDEX_CLEANUP on) once.processed_events");
        }
        done.store(true, Ordering::SeqCst);
    });
    race::all(&mut sessions, |number, s| {
        let mut random = StdRng::seed_from_u64(number as u64);
        let mut n = 0;
        while n < 30 || !over.load(Ordering::SeqCst) && n < 100_000 {
            n += 1;
            if n % 20 == 0 {
                let keys: Vec<String> =
                    (0..500).map(|_| format!("k{}", random.random_range(0..20_000))).collect();
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                s.claim_many(&keys);
            } else {
                s.claim(&format!("k{}", random.random_range(0..20_000)));
            }
        }
    });
    cleaner.join();
    let s = &mut sessions[0];
    let keys: Vec<String> = s.column("SELECT key FROM once.processed_events");
    let distinct: HashSet<&String> = keys.iter().collect();
    assert_eq!(keys.len(), distinct.len());
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert!(s.claim_many(&keys).iter().all(|(_, claimed)| !claimed));
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn claims_and_plain_inserts_of_the_same_keys_give_each_key_to_one_of_them() {
    let db = database();
    let mut sessions = db.sessions(8);
    sessions[0].load();
    let leaf: String = sessions[0]
        .get("SELECT format('once.%I', leaf) FROM once.partitions WHERE state = 'current'");
    let won: i64 = race::all(&mut sessions, |number, s| {
        let mut won = 0;
        for n in 0..400 {
            if number % 2 == 0 {
                let inserted = s.rows(
                    &format!(
                        "INSERT INTO {leaf} (claimed_at, expires_at, key) VALUES (clock_timestamp(),
                             clock_timestamp() + interval '1 hour', 'k{n}') ON CONFLICT DO NOTHING RETURNING 1"
                    ),
                    &[],
                );
                won += inserted.len() as i64;
            } else {
                match s.try_claim(&format!("k{n}")) {
                    Ok(claimed) => won += i64::from(claimed),
                    // An INSERT that knows nothing of key locks may come between look and write.
                    Err(failure) => assert_eq!(failure.code, "23505", "{failure}"),
                }
            }
        }
        won
    })
    .iter()
    .sum();
    assert_eq!(won, 400);
    assert_eq!(sessions[0].own_claims(), 401);
    sessions[0].verify("once.processed_events", db.cluster().server().ships("amcheck"));
}
