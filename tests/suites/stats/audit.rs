//! `once.audit_keys`: what the keys in use look like, by a sample, and what the counters say of them. What it concludes from which
//! evidence is shown in src/domain/audit.rs; here it is read off real stores.

use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

use crate::{counting, needs_preload};

/// Claims as many keys as a query gives.
fn claim(s: &mut Session, store: &str, effect: &str, keys: &str) {
    let call = "SELECT count(*) FILTER (WHERE claimed) FROM once.claim_many(ARRAY(%), store => $1, effect => $2)";
    let claimed: i64 = s.get_with(&call.replace('%', keys), &[&store, &effect]);
    assert!(claimed > 0);
}

const RANDOM: &str = "SELECT gen_random_uuid()::text FROM generate_series(1, 12000)";

/// Effect and findings.
fn findings(s: &mut Session, store: &str) -> Vec<(String, Vec<String>)> {
    let rows =
        s.rows("SELECT effect, findings FROM once.audit_keys($1) ORDER BY effect", &[&store]);
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[test]
fn each_effect_has_its_shares_and_lengths() {
    let mut s = database().session();
    s.run("SELECT once.create_store('s')");
    claim(&mut s, "s", "random", "SELECT gen_random_uuid()::text FROM generate_series(1, 300)");
    claim(&mut s, "s", "digest", "SELECT md5(n::text) FROM generate_series(1, 300) n");
    claim(&mut s, "s", "mixed", "SELECT 'order-' || n FROM generate_series(1, 300) n");
    claim(
        &mut s,
        "s",
        "mixed",
        "SELECT encode(sha256(n::text::bytea), 'hex') FROM generate_series(1, 100) n",
    );
    let rows = s.rows(
        "SELECT concat_ws(' ', effect, sampled, uuidv4_share, time_based_share, hash_share, natural_share, \
                shortest, median, longest) FROM once.audit_keys('s') ORDER BY effect",
        &[],
    );
    let told: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        told,
        [
            "digest 300 0 0 1 0 32 32 32",
            "mixed 400 0 0 0.25 0.75 7 9 64",
            "random 300 1 0 0 0 36 36 36"
        ]
    );
}

#[test]
fn random_keys_without_a_duplicate_are_found_and_told_by_once_health() {
    let cluster = counting(Cluster::build().clocked()).start();
    let origin = Instant::midnight(2019, 3, 4).plus(3_600.0);
    cluster.clock().set(origin);
    let db = cluster.database();
    let mut s = db.session();
    s.run(&format!(
        "ALTER DATABASE {} SET pg_once.away_days = 0; SET pg_once.away_days = 0",
        db.name()
    ));
    s.run("SELECT once.create_store('s', retry_horizon => '10 days')");
    claim(&mut s, "s", "attempt", RANDOM);
    claim(&mut s, "s", "intent", "SELECT 'order-' || n FROM generate_series(1, 12000) n");
    // On the first day nobody can say.
    s.run("CALL once.maintain()");
    assert_eq!(s.column::<String>("SELECT finding FROM once.health"), [""; 0]);
    let told = findings(&mut s, "s");
    assert_eq!(told[0].1.len(), 1, "{told:?}");
    assert!(told[0].1[0].contains("which is too little to judge by"), "{told:?}");
    cluster.clock().set(origin.days(9).plus(60.0));
    let mut s = db.session();
    let told = findings(&mut s, "s");
    let said = "100 % random UUIDs and not one duplicate in 9 days with 12,000 claims: these identify the attempt, \
                not the intent, so they guard nothing";
    assert!(told[0].0 == "attempt" && told[0].1[0].starts_with(said), "{told:?}");
    assert_eq!(told[1], ("intent".to_owned(), Vec::new()));
    s.run("CALL once.maintain()");
    let health = "SELECT severity || ' ' || finding || ' ' || detail FROM once.health";
    let rows: Vec<String> = s.column(health);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(
        rows[0].starts_with(&format!("warning keys look wrong effect 'attempt': {said}")),
        "{rows:?}"
    );
    let remedy: String = s.get("SELECT remedy FROM once.health");
    assert_eq!(s.rows(&remedy, &[]).len(), 2);
    let since = s.get::<String>("SELECT since::text FROM once.health");
    // One duplicate, and it is no longer so; but only when it is looked at again, a day later.
    s.run("SELECT once.claim_once((SELECT key FROM once.s WHERE effect = 'attempt' LIMIT 1), store => 's', effect => 'attempt')");
    s.run("CALL once.maintain()");
    assert_eq!(s.get::<String>("SELECT since::text FROM once.health"), since);
    cluster.clock().set(origin.days(10).plus(120.0));
    let mut s = db.session();
    s.run("CALL once.maintain()");
    assert_eq!(s.column::<String>(health), [""; 0]);
    assert!(findings(&mut s, "s")[0].1[0].contains("1 duplicate for 12,000 claims"));
    // With the store goes what was found.
    s.run("SELECT once.drop_store('s')");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.key_audit"), 0);
}

