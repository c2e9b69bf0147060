//! An import that does not come to its end, by whatever hand: what it committed stays, and the next run
//! does the rest.

use std::time::{Duration, Instant};

use pg_once_tests::cluster::Cluster;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{cluster, database};
use pg_once_tests::wait;

use crate::counts::{FROM_OLD, OLD, import, said, try_import};

const ROWS: i64 = 60_000;

/// A source that takes a while in batches of a few hundred rows.
fn fill(s: &mut Session) {
    s.run(OLD);
    s.run(&format!(
        "INSERT INTO old SELECT 'k' || n, now() - n * interval '8 seconds' FROM generate_series(1, {ROWS}) n"
    ));
}

/// Waits until some but not all of it is there.
fn under_way(s: &mut Session) {
    wait::until("some batches are in", || {
        s.get::<bool>("SELECT EXISTS (SELECT FROM once.moved WHERE key = 'k20000')")
    });
}

/// What the first run left, and that a second does the rest.
fn finish(s: &mut Session) {
    let there: i64 = s.get("SELECT count(*) FROM once.moved");
    println!("{there} rows had been imported");
    assert!(there > 0 && there < ROWS, "{there}");
    let counts = import(s, FROM_OLD);
    assert_eq!((counts.already_there, counts.imported), (there, ROWS - there));
    assert_eq!(s.get::<i64>("SELECT count(DISTINCT key) FROM once.moved"), ROWS);
    assert_eq!(s.claimed_twice("once.moved"), [""; 0]);
}

#[test]
fn a_cancel_ends_it_at_once_and_the_next_run_does_the_rest() {
    let db = database();
    let mut s = db.session();
    fill(&mut s);
    let importing =
        db.session().background(|s| try_import(s, &format!("{FROM_OLD}, batch_size => 200")));
    under_way(&mut s);
    let asked = Instant::now();
    s.run(&format!("SELECT pg_cancel_backend({})", importing.pid()));
    let (mut session, result) = importing.join();
    assert_eq!(result.expect_err("cancelled").code, "57014");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    // The error is on its way before the locks are gone.
    wait::until("no key is locked", || s.key_locks() == 0);
    // The session is whole, and so is what it remembers.
    finish(&mut session);
}

#[test]
fn a_cancel_ends_the_wait_for_a_key_in_flight() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("INSERT INTO old VALUES ('held', now()), ('free', now())");
    let mut holder = db.session();
    holder.run("BEGIN; SELECT once.claim_once('held', store => 'moved')");
    let importing = db.session().background(|s| try_import(s, FROM_OLD));
    wait::blocked(&mut s, importing.pid());
    s.run(&format!("SELECT pg_cancel_backend({})", importing.pid()));
    assert_eq!(importing.join().1.expect_err("cancelled").code, "57014");
    holder.run("ROLLBACK");
    let counts = import(&mut s, FROM_OLD);
    assert_eq!((counts.imported, counts.already_there), (1, 1));
}

#[test]
fn a_killed_backend_takes_one_batch_along_and_the_next_run_does_the_rest() {
    let cluster = Cluster::build().durable().start();
    let db = cluster.database();
    let mut s = db.session();
    fill(&mut s);
    let importing =
        db.session().background(|s| try_import(s, &format!("{FROM_OLD}, batch_size => 200")));
    under_way(&mut s);
    db.kill(importing.pid());
    importing.join().1.expect_err("killed");
    let mut s = db.session();
    finish(&mut s);
    s.verify("once.moved", cluster.server().ships("amcheck"));
}

/// Imports while a trigger does `act` to one row: what fails, with `code`, is one batch.
fn one_row_fails(act: &str, code: &str) {
    let db = database();
    let mut s = db.session();
    fill(&mut s);
    s.run(&format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.key = 'k30000' THEN {act}; END IF; RETURN NEW; END $$;
         CREATE TRIGGER t BEFORE INSERT ON once.moved FOR EACH ROW EXECUTE FUNCTION refuse()"
    ));
    let call = format!("CALL once.import_claims({FROM_OLD}, batch_size => 1000)");
    let said = said(cluster(), &mut s, &call);
    let place = "once.import_claims() from \"public\".\"old\", pages ";
    assert_eq!(said.matches(place).count(), 1, "{said}");
    let before = said.split(place).nth(1).and_then(|rest| rest.split("; ").nth(1));
    let before: Option<i64> = before.and_then(|rest| rest.split(' ').next()?.parse().ok());
    let there: i64 = s.get("SELECT count(*) FROM once.moved");
    assert_eq!(Some(there), before, "what was said to be done is there, and nothing else: {said}");
    assert_eq!(s.fails(&call).code, code);
    assert!(!s.get::<bool>("SELECT EXISTS (SELECT FROM once.moved WHERE key = 'k29999')"));
    s.run("DROP TRIGGER t ON once.moved");
    finish(&mut s);
}

#[test]
fn a_batch_in_which_a_row_raises_is_undone_whole_and_says_where_it_was() {
    one_row_fails("RAISE 'not this one' USING ERRCODE = 'AB123'", "AB123");
}

#[test]
fn a_batch_in_which_a_row_is_refused_is_undone_whole_and_says_where_it_was() {
    one_row_fails("RETURN NULL", "27000");
}

#[test]
fn a_source_that_is_rewritten_meanwhile_is_noticed() {
    for rewrite in ["VACUUM FULL old", "TRUNCATE old"] {
        let db = database();
        let mut s = db.session();
        fill(&mut s);
        let importing =
            db.session().background(|s| try_import(s, &format!("{FROM_OLD}, batch_size => 50")));
        under_way(&mut s);
        s.run(rewrite);
        let failure = importing.join().1.expect_err("noticed");
        assert_eq!(failure.code, "55000", "{rewrite}: {failure}");
        assert!(failure.message.contains("was rewritten"), "{failure}");
        assert!(!failure.detail.is_empty() && failure.hint.contains("again"), "{failure}");
    }
}

#[test]
fn it_says_how_far_it_is_every_few_seconds() {
    let db = database();
    let mut s = db.session();
    s.run(OLD);
    s.run("ALTER TABLE old SET (fillfactor = 10); INSERT INTO old SELECT repeat('k', 30) || n, now() FROM generate_series(1, 300) n; ANALYZE old;
           CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
           CREATE TRIGGER t BEFORE INSERT ON once.moved FOR EACH ROW EXECUTE FUNCTION slow()");
    let said =
        said(cluster(), &mut s, &format!("CALL once.import_claims({FROM_OLD}, batch_size => 1)"));
    let lines: Vec<&str> =
        said.lines().filter(|line| line.starts_with("NOTICE:  moved: ")).collect();
    assert!(
        lines[0].starts_with("NOTICE:  moved: importing claims from \"public\".\"old\": "),
        "{said}"
    );
    assert!(lines[0].ends_with(", about 300 rows"), "{said}");
    let middle = &lines[1..lines.len() - 1];
    assert!(!middle.is_empty(), "{said}");
    for line in middle {
        assert!(
            line.contains(" of about ") && line.contains(" %), ") && line.ends_with(" rows/s"),
            "{line}"
        );
    }
    assert!(lines.last().expect("an end").contains("300 rows read, 300 imported"), "{said}");
}
