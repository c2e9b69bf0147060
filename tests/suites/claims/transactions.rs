//! Same fate: a claim is there if and only if its transaction, or its savepoint, committed; and a
//! duplicate never harms the caller's transaction.

use pg_once_tests::shared::database;
use pg_once_tests::{race, wait};

#[test]
fn a_duplicate_is_an_answer_and_the_transaction_goes_on() {
    let db = database();
    let mut s = db.session();
    s.run("CREATE TABLE orders (id int); BEGIN");
    assert!(s.claim("k"));
    assert!(!s.claim("k"));
    s.run("INSERT INTO orders VALUES (1); COMMIT");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM orders"), 1);
    s.run("BEGIN");
    assert!(!s.claim("k"));
    s.run("INSERT INTO orders VALUES (2); COMMIT");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM orders"), 2);
}

#[test]
fn a_failure_after_the_claim_takes_the_claim_along() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN");
    assert!(s.claim("k"));
    assert_eq!(s.fails("SELECT 1 / 0").code, "22012");
    assert_eq!(s.fails("SELECT once.claim_once('k')").code, "25P02");
    s.run("COMMIT");
    assert!(s.claim("k"));
    assert_eq!(s.fails("SELECT once.claim_once('m'), 1 / (random() * 0)::int").code, "22012");
    assert!(s.claim("m"), "a claim in a statement that fails is undone with it");
}

#[test]
fn rolling_back_to_a_savepoint_frees_the_key_and_releasing_one_does_not() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("BEGIN; SAVEPOINT a");
    assert!(s.claim("k"));
    s.run("ROLLBACK TO a");
    assert!(s.claim("k"));
    assert!(!s.claim("k"));
    s.run("SAVEPOINT b");
    assert!(!s.claim("k"));
    assert!(s.claim("l"));
    s.run("RELEASE b");
    assert!(!s.claim("l"));
    s.run("SAVEPOINT c; SAVEPOINT d");
    assert!(s.claim("m"));
    s.run("RELEASE d; ROLLBACK TO c");
    assert!(s.claim("m"));
    s.run("COMMIT");
    assert!(!s.claim("k") && !s.claim("l") && !s.claim("m"));
}

#[test]
fn a_key_freed_by_a_savepoint_goes_to_the_waiter_before_the_transaction_ends() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    s.claim("load");
    s.run("BEGIN; SAVEPOINT a");
    assert!(s.claim("k"));
    let waiting = db.session().background(|s| s.claim("k"));
    wait::blocked(&mut observer, waiting.pid());
    s.run("ROLLBACK TO a");
    assert!(waiting.join().1, "the waiter gets the key");
    assert!(!s.claim("k"), "and the transaction that gave it up does not get it back");
    s.run("COMMIT");
}

#[test]
fn a_released_savepoint_still_makes_others_wait_for_the_whole_transaction() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    s.claim("load");
    for (key, ending, expected) in [("k", "COMMIT", false), ("l", "ROLLBACK", true)] {
        s.run("BEGIN; SAVEPOINT a");
        assert!(s.claim(key));
        s.run("RELEASE a");
        let waiting = db.session().background(move |s| s.claim(key));
        wait::blocked(&mut observer, waiting.pid());
        s.run(ending);
        assert_eq!(waiting.join().1, expected);
    }
}

#[test]
fn a_key_released_into_an_outer_savepoint_that_rolls_back_is_free_for_whoever_asks_then() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    s.claim("load");
    s.run("BEGIN; SAVEPOINT outer_one; SAVEPOINT inner_one");
    assert!(s.claim("k") && s.claim("l"));
    s.run("RELEASE inner_one");
    // PostgreSQL makes one who waits for a released subtransaction wait for the whole transaction.
    let waiting = db.session().background(|s| s.claim("k"));
    wait::blocked(&mut observer, waiting.pid());
    s.run("ROLLBACK TO outer_one");
    assert!(observer.claim("l"), "free at once for one who asks now");
    assert!(!s.claim("l"));
    s.run("COMMIT");
    assert!(waiting.join().1, "and for one who waited when the transaction ends");
}

