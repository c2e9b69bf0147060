//! A million keys in one transaction: no lock, subtransaction or memory a key outlives the call.

use std::time::Duration;

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;

const MILLION: i64 = 1_000_000;

/// Private memory of the backend in MB: what shared buffers cannot blur.
fn private_mb(s: &Session) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", s.pid())).expect("it runs");
    let line =
        status.lines().find(|line| line.starts_with("RssAnon:")).expect("Linux 4.5 or later");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<i64>().ok()).expect("kB") / 1024
}

/// Memory contexts of the backend in MB, locks of its transaction, private memory in MB.
fn footprint(s: &mut Session) -> (i64, Vec<String>, i64) {
    let contexts: i64 =
        s.get("SELECT (sum(used_bytes) / 1048576)::bigint FROM pg_backend_memory_contexts");
    let locks = s.column(
        "SELECT concat_ws(' ', locktype, relation::regclass, mode) FROM pg_locks
          WHERE pid = pg_backend_pid() ORDER BY 1",
    );
    (contexts, locks, private_mb(s))
}

/// Every row of the transaction has one and the same transaction id.
fn one_transaction_id(s: &mut Session) -> bool {
    s.get(
        "SELECT count(DISTINCT xmin::text) = 1 AND min(xmin::text) = max(xmin::text)
                AND min(xmin::text) = (pg_current_xact_id()::text::bigint % 4294967296)::text
           FROM once.processed_events WHERE key LIKE 'k%'",
    )
}

#[test]
fn a_million_single_claims_in_one_transaction_take_no_more_than_a_thousand() {
    let db = database();
    let mut s = db.session().patience(Duration::from_secs(180));
    s.claim("load");
    assert_eq!(s.get::<String>("SHOW max_locks_per_transaction"), "64");
    s.run("BEGIN");
    let claim = |s: &mut Session, from: i64, to: i64| -> i64 {
        s.get(&format!(
            "SELECT count(*) FILTER (WHERE once.claim_once('k' || g)) FROM generate_series({from}, {to}) g"
        ))
    };
    assert_eq!(claim(&mut s, 1, 1000), 1000);
    let before = footprint(&mut s);
    assert_eq!(claim(&mut s, 1001, MILLION), MILLION - 1000);
    let after = footprint(&mut s);
    assert_eq!(after.1, before.1, "locks grew");
    assert!(after.0 - before.0 <= 1, "memory contexts grew from {} MB to {} MB", before.0, after.0);
    assert!(after.2 - before.2 <= 16, "private memory grew from {} MB to {} MB", before.2, after.2);
    // The same again as duplicates.
    assert_eq!(claim(&mut s, 1, MILLION), 0);
    let again = footprint(&mut s);
    assert_eq!(again.1, before.1, "locks grew");
    assert!(again.0 - before.0 <= 1, "memory contexts grew from {} MB to {} MB", before.0, again.0);
    assert!(again.2 - before.2 <= 16, "private memory grew from {} MB to {} MB", before.2, again.2);
    assert!(one_transaction_id(&mut s));
    s.run("ROLLBACK");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 1);
}

#[test]
fn a_million_keys_in_one_array_leave_nothing_behind() {
    let db = database();
    let mut s = db.session().patience(Duration::from_secs(180));
    s.claim("load");
    let keys = format!("ARRAY(SELECT 'k' || g FROM generate_series(1, {MILLION}) g)");
    let claim = |s: &mut Session| -> i64 {
        s.get(&format!("SELECT count(*) FROM once.claim_many({keys}) WHERE claimed"))
    };
    s.run("BEGIN");
    s.claim_many(&["k0"]);
    let before = footprint(&mut s);
    assert_eq!(claim(&mut s), MILLION);
    let after = footprint(&mut s);
    assert_eq!(after.1, before.1, "locks grew");
    assert!(after.0 - before.0 <= 1, "memory contexts grew from {} MB to {} MB", before.0, after.0);
    // Freed memory may stay with the process once, but must not grow with every call.
    let settled = private_mb(&s);
    for _ in 0..2 {
        assert_eq!(claim(&mut s), 0);
    }
    let again = footprint(&mut s);
    assert_eq!(again.1, before.1, "locks grew");
    assert!(again.0 - before.0 <= 1, "memory contexts grew from {} MB to {} MB", before.0, again.0);
    assert!(again.2 - settled <= 64, "private memory grew from {settled} MB to {} MB", again.2);
    assert!(one_transaction_id(&mut s));
    s.run("COMMIT");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), MILLION + 2);
}
