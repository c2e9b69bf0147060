//! One private PostgreSQL server: made, started, hurt, restarted, stopped and removed.
//!
//! It listens on a Unix socket in its own folder and nowhere else. Its time zone, date style and
//! interval style are unusual on purpose: nothing pg_once does may depend on them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::clock::Clock;
use crate::filters::Filters;
use crate::server::Server;
use crate::session::{Endpoint, Session};
use crate::{account, hang, wait, warden};

/// How a cluster is to be made.
#[derive(Debug)]
pub struct Build {
    server: Server,
    settings: Vec<(String, String)>,
    initdb: Vec<String>,
    durable: bool,
    clocked: bool,
}

impl Build {
    /// A setting for postgresql.conf; the value is quoted here.
    pub fn set(mut self, name: &str, value: &str) -> Build {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The library preloaded.
    pub fn preloaded(self) -> Build {
        self.set("shared_preload_libraries", "pg_once")
    }

    /// A further option for `initdb`.
    pub fn initdb(mut self, option: &str) -> Build {
        self.initdb.push(option.to_owned());
        self
    }

    /// Flushes to disk as a real server does. Without it `fsync` is off, which a cluster that is
    /// to be crashed must not have.
    pub fn durable(mut self) -> Build {
        self.durable = true;
        self
    }

    /// A clock that the test moves (see [`Clock`]).
    pub fn clocked(mut self) -> Build {
        self.clocked = true;
        self
    }

    /// Another server than the one under test.
    pub fn server(mut self, server: Server) -> Build {
        self.server = server;
        self
    }

    /// Makes the cluster and starts it.
    pub fn start(self) -> Cluster {
        let folder = warden::folder("c");
        let data = folder.join("data");
        let mut initdb = self.server.command("initdb");
        initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "-D"]).arg(&data);
        initdb.arg(format!("--locale={}", locale())).args(&self.initdb);
        account::run(&mut initdb);
        let clock = self.clocked.then(|| Clock::new(&folder));
        let cluster = Cluster { server: self.server, folder, data, clock };
        let mut lines = String::from(COMMON);
        lines.push_str(&format!("unix_socket_directories = '{}'\n", cluster.folder.display()));
        if !self.durable {
            lines.push_str("fsync = off\nfull_page_writes = off\n");
        }
        if self.clocked {
            // A timer's handler reads the clock, and the moved clock reads a file: keep timers few.
            lines.push_str("deadlock_timeout = '20s'\nautovacuum_naptime = '1h'\n");
            // Tests leap over days to see a window end; those about absences turn it on.
            lines.push_str("pg_once.away_days = 0\n");
        }
        lines.push_str(Filters::now().settings());
        for (name, value) in &self.settings {
            lines.push_str(&format!("{name} = '{value}'\n"));
        }
        cluster.configure(&lines);
        cluster.start();
        cluster
    }
}

const COMMON: &str = "\
listen_addresses = ''
max_prepared_transactions = 10
log_min_messages = warning
log_line_prefix = '%m [%p] %a '
timezone = 'Asia/Kathmandu'
datestyle = 'SQL, DMY'
intervalstyle = 'sql_standard'
";

/// A running server; stopped and removed when dropped.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
    folder: PathBuf,
    data: PathBuf,
    clock: Option<Clock>,
}

impl Cluster {
    /// How to make a cluster of the server under test.
    pub fn build() -> Build {
        Build {
            server: Server::under_test().clone(),
            settings: Vec::new(),
            initdb: Vec::new(),
            durable: false,
            clocked: false,
        }
    }

    /// A cluster around a data folder that somebody else filled (`pg_basebackup`).
    pub(crate) fn adopt(server: &Server, folder: PathBuf) -> Cluster {
        let data = folder.join("data");
        Cluster { server: server.clone(), folder, data, clock: None }
    }

    /// The PostgreSQL it runs.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Its folder, which holds the socket, the log and `data`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The clock of a cluster made with [`Build::clocked`].
    pub fn clock(&self) -> &Clock {
        self.clock.as_ref().expect("the cluster was made with a clock")
    }

    /// Where to connect to.
    pub fn endpoint(&self, database: &str) -> Endpoint {
        Endpoint::new(&self.folder, database)
    }

    /// A session of the superuser.
    #[track_caller]
    pub fn connect(&self, database: &str) -> Session {
        Session::open(self.endpoint(database))
    }

    /// Appends to postgresql.conf; takes effect with the next start.
    pub fn configure(&self, lines: &str) {
        use std::io::Write;
        let file = self.data.join("postgresql.conf");
        let mut file = std::fs::OpenOptions::new().append(true).open(file).expect("a made cluster");
        file.write_all(lines.as_bytes()).expect("postgresql.conf is writable");
    }

