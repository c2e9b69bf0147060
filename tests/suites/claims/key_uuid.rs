//! `once.key_uuid`: the UUIDv5 that any other language gives, of one name for each pair of effect and key.

use std::process::Stdio;

use pg_once_tests::account;
use pg_once_tests::shared::{cluster, database};

/// Effects and keys, and the name as the documentation puts it together.
const NAMES: [(&str, &str, &str); 7] = [
    ("invoice", "order-42", "invoice:order-42"),
    ("invoice", "order:42:paid", "invoice:order:42:paid"),
    ("", "order-42", ":order-42"),
    ("a:b", "c", r"a\:b:c"),
    ("a", "b:c", "a:b:c"),
    (r"a\", ":c", r"a\\::c"),
    ("größe", "é", "größe:é"),
];

/// What Python's uuid.uuid5 gives for each name.
fn by_python(names: &[&str]) -> Vec<String> {
    let program = "import sys, uuid\n\
                   namespace = uuid.UUID('7778a313-3934-52bb-9f5d-71f21bc2f442')\n\
                   for name in sys.argv[1:]: print(uuid.uuid5(namespace, name))\n\
                   assert namespace == uuid.uuid5(uuid.NAMESPACE_DNS, 'pg_once')";
    let mut python = account::command("python3");
    python.env("PYTHONUTF8", "1").args(["-c", program]).args(names).stderr(Stdio::inherit());
    account::run(&mut python).lines().map(str::to_owned).collect()
}

#[test]
fn it_is_what_python_gives_for_the_documented_name() {
    let mut s = database().session();
    let wanted = by_python(&NAMES.map(|(.., name)| name));
    assert_eq!(wanted.len(), NAMES.len());
    for ((effect, key, name), wanted) in NAMES.iter().zip(wanted) {
        let uuid: String = s.get_with("SELECT once.key_uuid($1, $2)::text", &[effect, key]);
        assert_eq!(uuid, wanted, "{name}");
    }
    // As it was on the day it was first released: a change here is a change of everybody's keys.
    let uuid: String = s.get("SELECT once.key_uuid('invoice', 'order-42:paid')::text");
    assert_eq!(uuid, FIRST);
}

const FIRST: &str = "ff0d761e-8b49-59ac-8be1-9b779d0e6f5c";

#[test]
fn effects_and_keys_that_join_alike_differ() {
    let mut s = database().session();
    let distinct: i64 = s.get(
        "SELECT count(DISTINCT once.key_uuid(e, k)) \
           FROM unnest(ARRAY['', 'a', ':', 'a:', E'\\\\', E'a\\\\', E'\\\\:']) e, \
                unnest(ARRAY['a', ':', 'a:', ':a', E'\\\\', E'\\\\:a', '::']) k",
    );
    assert_eq!(distinct, 49);
}

#[test]
fn the_name_is_utf_8_whatever_the_database_has() {
    let utf8: String = database().session().get("SELECT once.key_uuid('größe', 'é')::text");
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let options = format!("ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0");
        let db = cluster().create(&options);
        let mut s = db.session();
        s.run("CREATE EXTENSION pg_once");
        let uuid: String = s.get("SELECT once.key_uuid('größe', 'é')::text");
        assert_eq!(uuid, utf8, "{encoding}");
    }
}

#[test]
fn a_missing_effect_or_key_is_refused() {
    let mut s = database().session();
    assert_eq!(s.fails("SELECT once.key_uuid(NULL, 'a')").code, "22004");
    assert_eq!(s.fails("SELECT once.key_uuid('a', NULL)").code, "22004");
    assert_eq!(s.fails("SELECT once.key_uuid('a', '')").code, "22023");
}