#[test]
fn without_counters_it_says_so() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('s'); SET pg_once.track_claims = off");
    claim(&mut s, "s", "", RANDOM);
    let told = findings(&mut s, "s");
    let why =
        if needs_preload() { "shared_preload_libraries" } else { "pg_once.track_claims is off" };
    assert!(told[0].1[0].contains("cannot be told") && told[0].1[0].contains(why), "{told:?}");
    assert_eq!(s.rows("SELECT FROM once.audit_keys('s') WHERE claimed IS NULL", &[]).len(), 1);
}

#[test]
fn keys_that_name_nothing_are_found_at_once_and_no_key_is_written_down() {
    let mut s = database().session();
    s.run("SELECT once.create_store('s', retry_horizon => '1 day')");
    claim(&mut s, "s", "mail", "SELECT 'private-' || n FROM generate_series(1, 200) n");
    claim(&mut s, "s", "mail", "SELECT unnest(ARRAY['undefined', 'private-${id}'])");
    s.run("CALL once.maintain()");
    let detail: String = s.get("SELECT detail FROM once.health WHERE finding = 'keys look wrong'");
    assert!(detail.contains("1 of 202 sampled keys name nothing: it is undefined"), "{detail}");
    assert!(detail.contains("a template in it") && !detail.contains("private"), "{detail}");
    let kept: String = s.get("SELECT string_agg(a::text, ' ') FROM once.key_audit a");
    assert!(!kept.contains("private"), "{kept}");
}

#[test]
fn what_is_read_does_not_grow_with_the_store() {
    let mut s = database().session();
    s.run("SELECT once.create_store('big')");
    for effect in 0..10 {
        let keys = "SELECT 'order-' || n FROM generate_series(1, 30000) n";
        claim(&mut s, "big", &format!("e{effect}"), keys);
    }
    let leaf: String = s.get("SELECT format('once.%I', leaf) FROM once.partitions WHERE store = 'big' AND state = 'current'");
    s.run(&format!("VACUUM (ANALYZE) {leaf}"));
    s.run("SELECT pg_stat_force_next_flush()");
    let pages: i64 = s.get(&format!("SELECT pg_relation_size('{leaf}') / 8192"));
    let read = format!(
        "SELECT heap_blks_read + heap_blks_hit FROM pg_statio_all_tables WHERE relid = '{leaf}'::regclass"
    );
    let before: i64 = s.get(&read);
    let sampled: i64 = s.get("SELECT sum(sampled)::bigint FROM once.audit_keys('big', 3000)");
    s.run("SELECT pg_stat_force_next_flush()");
    let looked = s.get::<i64>(&read) - before;
    println!("{sampled} of 300000 keys, {looked} of {pages} pages");
    assert!((1_000..9_000).contains(&sampled), "{sampled}");
    assert!(looked > 0 && looked < pages / 10, "{looked} of {pages} pages");
    assert_eq!(s.rows("SELECT FROM once.audit_keys('big')", &[]).len(), 10);
}

#[test]
fn a_leaf_that_was_analysed_while_nearly_empty_does_not_have_the_whole_store_read() {
    let mut s = database().session();
    s.run("SELECT once.create_store('s')");
    claim(&mut s, "s", "", "SELECT 'first'");
    s.run("ANALYZE once.s");
    let keys = "SELECT 'order-' || n FROM generate_series(1, 100000) n";
    claim(&mut s, "s", "", keys);
    let sampled: i64 = s.get("SELECT sum(sampled)::bigint FROM once.audit_keys('s', 3000)");
    assert!((1_000..9_000).contains(&sampled), "{sampled} of 100001");
}

