//! The first five minutes: a fresh install claims at once, whoever comes first and however many.

use pg_once_tests::race;
use pg_once_tests::shared::{cluster, database};

#[test]
fn a_fresh_install_claims_at_once_and_refuses_the_second_time() {
    let db = cluster().create("");
    let mut s = db.session();
    s.run("CREATE EXTENSION pg_once");
    assert!(s.get::<bool>("SELECT once.claim_once('order-42:paid', '7 days')"));
    assert!(!s.get::<bool>("SELECT once.claim_once('order-42:paid', '7 days')"));
    assert!(!s.another().get::<bool>("SELECT once.claim_once('order-42:paid')"));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 1);
}

#[test]
fn sixteen_first_claims_at_once_make_one_store_and_all_succeed() {
    for _ in 0..3 {
        let db = database();
        let mut sessions = db.sessions(16);
        let answers = race::all(&mut sessions, |i, s| s.claim(&format!("k{i}")));
        assert_eq!(race::trues(&answers), 16);
        assert_eq!(db.session().get::<i64>("SELECT count(*) FROM once.stores"), 1);
        assert_eq!(db.session().get::<i64>("SELECT count(*) FROM once.processed_events"), 16);
    }
}

#[test]
fn sixteen_first_claims_of_one_key_give_one_true() {
    for _ in 0..3 {
        let db = database();
        let answers = race::all(&mut db.sessions(16), |_, s| s.claim("the first key of all"));
        assert_eq!(race::trues(&answers), 1);
    }
}

#[test]
fn the_first_claim_does_not_hold_up_others_while_its_transaction_is_open() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    first.run("BEGIN");
    assert!(first.claim("a"));
    second.run("SET lock_timeout = '5s'");
    assert!(second.claim("b"));
    first.run("ROLLBACK");
    assert!(second.claim("a"), "the claim went with its transaction");
    assert!(!second.claim("b"));
}

#[test]
fn the_store_stays_when_the_transaction_of_the_first_claim_rolls_back() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN");
    assert!(s.claim("a"));
    s.run("ROLLBACK");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.stores"), 1);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 0);
    assert!(s.claim("a"));
}

#[test]
fn a_role_that_may_not_create_the_default_store_is_told_the_statement_that_does() {
    let db = database();
    let app = db.role("app");
    db.session().run(&format!("GRANT USAGE ON SCHEMA once TO {app}"));
    for call in [
        "SELECT once.claim_once('k')",
        "SELECT once.claim('k')",
        "SELECT * FROM once.claim_many('{k}')",
    ] {
        let failure = db.session_of(&app).fails(call);
        assert_eq!(failure.code, "42704", "{call}: {failure}");
        let statement = "SELECT once.create_store('processed_events')";
        assert!(failure.hint.contains(statement), "{call}: {failure}");
    }
    assert_eq!(db.session().get::<i64>("SELECT count(*) FROM once.stores"), 0);
}

#[test]
fn a_role_that_may_create_in_the_schema_makes_the_default_store_and_owns_it() {
    let db = database();
    let app = db.role("app");
    db.session().run(&format!("GRANT USAGE, CREATE ON SCHEMA once TO {app}"));
    let mut s = db.session_of(&app);
    assert!(s.claim("k"));
    assert!(!s.claim("k"));
    let owners: Vec<String> = db.session().column(
        "SELECT DISTINCT pg_get_userbyid(relowner)::text FROM pg_class c
          WHERE relnamespace = 'once'::regnamespace AND relname LIKE 'processed_events%'",
    );
    assert_eq!(owners, [app]);
}

#[test]
fn looking_up_before_the_first_claim_makes_no_store() {
    let db = database();
    let mut s = db.session();
    assert_eq!(s.fails("SELECT * FROM once.lookup('k')").code, "42704");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.stores"), 0);
}

#[test]
fn only_the_default_store_is_made_by_a_claim() {
    let db = database();
    let failure = db.session().fails("SELECT once.claim_once('k', store => 'payments')");
    assert_eq!(failure.code, "42704");
    assert!(failure.hint.contains("create_store('payments'"), "{failure}");
}

#[test]
fn named_arguments_are_part_of_the_interface() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store(name => 'orders', retry_horizon => '1 day', retention => '3 days', note => 'n')");
    for call in [
        "once.claim_once(key => 'a', ttl => '1 h', effect => 'e', store => 'orders')",
        "once.claim_once(key => 5::bigint, ttl => '1 h', effect => 'e', store => 'orders')",
        "once.claim_once(key => 'a81bc81b-dead-4e5d-abff-90865d1e13b1'::uuid, ttl => '1 h', effect => 'e', store => 'orders')",
        "(once.claim(key => 'b', ttl => '1 h', effect => 'e', store => 'orders', fingerprint => NULL,
                     event_time => NULL, wait => true)).outcome = 'claimed'",
        "(SELECT bool_and(claimed) FROM once.claim_many(keys => '{c,d}', ttl => '1 h', effect => 'e', store => 'orders'))",
        "(SELECT result IS NULL FROM once.lookup(key => 'a', effect => 'e', store => 'orders'))",
    ] {
        assert!(s.get::<bool>(&format!("SELECT {call}")), "{call}");
    }
    s.run("SELECT once.alter_store(name => 'orders', retry_horizon => '1 day', retention => '4 days', note => 'm')");
    s.run("SELECT once.drop_store(name => 'orders')");
}

#[test]
fn a_volatile_function_in_where_claims_what_it_is_fed_and_a_subquery_keeps_it_in() {
    let db = database();
    let mut s = db.session();
    s.run("CREATE TABLE inbox AS SELECT 'm' || g AS id, g % 2 = 0 AS good FROM generate_series(1, 10) g");
    let done: i64 = s.get(
        "WITH wanted AS MATERIALIZED (SELECT id FROM inbox WHERE good)
         SELECT count(*) FROM wanted WHERE once.claim_once(id)",
    );
    assert_eq!(done, 5);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 5);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM inbox WHERE once.claim_once(id)"), 5);
}
