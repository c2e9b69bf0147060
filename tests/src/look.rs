//! What a store and the catalog say: the questions that several suites ask.

use crate::session::Session;

impl Session {
    /// Rows of a key in the default store, dead windows included, oldest first: the leaf.
    #[track_caller]
    pub fn leaves_of(&mut self, key: &str) -> Vec<String> {
        self.rows(
            "SELECT c.relname::text FROM once.processed_events p JOIN pg_class c ON c.oid = p.tableoid
             WHERE p.key = $1 ORDER BY p.claimed_at",
            &[&key],
        )
        .iter()
        .map(|row| row.get(0))
        .collect()
    }

    /// Keys (with effect) of a store that have more than one row whose window is open now: always
    /// none, whatever happened.
    #[track_caller]
    pub fn claimed_twice(&mut self, store: &str) -> Vec<String> {
        self.column(&format!(
            "SELECT key || ' / ' || effect FROM {store} WHERE expires_at > clock_timestamp()
             GROUP BY key, effect HAVING count(*) > 1"
        ))
    }

    /// Keys of a store with two windows that overlap in time: always none.
    #[track_caller]
    pub fn overlapping(&mut self, store: &str) -> Vec<String> {
        self.column(&format!(
            "SELECT DISTINCT key || ' / ' || effect FROM (
                 SELECT key, effect, claimed_at,
                        lag(expires_at) OVER (PARTITION BY key, effect ORDER BY claimed_at) AS before
                   FROM {store}) w WHERE claimed_at < before"
        ))
    }

    /// Locks that this session's transaction holds on relations, as `name mode`, sorted; those of
    /// the catalog, which looking takes, left out.
    #[track_caller]
    pub fn relation_locks(&mut self) -> Vec<String> {
        self.column(
            "SELECT relation::regclass::text || ' ' || mode FROM pg_locks
             WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation >= 16384 ORDER BY 1",
        )
    }

    /// Key locks that anybody in this database holds or waits for: none outside a call.
    #[track_caller]
    pub fn key_locks(&mut self) -> i64 {
        self.get(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
    }

    /// Leaves of a store, ordered by day: name, day as YYYYMMDD, lower and upper bound as seconds
    /// since 1970.
    #[track_caller]
    pub fn days_of(&mut self, store: &str) -> Vec<Leaf> {
        // The bound is read as the text that pg_get_expr writes, in UTC.
        self.run("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'");
        let rows = self.rows(
            r"SELECT c.relname::text, extract(epoch FROM b[1]::timestamptz)::float8,
                     extract(epoch FROM b[2]::timestamptz)::float8,
                     to_char(b[1]::timestamptz, 'YYYYMMDD')
                FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid),
                     'FROM \(''(.*)''\) TO \(''(.*)''\)') AS b
               WHERE i.inhparent = $1::text::regclass ORDER BY 2",
            &[&store],
        );
        self.run("RESET TimeZone; RESET DateStyle");
        rows.iter()
            .map(|row| Leaf { name: row.get(0), from: row.get(1), to: row.get(2), day: row.get(3) })
            .collect()
    }

    /// Checks every leaf of a store with amcheck where the server ships it: heap and index agree.
    #[track_caller]
    pub fn verify(&mut self, store: &str, amcheck: bool) {
        if amcheck {
            self.run("CREATE EXTENSION IF NOT EXISTS amcheck");
            let complaints: i64 = self.get(&format!(
                "SELECT count(*) FROM pg_inherits i CROSS JOIN LATERAL verify_heapam(i.inhrelid) v
                  WHERE i.inhparent = '{store}'::regclass"
            ));
            assert_eq!(complaints, 0, "verify_heapam complains about {store}");
            self.run(&format!(
                "SELECT bt_index_check(x.indexrelid, true) FROM pg_inherits i
                   JOIN pg_index x ON x.indrelid = i.inhrelid JOIN pg_class c ON c.oid = x.indexrelid
                  WHERE i.inhparent = '{store}'::regclass
                    AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree')"
            ));
        }
        // On every server: what the heap holds, each index finds, and the other way round.
        let by_heap: i64 = self.get(&format!("SELECT count(*) FROM {store} WHERE key || '' > ''"));
        self.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
        let by_index: i64 = self.get(&format!("SELECT count(*) FROM {store} WHERE key > ''"));
        self.run("RESET enable_seqscan; RESET enable_bitmapscan");
        assert_eq!(by_heap, by_index, "heap and index of {store} differ");
    }
}

/// One leaf of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// Name of the table.
    pub name: String,
    /// First instant, seconds since 1970.
    pub from: f64,
    /// First instant after it, seconds since 1970.
    pub to: f64,
    /// UTC day of the first instant, YYYYMMDD.
    pub day: String,
}
