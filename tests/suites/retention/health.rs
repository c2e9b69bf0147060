//! `once.health`: nothing where all is well, and for each thing that is not, a row whose statement mends it.

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, database};

fn findings(s: &mut Session) -> Vec<String> {
    s.column("SELECT severity || ' ' || store || ': ' || finding FROM once.health ORDER BY 1")
}

/// Runs the statement that a finding names.
fn mend(s: &mut Session, finding: &str) {
    let remedy: String =
        s.get_with("SELECT remedy FROM once.health WHERE finding = $1", &[&finding]);
    s.run(&remedy.replace("'...'", "'3 days'"));
}

#[test]
fn a_store_made_with_a_horizon_has_no_findings() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('Häus ''x''', retry_horizon => '56 hours', note => 'broker: 5 retries')");
    assert_eq!(findings(&mut s), [""; 0]);
    let told: bool =
        s.get("SELECT retention = '7 days' AND note = 'broker: 5 retries' FROM once.stores");
    assert!(told, "three times 56 hours are 7 days");
    s.run("CALL once.maintain()");
    assert_eq!(findings(&mut s), [""; 0]);
}

#[test]
fn a_missing_horizon_is_asked_for_until_it_is_given() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    assert_eq!(findings(&mut s), ["info processed_events: no retry horizon is known"]);
    mend(&mut s, "no retry horizon is known");
    assert_eq!(findings(&mut s), [""; 0]);
}

#[test]
fn a_retention_below_the_horizon_is_an_error_and_its_remedy_raises_it() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('s', retry_horizon => '3 days')");
    let failure = s.fails("SELECT once.alter_store('s', retention => '2 days')");
    assert_eq!(failure.code, "22023");
    let said = format!("{failure}");
    assert!(said.contains("2 d") && said.contains("3 d"), "the numbers: {said}");
    s.run("UPDATE once.store_policy SET retention = '1 day'");
    assert_eq!(findings(&mut s), ["error s: retention is shorter than the retry horizon"]);
    mend(&mut s, "retention is shorter than the retry horizon");
    assert_eq!(findings(&mut s), [""; 0]);
}

#[test]
fn days_running_out_and_maintenance_overdue_are_told_before_claims_feel_it() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2005, 4, 4).plus(43_200.0);
    let mut s = db.session_at(origin);
    s.run("SELECT once.create_store('s', retry_horizon => '3 days')");
    s.run("CALL once.maintain()");
    cluster.clock().set(origin.days(1).plus(60.0));
    assert_eq!(findings(&mut s), ["warning s: maintenance is overdue"]);
    cluster.clock().set(origin.days(3).plus(-60.0));
    assert_eq!(
        findings(&mut s),
        ["warning s: maintenance is overdue", "warning s: no day ahead is there"]
    );
    cluster.clock().set(origin.days(4));
    assert_eq!(
        findings(&mut s),
        ["error s: maintenance is overdue", "error s: no day ahead is there"]
    );
    mend(&mut s, "no day ahead is there");
    assert_eq!(findings(&mut s), [""; 0]);
}

#[test]
fn a_hold_is_told_with_its_reason_until_it_is_ended() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('s', retry_horizon => '3 days')");
    s.run("SELECT once.hold('s', 'replay of 3 May')");
    assert_eq!(findings(&mut s), ["info s: a hold is in force"]);
    let detail: String = s.get("SELECT detail FROM once.health");
    assert_eq!(detail, "replay of 3 May; until further notice; by postgres");
    mend(&mut s, "a hold is in force");
    assert_eq!(findings(&mut s), [""; 0]);
}

