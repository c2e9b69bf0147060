//! What these tests share: a store with two days that are over and sealed, someone who has it in their
//! session's cache, and the question that would show a lost duplicate.

use pg_once_tests::clock::Instant;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::database::Database;
use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;
use pg_once_tests::wait;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// The leaf that rows are smuggled into.
pub(crate) const LEAF: &str = "once.processed_events_20110502";
/// The other sealed leaf.
pub(crate) const OTHER: &str = "once.processed_events_20110503";

/// Noon of a day of May 2011; the scene opens on the 4th.
pub(crate) fn noon(day: i64) -> Instant {
    Instant::midnight(2011, 5, day).plus(43_200.0)
}

/// A database whose store has the 2nd and the 3rd of May sealed. It is the 4th.
pub(crate) struct Scene<'c> {
    pub(crate) cluster: &'c Cluster,
    pub(crate) db: Database<'c>,
    /// Does what a DBA does.
    pub(crate) dba: Session,
    /// Has claimed with the filters in its cache.
    pub(crate) claimer: Session,
}

impl<'c> Scene<'c> {
    #[track_caller]
    pub(crate) fn new(cluster: &'c Cluster) -> Scene<'c> {
        Scene::opened(cluster, 2)
    }

    /// The same with so many days over and sealed, the last of them the 3rd.
    #[track_caller]
    pub(crate) fn opened(cluster: &'c Cluster, days: i64) -> Scene<'c> {
        let db = cluster.database();
        let mut dba = db.session();
        cluster.clock().set(noon(4 - days));
        dba.run("SELECT once.create_store('processed_events', retention => '200 days')");
        for day in 4 - days..=4 {
            cluster.clock().set(noon(day));
            dba.run(&format!(
                "SELECT count(*) FROM once.claim_many(ARRAY(SELECT 'day{day}-' || g FROM generate_series(1, 40) g), '200 days')"
            ));
        }
        dba.run("CALL once.maintain()");
        let sealed = sealed(&mut dba);
        assert_eq!(sealed.len() as i64, days, "{sealed:?}");
        let mut claimer = db.session();
        assert!(claim(&mut claimer, "warm"));
        Scene { cluster, db, dba, claimer }
    }

    /// New sessions in place of those that a crash has ended.
    #[track_caller]
    pub(crate) fn reopen(&mut self) {
        wait::until("the crash is noticed", || self.dba.try_run("SELECT 1").is_err());
        let mut dba = None;
        wait::until("the server is back", || {
            dba = Session::try_open(self.db.endpoint()).ok();
            dba.is_some()
        });
        self.dba = dba.expect("just seen");
        self.claimer = self.db.session();
    }

    /// Every key of the first days is refused to those who knew the filters, to others, and in batches.
    #[track_caller]
    pub(crate) fn refuses_all(&mut self) {
        for s in [&mut self.claimer, &mut self.db.session()] {
            refuses_all(s);
        }
    }

    /// A key that no filter takes for one of its own, so that a filter that is wrongly asked denies it.
    #[track_caller]
    pub(crate) fn denied(&mut self) -> String {
        denied(&mut self.dba)
    }

    /// Nobody gets the key: not the one who knows the filters from before, not a new session, one by one or
    /// in a batch. A key that nobody has is theirs all the same.
    #[track_caller]
    pub(crate) fn refuses(&mut self, key: &str) {
        assert!(!claim(&mut self.claimer, key), "claimed again by a session that knew the filters");
        let mut fresh = self.db.session();
        let new = unseen("new");
        let many = fresh.claim_many(&[key, &new]);
        assert!(!many[0].1, "claimed again in a batch");
        assert!(many[1].1, "a new key is refused");
        assert!(!claim(&mut fresh, key), "claimed again by a new session");
        assert_eq!(fresh.claimed_twice("once.processed_events"), [""; 0]);
    }

    /// Runs statements that end in `COPY .. FROM STDIN`, and copies the row of a key; commits.
    #[track_caller]
    pub(crate) fn copy(&self, statements: &str, key: &str) {
        let mut psql = self.cluster.client("psql");
        psql.args(["-qX", "-v", "ON_ERROR_STOP=1", "-d", self.db.name()]);
        let mut psql = psql.stdin(std::process::Stdio::piped()).spawn().expect("psql starts");
        let line = format!("2011-05-02 10:00+00\t2011-11-01 00:00+00\t{key}\t\n\\.\n");
        let end = if statements.starts_with("BEGIN") { "COMMIT;\n" } else { "" };
        psql.stdin
            .take()
            .expect("a pipe")
            .write_all(format!("{statements};\n{line}{end}").as_bytes())
            .expect("psql reads");
        assert!(psql.wait().expect("it was started").success());
    }

    /// After the next pass the same holds, and every day that is over is sealed again.
    #[track_caller]
    pub(crate) fn sealed_anew(&mut self, key: &str, days: usize) {
        self.dba.run("CALL once.maintain()");
        let sealed = sealed(&mut self.dba);
        assert_eq!(sealed.len(), days, "{sealed:?}");
        self.refuses(key);
    }
}

/// Somebody puts a key into the leaf by a road; then nobody gets it, and the next pass seals the day again.
#[track_caller]
pub(crate) fn by(road: impl FnOnce(&mut Scene<'_>, &str)) {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    road(&mut scene, &key);
    scene.refuses(&key);
    scene.sealed_anew(&key, 2);
}

/// Every key of the scene's last two sealed days and of the day after them is refused.
#[track_caller]
pub(crate) fn refuses_all(s: &mut Session) {
    let again: i64 = s.get(
        "SELECT count(*) FILTER (WHERE claimed) FROM once.claim_many(ARRAY(
             SELECT 'day' || d || '-' || g FROM generate_series(2, 4) d, generate_series(1, 40) g), '200 days')",
    );
    assert_eq!(again, 0);
    for key in ["day2-1", "day2-40", "day3-7", "day4-7"] {
        assert!(!claim(s, key), "{key}");
    }
}

/// The leaves that filters answer for.
#[track_caller]
pub(crate) fn sealed(s: &mut Session) -> Vec<String> {
    s.column("SELECT leaf::text FROM once.sealed_leaves('once.processed_events') ORDER BY 1")
}

/// A claim for as long as the store remembers.
#[track_caller]
pub(crate) fn claim(s: &mut Session, key: &str) -> bool {
    s.get_with("SELECT once.claim_once($1::text, '200 days')", &[&key])
}

/// A key that no other call of this gives.
pub(crate) fn unseen(word: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{word}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A key that nobody has yet and no filter takes for one of its own.
#[track_caller]
pub(crate) fn denied(s: &mut Session) -> String {
    let maybe = "SELECT count(*) FROM once.filter_probe('processed_events', $1)";
    (0..100)
        .map(|_| unseen("smuggled"))
        .find(|key| s.get_with::<i64>(maybe, &[key]) == 0)
        .expect("a filter denies nearly everything")
}

/// A row of a key, as a list of values for (claimed_at, expires_at, key, effect), made on the 2nd.
pub(crate) fn row(key: &str) -> String {
    format!("('2011-05-02 10:00+00', '2011-11-01 00:00+00', '{key}', '')")
}

/// The statement that puts a key into the leaf behind everybody's back.
pub(crate) fn smuggle(key: &str) -> String {
    format!("INSERT INTO {LEAF} (claimed_at, expires_at, key, effect) VALUES {}", row(key))
}
