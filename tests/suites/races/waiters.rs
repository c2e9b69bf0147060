//! Two hundred pooled clients behind one claim that does not end. All of them wait on the server: its
//! `max_connections` and the pool admit them at once. Each wait can be bounded and cancelled, and when the claimer
//! dies exactly one of them gets the key.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use pg_once_tests::cluster::Cluster;
use pg_once_tests::database::Database;
use pg_once_tests::failure::Failure;
use pg_once_tests::pooler::Pooler;
use pg_once_tests::session::Session;
use pg_once_tests::wait;

const CLIENTS: usize = 200;
/// Server connections of the pool: room for them and the claimer.
const POOL: u32 = 220;

const CLAIM: &str = "SELECT once.claim_once('k')";

/// A database of a cluster that admits all of them, behind a pooler.
struct Crowd<'c> {
    db: Database<'c>,
    pooler: Pooler,
    observer: Session,
}

fn cluster() -> Cluster {
    Cluster::build().set("max_connections", &(POOL + 20).to_string()).start()
}

impl Crowd<'_> {
    fn before(cluster: &Cluster) -> Crowd<'_> {
        let db = cluster.database();
        let mut observer = db.session();
        observer.load();
        // A wait that would last for ever ends with an error, which no test here takes for an answer.
        observer.run(&format!("ALTER DATABASE {} SET statement_timeout = '100s'", db.name()));
        let pooler = Pooler::start(cluster, POOL);
        Crowd { db, pooler, observer }
    }

    /// Lets every client run the statements, calls `act` meanwhile, and returns what each was told.
    fn ask(
        &mut self,
        sql: &str,
        act: impl FnOnce(&mut Session),
    ) -> Vec<Result<Vec<String>, Failure>> {
        let clients: Vec<_> = (0..CLIENTS).map(|_| self.pooler.client(self.db.name())).collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .into_iter()
                .map(|mut client| scope.spawn(move || client.query(sql)))
                .collect();
            act(&mut self.observer);
            threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
        })
    }

    /// The same, and `act` is called when all of them wait on the server for a transaction to end.
    fn ask_while_all_wait(
        &mut self,
        act: impl FnOnce(&mut Session),
    ) -> Vec<Result<Vec<String>, Failure>> {
        self.ask(CLAIM, |observer| {
            wait::until("all two hundred wait on the server", || waiting(observer) == CLIENTS);
            act(observer);
        })
    }

    /// Whether the key is held by somebody who has not ended.
    fn in_progress(&mut self) -> bool {
        let outcome = "SELECT outcome::text FROM once.claim('k', wait => false)";
        self.observer.get::<String>(outcome) == "in_progress"
    }
}

/// How many backends wait for a transaction to end.
fn waiting(observer: &mut Session) -> usize {
    let count: i64 = observer.get(
        "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted",
    );
    count as usize
}

/// A client process that has claimed the key and sits in its transaction.
fn claimer(mut psql: Command, crowd: &mut Crowd<'_>) -> Child {
    psql.args(["-X", "-q", "-d", crowd.db.name()]);
    let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("psql starts");
    let input = child.stdin.as_mut().expect("a pipe");
    input.write_all(format!("BEGIN;\n{CLAIM};\n").as_bytes()).expect("psql reads");
    // Asking claims the key where nobody has it yet; that is taken back.
    wait::until("the claimer has claimed", || {
        crowd.observer.run("BEGIN");
        let held = crowd.in_progress();
        crowd.observer.run("ROLLBACK");
        held
    });
    child
}

/// Codes of the errors, and for an answer the answer: each with how often it came.
fn told(answers: &[Result<Vec<String>, Failure>]) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for answer in answers {
        let said = match answer {
            Ok(rows) => rows.join(","),
            Err(failure) => failure.code.clone(),
        };
        *counts.entry(said).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

#[test]
fn when_the_claimers_process_is_killed_one_of_two_hundred_waiters_gets_the_key() {
    let cluster = cluster();
    for through_the_pooler in [false, true] {
        let mut crowd = Crowd::before(&cluster);
        let mut psql = cluster.client("psql");
        if through_the_pooler {
            let (folder, port) = crowd.pooler.place();
            psql.env("PGHOST", folder).env("PGPORT", port.to_string());
        }
        let mut first = claimer(psql, &mut crowd);
        let answers = crowd.ask_while_all_wait(|_| first.kill().expect("SIGKILL"));
        first.wait().expect("it was started here");
        assert_eq!(told(&answers), [("f".to_owned(), CLIENTS - 1), ("t".to_owned(), 1)]);
        assert_eq!(crowd.observer.leaves_of("k").len(), 1);
        assert!(!crowd.observer.claim("k"));
    }
}

#[test]
fn a_wait_that_is_bounded_or_cancelled_ends_with_its_error_and_with_no_answer() {
    let cluster = cluster();
    let mut crowd = Crowd::before(&cluster);
    let mut first = claimer(cluster.client("psql"), &mut crowd);
    for (bound, code) in [("lock_timeout", "55P03"), ("statement_timeout", "57014")] {
        let answers = crowd.ask(&format!("BEGIN; SET LOCAL {bound} = '2s'; {CLAIM}"), |_| ());
        assert_eq!(told(&answers), [(code.to_owned(), CLIENTS)], "{bound}");
    }
    // On the server: a request to cancel whose client hangs up early ends pgbouncer 1.18 itself.
    let answers = crowd.ask_while_all_wait(|observer| {
        observer.run(
            "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted",
        );
        // Long before the bound on every statement here, which would end them with the same error.
        wait::until("nobody waits", || waiting(observer) == 0);
    });
    assert_eq!(told(&answers), [("57014".to_owned(), CLIENTS)]);
    assert!(crowd.in_progress(), "the claimer has lost nothing");
    let answers = crowd.ask_while_all_wait(|_| {
        let input = first.stdin.as_mut().expect("a pipe");
        input.write_all(b"COMMIT;\n").expect("psql reads");
    });
    assert_eq!(told(&answers), [("f".to_owned(), CLIENTS)]);
    drop(first.stdin.take());
    assert!(first.wait().expect("it was started here").success());
    assert_eq!(crowd.observer.key_locks(), 0);
}
