//! A backend or the server killed between claim, answer, release and commit. This cluster flushes as a real one does.

use pg_once_tests::cluster::Cluster;
use pg_once_tests::database::Database;
use pg_once_tests::session::Session;

/// Each key at another point of its life, in flight in a transaction of its own.
fn in_flight(db: &Database<'_>, round: &str) -> Vec<Session> {
    let mut s = db.session();
    for stage in ["answering", "releasing", "answered", "released"] {
        s.claim(&format!("{stage} {round}"));
    }
    s.run(&format!("SELECT once.complete('answered {round}', '1'); SELECT once.release('released {round}', 'test')"));
    [
        format!("SELECT once.claim_once('claiming {round}')"),
        format!(
            "SELECT once.claim_once('both {round}'); SELECT once.complete('both {round}', '1')"
        ),
        format!("SELECT once.complete('answering {round}', '1')"),
        format!("SELECT once.release('releasing {round}', 'test')"),
    ]
    .into_iter()
    .map(|what| {
        let mut s = db.session();
        s.run(&format!("BEGIN; {what}"));
        s
    })
    .collect()
}

fn stands_as_committed(db: &Database<'_>, round: &str) {
    let mut s = db.session();
    let mut told = |stage: &str| -> String {
        s.get(&format!(
            "SELECT outcome::text || coalesce(' ' || result::text, '') FROM once.claim('{stage} {round}')"
        ))
    };
    for (stage, expected) in [
        ("claiming", "claimed"),
        ("both", "claimed"),
        ("answering", "duplicate"),
        ("answered", "duplicate 1"),
        ("releasing", "duplicate"),
        ("released", "claimed"),
    ] {
        assert_eq!(told(stage), expected, "{stage} {round}");
    }
    assert!(s.get::<bool>(&format!("SELECT once.complete('answering {round}', '2')")));
    assert_eq!(s.fails(&format!("SELECT once.complete('answered {round}', '2')")).code, "OC007");
    let logged =
        format!("SELECT string_agg(key, ',') FROM once.release_log WHERE key LIKE '% {round}'");
    assert_eq!(s.get::<String>(&logged), format!("released {round}"));
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn what_was_in_flight_at_a_kill_is_undone_and_what_was_committed_stands() {
    let cluster = Cluster::build().durable().start();
    let db = cluster.database();
    db.session().load();
    for (victim, round) in
        ["by a claim", "by both", "by an answer", "by a release"].iter().enumerate()
    {
        let sessions = in_flight(&db, round);
        db.kill(sessions[victim].pid());
        drop(sessions);
        stands_as_committed(&db, round);
    }
    let sessions = in_flight(&db, "server");
    cluster.crash_and_restart();
    drop(sessions);
    stands_as_committed(&db, "server");
}
