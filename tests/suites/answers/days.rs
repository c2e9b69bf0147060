//! Answers and releases on days that are over: sealed ones, the oldest one, one that DDL holds; and through a dump.

use std::process::Stdio;

use pg_once_tests::account;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{cluster, database};
use pg_once_tests::wait;

fn sealed(s: &mut Session) -> Vec<String> {
    s.column("SELECT leaf::text FROM once.sealed_leaves('once.wide') ORDER BY 1")
}

fn alarms(s: &mut Session) -> Vec<String> {
    s.column(
        "SELECT finding || ': ' || detail FROM once.health WHERE severity <> 'info' ORDER BY 1",
    )
}

/// A store that remembers for thirty days, each of which has keys `DAY-1` to `DAY-20`; 1 is yesterday.
fn thirty_days(s: &mut Session) {
    s.run(
        "SELECT once.create_store('wide', retention => '30 days');
         CREATE TEMP TABLE made AS
             SELECT d || '-' || n AS key,
                    date_trunc('day', clock_timestamp(), 'UTC') - d * interval '24 hours' + n * interval '1 hour' AS at
               FROM generate_series(1, 29) d, generate_series(1, 20) n",
    );
    s.run("CALL once.import_claims('wide', 'pg_temp.made', 'key', 'at')");
    s.run("CALL once.maintain()");
}

#[test]
fn an_old_claim_is_answered_and_released_and_its_sealed_day_stays_sealed() {
    let db = database();
    let mut s = db.session();
    thirty_days(&mut s);
    let (sealed_before, alarms_before) = (sealed(&mut s), alarms(&mut s));
    let probed = "SELECT string_agg(leaf::text, ',') FROM once.filter_probe('wide', '15-3')";
    let maybe: Option<String> = s.get(probed);
    for day in [1, 2, 15, 29] {
        let complete = format!("SELECT once.complete('{day}-3', '{day}', store => 'wide')");
        assert!(s.get::<bool>(&complete) && !s.get::<bool>(&complete), "{day}");
        let told = format!(
            "SELECT outcome::text || ' ' || result FROM once.claim('{day}-3', store => 'wide')"
        );
        assert_eq!(s.get::<String>(&told), format!("duplicate {day}"));
        let other = format!("SELECT once.complete('{day}-3', '0', store => 'wide')");
        assert_eq!(s.fails(&other).code, "OC007");
        assert_eq!(sealed(&mut s), sealed_before, "an answer on day {day}");
        let release = format!("SELECT once.release('{day}-4', 'test', store => 'wide')");
        assert!(s.get::<bool>(&release) && !s.get::<bool>(&release), "{day}");
        assert_eq!(sealed(&mut s), sealed_before, "a release on day {day}");
        let anew = format!("SELECT once.claim_once('{day}-4', store => 'wide')");
        assert!(s.get::<bool>(&anew) && !s.get::<bool>(&anew), "{day}");
    }
    assert_eq!(s.get::<Option<String>>(probed), maybe);
    s.run("CALL once.maintain()");
    s.run("CALL once.maintain(true)");
    assert_eq!((sealed(&mut s), alarms(&mut s)), (sealed_before, alarms_before));
    let refused: i64 = s.get(
        "SELECT count(*) FROM generate_series(1, 29) d, generate_series(1, 20) n
          WHERE NOT once.claim_once(d || '-' || n, store => 'wide')",
    );
    assert_eq!(refused, 29 * 20);
}

#[test]
fn answers_and_releases_wait_for_a_leaf_that_ddl_holds_and_for_nothing_else() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    thirty_days(&mut s);
    for (key, what) in [
        ("15-7", "complete('15-7', '1', store => 'wide')"),
        ("15-8", "release('15-8', 'x', store => 'wide')"),
    ] {
        let leaf: String =
            s.get(&format!("SELECT tableoid::regclass::text FROM once.wide WHERE key = '{key}'"));
        s.run(&format!("BEGIN; LOCK TABLE {leaf} IN ACCESS EXCLUSIVE MODE"));
        let waiting =
            db.session().background(move |s| s.get::<bool>(&format!("SELECT once.{what}")));
        wait::blocked(&mut observer, waiting.pid());
        let mut other = db.session();
        other.run("SET lock_timeout = '5s'");
        assert!(
            other.get::<bool>(&format!("SELECT once.claim_once('new {key}', store => 'wide')"))
        );
        let held: i64 = observer.get_with(
            "SELECT count(*) FROM pg_locks WHERE pid = $1 AND granted AND mode = 'ExclusiveLock'
                AND locktype NOT IN ('virtualxid', 'transactionid')",
            &[&waiting.pid()],
        );
        assert_eq!(held, 0, "the key's lock is held while the leaf is waited for");
        s.run("COMMIT");
        assert!(waiting.join().1);
    }
}

#[test]
fn a_dump_has_the_answers_the_digests_and_the_log_of_releases() {
    let db = database();
    let mut s = db.session();
    s.run(
        "SELECT once.claim('k', fingerprint => 'one');
         SELECT once.complete('k', '{\"a\": 1}');
         SELECT once.claim_once('gone'); SELECT once.release('gone', 'by mistake')",
    );
    let to = cluster().create("TEMPLATE template0");
    let mut dump = cluster().client("pg_dump");
    let mut dump = dump.args(["-d", db.name()]).stdout(Stdio::piped()).spawn().expect("pg_dump");
    let mut load = cluster().client("psql");
    load.args(["-d", to.name(), "-qX", "-v", "ON_ERROR_STOP=1"]);
    account::run(load.stdin(dump.stdout.take().expect("a pipe")));
    assert!(dump.wait().expect("it was started").success());
    let mut copy = to.session();
    let log = "SELECT to_jsonb(l)::text FROM once.release_log l";
    assert_eq!(copy.column::<String>(log), s.column::<String>(log));
    for (fingerprint, expected) in [("one", r#"duplicate {"a": 1}"#), ("two", "mismatch")] {
        let told = format!(
            "SELECT outcome::text || coalesce(' ' || result::text, '') FROM once.claim('k', fingerprint => '{fingerprint}')"
        );
        assert_eq!(copy.get::<String>(&told), expected);
    }
    assert_eq!(copy.fails("SELECT once.complete('k', '2')").code, "OC007");
    assert!(copy.claim("gone"));
}
