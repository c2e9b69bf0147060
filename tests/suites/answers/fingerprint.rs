//! once.fingerprint by random payloads: the same for what says the same, another for what does not.

use pg_once_tests::shared::database;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// A value, in two texts that say the same.
fn value(random: &mut StdRng, depth: usize) -> (String, String) {
    match random.random_range(0..if depth > 2 { 4 } else { 6 }) {
        0 => {
            let n: i32 = random.random_range(1..999) * [1, -1][random.random_range(0..2)];
            let other =
                [format!("{n}.0"), format!("{n}.000"), format!("{n}0e-1"), format!("{n}e0")];
            (n.to_string(), other[random.random_range(0..4)].clone())
        }
        1 => {
            let text = ["\"a\"", "\"1\"", "\"\"", "\"true\"", "\"é\\n\"", "\"null\""]
                [random.random_range(0..6)];
            (text.to_owned(), text.replace('a', "\\u0061"))
        }
        2 => ("true".to_owned(), " true ".to_owned()),
        3 => ("null".to_owned(), "null".to_owned()),
        4 => {
            let parts: Vec<_> =
                (0..random.random_range(0..4)).map(|_| value(random, depth + 1)).collect();
            let (one, other): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            (format!("[{}]", one.join(",")), format!("[ {} ]", other.join(" , ")))
        }
        _ => object(random, depth),
    }
}

/// An object with its members in another order, and once with some that are ignored.
fn object(random: &mut StdRng, depth: usize) -> (String, String) {
    let (one, mut other): (Vec<_>, Vec<_>) = (0..random.random_range(0..5))
        .map(|n| {
            let (one, other) = value(random, depth + 1);
            (format!("\"m{n}\":{one}"), format!("\"m{n}\" : {other}"))
        })
        .unzip();
    other.shuffle(random);
    (format!("{{{}}}", one.join(",")), format!("{{{}}}", other.join(",")))
}

#[test]
fn what_says_the_same_has_one_fingerprint_and_what_does_not_another() {
    let db = database();
    let mut s = db.session();
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    s.run("CREATE TABLE payload (one jsonb, other jsonb, ignored jsonb)");
    for _ in 0..500 {
        let ((one, other), at) = (object(&mut random, 0), random.random_range(0..1_000_000));
        let noisy = format!("{{\"sent\":{{\"at\":{at}}},\"p\":{other}}}");
        s.rows(
            "INSERT INTO payload VALUES ($1::text::jsonb, $2::text::jsonb, $3::text::jsonb)",
            &[&one, &other, &noisy],
        );
    }
    let differ: i64 = s.get(
        "SELECT count(*) FROM payload WHERE once.fingerprint(one) <> once.fingerprint(other)
             OR once.fingerprint(ignored, 'sent.at', 'none')
                <> once.fingerprint(jsonb_build_object('p', one, 'sent', '{}'::jsonb))",
    );
    assert_eq!(differ, 0, "the same payload, written in another way");
    let (payloads, fingerprints): (i64, i64) = (
        s.get("SELECT count(DISTINCT one) FROM payload"),
        s.get("SELECT count(DISTINCT once.fingerprint(one)) FROM payload"),
    );
    assert!(payloads > 200, "{payloads}");
    assert_eq!(fingerprints, payloads, "another payload has another fingerprint");
}
