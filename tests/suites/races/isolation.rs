//! The isolation matrix: {READ COMMITTED, REPEATABLE READ, SERIALIZABLE} x {winner commits, rolls
//! back, dies} x {same day, across midnight, expired today, expired in an older leaf} x {single,
//! batch}, each with a loser that waits and one that comes afterwards with an old snapshot.

use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::database::Database;
use pg_once_tests::failure::Failure;
use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;
use pg_once_tests::wait;

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
const ENDINGS: [&str; 3] = ["commits", "rolls back", "dies"];
const TIMES: [&str; 4] =
    ["same day", "across midnight", "expired today", "expired in an older leaf"];

/// One cell of the matrix.
struct Cell {
    level: &'static str,
    ending: &'static str,
    time: &'static str,
    batch: bool,
    key: String,
}

impl Cell {
    fn all() -> Vec<Cell> {
        let mut cells = Vec::new();
        for level in LEVELS {
            for ending in ENDINGS {
                for time in TIMES {
                    for batch in [false, true] {
                        let key = format!("{level}, winner {ending}, {time}, batch {batch}");
                        cells.push(Cell { level, ending, time, batch, key });
                    }
                }
            }
        }
        cells
    }

    fn claim(&self, s: &mut Session) -> Result<bool, Failure> {
        claim(s, &self.key, self.batch)
    }

    /// What a loser must answer that took its snapshot before the winner was done.
    fn expected(&self) -> Result<bool, &'static str> {
        match (self.ending, self.level) {
            ("commits", "READ COMMITTED") => Ok(false),
            ("commits", _) => Err("40001"),
            _ => Ok(true),
        }
    }
}

fn claim(s: &mut Session, key: &str, batch: bool) -> Result<bool, Failure> {
    if !batch {
        return s.try_claim(key);
    }
    let (before, after) = (format!("a {key} {}", s.pid()), format!("z {key} {}", s.pid()));
    let answers = s.try_claim_many(&[&after, key, &before])?;
    assert!(answers[0].1 && answers[2].1, "the rest of the batch is claimed");
    Ok(answers[1].1)
}

fn end(winner: Session, observer: &mut Session, ending: &str) {
    let mut winner = winner;
    match ending {
        "commits" => winner.run("COMMIT"),
        "rolls back" => winner.run("ROLLBACK"),
        _ => {
            observer.run(&format!("SELECT pg_terminate_backend({})", winner.pid()));
            wait::gone(observer, winner.pid());
        }
    }
}

/// Brings the clock, and the key's earlier claim where there is one, to where the winner claims.
fn set_scene(cluster: &Cluster, db: &Database<'_>, cell: &Cell, midnight: Instant) {
    let mut s = db.session();
    match cell.time {
        "same day" => cluster.clock().set(midnight.plus(40_000.0)),
        "across midnight" => cluster.clock().set(midnight.plus(-30.0)),
        "expired today" => {
            cluster.clock().set(midnight.plus(40_000.0));
            assert!(s.claim(&cell.key));
            cluster.clock().set(midnight.plus(44_000.0));
        }
        _ => {
            cluster.clock().set(midnight.plus(-4_000.0));
            assert!(s.claim(&cell.key));
            cluster.clock().set(midnight.plus(40_000.0));
            s.run("CALL once.maintain()");
        }
    }
    s.claim("the day is there");
}

fn settle(
    cell: &Cell,
    db: &Database<'_>,
    loser: Session,
    answer: Result<bool, Failure>,
    what: &str,
) {
    let mut loser = loser;
    let told = answer.as_ref().map_err(|failure| failure.code.as_str()).copied();
    assert_eq!(told, cell.expected(), "{}: {what}: {answer:?}", cell.key);
    if let Err(failure) = &answer {
        assert!(!failure.message.is_empty());
        loser.run("ROLLBACK");
        // What a client does with 40001: once more, and now it is an answer.
        loser.run(&format!("BEGIN ISOLATION LEVEL {}", cell.level));
        assert_eq!(cell.claim(&mut loser), Ok(false), "{}: {what}, again", cell.key);
    }
    loser.run("COMMIT");
    assert!(!db.session().claim(&cell.key), "{}: {what}: somebody has it", cell.key);
}

