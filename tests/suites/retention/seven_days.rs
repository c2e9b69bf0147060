//! More than a week in minutes: the clock is moved in steps of ten minutes while sessions claim all the time,
//! maintenance runs at every step, somebody reads the whole store and somebody vacuums it. No claim fails, every
//! committed claim is refused until it expires and free afterwards, days come and go, and the store stays as
//! big as it was. `PG_ONCE_SEED=n` claims the same keys again.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};

use pg_once_tests::clock::{Clock, Instant};
use pg_once_tests::race;
use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Simulated seconds between two passes of maintenance.
const STEP: f64 = 600.0;
const STEPS_A_DAY: i64 = 144;
const DAYS: i64 = 9;
const CLAIMERS: usize = 6;
/// What one claimer does between two passes.
const WORK: usize = 12;
/// How many steps a claimer may be behind the clock: an hour.
const LAG: i64 = 6;
/// A claim may be decided before or after a step of the clock that happens at that moment.
const MARGIN: f64 = STEP + 5.0;
/// How much bigger than on the third day the store may be later. Keys are as many every day, and as long.
const FLAT: f64 = 1.15;

/// Between which instants a committed claim ends.
#[derive(Clone, Copy)]
struct End {
    earliest: f64,
    latest: f64,
}

/// What all sessions share.
struct Week<'a> {
    clock: &'a Clock,
    start: Instant,
    step: AtomicI64,
    over: AtomicBool,
    done: Vec<AtomicI64>,
    /// Committed windows of keys that several sessions claim.
    contested: Mutex<BTreeMap<String, Vec<(f64, f64)>>>,
    claimed: AtomicUsize,
    refused: AtomicUsize,
    free_again: AtomicUsize,
}

/// Ends the week for everybody when a session fails.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, SeqCst);
        }
    }
}

impl Week<'_> {
    fn wait_until(&self, holds: impl Fn() -> bool) {
        while !holds() && !self.over.load(SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn day(&self) -> i64 {
        self.step.load(SeqCst) / STEPS_A_DAY
    }
}

/// One session's model of its own keys.
struct Claimer<'a> {
    number: usize,
    week: &'a Week<'a>,
    random: StdRng,
    made: usize,
    known: Vec<(String, End)>,
}

const TTLS: [(Option<&str>, f64); 4] = [
    (None, 172_800.0),
    (Some("30 hours"), 108_000.0),
    (Some("6 hours"), 21_600.0),
    (Some("1 hour"), 3_600.0),
];

