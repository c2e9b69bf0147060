//! Drops beside everybody else: claims go on while one waits, nobody meets a deadlock, and what stands in the
//! way is waited for in short spells only.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant as Moment};

use pg_once_tests::clock::Instant;
use pg_once_tests::race;
use pg_once_tests::shared::clocked;

/// Ends what goes on beside a session, however that session ends.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

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
