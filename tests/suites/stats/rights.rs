//! Who may read and reset: pg_monitor reads, owners reset what they own.

use pg_once_tests::session::Session;

use crate::{answers, clusters, counted};

fn denied(s: &mut Session, call: &str) {
    let failure = s.fails(call);
    assert_eq!(failure.code, "42501", "{call}: {failure}");
}

const READS: [&str; 4] = [
    "SELECT * FROM once.stat_claims",
    "SELECT * FROM once.stat_duplicate_ages",
    "SELECT * FROM once.retention_advice",
    "SELECT * FROM once.stat_entries()",
];

#[test]
fn nobody_reads_but_members_of_pg_monitor_and_whom_it_was_granted() {
    for cluster in clusters() {
        let db = cluster.database();
        let mut admin = db.session();
        admin.claim("k");
        let (nobody, app, watch, reader) =
            (db.role("nobody"), db.role("app"), db.role("watch"), db.role("reader"));
        admin.run(&format!(
            "GRANT USAGE ON SCHEMA once TO {app}, {reader};
             GRANT INSERT, SELECT ON once.processed_events TO {app};
             GRANT pg_monitor TO {watch};
             GRANT SELECT ON once.stat_claims TO {reader};
             GRANT EXECUTE ON FUNCTION once.stat_entries TO {reader}"
        ));
        for role in [&nobody, &app] {
            let mut s = db.session_of(role);
            for read in READS {
                denied(&mut s, read);
            }
        }
        let mut s = db.session_of(&watch);
        for read in READS {
            assert!(!s.rows(read, &[]).is_empty(), "{read}");
        }
        assert_eq!(answers(&mut s), (1, 0));
        // The schema alone opens nothing else.
        for call in [
            "SELECT once.claim_once('k')",
            "SELECT * FROM once.lookup('k')",
            "SELECT once.create_store('x')",
            "SELECT once.stat_reset('processed_events')",
            "SELECT * FROM once.processed_events",
            "SET pg_once.track_claims = off",
            "SET pg_once.log_duplicates = sample",
        ] {
            denied(&mut s, call);
        }
        let mut s = db.session_of(&reader);
        assert_eq!(answers(&mut s), (1, 0));
        denied(&mut s, "SELECT * FROM once.retention_advice");
    }
}

#[test]
fn a_reset_reaches_what_the_caller_owns_and_begins_anew() {
    for cluster in clusters() {
        let db = cluster.database();
        let mut admin = db.session();
        let (owner, app) = (db.role("owner"), db.role("app"));
        admin.claim("k");
        admin.run(&format!(
            "SELECT once.create_store('theirs'); ALTER TABLE once.theirs OWNER TO {owner};
             SELECT once.claim_once('k', store => 'theirs'); SELECT once.claim_once('k', store => 'theirs');
             GRANT USAGE ON SCHEMA once TO {owner}, {app}; GRANT INSERT ON once.theirs TO {app}"
        ));
        let mut s = db.session_of(&app);
        denied(&mut s, "SELECT once.stat_reset('theirs')");
        let failure = s.fails("SELECT once.stat_reset('nowhere')");
        assert_eq!(failure.code, "42704", "{failure}");
        // What it owns is nothing.
        s.run("SELECT once.stat_reset()");
        assert_eq!(counted(&mut admin, "theirs", "").duplicates, 1);
        let mut s = db.session_of(&owner);
        denied(&mut s, "SELECT once.stat_reset('processed_events')");
        let since = "SELECT stats_reset::text FROM once.stat_claims WHERE store = 'theirs'";
        let before: String = admin.get(since);
        for reset in ["SELECT once.stat_reset('theirs')", "SELECT once.stat_reset()"] {
            s.run(reset);
            let row = counted(&mut admin, "theirs", "");
            assert_eq!((row.claimed, row.duplicates, row.ages.iter().sum::<i64>()), (0, 0, 0));
            assert_ne!(admin.get::<String>(since), before);
            assert_eq!(answers(&mut admin), (1, 0), "another's store");
            admin.run("SELECT once.claim_once('k', store => 'theirs')");
            assert_eq!(counted(&mut admin, "theirs", "").duplicates, 1);
        }
        admin.run("SELECT once.stat_reset()");
        assert_eq!(answers(&mut admin), (0, 0));
        assert_eq!(counted(&mut admin, "theirs", "").claimed, 0);
    }
}

#[test]
fn parallel_workers_and_read_only_transactions_read() {
    for cluster in clusters() {
        let db = cluster.database();
        db.session().claim("k");
        let mut s = db.session();
        let force = if cluster.server().major < 16 {
            "force_parallel_mode"
        } else {
            "debug_parallel_query"
        };
        s.run(&format!(
            "SET {force} = on; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
             SET min_parallel_table_scan_size = 0"
        ));
        // The first that this session has to do with the table.
        s.run("BEGIN READ ONLY; SELECT * FROM once.stat_claims; SELECT * FROM once.retention_advice; COMMIT");
        let bounds: i32 = s.get("SELECT cardinality(once.stat_bounds())");
        assert_eq!((answers(&mut s), bounds), ((1, 0), 24));
        // Workers load the library although nothing they may run counts.
        s.run("CREATE TABLE t AS SELECT g FROM generate_series(1, 1000) g; ANALYZE t");
        let n: i64 = s.get("SELECT count(*) FROM t WHERE once.leaf_day(g::oid::regclass) IS NULL");
        assert_eq!(n, 1000);
    }
}
