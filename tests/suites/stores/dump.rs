//! Dump and restore keeps every claim: into the same major, and into every later one that is there.

use std::process::Stdio;

use pg_once_tests::account;
use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::database::Database;
use pg_once_tests::server::Server;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, cluster};

const KEYS: [&str; 5] = ["k0", "k1", "k2", "k3", "it's \\ a \"key\"\t\n\u{1f980}"];

/// Fills a database over three days, the last of them today.
fn fill(cluster: &Cluster, db: &Database<'_>, owner: &str) {
    let now = Instant::today().plus(pg_once_tests::clock::real() % 86_400.0);
    cluster.clock().set(now.days(-2));
    db.session().run(&format!("GRANT USAGE, CREATE ON SCHEMA once TO {owner}"));
    db.session_of(owner).run(
        "SELECT once.create_store('Or\"ders', '1 day', '5 days', 'orders''s note', forbid => '{uuidv4,hash}');
         ALTER TABLE once.\"Or\"\"ders\" ADD COLUMN tenant text DEFAULT 'x'",
    );
    for (days, key) in (0..).zip(KEYS) {
        cluster.clock().set(now.days((days - 2).min(0)));
        let mut s = db.session();
        assert!(s.get_with::<bool>("SELECT once.claim_once($1::text)", &[&key]));
        let ours: bool = s.get_with(
            "SELECT once.claim_once($1::text, effect => 'e', store => 'Or\"ders')",
            &[&key],
        );
        assert!(ours);
    }
    cluster.clock().set(now);
    let mut s = db.session();
    s.run("SELECT once.alter_store('processed_events', retention => '8 days')");
    s.run("SELECT once.alter_store('processed_events', max_attempts => 3)");
    s.run("SELECT once.begin_effect('running', '1 hour')");
    s.run("UPDATE once.processed_events SET result = '{\"a\": 1}' WHERE key = 'k0'");
    s.run(&format!("GRANT INSERT ON once.processed_events TO {owner}"));
}

/// Everything a store is, as text.
fn portrait(s: &mut Session) -> Vec<String> {
    s.run("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'");
    let mut lines: Vec<String> = s.column(
        "SELECT concat_ws(' | ', store, owner, retention, retry_horizon, note, days, first_day, last_day, created_at, forbid, max_attempts)
           FROM once.stores ORDER BY 1",
    );
    lines.extend(s.column::<String>(
        "SELECT concat_ws(' | ', store, leaf, day, keep_until) FROM once.partitions ORDER BY 1",
    ));
    lines.extend(s.column::<String>("SELECT s::text FROM once.effect_state s"));
    lines.push(s.get("SELECT last_value::text FROM once.effect_fence"));
    for table in ["once.processed_events", "once.\"Or\"\"ders\""] {
        lines.extend(s.column::<String>(&format!(
            "SELECT concat_ws(' | ', tableoid::regclass, t) FROM {table} t ORDER BY 1"
        )));
    }
    lines
}

fn restore(from: &Database<'_>, to: &Database<'_>, custom: bool) {
    // The older server's own pg_dump: a newer major's that lacks the last minor release's changes may
    // write column options that it does not know itself.
    let mut dump = from.cluster().server().command("pg_dump");
    dump.env("PGHOST", from.cluster().folder()).env("PGUSER", "postgres").args(["-d", from.name()]);
    dump.arg(if custom { "-Fc" } else { "-Fp" }).stdout(Stdio::piped());
    let mut dump = dump.spawn().expect("pg_dump starts");
    let mut load = to.cluster().client(if custom { "pg_restore" } else { "psql" });
    load.args(["-d", to.name()]);
    load.args(if custom {
        ["--exit-on-error", "--single-transaction", "-v"]
    } else {
        ["-qX", "-v", "ON_ERROR_STOP=1"]
    });
    account::run(load.stdin(dump.stdout.take().expect("a pipe")));
    assert!(dump.wait().expect("it was started").success(), "pg_dump fails");
}

fn keeps_everything(target: &Cluster) {
    let source = clocked();
    let from = source.database();
    let owner = from.role("owner");
    fill(&source, &from, &owner);
    if target.folder() != source.folder() {
        target.connect("postgres").run(&format!("CREATE ROLE {owner} LOGIN"));
    }
    for custom in [false, true] {
        let to = target.create("TEMPLATE template0");
        restore(&from, &to, custom);
        let mut s = to.session();
        assert_eq!(portrait(&mut s), portrait(&mut from.session()));
        for key in KEYS {
            assert!(!s.claim(key), "{key:?}");
            assert!(!s.claim_many(&[key])[0].1, "{key:?}");
            let ours: bool = s.get_with(
                "SELECT once.claim_once($1::text, effect => 'e', store => 'Or\"ders')",
                &[&key],
            );
            assert!(!ours, "{key:?}");
        }
        let again = "SELECT outcome::text FROM once.begin_effect('running', '1 hour')";
        assert_eq!(s.get::<String>(again), "in_progress");
        assert!(s.claim("new") && to.session_of(&owner).claim("newer"));
        s.run("SET pg_once.precreate_days = 9");
        s.run("CALL once.maintain()");
        assert_eq!(s.get::<i64>("SELECT count(*) FROM once.partitions WHERE state = 'future'"), 18);
        assert_eq!(s.fails("DROP EXTENSION pg_once").code, "2BP01");
        s.verify("once.processed_events", target.server().ships("amcheck"));
        s.run("SELECT once.drop_store('processed_events'), once.drop_store('Or\"ders'); DROP EXTENSION pg_once");
    }
}

#[test]
fn a_dump_restored_into_the_same_major_keeps_every_claim() {
    keeps_everything(cluster());
}

#[test]
fn a_dump_restored_into_the_latest_major_keeps_every_claim() {
    // Where only one major is being tested there is no later one; the run over all majors has it.
    if let Some(server) = Server::later().pop() {
        keeps_everything(&Cluster::build().server(server).start());
    }
}
