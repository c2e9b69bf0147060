//! What `once.health` offers as a remedy can be pasted as it stands, and the finding goes; what cannot be mended at
//! once it shows more of.

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, database};

const SLOW: &str = "claims take the slow way into a leaf";

/// A store of an awkward name with nothing to be said of it.
fn store(s: &mut Session) {
    s.run("SELECT once.create_store('Häus ''x''', retry_horizon => '3 days')");
    assert_eq!(findings(s), [""; 0]);
}

fn findings(s: &mut Session) -> Vec<String> {
    s.column("SELECT finding FROM once.health ORDER BY 1")
}

/// Runs the remedy of every row of a finding; how many rows there were.
fn mend(s: &mut Session, finding: &str) -> usize {
    let remedies: Vec<String> =
        s.column(&format!("SELECT remedy FROM once.health WHERE finding = '{finding}' ORDER BY 1"));
    for remedy in &remedies {
        println!("{remedy}");
        s.run(remedy);
    }
    remedies.len()
}

/// What the findings say.
fn details(s: &mut Session) -> Vec<String> {
    s.column("SELECT detail FROM once.health ORDER BY 1")
}

#[test]
fn what_forces_the_slow_way_is_taken_away_by_its_remedy() {
    let db = database();
    let mut s = db.session();
    store(&mut s);
    s.run("CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'");
    s.run("CREATE TABLE other (key text COLLATE \"C\" PRIMARY KEY)");
    let leaf: String =
        s.get("SELECT format('once.%I', leaf) FROM once.partitions WHERE state = 'current'");
    let parent = "once.\"Häus 'x'\"";
    for (change, what) in [
        (format!("CREATE INDEX \"My idx\" ON {leaf} (expires_at)"), "index"),
        (format!("CREATE INDEX ON {parent} (expires_at)"), "index"),
        (format!("ALTER TABLE {leaf} ADD CONSTRAINT \"u Q\" UNIQUE (claimed_at, key)"), "index"),
        (format!("ALTER TABLE {parent} ADD UNIQUE (claimed_at, key)"), "index"),
        (
            format!(
                "CREATE TRIGGER \"My t\" BEFORE INSERT ON {leaf} FOR EACH ROW EXECUTE FUNCTION t()"
            ),
            "trigger My t",
        ),
        (
            format!(
                "CREATE TRIGGER mine AFTER INSERT ON {parent} FOR EACH ROW EXECUTE FUNCTION t()"
            ),
            "trigger mine",
        ),
        (format!("ALTER TABLE {leaf} ADD CONSTRAINT \"C k\" CHECK (key <> 'x')"), "check C k"),
        (format!("ALTER TABLE {parent} ADD CONSTRAINT ck CHECK (key <> 'x')"), "check ck"),
        (
            format!("ALTER TABLE {parent} ADD CONSTRAINT fk FOREIGN KEY (key) REFERENCES other"),
            "foreign key fk",
        ),
        (
            format!("ALTER TABLE {leaf} ALTER COLUMN result SET NOT NULL"),
            "NOT NULL on column result",
        ),
        (
            format!("ALTER TABLE {parent} ALTER COLUMN fingerprint SET NOT NULL"),
            "NOT NULL on column fingerprint",
        ),
    ] {
        s.run(&change);
        let told = details(&mut s);
        assert!(told.len() == 1 && told[0].contains(what), "{change}: {told:?}");
        assert_eq!(mend(&mut s, SLOW), 1, "{change}");
        assert_eq!(findings(&mut s), [""; 0], "{change}");
    }
}

#[test]
fn a_further_column_is_told_and_what_it_leaves_behind_goes_with_its_days() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2019, 3, 4).plus(43_200.0);
    let mut s = db.session_at(noon);
    s.run("SELECT once.create_store('s', retry_horizon => '3 days')");
    s.run("ALTER TABLE once.s ADD COLUMN size integer GENERATED ALWAYS AS (length(key)) STORED");
    assert!(details(&mut s)[0].ends_with("have generated column size"), "{:?}", details(&mut s));
    assert_eq!(mend(&mut s, SLOW), 1);
    let severity: String = s.get("SELECT severity FROM once.health");
    assert_eq!(severity, "info");
    assert_eq!(mend(&mut s, SLOW), 1, "it shows more");
    for day in 1..=4 {
        cluster.clock().set(noon.days(day));
        s.run("CALL once.maintain()");
    }
    assert_eq!(findings(&mut s), [""; 0], "leaves that were made since are plain");
}

