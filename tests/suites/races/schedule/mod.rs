//! Random schedules of several sessions against the model: savepoints, rollbacks, batches, waits,
//! windows that end, midnights, maintenance. `PG_ONCE_SEED=n` runs one schedule again, with the `PG_ONCE_FILTERS` that
//! it ran with.

mod answers;

use std::collections::BTreeMap;

use pg_once_tests::background::Background;
use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::database::Database;
use pg_once_tests::failure::Failure;
use pg_once_tests::filters::Filters;
use pg_once_tests::oracle::{Answer, Name, Oracle, Window};
use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;
use pg_once_tests::wait;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const SESSIONS: usize = 5;
const STEPS: usize = 300;
const KEYS: usize = 8;

/// What a claim brought: its window if it is this session's.
type Claimed = Result<Option<Window>, Failure>;

/// A claim that waits: its name, and the thread that will bring the session and the answer back.
type Waiting = (Name, Background<Claimed>);

/// What is made of the filters of days that are over: what this run is for, or a third of all seeds each. `Half`
/// has besides about half of the sealed days voided again after each pass.
fn filters_of(seed: u64) -> Filters {
    let by_seed = [Filters::On, Filters::Off, Filters::Half][(seed % 3) as usize];
    Filters::wanted().unwrap_or(by_seed)
}

/// How often what was asked of the server; a schedule that never waits proves little.
#[derive(Debug, Default)]
struct Tally {
    claimed: usize,
    refused: usize,
    in_progress: usize,
    unserializable: usize,
    woken: usize,
    batches: usize,
    /// Sealed days at passes, and those that were voided.
    sealed: usize,
    voided: usize,
}

impl Tally {
    fn count(&mut self, expected: Answer) {
        *match expected {
            Answer::Claimed => &mut self.claimed,
            Answer::Duplicate => &mut self.refused,
            Answer::Waits(_) => &mut self.in_progress,
            Answer::Unserializable => &mut self.unserializable,
        } += 1;
    }
}

struct Schedule<'a> {
    cluster: &'a Cluster,
    observer: Session,
    /// `None` while the session waits.
    sessions: Vec<Option<Session>>,
    waiting: BTreeMap<usize, Waiting>,
    oracle: Oracle,
    random: StdRng,
    said: Vec<String>,
    tally: Tally,
    filters: Filters,
    /// Before this the clock does not go back: maintenance may have dropped what ended before.
    floor: f64,
}

/// The window of a claim if it is this session's, from the long form.
fn claim(s: &mut Session, name: &Name, ttl: &str, wait: bool) -> Claimed {
    let rows = s.try_rows(
        "SELECT outcome::text, extract(epoch FROM claimed_at)::float8, extract(epoch FROM expires_at)::float8
           FROM once.claim($1, $2::text::interval, $3, wait => $4)",
        &[&name.0, &ttl, &name.1, &wait],
    )?;
    let [row] = rows.as_slice() else { panic!("one row, not {}", rows.len()) };
    Ok(match row.get(0) {
        "claimed" => Some(Window { claimed: row.get(1), expires: row.get(2) }),
        "duplicate" | "in_progress" => None,
        other => panic!("outcome {other}"),
    })
}

