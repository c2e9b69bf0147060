//! Sixteen sessions on one key, each ending differently: commit, rollback, savepoint, death.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pg_once_tests::session::Session;
use pg_once_tests::shared::database;
use pg_once_tests::{race, wait};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What a session that got a true did with it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Refused,
    Committed,
    RolledBack,
    Died,
}

fn attempt(s: &mut Session, key: &str, random: &mut StdRng, mortal: bool) -> Fate {
    s.run("BEGIN");
    let savepoint = random.random_bool(0.4);
    if savepoint {
        s.run("SAVEPOINT a");
    }
    let claimed = if random.random_bool(0.3) { s.claim_many(&[key])[0].1 } else { s.claim(key) };
    if !claimed {
        s.run("COMMIT");
        return Fate::Refused;
    }
    assert!(!s.claim(key), "the winner's own second claim");
    s.run(&format!("INSERT INTO wins VALUES ('{key}')"));
    match random.random_range(0..10) {
        0..=2 => {
            s.run("ROLLBACK");
            Fate::RolledBack
        }
        3 if savepoint => {
            s.run("ROLLBACK TO a; COMMIT");
            Fate::RolledBack
        }
        4 if mortal => {
            s.try_run("SELECT pg_terminate_backend(pg_backend_pid())").expect_err("it dies");
            *s = s.another();
            Fate::Died
        }
        5..=6 if savepoint => {
            s.run("RELEASE a; COMMIT");
            Fate::Committed
        }
        _ => {
            s.run("COMMIT");
            Fate::Committed
        }
    }
}

#[test]
fn of_sixteen_sessions_on_one_key_one_commits_and_only_a_rollback_frees_it() {
    let db = database();
    let mut sessions = db.sessions(16);
    sessions[0].load();
    sessions[0].run("CREATE TABLE wins (key text)");
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    for round in 0..60_u64 {
        let key = format!("round {round}");
        let fates = race::all(&mut sessions, |number, s| {
            let mut random = StdRng::seed_from_u64(seed ^ (round * 16 + number as u64));
            attempt(s, &key, &mut random, true)
        });
        let count = |fate: Fate| fates.iter().filter(|f| **f == fate).count();
        assert!(count(Fate::Committed) <= 1, "seed {seed}, round {round}: {fates:?}");
        if count(Fate::Committed) == 0 {
            // With no winner nobody may have been refused: each got the key in turn.
            assert_eq!(count(Fate::Refused), 0, "seed {seed}, round {round}: {fates:?}");
        }
        let free = sessions[0].claim(&key);
        assert_eq!(free, count(Fate::Committed) == 0, "seed {seed}, round {round}: {fates:?}");
    }
    let s = &mut sessions[0];
    assert_eq!(
        s.column::<String>("SELECT key FROM wins GROUP BY key HAVING count(*) > 1"),
        [""; 0]
    );
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
    s.verify("once.processed_events", db.cluster().server().ships("amcheck"));
}

#[test]
fn sixteen_sessions_over_many_keys_with_maintenance_beside_give_each_key_to_one() {
    let db = database();
    let mut sessions = db.sessions(16);
    sessions[0].load();
    sessions[0].run("CREATE TABLE wins (key text)");
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let stop = over.clone();
    let maintenance = db.session().background(move |s| {
        while !stop.load(Ordering::Relaxed) {
            s.run("CALL once.maintain()");
            s.run("ANALYZE once.processed_events");
        }
    });
    let end = Instant::now() + Duration::from_secs(6);
    let attempts: usize = race::all(&mut sessions, |number, s| {
        let mut random = StdRng::seed_from_u64(seed ^ number as u64);
        let mut attempts = 0;
        while Instant::now() < end {
            let key = format!("k{}", random.random_range(0..1000));
            attempt(s, &key, &mut random, false);
            attempts += 1;
        }
        attempts
    })
    .iter()
    .sum();
    over.store(true, Ordering::Relaxed);
    maintenance.join();
    let s = &mut sessions[0];
    println!("{attempts} attempts, {} wins", s.get::<i64>("SELECT count(*) FROM wins"));
    assert!(attempts > 1000);
    assert_eq!(
        s.column::<String>("SELECT key FROM wins GROUP BY key HAVING count(*) > 1"),
        [""; 0]
    );
    let differ: i64 = s.get(
        "SELECT count(*) FROM (SELECT key FROM once.processed_events WHERE key <> 'load' AND key NOT LIKE 'behind %') p
           FULL JOIN wins w USING (key) WHERE p.key IS NULL OR w.key IS NULL",
    );
    assert_eq!(
        differ, 0,
        "seed {seed}: a claim without its effect, or an effect without its claim"
    );
    assert_eq!(s.claimed_twice("once.processed_events"), [""; 0]);
}

#[test]
fn when_a_holder_gives_up_exactly_one_of_fifteen_waiters_gets_the_key_at_a_time() {
    let db = database();
    let (mut holder, mut observer) = (db.session(), db.session());
    holder.load();
    holder.run("BEGIN");
    assert!(holder.claim("k"));
    let won = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let waiters: Vec<_> = (0..15)
        .map(|number| {
            let won = won.clone();
            db.session().background(move |s| {
                s.run("BEGIN");
                let claimed = s.claim("k");
                if claimed {
                    let mut won = won.lock().expect("no panic holds it");
                    won.push(number);
                    // Only one of them is between its claim and its rollback.
                    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.lookup('k')"), 1);
                    s.run(if won.len() < 15 { "ROLLBACK" } else { "COMMIT" });
                } else {
                    s.run("COMMIT");
                }
                claimed
            })
        })
        .collect();
    for waiter in &waiters {
        wait::blocked(&mut observer, waiter.pid());
    }
    holder.run("ROLLBACK");
    let answers: Vec<bool> = waiters.into_iter().map(|waiter| waiter.join().1).collect();
    assert_eq!(race::trues(&answers), 15, "fourteen rolled back, so each got it in turn");
    assert!(!holder.claim("k"), "the last one committed");
}

#[test]
fn a_client_that_is_killed_frees_its_key() {
    let db = database();
    let mut observer = db.session();
    observer.load();
    let mut client = db.cluster().client("psql");
    client
        .args(["-d", db.name(), "-qAtX"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null());
    let mut psql = client.spawn().expect("psql starts");
    {
        use std::io::Write;
        let mut input = psql.stdin.as_ref().expect("a pipe");
        input.write_all(b"BEGIN;\nSELECT once.claim_once('k');\n").expect("psql reads");
    }
    wait::until("psql has the key", || {
        observer.get::<bool>(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'idle in transaction'
                              AND query LIKE 'SELECT once.claim_once%' AND datname = current_database())",
        )
    });
    let mut waiters = db.sessions(16);
    let pid = psql.id().cast_signed();
    let killer = db.session().background(move |s| {
        wait::until("all sixteen wait", || {
            s.get::<i64>("SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted
                           AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())") == 16
        });
        pg_once_tests::hang::kill(pid);
    });
    let answers = race::all(&mut waiters, |_, s| s.claim("k"));
    killer.join();
    psql.wait().expect("it is dead");
    assert_eq!(race::trues(&answers), 1);
}