#[test]
fn a_loser_that_waits_is_told_what_its_isolation_level_promises() {
    let cluster = clocked();
    let db = cluster.database();
    let midnight = Instant::midnight(2020, 2, 1);
    let mut observer = db.session();
    cluster.clock().set(midnight.plus(-7_200.0));
    observer.load();
    for cell in Cell::all() {
        set_scene(&cluster, &db, &cell, midnight);
        let mut winner = db.session();
        winner.run(&format!("BEGIN ISOLATION LEVEL {}", cell.level));
        assert_eq!(cell.claim(&mut winner), Ok(true), "{}", cell.key);
        if cell.time == "across midnight" {
            cluster.clock().set(midnight.plus(30.0));
        }
        let mut loser = db.session();
        loser.run(&format!("BEGIN ISOLATION LEVEL {}; SELECT 1", cell.level));
        let (key, batch) = (cell.key.clone(), cell.batch);
        let waiting = loser.background(move |s| claim(s, &key, batch));
        wait::blocked(&mut observer, waiting.pid());
        end(winner, &mut observer, cell.ending);
        let (loser, answer) = waiting.join();
        settle(&cell, &db, loser, answer, "waited");
    }
    assert_eq!(observer.claimed_twice("once.processed_events"), [""; 0]);
    assert_eq!(observer.overlapping("once.processed_events"), [""; 0]);
}

#[test]
fn a_loser_that_comes_afterwards_with_an_old_snapshot_is_told_the_same() {
    let cluster = clocked();
    let db = cluster.database();
    let midnight = Instant::midnight(2020, 3, 1);
    let mut observer = db.session();
    cluster.clock().set(midnight.plus(-7_200.0));
    observer.load();
    for cell in Cell::all() {
        set_scene(&cluster, &db, &cell, midnight);
        let mut loser = db.session();
        loser.run(&format!("BEGIN ISOLATION LEVEL {}; SELECT 1", cell.level));
        let mut winner = db.session();
        winner.run("BEGIN");
        assert_eq!(cell.claim(&mut winner), Ok(true), "{}", cell.key);
        if cell.time == "across midnight" {
            cluster.clock().set(midnight.plus(30.0));
        }
        end(winner, &mut observer, cell.ending);
        let answer = cell.claim(&mut loser);
        settle(&cell, &db, loser, answer, "came afterwards");
    }
    assert_eq!(observer.claimed_twice("once.processed_events"), [""; 0]);
    assert_eq!(observer.overlapping("once.processed_events"), [""; 0]);
}

#[test]
fn a_snapshot_taken_after_the_winner_committed_sees_a_plain_duplicate() {
    let cluster = clocked();
    let db = cluster.database();
    let midnight = Instant::midnight(2020, 4, 1);
    cluster.clock().set(midnight.plus(-7_200.0));
    let mut s = db.session();
    s.load();
    for level in LEVELS {
        for batch in [false, true] {
            let key = format!("{level} {batch}");
            cluster.clock().set(midnight.plus(-30.0));
            assert!(s.claim(&key));
            for later in [-10.0, 30.0] {
                cluster.clock().set(midnight.plus(later));
                let mut loser = db.session();
                loser.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1"));
                assert_eq!(claim(&mut loser, &key, batch), Ok(false), "{key}, {later}");
                assert!(loser.claim(&format!("{key} {later} goes on")));
                loser.run("COMMIT");
            }
        }
    }
}

#[test]
fn at_every_level_a_transactions_own_second_claim_is_a_duplicate() {
    let cluster = clocked();
    let db = cluster.database();
    let midnight = Instant::midnight(2020, 5, 1);
    cluster.clock().set(midnight.plus(-7_200.0));
    let mut s = db.session();
    s.load();
    for level in LEVELS {
        cluster.clock().set(midnight.plus(-30.0));
        s.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1"));
        assert!(s.claim(level));
        assert!(!s.claim(level));
        cluster.clock().set(midnight.plus(30.0));
        assert!(!s.claim(level), "{level}: across midnight");
        assert!(!s.claim_many(&[level])[0].1, "{level}: across midnight");
        s.run("COMMIT");
        assert!(!s.claim(level));
    }
}

#[test]
fn two_serializable_transactions_that_claim_and_write_apart_both_commit() {
    let cluster = clocked();
    let db = cluster.database();
    cluster.clock().set(Instant::midnight(2020, 6, 1).plus(40_000.0));
    let (mut a, mut b) = (db.session(), db.session());
    a.load();
    for round in 0..20 {
        a.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1");
        b.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1");
        assert!(a.claim(&format!("a{round}")) && b.claim(&format!("b{round}")));
        a.run("COMMIT");
        b.run("COMMIT");
    }
}