#[test]
fn a_pass_does_not_complain_of_a_store_that_its_owner_may_not_read() {
    let db = database();
    let mut s = db.session();
    let role = db.role("owner");
    s.run(&format!("GRANT USAGE, CREATE ON SCHEMA once TO {role}"));
    let mut owner = db.session_of(&role);
    owner.run("SELECT once.create_store('unread', retry_horizon => '1 day')");
    claim(&mut owner, "unread", "", "SELECT unnest(ARRAY['a', 'undefined'])");
    let kept = "SELECT count(*) FROM once.key_audit WHERE store = 'once.unread'::regclass";
    for (takes, gives) in [
        (
            format!("REVOKE SELECT ON once.unread FROM {role}"),
            format!("GRANT SELECT ON once.unread TO {role}"),
        ),
        (
            "ALTER TABLE once.unread ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
                .to_owned(),
            "ALTER TABLE once.unread NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY"
                .to_owned(),
        ),
    ] {
        s.run(&takes);
        s.run("CALL once.maintain()");
        assert_eq!(s.get::<i64>(kept), 0, "{takes}");
        s.run(&gives);
    }
    s.run("CALL once.maintain()");
    assert_eq!(s.get::<i64>(kept), 1);
    let log = db.cluster().log();
    let told = log.lines().filter(|line| line.contains("unread: could not look at its keys"));
    assert_eq!(told.count(), 0);
}

#[test]
fn who_may_not_read_the_store_learns_nothing_of_its_keys() {
    let db = database();
    let mut s = db.session();
    let role = db.role("reader");
    s.run(&format!("SELECT once.create_store('s'); GRANT USAGE ON SCHEMA once TO {role}"));
    claim(&mut s, "s", "", "SELECT 'a'");
    let mut reader = db.session_of(&role);
    assert_eq!(reader.fails("SELECT once.audit_keys('s')").code, "42501");
    s.run(&format!("GRANT SELECT ON once.s TO {role}"));
    assert_eq!(reader.rows("SELECT once.audit_keys('s')", &[]).len(), 1);
    // Also where nothing may be written.
    reader.run("SET default_transaction_read_only = on");
    assert_eq!(reader.rows("SELECT once.audit_keys('s')", &[]).len(), 1);
    assert_eq!(s.fails("SELECT once.audit_keys('nowhere')").code, "42704");
    assert_eq!(s.fails("SELECT once.audit_keys(NULL)").code, "22004");
    assert_eq!(s.fails("SELECT once.audit_keys('s', NULL)").code, "22004");
    for sample in ["0", "-1", "100001"] {
        assert_eq!(s.fails(&format!("SELECT once.audit_keys('s', {sample})")).code, "22023");
    }
    s.run("SELECT once.create_store('empty')");
    assert_eq!(s.rows("SELECT once.audit_keys('empty')", &[]).len(), 0);
    s.run("ALTER TABLE once.s ENABLE ROW LEVEL SECURITY");
    assert_eq!(reader.fails("SELECT once.audit_keys('s')").code, "0A000");
}

#[test]
fn a_pass_that_waits_for_a_store_has_no_table_of_the_extension_locked() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('s')");
    claim(&mut s, "s", "", "SELECT 'a'");
    let mut dropping = db.session();
    dropping.run("BEGIN; DROP TABLE once.s");
    let mut passing = db.session();
    let pid = passing.pid();
    let pass = std::thread::spawn(move || passing.run("CALL once.maintain()"));
    let waits = format!(
        "SELECT coalesce(string_agg(DISTINCT t.relname, ' '), '') \
           FROM pg_locks w JOIN pg_locks h ON h.pid = w.pid AND h.granted AND h.locktype = 'relation' \
           JOIN pg_class t ON t.oid = h.relation \
           JOIN pg_depend d ON d.objid = t.oid AND d.deptype = 'e' AND d.classid = 'pg_class'::regclass \
          WHERE w.pid = {pid} AND NOT w.granted"
    );
    let waiting = format!("SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted");
    let mut waited = 0_i64;
    while !pass.is_finished() {
        waited += s.get::<i64>(&waiting);
        let held: String = s.get(&waits);
        assert_eq!(held, "", "locked while it waits");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(waited > 0, "it never waited");
    pass.join().expect("the pass went through");
    // Whoever has the store can have the extension, too.
    dropping.run("DROP EXTENSION pg_once; COMMIT");
}