#[test]
fn plpgsql_exception_blocks_undo_their_own_claims_only() {
    let db = database();
    let mut s = db.session();
    s.run(
        "DO $$
         DECLARE a bool; b bool; c bool; d bool;
         BEGIN
             a := once.claim_once('outer');
             BEGIN
                 b := once.claim_once('inner');
                 RAISE EXCEPTION 'no';
             EXCEPTION WHEN raise_exception THEN NULL;
             END;
             c := once.claim_once('outer');
             d := once.claim_once('inner');
             IF (a, b, c, d) IS DISTINCT FROM (true, true, false, true) THEN
                 RAISE 'got % % % %', a, b, c, d;
             END IF;
         END $$",
    );
    assert!(!s.claim("outer") && !s.claim("inner"));
}

#[test]
fn a_refused_claim_can_be_caught_and_the_transaction_goes_on() {
    let db = database();
    let mut s = db.session();
    s.run(
        "DO $$
         BEGIN
             FOR i IN 1..200 LOOP
                 BEGIN
                     PERFORM once.claim_once('good' || i);
                     PERFORM once.claim_once('');
                     RAISE 'not refused';
                 EXCEPTION WHEN invalid_parameter_value THEN NULL;
                 END;
                 IF NOT once.claim_once('good' || i) THEN RAISE 'not freed'; END IF;
             END LOOP;
         END $$",
    );
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.processed_events"), 200);
}

#[test]
fn a_procedure_that_commits_between_claims_keeps_each() {
    let db = database();
    let mut s = db.session();
    s.run(
        "CREATE PROCEDURE work() LANGUAGE plpgsql AS $$
         BEGIN
             FOR i IN 1..6 LOOP
                 IF NOT once.claim_once('p' || i) THEN RAISE 'p% refused', i; END IF;
                 IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF;
             END LOOP;
         END $$",
    );
    s.run("CALL work()");
    let kept: Vec<String> = s.column("SELECT key FROM once.processed_events ORDER BY key");
    assert_eq!(kept, ["p2", "p4", "p6"]);
}

#[test]
fn a_cursor_claims_as_it_is_read() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run(
        "BEGIN; DECLARE c CURSOR FOR SELECT once.claim_once('c' || g) FROM generate_series(1, 3) g",
    );
    assert_eq!(s.column::<bool>("FETCH 1 FROM c"), [true]);
    assert!(s.claim("c3"));
    s.run("SAVEPOINT a");
    assert_eq!(s.column::<bool>("FETCH 1 FROM c"), [true]);
    s.run("ROLLBACK TO a");
    assert!(s.claim("c2"), "undone by the savepoint");
    assert_eq!(s.column::<bool>("FETCH 1 FROM c"), [false], "c3 was claimed outside");
    s.run("COMMIT");
    s.run("BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT once.claim_once('h' || g) FROM generate_series(1, 3) g; COMMIT");
    assert_eq!(s.column::<bool>("FETCH ALL FROM h"), [true, true, true]);
    assert!(!s.claim("h1") && !s.claim("h3"), "a held cursor is read to its end at commit");
}

#[test]
fn one_statement_that_claims_twice_gets_true_then_false() {
    let db = database();
    let mut s = db.session();
    let row = &s.rows("SELECT once.claim_once('k'), once.claim_once('k')", &[])[0];
    assert_eq!((row.get(0), row.get(1)), (true, false));
    let answers: Vec<bool> = s.column("SELECT once.claim_once('g') FROM generate_series(1, 4)");
    assert_eq!(answers, [true, false, false, false]);
    let mixed: i64 = s.get(
        "WITH a AS MATERIALIZED (SELECT once.claim_once('w') AS c), b AS MATERIALIZED (SELECT claimed AS c FROM once.claim_many('{w,w}'))
         SELECT count(*) FROM (SELECT c FROM a UNION ALL SELECT c FROM b) u WHERE c",
    );
    assert_eq!(mixed, 1);
}

