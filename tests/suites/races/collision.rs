//! Two keys whose lock has the same number: they wait for each other while one is decided, and that is all.
//!
//! Such keys can be made, because the hash is no secret: XXH3 multiplies the first eight bytes of a key of 17
//! to 32 bytes, combined with a constant and the seed, by the next eight. Where the first factor is zero the
//! next eight bytes do not count.

use pg_once_tests::shared::database;
use pg_once_tests::wait;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::queue::HeldUp;

/// The first eight bytes of XXH3's default secret.
const SECRET: u64 = 0xbe4b_a423_396c_feb8;

/// An effect, and two printable keys that have one lock number in this store.
struct Collision {
    effect: String,
    keys: [String; 2],
    number: u64,
}

impl Collision {
    fn in_store(store: u32) -> Collision {
        for attempt in 0.. {
            let effect = format!("effect {attempt}");
            let seed = xxh3_64_with_seed(effect.as_bytes(), u64::from(store));
            let vanishes = SECRET.wrapping_add(seed).to_le_bytes();
            // To be quoted easily.
            if !vanishes.iter().all(u8::is_ascii_alphanumeric) {
                continue;
            }
            let head = String::from_utf8_lossy(&vanishes);
            // 32 bytes: longer ones are mixed in more than two pieces.
            let keys = ["order-1:", "order-2:"].map(|free| format!("{head}{free}the same in both"));
            let numbers = keys.each_ref().map(|key| xxh3_64_with_seed(key.as_bytes(), seed));
            assert_eq!(numbers[0], numbers[1], "{keys:?} under seed {seed}");
            assert_ne!(keys[0], keys[1]);
            return Collision { effect, keys, number: numbers[0] };
        }
        unreachable!("one effect in some thousands will do")
    }

    fn claim(&self, key: &str) -> String {
        format!("SELECT once.claim_once('{key}', '1 hour', '{}')", self.effect)
    }
}

#[test]
fn two_keys_of_one_lock_number_are_two_keys() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    first.load();
    let store: u32 = first.get("SELECT 'once.processed_events'::regclass::oid");
    let collision = Collision::in_store(store);
    let [a, b] = collision.keys.each_ref().map(|key| collision.claim(key));
    second.run("SET lock_timeout = '500ms'");
    for end in ["ROLLBACK", "COMMIT"] {
        first.run("BEGIN");
        assert!(first.get::<bool>(&a));
        second.run("BEGIN");
        assert!(second.get::<bool>(&b), "it does not wait for the other's transaction");
        first.run(end);
        second.run(end);
    }
    assert!(!first.get::<bool>(&b) && !second.get::<bool>(&a));
    let many = format!(
        "SELECT count(*) FILTER (WHERE claimed) FROM once.claim_many(ARRAY['{0}', '{1}', '{0}'], effect => '{2}')",
        collision.keys[0], collision.keys[1], collision.effect
    );
    assert_eq!(first.get::<i64>(&many), 0);
    first.run("DELETE FROM once.processed_events");
    assert_eq!(first.get::<i64>(&many), 2);
}

#[test]
fn a_key_waits_while_another_of_its_lock_number_is_decided_and_no_longer() {
    let db = database();
    let mut observer = db.session();
    observer.load();
    let store: u32 = observer.get("SELECT 'once.processed_events'::regclass::oid");
    let collision = Collision::in_store(store);
    let [a, b] = collision.keys.each_ref().map(|key| collision.claim(key));
    let held_up = HeldUp::begin(&db, &mut observer, &a);
    let queued = held_up.queue(db.session(), &mut observer, &b);
    // The lock is the one that was computed here: this is about the collision and nothing else.
    let number: i64 = observer.get(
        "SELECT DISTINCT classid::bigint << 32 | objid::bigint FROM pg_locks
          WHERE locktype = 'advisory' AND objsubid = 20302
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    );
    assert_eq!(number.cast_unsigned(), collision.number);
    assert!(observer.claim("of another number"), "nobody else waits");
    let blockers = "SELECT pg_blocking_pids($1) <> '{}'";
    assert!(observer.get_with::<bool>(blockers, &[&queued.pid()]));
    held_up.end();
    assert!(queued.join().1, "it is claimed by nobody");
    assert!(observer.get::<bool>(&a), "nor is the one that failed");
    wait::until("no key is locked", || observer.key_locks() == 0);
}