impl<'a> Schedule<'a> {
    fn new(cluster: &'a Cluster, db: &Database<'a>, seed: u64) -> Schedule<'a> {
        let filters = filters_of(seed);
        if filters == Filters::Off {
            let name = db.name();
            db.session().run(&format!("ALTER DATABASE {name} SET pg_once.filters = off"));
        }
        Schedule {
            cluster,
            observer: db.session(),
            sessions: db.sessions(SESSIONS).into_iter().map(Some).collect(),
            waiting: BTreeMap::new(),
            oracle: Oracle::new(SESSIONS),
            random: StdRng::seed_from_u64(seed),
            said: Vec::new(),
            tally: Tally::default(),
            filters,
            floor: f64::MIN,
        }
    }

    fn now(&self) -> f64 {
        self.cluster.clock().now().0
    }

    fn say(&mut self, what: String) {
        let line = format!("{:>12.3} {what}", self.now() % 1e8);
        self.said.push(line);
    }

    fn name(&mut self) -> Name {
        let key = format!("k{}", self.random.random_range(0..KEYS));
        let effect = if self.random.random_bool(0.3) { "stock" } else { "" };
        (key, effect.to_owned())
    }

    fn ttl(&mut self) -> &'static str {
        ["20 min", "1 hour", "5 hours", "30 hours"][self.random.random_range(0..4)]
    }

    fn step(&mut self) {
        while self.oracle.unsure(self.now()) {
            self.cluster.clock().step(4.0);
        }
        let ready: Vec<usize> = (0..SESSIONS).filter(|n| self.sessions[*n].is_some()).collect();
        let n = ready[self.random.random_range(0..ready.len())];
        match (self.random.random_range(0..100), self.oracle.depth(n)) {
            (0..=29, None) | (0..=54, Some(_)) => self.claim_one(n),
            (30..=36, None) | (55..=61, Some(_)) => self.claim_batch(n),
            (37..=44, None) | (62..=64, Some(_)) => self.move_clock(),
            (45..=49, None) => self.maintain(n),
            (_, None) => self.begin(n),
            (65..=74, Some(_)) => self.savepoint(n),
            (75..=81, Some(depth)) if depth > 0 => self.rollback_to(n, depth),
            (82..=86, Some(depth)) if depth > 0 => self.release(n, depth),
            (_, Some(_)) => self.finish(n),
        }
    }

    fn run(&mut self, n: usize, sql: &str) {
        self.say(format!("{n}: {sql}"));
        self.sessions[n].as_mut().expect("it is ready").run(sql);
    }

    fn begin(&mut self, n: usize) {
        let snapshot = self.random.random_bool(0.3);
        let level = if snapshot { "REPEATABLE READ" } else { "READ COMMITTED" };
        self.run(n, &format!("BEGIN ISOLATION LEVEL {level}; SELECT 1"));
        self.oracle.begin(n, snapshot);
    }

    fn savepoint(&mut self, n: usize) {
        self.oracle.savepoint(n);
        let depth = self.oracle.depth(n).expect("in a transaction");
        self.run(n, &format!("SAVEPOINT s{depth}"));
    }

    fn rollback_to(&mut self, n: usize, depth: usize) {
        let depth = self.random.random_range(1..=depth);
        self.run(n, &format!("ROLLBACK TO s{depth}"));
        self.oracle.rollback_to(n, depth);
        self.wake();
    }

    fn release(&mut self, n: usize, depth: usize) {
        // Under a waiter only all of them: see Oracle::is_merged.
        let watched = self.waiting.values().any(|(name, _)| self.oracle.holds(n, name));
        let depth = if watched { 1 } else { self.random.random_range(1..=depth) };
        self.run(n, &format!("RELEASE s{depth}"));
        self.oracle.release(n, depth);
    }

    fn finish(&mut self, n: usize) {
        if self.random.random_bool(0.6) {
            self.run(n, "COMMIT");
            self.oracle.commit(n);
        } else {
            self.run(n, "ROLLBACK");
            self.oracle.rollback(n);
        }
        self.wake();
    }

    fn maintain(&mut self, n: usize) {
        // In the order given, so that no answer is on its way while the clock is looked at.
        self.run(n, "CALL once.maintain()");
        self.floor = self.now();
        let sealed: Vec<String> = self.observer.column(
            "SELECT leaf::text FROM once.sealed_leaves('once.processed_events') ORDER BY 1",
        );
        self.tally.sealed += sealed.len();
        for leaf in sealed {
            if self.filters == Filters::Half && self.random.random_bool(0.5) {
                self.say(format!("{leaf} is voided"));
                self.tally.voided += 1;
                // By a row that does not even come to be.
                self.observer.run(&format!(
                    "BEGIN; INSERT INTO {leaf} SELECT d, d, 'void', 'void' FROM
                        (SELECT timestamptz '2019-01-30 00:00+00' + g * interval '1 day' AS d FROM generate_series(0, 400) g) x
                      WHERE '{leaf}' = 'once.processed_events_' || to_char(d AT TIME ZONE 'UTC', 'YYYYMMDD');
                     ROLLBACK"
                ));
            }
        }
    }

    /// Small steps at any time, over midnight too, and back by a little, but not to before the last
    /// maintenance; long ones, which end windows, after every transaction has ended.
    fn move_clock(&mut self) {
        let seconds = match self.random.random_range(0..5) {
            0 | 1 => {
                self.end_all();
                f64::from(self.random.random_range(10..70)) * 1_700.0
            }
            2 => {
                self.end_all();
                // To a second before the next midnight.
                86_399.0 - self.now() % 86_400.0
            }
            3 if self.now() - 40.0 > self.floor => -30.0,
            _ => 11.0,
        };
        self.cluster.clock().step(seconds);
        self.say(format!("the clock moves by {seconds} s"));
    }

    fn claim_one(&mut self, n: usize) {
        let (name, ttl) = (self.name(), self.ttl());
        let expected = self.oracle.ask(n, &name, self.now());
        let wait = self.random.random_bool(0.6);
        self.say(format!("{n}: claim {name:?} for {ttl}, wait {wait}: expect {expected:?}"));
        if let Answer::Waits(holder) = expected
            && wait
        {
            // Nobody waits for one who waits: that could be a deadlock, which is not judged here.
            if !self.waiting.contains_key(&holder) && !self.oracle.is_merged(holder, &name) {
                let session = self.sessions[n].take().expect("it is ready");
                let asked = name.clone();
                let background = session.background(move |s| claim(s, &asked, ttl, true));
                wait::blocked(&mut self.observer, background.pid());
                self.waiting.insert(n, (name, background));
            }
            return;
        }
        let answer = claim(self.sessions[n].as_mut().expect("it is ready"), &name, ttl, wait);
        self.judge(n, &name, expected, answer);
        if expected == Answer::Unserializable {
            self.wake();
        }
    }

    fn claim_batch(&mut self, n: usize) {
        let mut keys: Vec<String> =
            (0..self.random.random_range(1..6)).map(|_| self.name().0).collect();
        keys.extend(keys.first().cloned());
        let now = self.now();
        let expected: Vec<Answer> =
            keys.iter().map(|key| self.oracle.ask(n, &(key.clone(), String::new()), now)).collect();
        // What waits or fails within a batch has tests of its own.
        if !expected.iter().all(|answer| matches!(answer, Answer::Claimed | Answer::Duplicate)) {
            return;
        }
        self.say(format!("{n}: claim_many {keys:?}: expect {expected:?}"));
        self.tally.batches += 1;
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        let answers = self.sessions[n].as_mut().expect("it is ready").claim_many(&names);
        for (key, (told, claimed)) in keys.iter().zip(answers) {
            let name = (key.clone(), String::new());
            assert_eq!(key, &told);
            // An earlier equal element makes this one a duplicate.
            let expected = self.oracle.ask(n, &name, now);
            assert_eq!(claimed, expected == Answer::Claimed, "session {n}, {name:?} in a batch");
            if claimed {
                self.oracle.claimed(n, &name, Window { claimed: now, expires: now + 3_600.0 });
            }
        }
    }
}