    /// Starts the server and waits until it answers.
    pub fn start(&self) {
        self.start_with(&[]);
    }

    /// Starts the server with options of `postgres`, and waits until it answers.
    pub fn start_with(&self, options: &[&str]) {
        let mut start = self.pg_ctl();
        start.args(["start", "-w", "-t", "60", "-l"]).arg(self.folder.join("log"));
        start.args(options.iter().flat_map(|option| ["-o", option]));
        if let Some(clock) = &self.clock {
            clock.preload(&mut start);
        }
        let output = account::output(&mut start);
        assert!(
            output.status.success(),
            "the server does not start: {}{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            self.log_tail()
        );
    }

    /// Stops the server: `smart`, `fast` or `immediate`.
    pub fn stop(&self, mode: &str) {
        account::run(self.pg_ctl().args(["stop", "-w", "-t", "60", "-m", mode]));
    }

    /// Stops with a checkpoint and starts again.
    pub fn restart(&self) {
        self.stop("fast");
        self.start();
    }

    /// Makes a standby a primary and waits until it is.
    pub fn promote(&self) {
        account::run(self.pg_ctl().args(["promote", "-w", "-t", "60"]));
    }

    /// Kills the postmaster with SIGKILL, waits until none of its processes is left, and starts
    /// again: what a power cut leaves, short of what the disk had not written.
    pub fn crash_and_restart(&self) {
        let postmaster = self.postmaster();
        let children = children_of(postmaster);
        hang::kill(postmaster);
        for child in &children {
            // Orphans leave by themselves, but a busy one only at its next wait.
            hang::kill(*child);
        }
        for pid in children.into_iter().chain([postmaster]) {
            wait::until("a killed server process is gone", || !hang::alive(pid));
        }
        // A zombie that nobody reaps would pass for a running postmaster.
        if !wait::poll(Duration::from_secs(2), || {
            !Path::new(&format!("/proc/{postmaster}")).exists()
        }) {
            std::fs::remove_file(self.data.join("postmaster.pid")).expect("the cluster's folder");
        }
        self.start();
    }

    /// Process id of the postmaster.
    pub fn postmaster(&self) -> i32 {
        let file = std::fs::read_to_string(self.data.join("postmaster.pid")).expect("it runs");
        file.lines().next().and_then(|line| line.parse().ok()).expect("a pid on the first line")
    }

    /// The last lines of the server's log.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// The whole log of the server.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// `psql` or another client program, pointed at this cluster.
    pub fn client(&self, program: &str) -> Command {
        let mut command = self.server.command(program);
        command.env("PGHOST", &self.folder).env("PGUSER", "postgres").env("PGPORT", "5432");
        command
    }

    /// Waits until every session of a database but `mine` is gone.
    pub fn settle(&self, mine: &mut Session) {
        wait::until("no other session is left", || {
            mine.get::<i64>(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                 AND pid <> pg_backend_pid()",
            ) == 0
        });
    }

    fn pg_ctl(&self) -> Command {
        let mut command = self.server.command("pg_ctl");
        command.arg("-D").arg(&self.data).arg("-s");
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}", self.folder.display(), self.log_tail());
        }
        if self.data.join("postmaster.pid").exists() {
            let _ =
                account::output(self.pg_ctl().args(["stop", "-w", "-t", "30", "-m", "immediate"]));
        }
        warden::remove(&self.folder);
    }
}

/// A UTF-8 locale that is neither "C" nor UTC-like in its sorting, where the machine has one.
fn locale() -> &'static str {
    static LOCALE: std::sync::LazyLock<&'static str> = std::sync::LazyLock::new(|| {
        let output = Command::new("locale").arg("-a").output();
        let known = output.map(|o| String::from_utf8_lossy(&o.stdout).to_lowercase());
        let known = known.unwrap_or_default();
        let has = |name: &str| known.lines().any(|line| line == name);
        [("en_us.utf8", "en_US.UTF-8"), ("c.utf8", "C.UTF-8"), ("c.utf-8", "C.UTF-8")]
            .iter()
            .find_map(|(listed, name)| has(listed).then_some(*name))
            .unwrap_or("C")
    });
    *LOCALE
}

fn children_of(parent: i32) -> Vec<i32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    match std::fs::read_to_string(path) {
        Ok(list) => list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        // Kernels without CONFIG_PROC_CHILDREN: look at every process's parent.
        Err(_) => std::fs::read_dir("/proc")
            .expect("/proc")
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| hang::parent(*pid) == Some(parent))
            .collect(),
    }
}
