//! What a run of the tests makes of the filters of days that are over: `PG_ONCE_FILTERS=on`, `off` or `half`.
//!
//! `on`, also where nothing is said: as it is out of the box. `off`: every server has `pg_once.filters = off`, so that
//! no day is sealed and each is looked into. `half`: no leaf of an odd day of the month can be sealed, whatever
//! maintenance tries, so that a claim asks filters for some days and looks into others.

use crate::session::Session;

/// The three ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filters {
    /// Days that are over are sealed.
    On,
    /// None is.
    Off,
    /// About every other one is.
    Half,
}

/// Has the sealing of every odd day fail; the pass says so and goes on.
const HALF: &str = "
    CREATE FUNCTION public.leave_odd_days_open() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger_ddl_commands() c
                    WHERE c.object_identity ~ '^pg_once_sealed on .*[13579]$') THEN
            RAISE 'by PG_ONCE_FILTERS=half this day stays open';
        END IF;
    END $$;
    CREATE EVENT TRIGGER half ON ddl_command_end WHEN TAG IN ('CREATE TRIGGER')
        EXECUTE FUNCTION public.leave_odd_days_open()";

impl Filters {
    /// What is wanted of this run; `None` where nothing is said.
    #[track_caller]
    pub fn wanted() -> Option<Filters> {
        let wanted = std::env::var_os("PG_ONCE_FILTERS")?;
        Some(match wanted.to_str() {
            Some("on") => Filters::On,
            Some("off") => Filters::Off,
            Some("half") => Filters::Half,
            _ => panic!("PG_ONCE_FILTERS is on, off or half, not {wanted:?}"),
        })
    }

    /// How this run is done.
    #[track_caller]
    pub fn now() -> Filters {
        Filters::wanted().unwrap_or(Filters::On)
    }

    /// Lines for every server's configuration.
    pub(crate) fn settings(self) -> &'static str {
        if self == Filters::Off { "pg_once.filters = off\n" } else { "" }
    }

    /// What every database with pg_once has besides.
    pub(crate) fn prepare(self, template: &mut Session) {
        if self == Filters::Half {
            template.run(HALF);
        }
    }
}

/// How many days [`Session::days_behind`] makes, and how many keys of each.
pub const DAYS_BEHIND: i64 = 4;
const KEYS_A_DAY: i64 = 100;

impl Session {
    /// The first claim of a test, which makes the default store, and its answer; and days that are over behind it.
    #[track_caller]
    pub fn load(&mut self) -> bool {
        let first = self.claim("load");
        self.days_behind();
        first
    }

    /// Gives the default store, which remembers for a week, four days that are over and have live claims: the
    /// day before yesterday and those before it, so that a test can still make its own yesterday. They are sealed as this
    /// run has it. Their keys begin with `behind `.
    #[track_caller]
    pub fn days_behind(&mut self) {
        self.run(&format!(
            "CREATE TABLE pg_temp.behind AS
                 SELECT pg_catalog.format('behind %s-%s', day, n) AS key,
                        pg_catalog.date_trunc('day', clock_timestamp(), 'UTC') - (day + 1) * interval '24 hours'
                          + n * interval '10 minutes' AS at
                   FROM pg_catalog.generate_series(1, {DAYS_BEHIND}) day, pg_catalog.generate_series(1, {KEYS_A_DAY}) n"
        ));
        self.run("CALL once.import_claims('processed_events', 'pg_temp.behind', 'key', 'at')");
        self.run("DROP TABLE pg_temp.behind");
        self.run("CALL once.maintain()");
    }

    /// Claims in the default store but those of the days behind it.
    #[track_caller]
    pub fn own_claims(&mut self) -> i64 {
        self.get("SELECT count(*) FROM once.processed_events WHERE key NOT LIKE 'behind %'")
    }
}
