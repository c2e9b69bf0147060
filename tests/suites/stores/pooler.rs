//! Behind a transaction pooler: nothing of a claim belongs to the session.

use pg_once_tests::pooler::Pooler;
use pg_once_tests::shared::database;

#[test]
fn fifty_clients_on_two_connections_claim_each_key_once_and_leave_nothing_behind() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("CREATE TABLE wins (key text)");
    let pooler = Pooler::start(db.cluster(), 2);
    std::thread::scope(|scope| {
        for number in 0..50 {
            let (pooler, db) = (&pooler, &db);
            scope.spawn(move || {
                let mut client = pooler.client(db.name());
                for n in 0..20 {
                    let key = format!("k{}", (n + number) % 40);
                    client.query("BEGIN").expect("a plain statement");
                    let answer = client
                        .query(&format!("SELECT once.claim_once('{key}')"))
                        .expect("an answer");
                    if answer == ["t"] {
                        client
                            .query(&format!("INSERT INTO wins VALUES ('{key}')"))
                            .expect("a plain insert");
                    }
                    // Some roll back, and some clients vanish in the middle of their transaction.
                    match (number + n) % 7 {
                        0 => drop(client.query("ROLLBACK").expect("a plain statement")),
                        1 if n == 19 => return,
                        _ => drop(client.query("COMMIT").expect("a plain statement")),
                    }
                }
            });
        }
    });
    let mut client = pooler.client(db.name());
    for n in 0..40 {
        let key = format!("k{n}");
        let won = s.get_with::<i64>("SELECT count(*) FROM wins WHERE key = $1", &[&key]);
        assert!(won <= 1, "{key} was won {won} times");
        let answer = client.query(&format!("SELECT once.claim_once('{key}')")).expect("an answer");
        assert_eq!(answer, [if won == 1 { "f" } else { "t" }], "{key}");
    }
    let left: Vec<String> = s.column(
        "SELECT locktype || ' ' || mode FROM pg_locks
          WHERE pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())",
    );
    assert_eq!(left, [""; 0], "nothing survives the transaction");
    for (what, query) in [
        ("temporary tables", "SELECT count(*)::text FROM pg_class WHERE relpersistence = 't'"),
        ("prepared statements", "SELECT count(*)::text FROM pg_prepared_statements"),
        (
            "settings",
            "SELECT count(*)::text FROM pg_settings WHERE source = 'session' AND name NOT LIKE 'client_%' AND name <> 'application_name'",
        ),
        (
            "advisory locks",
            "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        ),
    ] {
        for _ in 0..4 {
            assert_eq!(client.query(query).expect("an answer"), ["0"], "{what}");
        }
    }
}