impl Claimer<'_> {
    fn new_key(&mut self) -> String {
        self.made += 1;
        format!("order-{:02}-{:08}:paid", self.number, self.made)
    }

    /// Claims and checks the answer against what is known of the key; true if it was claimed.
    fn claim(&mut self, s: &mut Session, key: &str, known: Option<End>) -> Option<End> {
        let (ttl, length) = TTLS[self.random.random_range(0..TTLS.len())];
        let before = self.week.clock.now().0;
        let rows = s.rows(
            "SELECT outcome::text, extract(epoch FROM claimed_at)::float8, extract(epoch FROM expires_at)::float8 FROM once.claim($1, $2::text::interval)",
            &[&key, &ttl],
        );
        let after = self.week.clock.now().0;
        let outcome: String = rows[0].get(0);
        self.check(key, known, outcome == "claimed", before, after);
        if outcome != "claimed" {
            assert_eq!(outcome, "duplicate", "{key}");
            return None;
        }
        let (claimed, expires): (f64, f64) = (rows[0].get(1), rows[0].get(2));
        assert!((expires - claimed - length).abs() < 0.01, "{key}: {claimed} to {expires}");
        assert!(claimed > before - MARGIN && claimed < after + MARGIN, "{key}: at {claimed}");
        Some(End { earliest: expires, latest: expires })
    }

    fn check(&self, key: &str, known: Option<End>, claimed: bool, before: f64, after: f64) {
        let count = |counter: &AtomicUsize| counter.fetch_add(1, SeqCst);
        let Some(end) = known else {
            assert!(claimed, "{key} was never claimed, and refused");
            count(&self.week.claimed);
            return;
        };
        if after + MARGIN < end.earliest {
            assert!(!claimed, "{key} ends at {}, and was claimed again by {after}", end.earliest);
            count(&self.week.refused);
        }
        if before - MARGIN > end.latest {
            assert!(claimed, "{key} ended by {}, and was refused at {before}", end.latest);
            count(&self.week.free_again);
        }
    }

    fn learn(&mut self, key: String, end: Option<End>) {
        let Some(end) = end else { return };
        self.known.retain(|(known, _)| *known != key);
        self.known.push((key, end));
        // Of keys that have expired some are forgotten, so that new and live ones are asked for.
        if self.known.len() > 3_000 {
            let now = self.week.clock.now().0;
            let mut kept = 0;
            self.known.retain(|(_, end)| {
                kept += 1;
                end.latest > now || kept % 4 > 0
            });
        }
    }

    /// A key of before, half the time one whose window is over.
    fn any_known(&mut self) -> Option<(String, End)> {
        let (over, now) = (self.random.random_bool(0.5), self.week.clock.now().0);
        let mut known = None;
        for _ in 0..16 {
            let place = self.random.random_range(0..self.known.len().max(1));
            known = self.known.get(place);
            if known.is_some_and(|(_, end)| !over || end.latest + MARGIN < now) {
                break;
            }
        }
        known.cloned()
    }

    fn work(&mut self, s: &mut Session) {
        match self.random.random_range(0..100) {
            0..50 => {
                let key = self.new_key();
                let end = self.claim(s, &key, None);
                self.learn(key, end);
            }
            50..75 => {
                if let Some((key, end)) = self.any_known() {
                    let end = self.claim(s, &key, Some(end));
                    self.learn(key, end);
                }
            }
            75..85 => {
                let key = self.new_key();
                s.run("BEGIN");
                self.claim(s, &key, None);
                s.run("ROLLBACK");
                let end = self.claim(s, &key, None);
                self.learn(key, end);
            }
            85..90 => self.batch(s),
            _ => self.contest(s),
        }
    }

    fn batch(&mut self, s: &mut Session) {
        let mut keys: Vec<(String, Option<End>)> =
            (0..20).map(|_| (self.new_key(), None)).collect();
        for _ in 0..5 {
            if let Some((key, end)) =
                self.any_known().filter(|(k, _)| keys.iter().all(|o| o.0 != *k))
            {
                keys.push((key, Some(end)));
            }
        }
        let names: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
        let before = self.week.clock.now().0;
        let rows = s.rows("SELECT claimed FROM once.claim_many($1::text[])", &[&names]);
        let after = self.week.clock.now().0;
        assert_eq!(rows.len(), keys.len());
        for ((key, known), row) in keys.into_iter().zip(&rows) {
            let claimed: bool = row.get(0);
            self.check(&key, known, claimed, before, after);
            let (earliest, latest) = (before - MARGIN + 172_800.0, after + MARGIN + 172_800.0);
            self.learn(key, claimed.then_some(End { earliest, latest }));
        }
    }

    /// A key that all sessions want: whose windows those are that commit is judged at the end.
    fn contest(&mut self, s: &mut Session) {
        let key = format!("contested-{}", self.random.random_range(0..12));
        let rolls_back = self.random.random_bool(0.3);
        s.run("BEGIN");
        let rows = s.rows(
            "SELECT extract(epoch FROM claimed_at)::float8, extract(epoch FROM expires_at)::float8 FROM once.claim($1, '50 minutes') WHERE outcome = 'claimed'",
            &[&key],
        );
        s.run(if rolls_back { "ROLLBACK" } else { "COMMIT" });
        if let (Some(row), false) = (rows.first(), rolls_back) {
            let mut contested = self.week.contested.lock().expect("no panic holds it");
            contested.entry(key).or_default().push((row.get(0), row.get(1)));
        }
    }

    fn live(&mut self, s: &mut Session, slot: usize) {
        let _alarm = Alarm(&self.week.over);
        let mut step = 0;
        while !self.week.over.load(SeqCst) {
            step += 1;
            self.week.wait_until(|| self.week.step.load(SeqCst) >= step);
            for _ in 0..WORK {
                self.work(s);
            }
            self.week.done[slot].store(step, SeqCst);
        }
        // Whatever is known is asked for once more.
        for (key, end) in std::mem::take(&mut self.known) {
            self.claim(s, &key, Some(end));
        }
    }
}

/// What there is at noon of each day.
#[derive(Debug)]
struct Noon {
    bytes: i64,
    oldest: i64,
    leaves: usize,
}

