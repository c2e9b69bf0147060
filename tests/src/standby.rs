//! A streaming standby of a cluster.

use std::path::{Path, PathBuf};

use crate::cluster::Cluster;
use crate::session::Session;
use crate::{account, wait, warden};

impl Cluster {
    /// Makes a streaming standby of this cluster, in a folder of its own, and starts it.
    pub fn standby(&self) -> Cluster {
        let folder = warden::folder("s");
        let mut backup = self.client("pg_basebackup");
        backup.args(["-R", "-X", "stream", "--checkpoint=fast", "--no-sync", "-D"]);
        account::run(backup.arg(folder.join("data")));
        let standby = Cluster::adopt(self.server(), folder);
        // The copied file ends with the primary's socket; the last line counts.
        standby.configure(&format!("unix_socket_directories = '{}'\n", standby.folder().display()));
        standby.start();
        standby
    }

    /// The same, and every commit waits from now on until it is there too.
    #[track_caller]
    pub fn synchronous_standby(&self) -> Cluster {
        let standby = self.standby();
        let mut admin = self.connect("postgres");
        admin.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
        admin.run("SELECT pg_reload_conf()");
        wait::until("the standby is synchronous", || {
            admin.get::<i64>("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")
                == 1
        });
        standby
    }
}

impl Cluster {
    /// A base backup of this cluster, in a folder of its own.
    pub fn backup(&self) -> PathBuf {
        let folder = warden::folder("b");
        let mut backup = self.client("pg_basebackup");
        backup.args(["-X", "none", "--checkpoint=fast", "--no-sync", "-D"]);
        account::run(backup.arg(folder.join("data")));
        folder
    }

    /// A cluster made of a copy of a backup of this one, not started yet, that will recover by the settings
    /// it is given.
    pub fn restored(&self, backup: &Path) -> Cluster {
        let folder = warden::folder("r");
        account::run(account::command("cp").arg("-a").arg(backup.join("data")).arg(&folder));
        let copy = Cluster::adopt(self.server(), folder);
        copy.configure(&format!("unix_socket_directories = '{}'\n", copy.folder().display()));
        let signal = copy.folder().join("data/recovery.signal");
        account::run(account::command("touch").arg(signal));
        copy
    }
}

/// Waits until a standby has replayed all that its primary has written.
#[track_caller]
pub fn caught_up(primary: &mut Session, standby: &mut Session) {
    // A commit of something flushes what open transactions have written before it.
    primary.run("SELECT pg_logical_emit_message(true, 'tests', 'flush')");
    let written: String = primary.get("SELECT pg_current_wal_flush_lsn()::text");
    wait::until("the standby has caught up", || {
        standby.get_with::<bool>("SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", &[&written])
    });
}
