//! Values are compared by what they are: not by scale, sign of zero, order of keys, layout or place.

use pg_once_tests::shared::database;

use crate::scene::{ONE, handler, tapped};

/// Types, a value, another way to write the same, and a value that differs.
const VALUES: [(&str, &str, &str, &str); 44] = [
    ("numeric", "1.0", "1.000", "1.001"),
    ("numeric", "'NaN'", "'NaN'::numeric", "'Infinity'"),
    ("float8", "0.0", "'-0.0'", "'1e-300'"),
    ("float8", "'NaN'", "'NaN'::float8", "0"),
    ("float8", "0.1::float8 + 0.2::float8", "0.30000000000000004", "0.3"),
    ("float4", "'-0'", "'0'", "1"),
    (
        "jsonb",
        "'{\"a\": 1.0, \"b\": [2]}'",
        "'{\"b\": [2.00], \"a\": 1}'",
        "'{\"a\": \"1\", \"b\": [2]}'",
    ),
    ("json", "'{\"a\":1}'", "'{\"a\":1}'", "'{\"a\": 1}'"),
    ("xml", "'<a/>'", "'<a/>'", "'<b/>'"),
    ("point", "'(1,2)'", "'(1.0,2)'", "'(1,3)'"),
    // Their equality compares areas and lengths.
    ("box", "'(0,0),(2,1)'", "'(2,1),(0,0)'", "'(0,0),(1,2)'"),
    ("circle", "'<(0,0),1>'", "'<(0,0),1.0>'", "'<(5,5),1>'"),
    ("text", "'a'", "'a'::varchar", "'A'"),
    ("text", "''", "''", "NULL"),
    ("char(4)", "'a'", "'a '", "'b'"),
    ("interval", "'1 day'", "'P1D'", "'24 hours'"),
    (
        "timestamptz",
        "'2024-01-01 12:00+00'",
        "'2024-01-01 13:00+01'",
        "'2024-01-01 12:00:00.000001+00'",
    ),
    ("timetz", "'12:00+00'", "'12:00+00'", "'13:00+01'"),
    ("bytea", "'\\x00ff'", "'\\000\\377'", "'\\x00fe'"),
    (
        "uuid",
        "'0191b6a8-2f3c-7d4e-8a9b-123456789abc'",
        "'{0191B6A82F3C7D4E8A9B123456789ABC}'",
        "gen_random_uuid()",
    ),
    ("money", "'12.34'", "12.34::numeric::money", "'12.35'"),
    ("mood", "'good'", "'good'", "'bad'"),
    ("numeric[]", "'{1.0,NULL}'", "'{1.00,NULL}'", "'{1.0}'"),
    ("numeric[]", "'{1,2}'", "'{1.0,2.0}'", "'[0:1]={1,2}'"),
    ("text[]", "'{a,b}'", "ARRAY['a','b']", "'{b,a}'"),
    ("pair", "ROW(1.0, 'a')", "ROW(1.00, 'a')", "ROW(1.0, 'A')"),
    ("pair", "NULL", "NULL", "ROW(NULL, NULL)"),
    ("pair[]", "ARRAY[ROW(1.0, 'a')::pair]", "ARRAY[ROW(1.00, 'a')::pair]", "ARRAY[]::pair[]"),
    ("amount", "1.5", "1.50", "1.6"),
    ("numrange", "'[1.0,2)'", "'[1,2.0)'", "'[1,2]'"),
    ("nummultirange", "'{[1.0,2)}'", "'{[1,2.0)}'", "'{[1,3)}'"),
    ("span", "'[1.0,2)'", "'[1,2.0)'", "'[1,2]'"),
    ("spans", "'{[1.0,2)}'", "'{[1,2.0)}'", "'{[1,3)}'"),
    ("sure", "ROW(1.0, 'a')::pair", "ROW(1.00, 'a')::pair", "ROW(1.0, NULL)::pair"),
    ("amount[]", "'{1.5}'", "'{1.50}'", "'{1.5,1.5}'"),
    (
        "deep",
        "ROW(ARRAY[ROW(1.0, 'a')::pair], '[1.0,2)')",
        "ROW(ARRAY[ROW(1, 'a')::pair], '[1,2.0)')",
        "ROW(NULL, '[1.0,2)')",
    ),
    ("interval", "'1 mon'", "'1 month'", "'30 days'"),
    ("bit(3)", "B'101'", "B'101'", "B'100'"),
    ("varbit", "B'101'", "B'101'", "B'1010'"),
    ("int4range", "'[1,3)'", "'[1,2]'", "'empty'"),
    ("name", "'a'", "'a'", "'b'"),
    ("\"char\"", "'a'", "'a'", "''"),
    ("tsvector", "'a b'", "'b a'", "'a c'"),
    ("inet", "'10.0.0.1'", "'10.0.0.1/32'", "'10.0.0.1/24'"),
];

