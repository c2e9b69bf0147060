//! Whatever the database's encoding and collation are, a key is its bytes in that encoding, and
//! no library upgrade or locale can merge or split keys.

use pg_once_tests::shared::{cluster, database};

#[test]
fn a_latin1_database_keeps_keys_apart_by_their_bytes() {
    let db = cluster().create("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let mut s = db.session();
    s.run("CREATE EXTENSION pg_once");
    for key in ["\u{e9}", "\u{c9}", "e", "\u{df}", "ss"] {
        assert!(s.claim(key), "{key:?}");
        assert!(!s.claim(key), "{key:?}");
    }
    let answers = s.claim_many(&["\u{e9}", "\u{e8}", "\u{e8}"]);
    let answers: Vec<_> = answers.iter().map(|(key, claimed)| (key.as_str(), *claimed)).collect();
    assert_eq!(answers, [("\u{e9}", false), ("\u{e8}", true), ("\u{e8}", false)]);
    // One byte a character here, two in the client's encoding.
    assert!(s.claim(&"\u{e9}".repeat(1024)));
    assert_eq!(s.try_claim(&"\u{e9}".repeat(1025)).expect_err("too long").code, "22023");
    // A character the server's encoding does not have is refused, not replaced.
    assert_eq!(s.try_claim("\u{1f980}").expect_err("no such character").code, "22P05");
    // Store names are identifiers, and those stay plain where the encoding is not UTF-8.
    assert_eq!(s.fails("SELECT once.create_store('caf\u{e9}')").code, "0A000");
    assert_eq!(s.fails("SELECT once.claim_once('k', store => 'caf\u{e9}')").code, "42704");
}

#[test]
fn an_sql_ascii_database_takes_any_bytes() {
    let db = cluster().create("ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
    let mut s = db.session();
    s.run("CREATE EXTENSION pg_once");
    for expected in [true, false] {
        for bytes in
            [r"E'\xff'", r"E'\xfe'", r"E'\xff\xfe'", r"E'\xc3\xa9'", r"E'\xc3'", r"E'\xa9'"]
        {
            let claimed: bool = s.get(&format!("SELECT once.claim_once({bytes})"));
            assert_eq!(claimed, expected, "{bytes}");
        }
    }
    let fresh: i64 = s.get(
        r"SELECT count(*) FROM once.claim_many(ARRAY[E'\xff', E'\xfd', E'\xfd']) WHERE claimed",
    );
    assert_eq!(fresh, 1);
}

#[test]
fn key_and_effect_have_collation_c_on_the_parent_on_every_leaf_and_in_every_index() {
    let db = database();
    let mut s = db.session();
    s.claim("k");
    let columns: Vec<String> = s.column(
        "SELECT DISTINCT attname || ' ' || attcollation::regcollation::text FROM pg_attribute a
          JOIN pg_class c ON c.oid = a.attrelid
         WHERE c.relnamespace = 'once'::regnamespace AND c.relname LIKE 'processed_events%'
           AND c.relkind IN ('r', 'p') AND attname IN ('key', 'effect') ORDER BY 1",
    );
    assert_eq!(columns, [r#"effect "C""#, r#"key "C""#]);
    let indexes: Vec<String> = s.column(
        "SELECT DISTINCT u.c::regcollation::text FROM pg_index x
          JOIN pg_inherits i ON i.inhrelid = x.indrelid
         CROSS JOIN LATERAL unnest(x.indcollation::oid[]) AS u (c)
         WHERE i.inhparent = 'once.processed_events'::regclass",
    );
    assert_eq!(indexes, [r#""C""#]);
    let keys: Vec<String> = s.column(
        "SELECT DISTINCT pg_get_indexdef(x.indexrelid, 1, true) || ', ' || pg_get_indexdef(x.indexrelid, 2, true)
           FROM pg_index x JOIN pg_inherits i ON i.inhrelid = x.indrelid
          WHERE i.inhparent = 'once.processed_events'::regclass AND x.indisprimary",
    );
    assert_eq!(keys, ["key, effect"]);
}

#[test]
fn a_key_with_a_collation_of_its_own_is_still_its_bytes() {
    let db = database();
    let mut s = db.session();
    assert!(s.get::<bool>(r#"SELECT once.claim_once('a' COLLATE "POSIX")"#));
    assert!(!s.get::<bool>(r#"SELECT once.claim_once('a' COLLATE "C")"#));
    let other: String = s.get(
        "SELECT quote_ident(collname) FROM pg_collation WHERE collprovider = 'c' AND collencoding IN (-1, 6)
         ORDER BY collname LIKE 'en_US%' DESC, collname DESC LIMIT 1",
    );
    assert!(s.get::<bool>(&format!("SELECT once.claim_once('A' COLLATE {other})")));
    assert!(!s.get::<bool>(&format!("SELECT once.claim_once('a' COLLATE {other})")));
}
