//! `pg_once.lint_keys` and what a store forbids: certain mistakes are said at the claim, at most once a minute and
//! session and never with a key, and nothing is said of any other key.

use pg_once_tests::cluster::Cluster;
use pg_once_tests::shared::database;

const WRONG: [&str; 10] = [
    " \t\n",
    "null",
    "undefined",
    "None",
    "NaN",
    "[object Object]",
    "order:[object Object]",
    "${id}",
    "order-{{ id }}",
    "00000000-0000-0000-0000-000000000000",
];

/// What somebody may mean, though it looks odd.
const RIGHT: [&str; 7] =
    ["order-42:paid", "Null Island", "order:null", "0", "{\"a\": 1}", "100 %", "a{2}"];

const RANDOM: &str = "6f1e9b52-7c8e-4d2a-9b1e-0a1b2c3d4e5f";

#[test]
fn off_says_nothing_and_every_other_level_lets_ordinary_keys_pass() {
    let mut s = database().session();
    for key in WRONG {
        assert!(s.claim(key), "{key:?}");
    }
    assert_eq!(s.get::<String>("SHOW pg_once.lint_keys"), "off");
    assert_eq!(s.fails("SET pg_once.lint_keys = 'on'").code, "22023");
    s.run("SET pg_once.lint_keys = error");
    for key in RIGHT {
        assert!(s.claim(key), "{key:?}");
        assert!(!s.claim(key), "{key:?}");
    }
    assert!(s.claim_many(&["a", "b", RANDOM]).iter().all(|(_, claimed)| *claimed));
}

#[test]
fn error_refuses_a_key_that_names_nothing_whichever_function_claims_it() {
    let mut s = database().session();
    s.run("SET pg_once.lint_keys = error");
    for key in WRONG {
        let failure = s.try_claim(key).expect_err(key);
        assert_eq!(failure.code, "OC002", "{key:?}: {failure}");
        assert_eq!(failure.message, "key names nothing");
        assert!(!failure.detail.is_empty() && !failure.hint.is_empty(), "{failure}");
        // Each time, not once a minute.
        assert_eq!(s.try_claim(key).expect_err(key).code, "OC002");
    }
    assert_eq!(s.fails("SELECT * FROM once.claim('undefined')").code, "OC002");
    let nil = "SELECT once.claim_once('00000000-0000-0000-0000-000000000000'::uuid)";
    assert_eq!(s.fails(nil).code, "OC002");
    let failure = s.try_claim_many(&["a", "b", "null", "None"]).expect_err("two are wrong");
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("OC002", "key 3 of the array names nothing")
    );
    // Nothing was claimed, and nothing is looked up by such a key that would not have been.
    s.run("SET pg_once.lint_keys = off");
    assert!(s.claim_many(&["a", "b"]).iter().all(|(_, claimed)| *claimed));
    s.run("SET pg_once.lint_keys = error");
    assert_eq!(s.rows("SELECT * FROM once.lookup('null')", &[]).len(), 0);
}

#[test]
fn a_store_refuses_the_kinds_of_keys_that_it_forbids() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('strict', forbid => '{uuidv4,time_based}')");
    s.run("SELECT once.create_store('open'); SET pg_once.lint_keys = error");
    let mut claim = |store: &str, key: &str| -> Result<bool, String> {
        s.try_get("SELECT once.claim_once($1::text, store => $2)", &[&key, &store])
            .map_err(|failure| format!("{} {} {}", failure.code, failure.message, failure.detail))
    };
    let refused = claim("strict", RANDOM).expect_err("a random UUID");
    assert!(refused.starts_with("OC002 key is of a kind that store 'strict' forbids"), "{refused}");
    assert!(refused.contains("random UUID") && !refused.contains("6f1e9b52"), "{refused}");
    assert!(claim("strict", "01ARZ3NDEKTSV4RRFFQ69G5FAV").is_err());
    assert_eq!(claim("open", RANDOM), Ok(true), "another store's business");
    assert_eq!(claim("strict", "order-42:paid"), Ok(true));
    assert_eq!(
        claim("strict", &format!("{RANDOM}:paid")),
        Ok(true),
        "a natural key that has one in it"
    );
    // 32 digits may be an MD5, which this store takes: not certain, so let pass.
    let bare = RANDOM.replace('-', "");
    assert_eq!(claim("strict", &bare), Ok(true));
    // It reaches every session at once.
    let mut dba = db.session();
    dba.run("SELECT once.alter_store('strict', forbid => '{uuidv4,hash}')");
    let refused = claim("strict", &RANDOM.replace('-', "").replace('f', "a")).expect_err("either");
    assert!(refused.contains("random UUID (uuidv4) or a digest (hash)"), "{refused}");
    assert_eq!(claim("strict", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), Ok(true));
    let shown = "SELECT forbid::text FROM once.stores WHERE store = 'strict'";
    assert_eq!(dba.get::<String>(shown), "{uuidv4,hash}");
    dba.run("SELECT once.alter_store('strict', note => 'another change')");
    assert_eq!(dba.get::<String>(shown), "{uuidv4,hash}", "what is not given stays");
    dba.run("SELECT once.alter_store('strict', forbid => '{}')");
    assert_eq!(dba.get::<String>(shown), "{}");
    assert_eq!(claim("strict", RANDOM), Ok(true));
}

