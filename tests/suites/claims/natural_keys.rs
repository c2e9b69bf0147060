//! `once.natural_key`: no two lists of parts give one key, ordinary parts stay readable, and it can be part of a
//! table or an index. That the parts can be read off every key is shown in src/domain/joining.rs.

use std::collections::HashMap;

use pg_once_tests::shared::{cluster, database};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[test]
fn ordinary_parts_are_joined_by_colons() {
    let mut s = database().session();
    for (parts, key) in [
        ("'order', '17', 'paid'", "order:17:paid"),
        ("'order'", "order"),
        ("'größe', 'a b', '1.5'", "größe:a b:1.5"),
        ("'a', 'b:c'", r"a:b\:c"),
        ("'a:b', 'c'", r"a\:b:c"),
        (r"'C:\x', ''", r"C\:\\x:"),
        ("VARIADIC ARRAY['a', 'b']", "a:b"),
        ("VARIADIC '[0:1]={a,b}'", "a:b"),
    ] {
        assert_eq!(s.get::<String>(&format!("SELECT once.natural_key({parts})")), key, "{parts}");
    }
}

#[test]
fn a_part_that_is_null_is_refused_by_its_position() {
    let mut s = database().session();
    let failure = s.fails("SELECT once.natural_key('order', NULL, 'paid')");
    assert_eq!(failure.code, "22004");
    assert_eq!(failure.message, "part 2 of the key is NULL");
    assert!(!failure.detail.is_empty() && !failure.hint.is_empty(), "{failure}");
    for (call, code) in [
        ("VARIADIC NULL::text[]", "22004"),
        ("VARIADIC '{}'", "22023"),
        ("''", "22023"),
        ("'', ''", "22023"),
        ("VARIADIC '{{a},{b}}'", "2202E"),
    ] {
        assert_eq!(s.fails(&format!("SELECT once.natural_key({call})")).code, code, "{call}");
    }
}

#[test]
fn random_lists_of_parts_never_share_a_key() {
    let mut s = database().session();
    let seed: u64 = std::env::var("PG_ONCE_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("PG_ONCE_SEED is a number"));
    println!("PG_ONCE_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let letters = ['a', 'b', ':', '\\', 'é', '"'];
    let mut lists: HashMap<String, Vec<String>> = HashMap::new();
    for _ in 0..4_000 {
        let parts: Vec<String> = (0..random.random_range(1..5))
            .map(|_| {
                let len = random.random_range(0..4);
                (0..len).map(|_| letters[random.random_range(0..letters.len())]).collect()
            })
            .collect();
        if parts.iter().all(String::is_empty) {
            continue;
        }
        let key: String = s.get_with("SELECT once.natural_key(VARIADIC $1::text[])", &[&parts]);
        if let Some(other) = lists.insert(key.clone(), parts.clone()) {
            assert_eq!(other, parts, "both give {key:?}");
        }
    }
    assert!(lists.len() > 1_000, "{}", lists.len());
}

#[test]
fn a_generated_column_and_an_index_can_have_it() {
    let mut s = database().session();
    s.run(
        "CREATE TABLE inbox (id text, event text NOT NULL, \
                             key text GENERATED ALWAYS AS (once.natural_key(id, event)) STORED); \
         CREATE UNIQUE INDEX ON inbox (once.natural_key('inbox', id, event)); \
         INSERT INTO inbox (id, event) VALUES ('17', 'paid'), ('17', 'sent')",
    );
    assert_eq!(s.column::<String>("SELECT key FROM inbox ORDER BY 1"), ["17:paid", "17:sent"]);
    let failure = s.fails("INSERT INTO inbox (id, event) VALUES ('17', 'paid')");
    assert_eq!(failure.code, "23505");
    assert_eq!(s.fails("INSERT INTO inbox (event) VALUES ('paid')").code, "22004");
    let parallel: i64 = s.get(
        "SELECT count(*) FROM pg_proc WHERE pronamespace = 'once'::regnamespace AND provolatile = 'i' \
            AND proparallel = 's' AND proname IN ('natural_key', 'key_from_json', 'key_uuid')",
    );
    assert_eq!(parallel, 3);
}

#[test]
fn parts_are_bytes_of_whatever_encoding_the_database_has() {
    let db = cluster().create("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let mut s = db.session();
    s.run("CREATE EXTENSION pg_once");
    assert_eq!(
        s.get::<String>("SELECT once.natural_key('gr\u{f6}\u{df}e', 'a:b')"),
        "gr\u{f6}\u{df}e:a\\:b"
    );
    let key = "SELECT once.key_from_json('{\"gr\u{f6}\u{df}e\": \"\u{e9}\"}', 'gr\u{f6}\u{df}e')";
    assert_eq!(s.get::<String>(key), "\u{e9}");
}

#[test]
fn what_is_missing_has_a_readable_name_whatever_encoding_the_database_has() {
    for (encoding, name, shown) in [
        ("LATIN1", "gr\u{f6}\u{df}e", r"gr\xf6\xdfe"),
        ("EUC_JP", "gr\u{f6}\u{df}e", r"gr\x8f\xab\xd3\x8f\xa9\xcee"),
        ("EUC_JP", "\u{65e5}\u{672c}", r"\xc6\xfc\xcb\xdc"),
        ("SQL_ASCII", "gr\u{f6}\u{df}e", "gr\u{f6}\u{df}e"),
        ("UTF8", "gr\u{f6}\u{df}e", "gr\u{f6}\u{df}e"),
    ] {
        let db = cluster().create(&format!("ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"));
        let mut s = db.session();
        s.run("CREATE EXTENSION pg_once");
        let failure = s.fails(&format!("SELECT once.key_from_json('{{}}', '{name}')"));
        assert_eq!(failure.code, "2203A", "{encoding}: {failure}");
        assert_eq!(failure.message, format!("the payload has no field \"{shown}\""), "{encoding}");
        // Of a store, an effect and a label it is the same.
        let failure = s.fails(&format!("SELECT once.claim_once('k', store => '{name}')"));
        assert_eq!(failure.code, "42704", "{encoding}: {failure}");
        let failure = s.fails(&format!("SELECT once.create_store('s', forbid => '{{{name}}}')"));
        assert_eq!(failure.code, "22023", "{encoding}: {failure}");
    }
}
