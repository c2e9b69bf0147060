//! One connection: a thin layer over the `postgres` crate that fails a test with the statement and
//! the whole error, and never waits without bound.

use std::path::{Path, PathBuf};
use std::time::Duration;

use postgres::types::{FromSqlOwned, ToSql};
use postgres::{Client, Error, NoTls, Row};

use crate::failure::Failure;
use crate::hang;

/// Where to connect to, and as whom.
#[derive(Debug, Clone)]
pub struct Endpoint {
    socket: PathBuf,
    port: u16,
    database: String,
    user: String,
}

impl Endpoint {
    /// The superuser, in a database of the server whose socket lies in `socket`.
    pub fn new(socket: &Path, database: &str) -> Endpoint {
        Endpoint {
            socket: socket.to_owned(),
            port: 5432,
            database: database.to_owned(),
            user: "postgres".to_owned(),
        }
    }

    /// The same place as another role.
    pub fn user(mut self, user: &str) -> Endpoint {
        self.user = user.to_owned();
        self
    }

    /// The same place through another port.
    pub fn port(mut self, port: u16) -> Endpoint {
        self.port = port;
        self
    }
}

/// A connection to a server.
pub struct Session {
    client: Client,
    endpoint: Endpoint,
    pid: i32,
    patience: Duration,
}

/// Parameters of a statement.
pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Session {
    /// Connects; panics when it cannot.
    #[track_caller]
    pub fn open(endpoint: Endpoint) -> Session {
        Session::try_open(endpoint).unwrap_or_else(|failure| panic!("cannot connect: {failure}"))
    }

    /// Connects.
    pub fn try_open(endpoint: Endpoint) -> Result<Session, Failure> {
        let test = std::thread::current().name().unwrap_or("test").to_owned();
        let mut client = postgres::Config::new()
            .host_path(&endpoint.socket)
            .port(endpoint.port)
            .dbname(&endpoint.database)
            .user(&endpoint.user)
            .application_name(&test)
            .connect_timeout(Duration::from_secs(20))
            .connect(NoTls)
            .map_err(|error| Failure::of(&error))?;
        let row = client
            .query_one("SELECT pg_backend_pid()", &[])
            .map_err(|error| Failure::of(&error))?;
        Ok(Session { client, endpoint, pid: row.get(0), patience: Duration::from_secs(60) })
    }

    /// How long one statement may run before it counts as hanging; a minute unless set.
    pub fn patience(mut self, patience: Duration) -> Session {
        self.patience = patience;
        self
    }

    /// Process id of the backend.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// One more session of the same role in the same database.
    #[track_caller]
    pub fn another(&self) -> Session {
        Session::open(self.endpoint.clone())
    }

    /// Runs statements separated by semicolons.
    #[track_caller]
    pub fn run(&mut self, sql: &str) {
        self.try_run(sql).unwrap_or_else(|failure| panic!("{sql}\n{failure}"));
    }

    /// Runs statements separated by semicolons.
    pub fn try_run(&mut self, sql: &str) -> Result<(), Failure> {
        let _watched = hang::watch(&self.endpoint, self.pid, sql, self.patience);
        self.client.batch_execute(sql).map_err(|error| after_abort(&mut self.client, &error))
    }

    /// The error of a statement that must fail.
    #[track_caller]
    pub fn fails(&mut self, sql: &str) -> Failure {
        match self.try_rows(sql, &[]) {
            Ok(rows) => panic!("{sql}\nmust fail, but returned {} rows", rows.len()),
            Err(failure) => failure,
        }
    }

    /// The first column of the one row of a query.
    #[track_caller]
    pub fn get<T: FromSqlOwned>(&mut self, sql: &str) -> T {
        self.get_with(sql, &[])
    }

    /// The first column of the one row of a query with parameters.
    #[track_caller]
    pub fn get_with<T: FromSqlOwned>(&mut self, sql: &str, params: Params<'_>) -> T {
        self.try_get(sql, params).unwrap_or_else(|failure| panic!("{sql}\n{failure}"))
    }

    /// The first column of the one row of a query with parameters.
    #[track_caller]
    pub fn try_get<T: FromSqlOwned>(
        &mut self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<T, Failure> {
        let rows = self.try_rows(sql, params)?;
        let [row] = rows.as_slice() else {
            panic!("{sql}\nmust return one row, but returned {}", rows.len())
        };
        Ok(row.try_get(0).unwrap_or_else(|error| panic!("{sql}\n{error}")))
    }

    /// The first column of every row.
    #[track_caller]
    pub fn column<T: FromSqlOwned>(&mut self, sql: &str) -> Vec<T> {
        self.try_column(sql).unwrap_or_else(|failure| panic!("{sql}\n{failure}"))
    }

    /// The first column of every row.
    pub fn try_column<T: FromSqlOwned>(&mut self, sql: &str) -> Result<Vec<T>, Failure> {
        Ok(self.try_rows(sql, &[])?.iter().map(|row| row.get(0)).collect())
    }

    /// Every row of a query with parameters.
    #[track_caller]
    pub fn rows(&mut self, sql: &str, params: Params<'_>) -> Vec<Row> {
        self.try_rows(sql, params).unwrap_or_else(|failure| panic!("{sql}\n{failure}"))
    }

    /// Every row of a query with parameters.
    pub fn try_rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        let _watched = hang::watch(&self.endpoint, self.pid, sql, self.patience);
        self.client.query(sql, params).map_err(|error| after_abort(&mut self.client, &error))
    }

    /// `claim_once` of a key for an hour in the default store.
    #[track_caller]
    pub fn claim(&mut self, key: &str) -> bool {
        self.try_claim(key).unwrap_or_else(|failure| panic!("claim_once({key:?}): {failure}"))
    }

    /// `claim_once` of a key for an hour in the default store.
    pub fn try_claim(&mut self, key: &str) -> Result<bool, Failure> {
        self.try_get("SELECT once.claim_once($1::text, '1 hour')", &[&key])
    }

    /// `claim_many` for an hour in the default store: the answers in the order they came.
    #[track_caller]
    pub fn claim_many(&mut self, keys: &[&str]) -> Vec<(String, bool)> {
        self.try_claim_many(keys)
            .unwrap_or_else(|failure| panic!("claim_many({keys:?}): {failure}"))
    }

    /// `claim_many` for an hour in the default store: the answers in the order they came.
    pub fn try_claim_many(&mut self, keys: &[&str]) -> Result<Vec<(String, bool)>, Failure> {
        let rows = self
            .try_rows("SELECT key, claimed FROM once.claim_many($1::text[], '1 hour')", &[&keys])?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Opens a transaction, claims, commits.
    #[track_caller]
    pub fn claim_and_commit(&mut self, key: &str) -> bool {
        self.run("BEGIN");
        let claimed = self.claim(key);
        self.run("COMMIT");
        claimed
    }
}

/// The failure, once the server is through with it: an error is sent before its transaction is aborted and
/// its locks are gone, and whoever looks at once may still see them.
fn after_abort(client: &mut Client, error: &Error) -> Failure {
    if error.as_db_error().is_some() {
        // Answered when the server takes the next statement; an error here is that it is gone.
        let _ = client.batch_execute("");
    }
    Failure::of(error)
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session")
            .field("pid", &self.pid)
            .field("endpoint", &self.endpoint)
            .finish()
    }
}
