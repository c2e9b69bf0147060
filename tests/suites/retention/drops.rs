//! Drops beside everybody else: claims go on while one waits, nobody meets a deadlock, and what stands in the
//! way is waited for in short spells only.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant as Moment};

use pg_once_tests::clock::Instant;
use pg_once_tests::race::{self, End};
use pg_once_tests::shared::clocked;

#[test]
fn claims_never_wait_for_a_drop_behind_a_reader_a_freeze_or_an_idle_transaction() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2008, 1, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut sessions = db.sessions(8);
    sessions[0].run("SELECT once.create_store('processed_events', retention => '1 hour')");
    sessions[0].run("SELECT count(*) FROM once.claim_many(ARRAY(SELECT 'old' || g FROM generate_series(1, 200000) g), '1 hour')");
    let mut idle = db.session();
    idle.run("BEGIN; SELECT count(*) FROM once.processed_events WHERE key = 'old1'");
    cluster.clock().set(noon.days(1));
    sessions[0].claim("load");
    let over = AtomicBool::new(false);
    let claims: Vec<AtomicUsize> = (0..60).map(|_| AtomicUsize::new(0)).collect();
    let longest = AtomicI64::new(0);
    let begun = Moment::now();
    race::all(&mut sessions, |number, s| {
        let mut n = 0;
        match number {
            0 => {
                let _end = End(&over);
                for _ in 0..8 {
                    s.run("CALL once.maintain()");
                }
            }
            1 => {
                while !over.load(SeqCst) {
                    s.run("VACUUM (FREEZE) once.processed_events_20080101");
                }
            }
            2 => {
                while !over.load(SeqCst) {
                    s.run("SELECT count(*) FROM once.processed_events");
                }
            }
            _ => {
                s.run("SET lock_timeout = '1s'");
                while !over.load(SeqCst) {
                    let asked = Moment::now();
                    assert!(s.claim(&format!("k{number}-{n}")));
                    n += 1;
                    longest.fetch_max(asked.elapsed().as_millis() as i64, SeqCst);
                    let tenth = (begun.elapsed().as_millis() / 200) as usize;
                    claims[tenth.min(claims.len() - 1)].fetch_add(1, SeqCst);
                }
            }
        }
    });
    let spells = (begun.elapsed().as_millis() / 200) as usize;
    let counts: Vec<usize> =
        claims[..spells.min(claims.len() - 1)].iter().map(|count| count.load(SeqCst)).collect();
    println!("claims in each fifth of a second: {counts:?}; the longest took {longest:?} ms");
    assert!(counts.len() > 10, "the drop never waited: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let s = &mut sessions[0];
    assert_eq!(s.days_of("once.processed_events")[0].day, "20080101", "it stood in the way");
    idle.run("COMMIT");
    s.run("CALL once.maintain()");
    assert_eq!(s.days_of("once.processed_events")[0].day, "20080102");
}

#[test]
fn a_thousand_drops_beside_readers_and_claims_meet_no_deadlock() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2009, 1, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut sessions = db.sessions(6);
    sessions[0].run("SET pg_once.precreate_days = 30; SELECT once.create_store('processed_events', retention => '1 hour')");
    let (over, dropped) = (AtomicBool::new(false), AtomicI64::new(0));
    let begun = Moment::now();
    let clock = cluster.clock();
    race::all(&mut sessions, |number, s| {
        let mut n = 0;
        match number {
            0 => {
                let _end = End(&over);
                let mut day = 0;
                while dropped.load(SeqCst) < 1_000 && begun.elapsed() < Duration::from_secs(300) {
                    // A month at a time; the gaps were never claimed in, so the clock has to be vouched for.
                    day += 30;
                    clock.set(noon.days(day));
                    s.run("CALL once.maintain(force => true)");
                    let count: i64 =
                        s.get("SELECT count(*) FROM once.maintenance_log WHERE action = 'drop'");
                    dropped.store(count, SeqCst);
                }
            }
            1 | 2 => {
                while !over.load(SeqCst) {
                    s.run("SELECT count(*) FROM once.processed_events");
                    n += 1;
                    std::thread::sleep(Duration::from_millis(n % 7));
                }
            }
            _ => {
                while !over.load(SeqCst) {
                    assert!(s.claim(&format!("k{number}-{n}")));
                    n += 1;
                }
            }
        }
    });
    let dropped = dropped.load(SeqCst);
    println!("{dropped} drops in {:?}", begun.elapsed());
    assert!(dropped >= 1_000, "only {dropped} drops");
}

