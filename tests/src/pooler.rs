//! A transaction pooler (pgbouncer) before a cluster, and clients that go through it.
//!
//! Clients send plain queries only: between two transactions a pooled client may get another server
//! connection, where a prepared statement of its own does not exist.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use postgres::{Client, NoTls, SimpleQueryMessage};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::{account, hang, wait, warden};

const PORT: u16 = 6432;

/// A running pgbouncer; stopped when dropped.
#[derive(Debug)]
pub struct Pooler {
    folder: PathBuf,
    process: Child,
}

impl Pooler {
    /// Starts pgbouncer in transaction mode with a number of server connections for each database.
    pub fn start(cluster: &Cluster, connections: u32) -> Pooler {
        let named = std::env::var("PG_ONCE_PGBOUNCER").ok();
        let installed = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];
        let program = named
            .into_iter()
            .chain(installed.map(str::to_owned))
            .find(|path| Path::new(path).exists())
            .expect("pgbouncer is missing: install the package `pgbouncer`, or set PG_ONCE_PGBOUNCER to the program");
        let folder = warden::folder("p");
        std::fs::write(folder.join("users"), "\"postgres\" \"\"\n").expect("our folder");
        // JDBC sets extra_float_digits as it connects, which pgbouncer takes from nobody unless told.
        let settings = format!(
            "[databases]\n* = host={socket} port=5432\n[pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\n\
             unix_socket_dir = {folder}\nauth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 400\n\
             ignore_startup_parameters = extra_float_digits\n",
            socket = cluster.folder().display(),
            folder = folder.display(),
        );
        std::fs::write(folder.join("pgbouncer.ini"), settings).expect("our folder");
        let log = std::fs::File::create(folder.join("log")).expect("our folder");
        let process = account::command(program)
            .arg(folder.join("pgbouncer.ini"))
            .current_dir(&folder)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("pgbouncer starts");
        std::fs::write(folder.join("pooler.pid"), format!("{}\n", process.id()))
            .expect("our folder");
        let socket = folder.join(format!(".s.PGSQL.{PORT}"));
        wait::until("pgbouncer listens", || UnixStream::connect(&socket).is_ok());
        Pooler { folder, process }
    }

    /// Folder of its socket and its port: what a client of another kind connects to.
    pub fn place(&self) -> (&Path, u16) {
        (&self.folder, PORT)
    }

    /// A client of a database, as the superuser.
    #[track_caller]
    pub fn client(&self, database: &str) -> PooledClient {
        let client = postgres::Config::new()
            .host_path(&self.folder)
            .port(PORT)
            .dbname(database)
            .user("postgres")
            .connect_timeout(Duration::from_secs(20))
            .connect(NoTls)
            .unwrap_or_else(|error| panic!("cannot connect through pgbouncer: {error:?}"));
        PooledClient(client)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        hang::kill(self.process.id().cast_signed());
        let _ = self.process.wait();
        warden::remove(&self.folder);
    }
}

/// A connection to the pooler.
pub struct PooledClient(Client);

impl PooledClient {
    /// Runs a query; the first column of its rows as text.
    pub fn query(&mut self, sql: &str) -> Result<Vec<String>, Failure> {
        let messages = self.0.simple_query(sql).map_err(|error| Failure::of(&error))?;
        Ok(messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
            .collect())
    }
}

impl std::fmt::Debug for PooledClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("PooledClient")
    }
}
