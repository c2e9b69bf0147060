//! Sixteen sessions over keys of sealed days and new ones, one by one and in batches, with passes and smuggled rows
//! beside them: with filters, without, and with half of the days voided all the time.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pg_once_tests::race;
use pg_once_tests::shared::clocked;
use pg_once_tests::wait;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::scene::{LEAF, Scene, claim, noon, sealed, smuggle};

/// For some seconds; the number of claims.
#[track_caller]
fn storm(scene: &mut Scene<'_>, half: bool, seed: u64) -> usize {
    let won: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let end = Instant::now() + Duration::from_millis(2_500);
    let mut sessions = scene.db.sessions(16);
    let counts = race::all(&mut sessions, |number, s| {
        let mut random = StdRng::seed_from_u64(seed ^ (number as u64) << 7);
        let (mut count, mut round) = (0, 0);
        while Instant::now() < end {
            round += 1;
            match number {
                0 => {
                    s.run("CALL once.maintain()");
                    continue;
                }
                1 if half => {
                    let late = format!("late {round}");
                    s.run(&smuggle(&late));
                    assert!(!claim(s, &late), "seed {seed}");
                    std::thread::sleep(Duration::from_millis(15));
                }
                _ => {
                    let mut keys: Vec<String> = (0..random.random_range(1..5))
                        .map(|_| format!("storm {}", random.random_range(0..4_000)))
                        .collect();
                    keys.push(format!(
                        "day{}-{}",
                        random.random_range(2..4),
                        random.random_range(1..41)
                    ));
                    keys.sort();
                    keys.dedup();
                    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
                    let rows = s.rows(
                        "SELECT key FROM once.claim_many($1::text[], '200 days') WHERE claimed",
                        &[&names],
                    );
                    let mut mine: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
                    let single = format!("storm {}", random.random_range(0..4_000));
                    if claim(s, &single) {
                        mine.push(single);
                    }
                    count += keys.len();
                    won.lock().expect("no panic holds it").extend(mine);
                }
            }
        }
        count
    });
    let mut won = won.into_inner().expect("no panic holds it");
    won.sort();
    let twice: Vec<String> =
        won.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect();
    assert_eq!(twice, [""; 0], "seed {seed}: told twice that a key is new");
    let old: Vec<&String> = won.iter().filter(|key| key.starts_with("day")).collect();
    assert!(old.is_empty(), "seed {seed}: of a sealed day: {old:?}");
    assert_eq!(scene.dba.claimed_twice("once.processed_events"), [""; 0]);
    counts.iter().sum()
}

#[test]
fn sixteen_sessions_over_sealed_days_with_filters_without_and_half_of_them_voided() {
    let cluster = clocked();
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    for mode in ["on", "half", "off"] {
        let mut scene = Scene::new(&cluster);
        let name = scene.db.name().to_owned();
        let setting = if mode == "off" { "off" } else { "on" };
        scene.dba.run(&format!("ALTER DATABASE {name} SET pg_once.filters = {setting}"));
        let claims = storm(&mut scene, mode == "half", seed);
        // What was claimed in the storm is of a sealed day tomorrow.
        cluster.clock().set(noon(5));
        assert!(claim(&mut scene.claimer, "on the 5th"));
        let again = storm_again(&mut scene);
        println!("{mode}: {claims} claims, {again} keys asked for again");
        assert!(claims > 500, "{claims}");
        scene.dba.run("SET pg_once.filters = on");
        // One pass may find the leaf in the hands of an autovacuum that so many rows have called.
        wait::until("the leaf is sealed", || {
            scene.dba.run("CALL once.maintain()");
            sealed(&mut scene.dba).contains(&LEAF.to_owned())
        });
        storm_again(&mut scene);
        scene.refuses_all();
    }
}

/// Asks for every key of the storm again: none is new. How many there are.
#[track_caller]
fn storm_again(scene: &mut Scene<'_>) -> i64 {
    let row = scene.db.session().rows(
        "SELECT count(*), count(*) FILTER (WHERE claimed) FROM once.claim_many(ARRAY(
             SELECT key FROM once.processed_events WHERE key LIKE 'storm%' OR key LIKE 'late%'), '200 days')",
        &[],
    );
    assert_eq!(row[0].get::<_, i64>(1), 0);
    row[0].get(0)
}