fn run_clock(week: &Week<'_>, s: &mut Session) -> Vec<Noon> {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let _over = Over(&week.over);
    let mut noons = Vec::new();
    for step in 1..=DAYS * STEPS_A_DAY {
        week.clock.set(week.start.plus(step as f64 * STEP));
        week.step.store(step, SeqCst);
        s.run("CALL once.maintain()");
        week.wait_until(|| week.done.iter().all(|done| done.load(SeqCst) + LAG >= step));
        if week.over.load(SeqCst) {
            break;
        }
        if step % STEPS_A_DAY == STEPS_A_DAY / 2 {
            let bytes = s.get("SELECT sum(bytes)::bigint FROM once.partitions");
            let days = s.days_of("once.processed_events");
            let oldest = ((days[0].from - week.start.0) / 86_400.0).round() as i64;
            noons.push(Noon { bytes, oldest, leaves: days.len() });
        }
    }
    noons
}

#[test]
fn nine_days_under_load_lose_no_claim_and_keep_the_store_as_big_as_it_was() {
    let seed: u64 = std::env::var("PG_ONCE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random);
    println!("PG_ONCE_SEED={seed}");
    let cluster = clocked();
    let db = cluster.database();
    let start = Instant::midnight(2016, 2, 26);
    cluster.clock().set(start);
    let mut sessions = db.sessions(CLAIMERS + 3);
    sessions[0].run(&format!("ALTER DATABASE {} SET pg_once.away_days = 1", db.name()));
    sessions.iter_mut().for_each(|s| s.run("SET pg_once.away_days = 1"));
    sessions[0].run("SELECT once.create_store('processed_events', retention => '2 days')");
    let week = Week {
        clock: cluster.clock(),
        start,
        step: AtomicI64::new(0),
        over: AtomicBool::new(false),
        done: (0..CLAIMERS).map(|_| AtomicI64::new(0)).collect(),
        contested: Mutex::default(),
        claimed: AtomicUsize::new(0),
        refused: AtomicUsize::new(0),
        free_again: AtomicUsize::new(0),
    };
    let began = std::time::Instant::now();
    let results = race::all(&mut sessions, |number, s| match number {
        0 => run_clock(&week, s),
        1 => {
            let _alarm = Alarm(&week.over);
            while !week.over.load(SeqCst) {
                s.run("SELECT count(*) FROM once.processed_events");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            Vec::new()
        }
        2 => {
            let _alarm = Alarm(&week.over);
            let mut day = 0;
            while !week.over.load(SeqCst) {
                week.wait_until(|| week.day() > day);
                day = week.day();
                s.run("VACUUM once.processed_events");
            }
            Vec::new()
        }
        _ => {
            let random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
            let week = &week;
            let mut claimer = Claimer { number, week, random, made: 0, known: Vec::new() };
            claimer.live(s, number - 3);
            Vec::new()
        }
    });
    let noons = &results[0];
    println!(
        "{} new keys claimed, {} refused while live, {} free after their end, in {:?}; at noon {noons:#?}",
        week.claimed.load(SeqCst),
        week.refused.load(SeqCst),
        week.free_again.load(SeqCst),
        began.elapsed()
    );
    assert_eq!(noons.len() as i64, DAYS);
    for (day, noon) in noons.iter().enumerate() {
        let day = day as i64;
        assert_eq!(noon.oldest, (day - 2).max(0), "the oldest leaf at noon of day {day}");
        assert!(noon.leaves <= 6, "day {day}: {noon:?}");
        let most = noons[3].bytes as f64 * FLAT;
        assert!(day < 4 || noon.bytes as f64 <= most, "day {day}: {noon:?}, {most} at most");
    }
    assert!(week.refused.load(SeqCst) > 1_000 && week.free_again.load(SeqCst) > 1_000);
    for (key, windows) in week.contested.lock().expect("no panic holds it").iter_mut() {
        windows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let overlap = windows.windows(2).find(|pair| pair[1].0 < pair[0].1 - 0.001);
        assert!(overlap.is_none(), "{key}: {overlap:?}");
        assert!(windows.len() > 100, "{key} was claimed {} times only", windows.len());
    }
    let s = &mut sessions[0];
    let log: Vec<String> = s.column(
        "SELECT action || ' ' || count(*) FROM once.maintenance_log WHERE action NOT IN ('create', 'postpone') GROUP BY action ORDER BY 1",
    );
    assert_eq!(log, [format!("drop {}", DAYS - 2), format!("seal {}", DAYS - 1)]);
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.store_pause"), 0);
}
