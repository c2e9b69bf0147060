//! A store's name is an identifier taken as it is; leaves' names are derived and never collide.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

#[track_caller]
fn claims(s: &mut Session, store: &str, key: &str) -> bool {
    s.get_with("SELECT once.claim_once($1::text, store => $2)", &[&key, &store])
}

/// Leaf names of a store, by the name that the store was made with.
fn leaves(s: &mut Session, store: &str) -> Vec<String> {
    s.rows("SELECT leaf FROM once.partitions WHERE store = $1 ORDER BY day", &[&store])
        .iter()
        .map(|row| row.get(0))
        .collect()
}

#[test]
fn any_name_of_up_to_63_bytes_is_taken_as_it_is() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("SET pg_once.precreate_days = 2");
    let mut names: Vec<String> = [
        "orders",
        "Orders",
        "ORDERS",
        "a\"b",
        "a.b",
        "once.orders",
        "a'b",
        "a\\b",
        "with space",
        " ",
        "select",
        "$1",
        "%I",
        "%s",
        "na\u{ef}ve",
        "nai\u{308}ve",
        "\u{65e5}\u{672c}\u{8a9e}",
        "processed_events_20991231",
        "x;--",
        "\"\"",
    ]
    .iter()
    .map(|name| (*name).to_owned())
    .collect();
    names.extend((54..=63).map(|bytes| "l".repeat(bytes)));
    names.extend([
        format!("{}x", "\u{e9}".repeat(31)),
        "\u{1f980}".repeat(15),
        format!("\"{}\"", "q".repeat(61)),
    ]);
    for name in &names {
        s.rows("SELECT once.create_store($1, retention => '2 days')", &[name]);
    }
    for name in &names {
        assert!(claims(&mut s, name, "k"), "{name:?}");
        assert!(!claims(&mut s, name, "k"), "{name:?}");
        let batch: i64 = s.get_with(
            "SELECT count(*) FROM once.claim_many('{k,l,l}', store => $1) WHERE claimed",
            &[name],
        );
        assert_eq!(batch, 1, "{name:?}");
        assert_eq!(
            s.get_with::<i64>("SELECT count(*) FROM once.lookup('l', store => $1)", &[name]),
            1
        );
        s.rows("SELECT once.alter_store($1, retention => '4 days', note => $1)", &[name]);
        assert_eq!(
            s.get_with::<String>("SELECT note FROM once.stores WHERE store = $1", &[name]),
            *name
        );
        assert_eq!(leaves(&mut s, name).len(), 3, "{name:?}");
    }
    s.run("SET pg_once.precreate_days = 4");
    s.run("CALL once.maintain()");
    let all: Vec<String> =
        s.column("SELECT leaf FROM once.partitions WHERE octet_length(leaf) <= 63");
    let distinct: std::collections::HashSet<&String> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (5 * (names.len() + 1), 5 * (names.len() + 1)));
    let twice: i64 = s.get("SELECT count(*) FROM (SELECT FROM once.partitions GROUP BY store, day HAVING count(*) > 1) t");
    assert_eq!(twice, 0, "one leaf a day");
    for name in &names {
        assert!(!claims(&mut s, name, "k"), "{name:?}");
        s.rows("SELECT once.drop_store($1)", &[name]);
    }
    assert_eq!(s.column::<String>("SELECT store FROM once.stores"), ["processed_events"]);
}

#[test]
fn names_that_cannot_be_are_22023() {
    let db = database();
    let mut s = db.session();
    for name in ["''".to_owned(), "repeat('x', 64)".to_owned(), "repeat('\u{e9}', 32)".to_owned()] {
        let failure = s.fails(&format!("SELECT once.create_store({name})"));
        assert_eq!(failure.code, "22023", "{name}: {failure}");
    }
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.stores"), 0);
}

#[test]
fn a_name_that_is_taken_is_42p07() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("SELECT once.create_store('orders')");
    let leaf = leaves(&mut s, "orders").remove(0);
    for name in [
        "orders",
        "processed_events",
        "store_policy",
        "leaf_promise",
        "stores",
        "partitions",
        leaf.as_str(),
    ] {
        let failure = s.fails(&format!("SELECT once.create_store('{name}')"));
        assert_eq!(failure.code, "42P07", "{name}: {failure}");
    }
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.stores"), 2);
    assert!(claims(&mut s, "orders", "k"));
}

#[test]
fn of_sessions_that_create_one_name_at_once_one_succeeds_and_the_others_get_42p07() {
    let db = database();
    let mut sessions = db.sessions(8);
    for round in 0..5 {
        let codes = pg_once_tests::race::all(&mut sessions, |_, s| {
            let made = s.try_run(&format!("SELECT once.create_store('store {round}')"));
            made.map_err(|failure| failure.code).err().unwrap_or_default()
        });
        assert_eq!(codes.iter().filter(|code| code.is_empty()).count(), 1, "{codes:?}");
        assert!(codes.iter().all(|code| code.is_empty() || code == "42P07"), "{codes:?}");
    }
}

#[test]
fn a_leaf_whose_name_is_taken_gets_another() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let last: String = s.get("SELECT to_char(max(day) + 1, 'YYYYMMDD') FROM once.partitions");
    s.run(&format!("CREATE TABLE once.processed_events_{last} (squatter int)"));
    s.run("SET pg_once.precreate_days = 4");
    s.run("CALL once.maintain()");
    let leaf: String = s.get("SELECT leaf FROM once.partitions ORDER BY day DESC LIMIT 1");
    assert_eq!(leaf, format!("processed_events_{last}_2"));
    assert_eq!(
        s.get::<i64>(&format!("SELECT count(squatter) FROM once.processed_events_{last}")),
        0
    );
}

#[test]
fn stores_that_share_fifty_bytes_have_leaves_of_their_own() {
    let db = database();
    let mut s = db.session();
    let long = "a".repeat(62);
    let names =
        [format!("{long}1"), format!("{long}2"), format!("{}9", "a".repeat(54)), "a".repeat(54)];
    for name in &names {
        s.rows("SELECT once.create_store($1)", &[name]);
    }
    for name in &names {
        assert!(claims(&mut s, name, "k"), "{name}");
        assert_eq!(leaves(&mut s, name).len(), 4, "{name}");
    }
    for name in &names {
        assert!(!claims(&mut s, name, "k"), "{name}");
    }
}
