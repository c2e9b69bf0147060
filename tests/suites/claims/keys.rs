//! Keys are exact bytes: nothing folds, trims, joins, normalises, hashes or compresses them into
//! each other, and their length is counted in bytes before anything else looks at them.

use pg_once_tests::shared::{cluster, database};

/// Pairs that `hashtext()` maps to the same 32 bits.
const COLLIDING: [(&str, &str); 3] =
    [("evt-111195", "evt-162408"), ("evt-79994", "evt-120903"), ("evt-13760", "evt-183382")];

#[test]
fn keys_with_the_same_32_bit_hash_neither_wait_for_nor_refuse_each_other() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    first.claim("warm up");
    first.run("BEGIN");
    second.run("SET lock_timeout = '500ms'");
    for (a, b) in COLLIDING {
        assert!(second.get_with::<bool>("SELECT hashtext($1) = hashtext($2)", &[&a, &b]));
        assert!(first.claim(a));
        assert!(second.claim(b));
    }
    first.run("COMMIT");
}

#[test]
fn keys_that_look_alike_are_different_keys() {
    let db = database();
    let mut s = db.session();
    let alike = [
        "a",
        "A",
        " a",
        "a ",
        "a\t",
        "a\n",
        "\u{e9}",
        "e\u{301}",
        "\u{c9}",
        "ss",
        "\u{df}",
        "i",
        "\u{131}",
        "\u{212a}",
        "K",
        "\u{ff21}",
        "a\u{200d}",
        "a\u{feff}",
        "0",
        "00",
        "0.0",
        "\\",
        "\\\\",
        "'",
        "''",
        "NULL",
        "%",
        "_",
        "a:b",
        "{a,b}",
        "\u{1}",
        "\u{10ffff}",
    ];
    for key in alike {
        assert!(s.claim(key), "{key:?} was taken for another key");
    }
    for key in alike {
        assert!(!s.claim(key), "{key:?} was not found again");
    }
    let db = database();
    let mut s = db.session();
    let answers = s.claim_many(&alike);
    assert!(answers.iter().all(|(_, claimed)| *claimed), "{answers:?}");
    assert_eq!(answers.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), alike);
}

#[test]
fn effect_and_key_are_not_joined() {
    let db = database();
    let mut s = db.session();
    let pairs = [
        ("a", "b:c"),
        ("a:b", "c"),
        ("a:b:c", ""),
        ("ab", "c"),
        ("a", "bc"),
        ("b:c", "a"),
        ("c", "a:b"),
    ];
    for round in [true, false] {
        for (key, effect) in pairs {
            let claimed: bool =
                s.get_with("SELECT once.claim_once($1::text, effect => $2)", &[&key, &effect]);
            assert_eq!(claimed, round, "key {key:?}, effect {effect:?}");
        }
    }
}

#[test]
fn two_consumers_of_one_event_both_get_it_once() {
    let db = database();
    let mut s = db.session();
    for expected in [true, false] {
        for effect in ["mailer", "ledger", "Mailer", "mailer ", ""] {
            let claimed: bool =
                s.get_with("SELECT once.claim_once('evt-1', effect => $1)", &[&effect]);
            assert_eq!(claimed, expected, "effect {effect:?}");
        }
    }
}

#[test]
fn stores_do_not_share_keys() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('one'), once.create_store('two')");
    for expected in [true, false] {
        for store in ["one", "two", "processed_events"] {
            let claimed: bool = s.get_with("SELECT once.claim_once('k', store => $1)", &[&store]);
            assert_eq!(claimed, expected, "store {store}");
        }
    }
}

