//! A key that one session claims alone while another decides it together with many: one of them gets it. The
//! keys are long, so that writing the many takes a while.

use std::time::{Duration, Instant as Moment};

use pg_once_tests::race;
use pg_once_tests::shared::database;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const ROUNDS: usize = 250;
/// Runs of 1, 2, 4 .. 64 keys.
const KEYS: usize = 127;

fn key(round: usize, place: usize) -> String {
    format!("{round:04}-{place:04}-{}", "x".repeat(900))
}

#[test]
fn a_key_asked_for_alone_while_a_batch_decides_it_goes_to_one_of_them() {
    let seed: u64 = std::env::var("PG_ONCE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random);
    println!("PG_ONCE_SEED={seed}");
    let db = database();
    let mut sessions = db.sessions(4);
    assert!(sessions[0].load());
    let (mut batches, mut alone, mut took) = (0, 0, Duration::from_millis(3));
    for round in 0..ROUNDS {
        let answers = race::all(&mut sessions, |number, s| {
            if number == 0 {
                let keys: Vec<String> = (0..KEYS).map(|place| key(round, place)).collect();
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                let asked = Moment::now();
                let answers = s.claim_many(&keys);
                let claimed = answers.into_iter().map(|(_, claimed)| claimed).collect();
                return (claimed, 0, asked.elapsed());
            }
            let mut random = StdRng::seed_from_u64(seed.wrapping_add((round * 4 + number) as u64));
            // Of the last run of the batch, while it is under way.
            let place = random.random_range(64..KEYS);
            std::thread::sleep(took.mul_f64(random.random_range(0.0..1.0)));
            (vec![s.claim(&key(round, place))], place, Duration::ZERO)
        });
        took = answers[0].2;
        let mut trues = vec![0; KEYS];
        for (place, claimed) in answers[0].0.iter().enumerate() {
            trues[place] += usize::from(*claimed);
            batches += usize::from(*claimed);
        }
        for (claimed, place, _) in &answers[1..] {
            trues[*place] += usize::from(claimed[0]);
            alone += usize::from(claimed[0]);
        }
        assert!(trues.iter().all(|count| *count == 1), "round {round}: {trues:?}");
    }
    println!("{batches} keys went to batches, {alone} to sessions that asked for one");
    assert!(batches > ROUNDS * KEYS / 2 && alone > ROUNDS / 10);
}
