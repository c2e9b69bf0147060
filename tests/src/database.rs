//! One database a test, copied from a template that has pg_once installed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};

use crate::cluster::Cluster;
use crate::filters::Filters;
use crate::hang;
use crate::session::{Endpoint, Session};
use crate::wait;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// Clusters (by folder) that have their template already.
static PREPARED: LazyLock<Mutex<Vec<std::path::PathBuf>>> =
    LazyLock::new(|| Mutex::new(Vec::new()));

const TEMPLATE: &str = "with_pg_once";

/// A database of a test; it goes with its cluster.
#[derive(Debug)]
pub struct Database<'c> {
    cluster: &'c Cluster,
    name: String,
}

impl Cluster {
    /// A database with pg_once installed and nothing else.
    #[track_caller]
    pub fn database(&self) -> Database<'_> {
        {
            let mut prepared = PREPARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if !prepared.iter().any(|folder| folder == self.folder()) {
                self.connect("postgres").run(&format!("CREATE DATABASE {TEMPLATE}"));
                let mut template = self.connect(TEMPLATE);
                template.run("CREATE EXTENSION pg_once");
                Filters::now().prepare(&mut template);
                drop(template);
                // Autovacuum would hold up the copies.
                self.connect("postgres")
                    .run(&format!("ALTER DATABASE {TEMPLATE} ALLOW_CONNECTIONS false"));
                prepared.push(self.folder().to_owned());
            }
        }
        self.create(&format!("TEMPLATE {TEMPLATE}"))
    }

    /// A database without pg_once; `options` as of CREATE DATABASE.
    #[track_caller]
    pub fn create(&self, options: &str) -> Database<'_> {
        let name = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.connect("postgres").run(&format!("CREATE DATABASE {name} {options}"));
        Database { cluster: self, name }
    }
}

impl<'c> Database<'c> {
    /// Kills a process of the server, which then ends all others and starts over; done when it lets sessions in again.
    /// Right after the kill it still does: it has not noticed.
    #[track_caller]
    pub fn kill(&self, pid: i32) {
        let mut witness = self.session();
        hang::kill(pid);
        wait::until("the server notices", || witness.try_run("SELECT 1").is_err());
        wait::until("the server is back", || {
            Session::try_open(self.endpoint()).is_ok_and(|mut s| s.try_run("SELECT 1").is_ok())
        });
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster it is in.
    pub fn cluster(&self) -> &'c Cluster {
        self.cluster
    }

    /// Where to connect to.
    pub fn endpoint(&self) -> Endpoint {
        self.cluster.endpoint(&self.name)
    }

    /// A session of the superuser.
    #[track_caller]
    pub fn session(&self) -> Session {
        Session::open(self.endpoint())
    }

    /// Several sessions of the superuser.
    #[track_caller]
    pub fn sessions(&self, count: usize) -> Vec<Session> {
        (0..count).map(|_| self.session()).collect()
    }

    /// A new login role that may do nothing special, named after the database so that tests do not
    /// meet each other's roles.
    #[track_caller]
    pub fn role(&self, word: &str) -> String {
        let role = format!("{word}_{}", self.name);
        self.session().run(&format!("CREATE ROLE {role} LOGIN"));
        role
    }

    /// A session of another role.
    #[track_caller]
    pub fn session_of(&self, role: &str) -> Session {
        Session::open(self.endpoint().user(role))
    }
}
