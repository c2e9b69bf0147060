//! A batch in which neighbours differ: new keys beside live and expired ones of today and of an older day, and
//! keys that other transactions hold. Runs of keys are decided together, so each kind has to end a run, or
//! not, without touching its neighbours' answers.

use std::collections::HashMap;

use pg_once_tests::shared::clocked;
use pg_once_tests::{clock, wait};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// What a key is before the batch, by its number, and whether the batch must get it.
const KINDS: [(&str, bool); 7] = [
    ("new", true),
    ("live today", false),
    ("expired today", true),
    ("live yesterday", false),
    ("expired yesterday", true),
    ("held and committed", false),
    ("held and rolled back", true),
];

#[test]
fn each_key_of_a_mixed_batch_gets_the_answer_it_would_get_alone() {
    let cluster = clocked();
    let seed: u64 = std::env::var("PG_ONCE_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("PG_ONCE_SEED is a number"));
    println!("PG_ONCE_SEED={seed}");
    for round in 0..6_u64 {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(round));
        let db = cluster.database();
        let yesterday = clock::Instant::midnight(2023, 3, 3).days(10 * round as i64).plus(43_200.0);
        cluster.clock().set(yesterday);
        let mut s = db.session();
        assert!(s.load());
        // Long stretches of one kind in some rounds, a mixture in others.
        let stretch = [1, 1, 3, 20, 100, 400][round as usize];
        let mut kinds: HashMap<String, usize> = HashMap::new();
        let mut kind = 0;
        for number in 0..2_000 {
            if number % stretch == 0 {
                kind = random.random_range(0..KINDS.len());
            }
            kinds.insert(format!("k{number:05}"), kind);
        }
        let of = |name: &str| -> Vec<String> {
            kinds.iter().filter(|(_, k)| KINDS[**k].0 == name).map(|(key, _)| key.clone()).collect()
        };
        let mut claim = |keys: Vec<String>, ttl: &str| {
            let claimed: i64 = s
                .rows(
                    "SELECT count(*) FROM once.claim_many($1::text[], $2::text::interval) WHERE claimed",
                    &[&keys, &ttl],
                )[0]
                .get(0);
            assert_eq!(claimed, keys.len() as i64);
        };
        claim(of("live yesterday"), "3 days");
        claim(of("expired yesterday"), "1 minute");
        cluster.clock().set(yesterday.days(1));
        db.session().run("CALL once.maintain()");
        claim(of("live today"), "1 day");
        claim(of("expired today"), "1 minute");
        cluster.clock().set(yesterday.days(1).plus(600.0));

        let (mut commits, mut rolls_back, mut observer) =
            (db.session(), db.session(), db.session());
        for (holder, kind) in
            [(&mut commits, "held and committed"), (&mut rolls_back, "held and rolled back")]
        {
            let keys = of(kind);
            holder.run("BEGIN");
            holder.rows("SELECT once.claim_many($1::text[], '1 day')", &[&keys]);
        }
        let mut batch: Vec<String> = kinds.keys().cloned().collect();
        batch.extend(batch.clone().into_iter().take(300));
        batch.shuffle(&mut random);
        let keys = batch.clone();
        let waiting = db.session().background(move |s| {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            s.claim_many(&keys)
        });
        if !of("held and committed").is_empty() || !of("held and rolled back").is_empty() {
            wait::blocked(&mut observer, waiting.pid());
        }
        commits.run("COMMIT");
        rolls_back.run("ROLLBACK");
        let mut seen: HashMap<String, bool> = HashMap::new();
        for (key, claimed) in waiting.join().1 {
            let first = !seen.contains_key(&key);
            let (kind, free) = KINDS[kinds[&key]];
            assert_eq!(claimed, first && free, "{key}, {kind}, seed {seed}, round {round}");
            seen.insert(key, claimed);
        }
        assert_eq!(seen.len(), 2_000);
        assert_eq!(observer.overlapping("once.processed_events"), [""; 0]);
        observer.verify("once.processed_events", cluster.server().ships("amcheck"));
    }
}