#[test]
fn a_leaf_that_cannot_be_searched_is_an_error_until_it_can() {
    let db = database();
    let mut s = db.session();
    store(&mut s);
    let leaf: String =
        s.get(
        "SELECT quote_literal(format('once.%I', leaf)) FROM once.partitions WHERE state = 'current'",
    );
    let finding = "a leaf cannot be searched, so claims fail";
    let claim = "SELECT once.claim_once($1::text, store => 'Häus ''x''')";
    s.run(&format!("DO $$ BEGIN EXECUTE (SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
             FROM pg_constraint WHERE conrelid = {leaf}::regclass AND contype = 'p'); END $$"));
    assert_eq!(s.try_get::<bool>(claim, &[&"a"]).expect_err("no key").code, "55000");
    assert_eq!(findings(&mut s), [finding]);
    assert_eq!(mend(&mut s, finding), 1);
    assert!(s.get_with::<bool>(claim, &[&"a"]) && !s.get_with::<bool>(claim, &[&"a"]));
    s.run(&format!("DO $$ BEGIN EXECUTE (SELECT format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT \"P k\" PRIMARY KEY (key, effect, claimed_at)', conrelid::regclass, conname)
             FROM pg_constraint WHERE conrelid = {leaf}::regclass AND contype = 'p'); END $$"));
    assert_eq!(s.try_get::<bool>(claim, &[&"a"]).expect_err("another key").code, "55000");
    assert_eq!(mend(&mut s, finding), 1);
    assert!(!s.get_with::<bool>(claim, &[&"a"]));
    assert_eq!(findings(&mut s), [""; 0]);
}

#[test]
fn a_leaf_attached_by_hand_is_told_when_every_claim_in_it_is_over_pauses_counted() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2019, 5, 6).plus(43_200.0);
    let mut s = db.session_at(noon);
    s.run("SELECT once.create_store('s', retry_horizon => '1 day', retention => '1 day')");
    let finding = "a leaf that pg_once did not make is over";
    s.run("CREATE TABLE attic PARTITION OF once.s (PRIMARY KEY (key, effect)) FOR VALUES FROM ('2019-04-01 00:00+00') TO ('2019-04-20 00:00+00');
           INSERT INTO once.s (claimed_at, expires_at, key) VALUES ('2019-04-10 00:00+00', '2019-05-07 12:00+00', 'k')");
    assert_eq!(findings(&mut s), [""; 0], "a claim in it is live");
    s.run("SELECT once.hold('s', 'replay', until => clock_timestamp() + interval '1 day')");
    cluster.clock().set(noon.days(1).plus(7_200.0));
    s.run("CALL once.maintain()");
    assert_eq!(findings(&mut s), [""; 0], "the hold has stretched it by a day");
    cluster.clock().set(noon.days(2).plus(7_200.0));
    s.run("CALL once.maintain()");
    assert_eq!(findings(&mut s), [finding]);
    let detail: String = s.get("SELECT detail FROM once.health");
    assert!(detail.contains("no claim in attic is live"), "{detail}");
    assert_eq!(mend(&mut s, finding), 1);
    assert_eq!(findings(&mut s), [""; 0]);
    assert!(
        s.get::<bool>("SELECT to_regclass('attic') IS NOT NULL"),
        "it is the owner's, as before"
    );
}

#[test]
fn a_default_partition_is_told_and_may_go_when_there_is_nothing_in_it() {
    let db = database();
    let mut s = db.session();
    store(&mut s);
    s.run("CREATE TABLE once.\"R e\" PARTITION OF once.\"Häus 'x'\" (PRIMARY KEY (key, effect)) DEFAULT;
           INSERT INTO once.\"R e\" (claimed_at, expires_at, key) VALUES ('2001-01-01', clock_timestamp() + interval '1 day', 'k')");
    assert_eq!(findings(&mut s), ["a default partition is there"]);
    assert_eq!(mend(&mut s, "a default partition is there"), 1, "it shows more");
    s.run("CALL once.maintain()");
    s.run("TRUNCATE once.\"R e\"");
    let finding = "a leaf that pg_once did not make is over";
    assert_eq!(findings(&mut s), [finding]);
    assert_eq!(mend(&mut s, finding), 1);
    assert_eq!(findings(&mut s), [""; 0]);
}

#[test]
fn a_default_partition_in_use_is_named_where_it_keeps_a_day_away() {
    let db = database();
    let mut s = db.session();
    s.run("SET pg_once.precreate_days = 2");
    store(&mut s);
    s.run(
        "CREATE TABLE once.rest PARTITION OF once.\"Häus 'x'\" (PRIMARY KEY (key, effect)) DEFAULT",
    );
    s.run(
        "DO $$ BEGIN EXECUTE (SELECT format('DROP TABLE once.%I', leaf) FROM once.partitions
             WHERE day = (now() AT TIME ZONE 'UTC')::date + 1); END $$",
    );
    let mut reader = db.session();
    reader.run("BEGIN; SELECT count(*) FROM once.rest");
    s.run("CALL once.maintain()");
    let finding = "a day ahead is missing";
    let detail: String =
        s.get(&format!("SELECT detail FROM once.health WHERE finding = '{finding}'"));
    let by = format!("postpone: the default partition is in use by backend {}", reader.pid());
    assert!(detail.ends_with(&by), "{detail}");
    reader.run("COMMIT");
    assert_eq!(mend(&mut s, finding), 1);
    assert_eq!(
        mend(&mut s, "a leaf that pg_once did not make is over"),
        1,
        "nothing was ever in it"
    );
    assert_eq!(findings(&mut s), [""; 0]);
}