#[test]
fn what_is_no_kind_of_key_is_refused_when_a_store_is_made_or_changed() {
    let mut s = database().session();
    s.run("SELECT once.create_store('s')");
    for (list, said) in [
        ("{uuid}", "'uuid' is none"),
        ("{UUIDV4}", "'UUIDV4' is none"),
        ("{hash,NULL}", "Element 2 is NULL"),
        ("{{hash}}", "2 dimensions"),
    ] {
        for call in ["create_store('t'", "alter_store('s'"] {
            let failure = s.fails(&format!("SELECT once.{call}, forbid => '{list}')"));
            assert_eq!(failure.code, "22023", "{list}");
            assert!(
                failure.detail.contains(said) && failure.hint.contains("time_based"),
                "{failure}"
            );
        }
    }
    for list in ["{nonsense}", "{hash,NULL}", "{{hash},{uuidv4}}"] {
        let by_hand = s.fails(&format!("UPDATE once.store_policy SET forbid = '{list}'"));
        assert_eq!(by_hand.code, "23514", "{list}");
    }
}

#[test]
fn who_may_not_claim_learns_nothing_of_what_a_store_forbids() {
    let db = database();
    let role = db.role("stranger");
    db.session().run(&format!(
        "SELECT once.create_store('strict', forbid => '{{uuidv4}}'); GRANT USAGE ON SCHEMA once TO {role}"
    ));
    let mut s = db.session_of(&role);
    s.run("SET pg_once.lint_keys = error");
    let claim = format!("SELECT once.claim_once('{RANDOM}'::text, store => 'strict')");
    assert_eq!(s.fails(&claim).code, "42501");
    assert_eq!(s.fails("SELECT once.claim_once('null', store => 'nowhere')").code, "OC002");
    assert_eq!(s.fails("SELECT once.claim_once('a', store => 'nowhere')").code, "42704");
}

/// Lines of the server's log about keys.
fn lines(cluster: &Cluster) -> Vec<String> {
    let ours = |line: &&str| line.contains("names nothing") || line.contains("kind that store");
    cluster.log().lines().filter(ours).map(str::to_owned).collect()
}

#[test]
fn log_and_warning_say_one_line_a_minute_and_session_and_never_a_key() {
    let cluster = Cluster::build().clocked().start();
    let now = pg_once_tests::clock::Instant::today().days(-30);
    cluster.clock().set(now);
    let db = cluster.database();
    let mut s = db.session();
    s.run("SET pg_once.away_days = 0; SELECT once.create_store('strict', forbid => '{uuidv4}')");
    s.run("SET pg_once.lint_keys = log");
    let claim = |key: &str| format!("SELECT once.claim_once('{key}'::text, store => 'strict')");
    s.run(&claim(RANDOM));
    s.run("SELECT * FROM once.claim_many(ARRAY['x', 'null', 'undefined'], store => 'strict')");
    let said = lines(&cluster);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("LOG:") && said[0].contains("store 'strict' forbids"), "{said:?}");
    // Another session has its own minute, and warns.
    let mut other = db.session();
    other.run("SET pg_once.away_days = 0; SET pg_once.lint_keys = warning");
    other.run("SELECT * FROM once.claim_many(ARRAY['order-1', 'personal-${id}', 'null'], store => 'strict')");
    other.run(&claim("undefined"));
    let said = lines(&cluster);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].contains("WARNING:") && said[1].contains("key 2 of the array"), "{said:?}");
    // Later by more than the test itself may have taken so far.
    cluster.clock().set(now.plus(600.0));
    for _ in 0..3 {
        s.run(&claim("null"));
        other.run(&claim("null"));
    }
    assert_eq!(lines(&cluster).len(), 4);
    // All of it was claimed, and the log has none of the keys.
    let claimed: i64 = s.get("SELECT count(*) FROM once.strict");
    assert_eq!(claimed, 6, "a random one, x, null, undefined, order-1, personal");
    let log = cluster.log();
    assert!(!log.contains("6f1e9b52") && !log.contains("personal"), "a key went to the log");
}

#[test]
fn history_that_is_imported_is_not_looked_at() {
    let mut s = database().session();
    s.run(
        "SELECT once.create_store('strict', forbid => '{uuidv4}'); SET pg_once.lint_keys = error",
    );
    s.run(&format!(
        "CREATE TABLE done (key text, at timestamptz); \
         INSERT INTO done VALUES ('{RANDOM}', now()), ('null', now())"
    ));
    let row = s.rows("CALL once.import_claims('strict', 'done', 'key', 'at')", &[]);
    assert_eq!(row[0].get::<_, i64>("imported"), 2);
}
