//! What tests about windows, holds and absences ask again and again.

use crate::clock::Instant;
use crate::database::Database;
use crate::session::Session;

impl Session {
    /// `claim_once` of a key for `ttl` in the default store.
    #[track_caller]
    pub fn claim_for(&mut self, key: &str, ttl: &str) -> bool {
        self.get_with("SELECT once.claim_once($1::text, $2::text::interval)", &[&key, &ttl])
    }

    /// Pauses that are known, of every store: since when and until when, or `open`.
    #[track_caller]
    pub fn pauses(&mut self) -> Vec<String> {
        self.run("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'");
        self.column(
            "SELECT since::timestamp(0) || ' ' || coalesce(nullif(until, 'infinity')::timestamp(0)::text, 'open')
               FROM once.store_pause ORDER BY since",
        )
    }

    /// Makes the default store with a retention.
    #[track_caller]
    pub fn default_store(&mut self, retention: &str) {
        self.run(&format!(
            "SELECT once.create_store('processed_events', retention => '{retention}')"
        ));
    }
}

impl Database<'_> {
    /// Sets the clock of the database's server, and opens a session.
    #[track_caller]
    pub fn session_at(&self, instant: Instant) -> Session {
        self.cluster().clock().set(instant);
        self.session()
    }

    /// Has absences looked for, as is the default of the setting, by a session and every one to come.
    #[track_caller]
    pub fn look_for_absences(&self, session: &mut Session) {
        session.run(&format!("ALTER DATABASE {} SET pg_once.away_days = 1", self.name()));
        session.run("SET pg_once.away_days = 1");
    }
}
