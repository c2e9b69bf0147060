//! A storm of duplicates on pages whose other rows come and go: replaced, changed by plain SQL in place and elsewhere,
//! vacuumed, their index rebuilt. A claim that stands is refused all the time.

use std::sync::atomic::{AtomicBool, Ordering};

use pg_once_tests::race::{self, End};
use pg_once_tests::shared::database;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Claims that stand, among as many that expire at once.
const LIVE: usize = 40;

#[test]
fn standing_claims_are_refused_while_their_pages_are_rewritten_and_vacuumed() {
    let db = database();
    let mut sessions = db.sessions(5);
    sessions[0].load();
    let live: Vec<String> = (0..LIVE).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = live.iter().map(String::as_str).collect();
    sessions[0].claim_many(&keys);
    let leaf: String = sessions[0].get(
        "SELECT pg_catalog.format('once.%I', leaf) FROM once.partitions WHERE store = 'processed_events' AND state = 'current'",
    );
    let over = AtomicBool::new(false);
    let asked: u64 = race::all(&mut sessions, |number, s| {
        let mut random = SmallRng::seed_from_u64(number as u64);
        if number == 0 {
            let _end = End(&over);
            for round in 0..300 {
                s.run(match round % 6 {
                    3 => format!("CREATE INDEX IF NOT EXISTS moves ON {leaf} (expires_at)"),
                    4 => format!("REINDEX TABLE CONCURRENTLY {leaf}"),
                    5 => "DROP INDEX IF EXISTS once.moves".to_owned(),
                    _ => format!("VACUUM (INDEX_CLEANUP on, FREEZE {}) {leaf}", round % 2 == 0),
                }
                .as_str());
            }
            return 0;
        }
        let mut asked = 0;
        while !over.load(Ordering::SeqCst) {
            let n = random.random_range(0..LIVE);
            if number == 1 && asked % 2 == 0 {
                s.run(&format!(
                    "UPDATE once.processed_events SET expires_at = expires_at + interval '1 microsecond' WHERE key = 'k{n}'"
                ));
            }
            assert!(!s.claim(&format!("k{n}")), "k{n} stands");
            for _ in 0..3 {
                let short = format!("k{n}/{}", random.random_range(0..4));
                s.get_with::<bool>("SELECT once.claim_once($1::text, '1 microsecond')", &[&short]);
            }
            if asked % 16 == 0 {
                assert!(s.claim_many(&keys).iter().all(|(_, claimed)| !claimed));
            }
            asked += 1;
        }
        asked
    })
    .iter()
    .sum();
    assert!(asked > 20, "{asked}");
    let s = &mut sessions[0];
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

/// A swap of indexes is seen to be committed before it is told, and it is told in pieces. More indexes make
/// that moment longer; it is met where the machine is busy, as it is while the tests beside this one run.
#[test]
fn a_claim_is_not_refused_while_the_index_of_its_key_is_being_replaced() {
    let db = database();
    let mut sessions = db.sessions(5);
    sessions[0].load();
    sessions[0].claim("first");
    let leaf: String = sessions[0].get(
        "SELECT pg_catalog.format('once.%I', leaf) FROM once.partitions WHERE store = 'processed_events' AND state = 'current'",
    );
    for n in 0..12 {
        sessions[0].run(&format!("CREATE INDEX moves_{n} ON {leaf} (expires_at)"));
    }
    let over = AtomicBool::new(false);
    race::all(&mut sessions, |number, s| {
        if number == 0 {
            let _end = End(&over);
            for _ in 0..25 {
                s.run(&format!("REINDEX TABLE CONCURRENTLY {leaf}"));
            }
            return;
        }
        let mut claims = 0;
        while !over.load(Ordering::SeqCst) {
            assert!(s.claim(&format!("{number}/{claims}")));
            claims += 1;
        }
    });
}