#[test]
fn the_claim_is_visible_to_the_next_statement_of_its_transaction() {
    let db = database();
    let mut s = db.session();
    for begin in
        ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE"]
    {
        s.run(begin);
        assert!(s.claim(begin));
        let seen: i64 =
            s.get_with("SELECT count(*) FROM once.processed_events WHERE key = $1", &[&begin]);
        assert_eq!(seen, 1, "{begin}");
        s.run("COMMIT");
    }
}

#[test]
fn a_prepared_transaction_holds_its_claims_until_it_is_settled() {
    let db = database();
    let (mut s, mut observer) = (db.session(), db.session());
    s.claim("load");
    for (key, ending, expected) in [("k", "COMMIT", false), ("l", "ROLLBACK", true)] {
        let gid = format!("{}-{key}", db.name());
        s.run("BEGIN");
        assert!(s.claim(key));
        assert!(s.claim_many(&[&format!("{key}2")])[0].1);
        s.run(&format!("PREPARE TRANSACTION '{gid}'"));
        assert_eq!(
            observer.get::<String>(&format!(
                "SELECT outcome::text FROM once.claim('{key}', wait => false)"
            )),
            "in_progress"
        );
        let waiting = db.session().background(move |s| s.claim(key));
        wait::until("the claim waits for the prepared transaction", || {
            observer.get_with::<bool>(
                "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)",
                &[&waiting.pid()],
            )
        });
        assert!(s.claim(&format!("{key}3")), "the session that prepared goes on");
        s.run(&format!("{ending} PREPARED '{gid}'"));
        assert_eq!(waiting.join().1, expected);
    }
}

#[test]
fn a_trigger_may_claim() {
    let db = database();
    let mut s = db.session();
    s.run(
        "CREATE TABLE inbox (id text, fresh bool);
         CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.fresh := once.claim_once(NEW.id); RETURN NEW; END $$;
         CREATE TRIGGER mark BEFORE INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION mark();
         INSERT INTO inbox SELECT 'm' || g % 5 FROM generate_series(0, 9) g",
    );
    assert_eq!(s.get::<i64>("SELECT count(*) FROM inbox WHERE fresh"), 5);
}

#[test]
fn a_claim_inside_a_parallel_query_is_made_by_the_leader() {
    let db = database();
    let mut s = db.session();
    let setting = if db.cluster().server().major >= 16 {
        "debug_parallel_query"
    } else {
        "force_parallel_mode"
    };
    s.run(&format!("SET {setting} = on; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0"));
    s.run(
        "CREATE TABLE many AS SELECT g % 500 AS id FROM generate_series(1, 1000) g; ANALYZE many",
    );
    assert_eq!(s.get::<i64>("SELECT count(*) FROM many WHERE once.claim_once(id)"), 500);
}

#[test]
fn a_session_that_is_terminated_frees_its_keys_for_exactly_one_waiter() {
    let db = database();
    let (mut holder, mut observer) = (db.session(), db.session());
    holder.claim("load");
    for round in 0..3 {
        let key = format!("k{round}");
        let mut holder = db.session();
        holder.run("BEGIN");
        assert!(holder.claim(&key));
        let mut waiters = db.sessions(4);
        let pids: Vec<i32> = waiters.iter().map(|s| s.pid()).collect();
        let killer = db.session().background(move |s| {
            pids.iter().for_each(|pid| wait::blocked(s, *pid));
            s.run(&format!("SELECT pg_terminate_backend({})", holder.pid()));
        });
        let answers = race::all(&mut waiters, |_, s| s.claim(&key));
        assert_eq!(race::trues(&answers), 1);
        killer.join();
    }
    assert_eq!(observer.claimed_twice("once.processed_events"), [""; 0]);
}