impl Drop for Schedule<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("--- the schedule\n{}", self.said.join("\n"));
        }
    }
}

#[test]
fn random_schedules_agree_with_the_model() {
    let cluster = clocked();
    let seeds: Vec<u64> = match std::env::var("PG_ONCE_SEED") {
        Ok(seed) => vec![seed.parse().expect("PG_ONCE_SEED is a number")],
        // Four of each kind.
        Err(_) => (0..12).map(|n| rand::rng().random::<u64>() / 3 / 2 * 3 + n % 3).collect(),
    };
    let mut tallies = Vec::new();
    for seed in seeds {
        println!("PG_ONCE_SEED={seed}, filters {:?}", filters_of(seed));
        let db = cluster.database();
        cluster.clock().set(Instant::midnight(2019, 1, 30).plus(80_000.0));
        let mut schedule = Schedule::new(&cluster, &db, seed);
        schedule.observer.load();
        for _ in 0..STEPS {
            schedule.step();
        }
        schedule.close();
        println!("{:?}", schedule.tally);
        tallies.push(std::mem::take(&mut schedule.tally));
    }
    if tallies.len() > 1 {
        let sum = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
        let waits = sum(|t| t.in_progress) + sum(|t| t.woken);
        let (claimed, refused) = (sum(|t| t.claimed), sum(|t| t.refused));
        let (unserializable, batches) = (sum(|t| t.unserializable), sum(|t| t.batches));
        assert!(claimed > 200 && refused > 200 && waits > 50, "too tame to prove anything");
        assert!(unserializable > 5 && batches > 50, "too tame to prove anything");
        let (sealed, voided) = (sum(|t| t.sealed), sum(|t| t.voided));
        let enough = match Filters::wanted() {
            Some(Filters::On) => sealed > 100 && voided == 0,
            Some(Filters::Off) => sealed == 0,
            Some(Filters::Half) => sealed > 40 && voided > 20,
            None => sealed > 20 && voided > 5,
        };
        assert!(enough, "sealed days at passes: {sealed}, of which voided: {voided}");
    }
}
