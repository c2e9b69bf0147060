//! Every refusal has its SQLSTATE, a message, a detail and a hint, and claims nothing.

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

#[track_caller]
fn refused(s: &mut Session, code: &str, call: &str) {
    let failure = s.fails(&format!("SELECT {call}"));
    assert_eq!(failure.code, code, "{call}: {failure}");
    assert!(!failure.message.is_empty() && !failure.detail.is_empty(), "{call}: {failure}");
    assert!(!failure.hint.is_empty(), "{call}: {failure}");
}

#[test]
fn a_null_argument_is_22004() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    for call in [
        "once.claim_once(NULL::text)",
        "once.claim_once(NULL::uuid)",
        "once.claim_once(NULL::bigint)",
        "once.claim_once('k', effect => NULL)",
        "once.claim_once('k', store => NULL)",
        "once.claim_once(5, store => NULL)",
        "once.claim(NULL)",
        "once.claim('k', effect => NULL)",
        "once.claim('k', store => NULL)",
        "once.claim('k', wait => NULL)",
        "once.claim_many(NULL)",
        "once.claim_many('{a,NULL,b}')",
        "once.claim_many('{a}', effect => NULL)",
        "once.claim_many('{a}', store => NULL)",
        "once.lookup(NULL)",
        "once.lookup('k', effect => NULL)",
        "once.lookup('k', store => NULL)",
        "once.create_store(NULL)",
        "once.alter_store(NULL)",
    ] {
        refused(&mut s, "22004", call);
    }
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 1);
}

#[test]
fn an_empty_or_over_long_key_or_effect_is_22023() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let (long_key, long_effect) = ("repeat('k', 1025)", "repeat('e', 257)");
    for call in [
        "once.claim_once('')".to_owned(),
        "once.claim('')".to_owned(),
        "once.claim_many('{a,\"\",b}')".to_owned(),
        "once.lookup('')".to_owned(),
        format!("once.claim_once({long_key})"),
        format!("once.claim({long_key})"),
        format!("once.claim_many(ARRAY['a', {long_key}])"),
        format!("once.claim_once('k', effect => {long_effect})"),
        format!("once.claim('k', effect => {long_effect})"),
        format!("once.claim_many('{{k}}', effect => {long_effect})"),
        "once.claim_once('k', effect => repeat('\u{1f980}', 65))".to_owned(),
    ] {
        refused(&mut s, "22023", &call);
    }
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 1);
    assert!(s.get::<bool>("SELECT once.claim_once('k', effect => repeat('e', 256))"));
}

#[test]
fn what_is_no_store_is_42704_even_where_a_table_has_the_name() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("CREATE TABLE public.elsewhere (key text); CREATE TABLE once.handmade (key text)");
    let leaf: String = s.get("SELECT leaf FROM once.partitions LIMIT 1");
    for store in [
        "nowhere",
        "elsewhere",
        "handmade",
        "store_policy",
        "stores",
        "Processed_Events",
        "once.processed_events",
        &leaf,
    ] {
        for call in
            ["once.claim_once('k'", "once.claim('k'", "once.claim_many('{k}'", "once.lookup('k'"]
        {
            refused(&mut s, "42704", &format!("{call}, store => '{store}')"));
        }
    }
    for call in ["once.drop_store('nowhere')", "once.alter_store('nowhere', retention => '1 day')"]
    {
        refused(&mut s, "42704", call);
    }
}

#[test]
fn an_array_of_arrays_is_2202e() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    refused(&mut s, "2202E", "once.claim_many('{{a,b},{c,d}}')");
    refused(&mut s, "2202E", "once.claim_many(ARRAY[ARRAY['a']])");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 1);
}

#[test]
fn a_read_only_transaction_is_25006_and_claims_nothing() {
    let db = database();
    let mut s = db.session();
    s.claim("done");
    for call in [
        "once.claim_once('k')",
        "once.claim_once('done')",
        "once.claim('k', wait => false)",
        "once.claim_many('{k}')",
        "once.create_store('other')",
    ] {
        for begin in ["BEGIN READ ONLY", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"] {
            s.run(begin);
            let failure = s.fails(&format!("SELECT {call}"));
            assert_eq!(failure.code, "25006", "{begin}; {call}: {failure}");
            s.run("ROLLBACK");
        }
    }
    s.run("BEGIN READ ONLY");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.lookup('done')"), 1);
    s.run("COMMIT");
    assert!(s.claim("k"));
}

#[test]
fn a_read_only_transaction_is_25006_before_the_store_is_there_too() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN READ ONLY");
    assert_eq!(s.fails("SELECT once.claim_once('k')").code, "25006");
    s.run("ROLLBACK");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.stores"), 0);
}

#[test]
fn waiting_ends_with_55p03_57014_or_a_cancel_and_never_with_an_answer() {
    let db = database();
    let (mut holder, mut observer) = (db.session(), db.session());
    holder.claim("load");
    holder.run("BEGIN");
    assert!(holder.claim("k"));
    for (setting, code) in [("lock_timeout", "55P03"), ("statement_timeout", "57014")] {
        let mut s = db.session();
        s.run(&format!("SET {setting} = '200ms'"));
        for call in ["once.claim_once('k')", "once.claim('k')", "once.claim_many('{a,k,z}')"] {
            let started = std::time::Instant::now();
            let failure = s.fails(&format!("SELECT {call}"));
            assert_eq!(failure.code, code, "{setting}, {call}: {failure}");
            assert!(started.elapsed().as_secs() < 10, "{setting} is obeyed at once");
        }
        assert_eq!(
            s.get::<i64>("SELECT count(*) FROM once.processed_events WHERE key IN ('a', 'z')"),
            0
        );
    }
    for call in ["once.claim_once('k')", "once.claim_many('{a,k,z}')"] {
        let waiter = db.session();
        let pid = waiter.pid();
        let call = format!("SELECT {call}");
        let waiting = waiter.background(move |s| s.fails(&call));
        pg_once_tests::wait::blocked(&mut observer, pid);
        assert!(observer.get_with::<bool>("SELECT pg_cancel_backend($1)", &[&pid]));
        assert_eq!(waiting.join().1.code, "57014");
    }
    holder.run("ROLLBACK");
    assert!(observer.claim("k"), "nobody else claimed it");
}

#[test]
fn an_error_inside_a_batch_claims_nothing_of_the_batch() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    for batch in ["'{a,NULL}'", "'{a,\"\"}'", "ARRAY['a', repeat('x', 3000)]"] {
        s.run("BEGIN; SAVEPOINT s");
        s.fails(&format!("SELECT once.claim_many({batch})"));
        s.run("ROLLBACK TO s; COMMIT");
    }
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 1);
    assert!(s.claim("a"));
}