#[test]
fn a_value_is_unchanged_exactly_if_it_is_the_same_value_with_and_without_a_key() {
    let db = database();
    let mut s = db.session();
    s.run(ONE);
    s.run("CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE TYPE pair AS (n numeric, t text);
           CREATE DOMAIN amount AS numeric CHECK (value > 0); CREATE DOMAIN span AS numrange; CREATE DOMAIN spans AS nummultirange; CREATE DOMAIN sure AS pair;
           CREATE TYPE deep AS (p pair[], s span); CREATE TABLE round (n int); INSERT INTO round VALUES (0)");
    let xml = s.try_run("SELECT '<a/>'::xml");
    for (kind, one, same, other) in VALUES {
        if let ("xml", Err(failure)) = (kind, &xml) {
            // Debian's servers have it.
            println!("this server has no xml: {failure}");
            assert_eq!(failure.code, "0A000");
            continue;
        }
        for key in ["PRIMARY KEY", ""] {
            s.run(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t (id int {key}, v {kind}); INSERT INTO t VALUES (1, {one})"));
            // Pass one writes `one`, pass two the other.
            let write = |second: &str| {
                format!("UPDATE round SET n = n + 1;
                         IF (SELECT n FROM round) = 1 THEN UPDATE t SET v = {one}; ELSE UPDATE t SET v = {second}; END IF")
            };
            handler(&mut s, &write(same));
            let found = tapped(&mut s, "t", "");
            assert!(found.is_empty(), "{kind} {key}: {one} and {same} are one value: {found:?}");
            handler(&mut s, &write(other));
            let found = tapped(&mut s, "t", "");
            let expected = if key.is_empty() { 2 } else { 1 };
            assert_eq!(found.len(), expected, "{kind} {key}: {one} and {other} are two: {found:?}");
        }
    }
}

#[test]
fn a_value_whose_types_equality_overlooks_case_is_compared_by_its_characters() {
    let db = database();
    let mut s = db.session();
    s.run(ONE);
    let made = s.try_run("CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)");
    if let Err(failure) = made {
        // Debian's servers have it.
        println!("this server has no collation that overlooks case: {failure}");
        assert_eq!(failure.code, "0A000");
        return;
    }
    s.run("CREATE TABLE t (id text COLLATE nocase PRIMARY KEY, v text COLLATE nocase, a text[] COLLATE nocase);
           INSERT INTO t VALUES ('A', 'a', '{a}')");
    handler(
        &mut s,
        "UPDATE t SET v = translate(v, 'aA', 'Aa'), a = translate(a::text, 'aA', 'Aa')::text[]",
    );
    assert_eq!(tapped(&mut s, "t", "").len(), 2);
}

#[test]
fn what_is_compared_is_pinned_whatever_the_session_or_the_handler_sets() {
    let db = database();
    let mut s = db.session();
    s.run(ONE);
    s.run("CREATE TABLE t (id int PRIMARY KEY, at timestamptz, f float8, b bytea, i interval, d date, p point, j json);
           INSERT INTO t VALUES (1, '2024-07-01 12:00+00', 0.1::float8 + 0.2::float8, '\\x00', '1 mon 2 days', '2024-02-03', '(0.1,0.3)', '{}')");
    handler(&mut s, "SET TimeZone = 'Asia/Seoul'; SET DateStyle = 'German'; SET IntervalStyle = 'iso_8601'; SET bytea_output = 'escape';
                     SET extra_float_digits = -5; UPDATE t SET f = f, at = at, i = i, p = p");
    s.run("SET TimeZone = 'Africa/Cairo'; SET extra_float_digits = -10; SET search_path = public; SET DateStyle = 'SQL, DMY'");
    assert!(tapped(&mut s, "t", "").is_empty());
    assert_eq!(s.get::<String>("SHOW TimeZone"), "Africa/Cairo");
    handler(&mut s, "UPDATE t SET at = at + interval '1 us', f = f + 1");
    assert_eq!(
        tapped(&mut s, "t", ""),
        [
            "2 t 1 changed at 2024-07-01 12:00:00.000001+00 2024-07-01 12:00:00.000002+00 1 k",
            "2 t 1 changed f 1.3 2.3 1 k",
        ]
    );
}
