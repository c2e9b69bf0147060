//! Keys compare byte for byte whatever the database's locale, so that no new version of a collation library can
//! merge keys, split them or disorder their index.

use pg_once_tests::shared::cluster;

/// Locales to try: the one every server has, and ICU's, which not every server is built with.
const LOCALES: [(&str, &str); 3] = [
    ("c", "LOCALE 'C'"),
    ("utf8", "LOCALE 'C.utf8'"),
    ("icu", "LOCALE_PROVIDER icu ICU_LOCALE 'en-US-u-ks-level1' LOCALE 'C.utf8'"),
];

/// Equal, or nearly, to somebody who reads, and different bytes.
const KEYS: [&str; 10] = [
    "order",
    "Order",
    "ORDER",
    "co-op",
    "coop",
    "caf\u{e9}",
    "cafe\u{301}",
    "cafe",
    "stra\u{df}e",
    "strasse",
];

#[test]
fn no_locale_makes_two_keys_one_or_sorts_their_index() {
    let cluster = cluster();
    let mut tried = Vec::new();
    for (name, locale) in LOCALES {
        let create =
            format!("CREATE DATABASE locale_{name} TEMPLATE template0 ENCODING 'UTF8' {locale}");
        if let Err(failure) = cluster.connect("postgres").try_run(&create) {
            assert!(name == "icu" && failure.code == "0A000", "{failure}");
            println!("{name}: {}", failure.message);
            continue;
        }
        tried.push(name);
        let mut s = cluster.connect(&format!("locale_{name}"));
        s.run("CREATE EXTENSION pg_once");
        for key in KEYS {
            assert!(s.claim(key), "{name}: {key} is new");
        }
        for key in KEYS {
            assert!(!s.claim(key), "{name}: {key} is a duplicate");
        }
        assert!(s.claim_many(&KEYS).iter().all(|(_, claimed)| !claimed), "{name}");
        let other: Vec<String> = s.column(
            "SELECT format('%s %s', c.relname, a.attname) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
              WHERE c.relnamespace = 'once'::regnamespace AND c.relkind IN ('r', 'p', 'i', 'I')
                AND c.relname LIKE 'processed_events%' AND a.attname IN ('key', 'effect')
                AND a.attcollation <> '\"C\"'::regcollation",
        );
        assert_eq!(other, [""; 0], "{name}");
        let sorted: Vec<String> = s.column("SELECT key FROM once.processed_events ORDER BY key");
        let mut bytes: Vec<&str> = KEYS.to_vec();
        bytes.sort_unstable();
        assert_eq!(sorted, bytes, "{name}");
        s.verify("once.processed_events", cluster.server().ships("amcheck"));
    }
    assert!(tried.len() >= 2, "{tried:?}");
}