#[test]
fn uuid_and_bigint_agree_with_their_text_forms() {
    let db = database();
    let mut s = db.session();
    for (typed, text) in [
        ("'A81BC81B-DEAD-4E5D-ABFF-90865D1E13B1'::uuid", "a81bc81b-dead-4e5d-abff-90865d1e13b1"),
        ("'{00000000000000000000000000000000}'::uuid", "00000000-0000-0000-0000-000000000000"),
        ("42::bigint", "42"),
        ("0::bigint", "0"),
        ("(-9223372036854775808)::bigint", "-9223372036854775808"),
        ("9223372036854775807", "9223372036854775807"),
    ] {
        assert!(s.get::<bool>(&format!("SELECT once.claim_once({typed})")), "{typed}");
        assert!(!s.claim(text), "{text}");
        assert!(!s.get::<bool>(&format!("SELECT once.claim_once({typed})")), "{typed}");
        assert_eq!(
            s.get_with::<i64>("SELECT count(*) FROM once.lookup($1)", &[&text]),
            1,
            "{text}"
        );
    }
    assert!(s.get::<bool>("SELECT once.claim_once(7)"), "a plain integer is a bigint");
    assert!(!s.claim("7"));
    assert!(s.claim("A81BC81B-DEAD-4E5D-ABFF-90865D1E13B1"), "text is never folded into a uuid");
    assert!(s.claim("+42") && s.claim("042"), "nor into a number");
}

#[test]
fn the_limit_is_counted_in_bytes_before_anything_compresses() {
    let db = database();
    let mut s = db.session();
    let too_long = |s: &mut pg_once_tests::session::Session, key: &str| {
        let failure = s.try_claim(key).expect_err("must be refused");
        assert_eq!(failure.code, "22023", "{} bytes: {failure}", key.len());
        let failure = s.try_claim_many(&["fine", key]).expect_err("must be refused");
        assert_eq!(failure.code, "22023", "{} bytes: {failure}", key.len());
    };
    // The first claim loads the library; before it the setting has no limits yet.
    s.claim("load");
    let default = "SELECT setting FROM pg_settings WHERE name = 'pg_once.max_key_bytes'";
    assert_eq!(s.get::<String>(default), "1024");
    for limit in [1024_usize, 2048, 100, 1] {
        s.run(&format!("SET pg_once.max_key_bytes = {limit}"));
        assert!(s.claim(&"x".repeat(limit)));
        assert!(!s.claim(&"x".repeat(limit)));
        too_long(&mut s, &"x".repeat(limit + 1));
        too_long(&mut s, &"a".repeat(200_000));
        if limit >= 4 {
            assert!(s.claim(&"\u{1f980}".repeat(limit / 4)), "four bytes a character");
            too_long(&mut s, &"\u{1f980}".repeat(limit / 4 + 1));
        }
    }
    assert!(s.claim_many(&["f"])[0].1, "nothing of a refused batch stays");
    for bad in ["0", "2049", "-1"] {
        assert_eq!(s.fails(&format!("SET pg_once.max_key_bytes = {bad}")).code, "22023");
    }
}

#[test]
fn the_longest_key_of_random_bytes_fits_the_index_with_the_longest_effect() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("SET pg_once.max_key_bytes = 2048");
    // Letters from a long digest: nothing for a compressor to hold on to.
    let random = |s: &mut pg_once_tests::session::Session, salt: &str, bytes: i32| {
        s.get_with::<String>(
            "SELECT left(string_agg(md5($1::text || g::text), ''), $2) FROM generate_series(1, 100) g",
            &[&salt, &bytes],
        )
    };
    for round in 0..20 {
        let key = random(&mut s, &format!("key {round}"), 2048);
        let effect = random(&mut s, &format!("effect {round}"), 256);
        for expected in [true, false] {
            let claimed: bool =
                s.get_with("SELECT once.claim_once($1::text, effect => $2)", &[&key, &effect]);
            assert_eq!(claimed, expected);
        }
    }
    let key = random(&mut s, "long", 3000);
    assert_eq!(s.try_claim(&key).expect_err("must be refused").code, "22023");
    let effect = random(&mut s, "long", 257);
    let failure = s.fails(&format!("SELECT once.claim_once('k', effect => '{effect}')"));
    assert_eq!(failure.code, "22023");
    s.verify("once.processed_events", cluster().server().ships("amcheck"));
}