#[test]
fn beside_a_default_partition_a_drop_holds_up_claims_for_no_longer_than_it_waits_itself() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = Instant::midnight(2008, 6, 1).plus(43_200.0);
    cluster.clock().set(noon);
    let mut sessions = db.sessions(6);
    sessions[0].run("SELECT once.create_store('processed_events', retention => '1 hour')");
    sessions[0].run(
        "CREATE TABLE once.rest PARTITION OF once.processed_events (PRIMARY KEY (key, effect)) DEFAULT;
         INSERT INTO once.processed_events (claimed_at, expires_at, key)
             SELECT clock_timestamp() - interval '40 days', clock_timestamp() + interval '9 days', 'rest' || g
               FROM generate_series(1, 50000) g",
    );
    assert!(sessions[0].claim("old"));
    // A drop changes what the default partition may hold, so it locks that one too; this keeps it waiting.
    let mut reader = db.session();
    reader.run("BEGIN; SELECT count(*) FROM once.rest");
    cluster.clock().set(noon.days(1));
    sessions[0].claim("load");
    let over = AtomicBool::new(false);
    let longest = AtomicI64::new(0);
    let spells: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
    let begun = Moment::now();
    race::all(&mut sessions, |number, s| {
        let mut n = 0;
        match number {
            0 => {
                let _end = End(&over);
                for _ in 0..5 {
                    s.run("CALL once.maintain()");
                }
            }
            1 => {
                while !over.load(SeqCst) {
                    s.run("SELECT count(*) FROM once.processed_events");
                }
            }
            _ => {
                while !over.load(SeqCst) {
                    let asked = Moment::now();
                    assert!(s.claim(&format!("k{number}-{n}")) && !s.claim("rest7"));
                    n += 1;
                    longest.fetch_max(asked.elapsed().as_millis() as i64, SeqCst);
                    let spell = (begun.elapsed().as_millis() / 500) as usize;
                    spells[spell.min(spells.len() - 1)].fetch_add(1, SeqCst);
                }
            }
        }
    });
    let whole = (begun.elapsed().as_millis() / 500) as usize;
    let counts: Vec<usize> =
        spells[..whole.min(spells.len() - 1)].iter().map(|count| count.load(SeqCst)).collect();
    println!("claims in each half second: {counts:?}; the longest two took {longest:?} ms");
    assert!(counts.len() > 5, "the drop never waited: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert!(longest.load(SeqCst) < 1_000, "{longest:?} ms");
    let s = &mut sessions[0];
    let first = "SELECT to_char(min(day), 'YYYYMMDD') FROM once.partitions";
    assert_eq!(s.get::<String>(first), "20080601", "it stood in the way");
    let said: String = s.get(
        "SELECT detail FROM once.maintenance_log WHERE action = 'postpone' AND day = '2008-06-01'",
    );
    assert!(said.starts_with("in use by "), "{said}");
    assert!(said.contains(&format!("backend {}", reader.pid())), "{said}");
    reader.run("COMMIT");
    s.run("CALL once.maintain()");
    assert_eq!(s.get::<String>(first), "20080602");
    let took: f64 = s.get("SELECT max(extract(epoch FROM took))::float8 * 1000 FROM once.maintenance_log WHERE action = 'drop'");
    println!("the drop itself took {took} ms");
}
