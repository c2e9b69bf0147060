//! Which PostgreSQL the tests run against: found through `pg_config`, named by the environment.
//!
//! `PG_CONFIG` is the server under test, with pg_once installed. `PG_ONCE_SERVERS` lists others
//! (`15=/path/pg_config 18=/path/pg_config`) for tests that move data between majors.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use crate::account;

/// An installed PostgreSQL.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where `postgres`, `initdb` and `psql` are.
    pub bin: PathBuf,
    /// The folder `src` of pgxs, which holds `pg_regress`.
    pub pgxs: PathBuf,
    /// Where extensions' control files and scripts are.
    pub extensions: PathBuf,
    /// 15, 16, ...
    pub major: u32,
}

static UNDER_TEST: LazyLock<Server> = LazyLock::new(|| {
    let path = std::env::var("PG_CONFIG").expect(
        "PG_CONFIG must name the pg_config of a server with pg_once installed; `make test` sets it",
    );
    Server::from_pg_config(&path)
});

impl Server {
    /// The server that `PG_CONFIG` names.
    pub fn under_test() -> &'static Server {
        &UNDER_TEST
    }

    /// Servers of later majors from `PG_ONCE_SERVERS`, oldest first.
    pub fn later() -> Vec<Server> {
        let listed = std::env::var("PG_ONCE_SERVERS").unwrap_or_default();
        let entries = listed.split_whitespace().filter_map(|entry| entry.split_once('='));
        let mut servers: Vec<Server> = entries
            .filter(|(major, _)| major.parse().is_ok_and(|major: u32| major > UNDER_TEST.major))
            .map(|(_, path)| Server::from_pg_config(path))
            .collect();
        servers.sort_by_key(|server| server.major);
        servers
    }

    fn from_pg_config(path: &str) -> Server {
        let ask = |option: &str| {
            let said = account::run(Command::new(path).arg(option));
            said.trim().to_owned()
        };
        let version = ask("--version");
        let major = version
            .trim_start_matches("PostgreSQL ")
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("cannot read a major version from {version:?}"));
        // .../pgxs/src/makefiles/pgxs.mk
        let makefile = PathBuf::from(ask("--pgxs"));
        let pgxs = makefile.ancestors().nth(2).expect("pgxs lies two folders down").to_owned();
        let extensions = PathBuf::from(ask("--sharedir")).join("extension");
        Server { bin: PathBuf::from(ask("--bindir")), pgxs, extensions, major }
    }

    /// A program of this server, run as the servers' user.
    pub fn command(&self, program: &str) -> Command {
        account::command(self.bin.join(program))
    }

    /// Whether the server ships an extension (`amcheck`, say).
    pub fn ships(&self, extension: &str) -> bool {
        self.extensions.join(format!("{extension}.control")).exists()
    }
}