#[test]
fn a_leaf_that_carries_more_than_ours_is_told_by_name() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT once.create_store('s', retry_horizon => '3 days')");
    let leaf: String = s.get("SELECT leaf FROM once.partitions WHERE state = 'current'");
    s.run(&format!("CREATE INDEX extra ON once.{leaf} (expires_at)"));
    s.run("CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'");
    s.run(&format!(
        "CREATE TRIGGER mine BEFORE INSERT ON once.{leaf} FOR EACH ROW EXECUTE FUNCTION t()"
    ));
    assert_eq!(findings(&mut s), ["warning s: claims take the slow way into a leaf"; 2]);
    let details: Vec<String> = s.column("SELECT detail FROM once.health ORDER BY 1");
    let has = |what| format!("once.{leaf} has {what}");
    assert_eq!(details, [has("index once.extra"), has("trigger mine")]);
}

#[test]
fn a_postponed_drop_names_the_session_in_the_way() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2006, 4, 4).plus(43_200.0);
    cluster.clock().set(origin);
    let (mut s, mut reader) = (db.session(), db.session());
    s.run("SELECT once.create_store('s', retry_horizon => '1 hour', retention => '1 hour')");
    s.run("SELECT once.claim_once('k', store => 's')");
    reader.run("BEGIN; SELECT count(*) FROM once.s");
    cluster.clock().set(origin.days(1));
    s.run("CALL once.maintain()");
    assert_eq!(findings(&mut s), ["warning s: a leaf that is over is still there"]);
    let detail: String = s.get("SELECT detail FROM once.health");
    assert!(detail.ends_with(&format!("postpone: in use by backend {}", reader.pid())), "{detail}");
    s.run("CALL once.maintain()");
    let entries: i64 = s.get("SELECT count(*) FROM once.maintenance_log WHERE action = 'postpone'");
    assert_eq!(entries, 1, "said once an hour");
    reader.run("COMMIT");
    mend(&mut s, "a leaf that is over is still there");
    assert_eq!(findings(&mut s), [""; 0]);
}

#[test]
fn the_log_tells_of_every_leaf_and_is_bounded() {
    let cluster = clocked();
    let db = cluster.database();
    let origin = Instant::midnight(2007, 4, 4).plus(43_200.0);
    let mut s = db.session_at(origin);
    s.run("SELECT once.create_store('s', retention => '1 hour')");
    s.run("SELECT once.claim_many(ARRAY['a', 'b', 'c'], store => 's')");
    cluster.clock().set(origin.days(1));
    s.run("CALL once.maintain()");
    let log: Vec<String> = s.column(
        "SELECT concat_ws(' ', action, day, rows, took > '0', made_by) FROM once.maintenance_log ORDER BY at, day",
    );
    s.run("SET DateStyle = 'ISO'");
    assert_eq!(log.len(), 6, "{log:?}");
    assert_eq!(log.iter().filter(|line| line.starts_with("create")).count(), 5);
    assert!(log[5].starts_with("drop ") && log[5].ends_with(" 3 t postgres"), "{log:?}");
    s.run("INSERT INTO once.maintenance_log (at, store, action, detail, made_by)
           SELECT clock_timestamp() - g * interval '1 second', 's', 'keep', '', 'x' FROM generate_series(1, 12000) g");
    s.run("CALL once.maintain()");
    let count: i64 = s.get("SELECT count(*) FROM once.maintenance_log");
    assert!((10_000..=10_001).contains(&count), "{count}");
}

/// Where the planner takes a query for dear, a server with JIT compiles it first, which takes seconds for as many
/// branches as once.health has.
#[test]
fn no_view_looks_so_dear_that_it_is_compiled() {
    let db = pg_once_tests::shared::database();
    let mut s = db.session();
    s.claim("k");
    let threshold: f64 =
        s.get("SELECT setting::float8 FROM pg_settings WHERE name = 'jit_above_cost'");
    let views: Vec<String> = s.column(
        "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'v' AND c.relnamespace = 'once'::regnamespace",
    );
    assert!(views.len() > 6, "{views:?}");
    for view in views {
        let plan: Vec<String> = s.column(&format!("EXPLAIN SELECT * FROM {view}"));
        let (_, cost) = plan[0].split_once("..").expect("a range of costs");
        let cost: f64 = cost.split(' ').next().expect("a number").parse().expect("a number");
        assert!(cost < threshold / 2.0, "{view}: {cost}");
    }
}
