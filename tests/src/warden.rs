//! Stops and removes what a test process leaves behind, however that process ended.
//!
//! A static cluster is never dropped, and a killed process drops nothing. So each test process
//! keeps one small shell beside it that holds the other end of a pipe: when the pipe closes, the
//! shell stops every server whose pid file lies in the process's folder and whose working directory
//! is there too (so that a reused pid is never hit), and removes the folder.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

const SCRIPT: &str = r#"
read -r _ignored
for file in "$1"/*/*.pid "$1"/*/data/postmaster.pid; do
    pid=$(head -n 1 "$file" 2>/dev/null) || continue
    case "$(readlink "/proc/$pid/cwd" 2>/dev/null)" in "$1"/*) ;; *) continue ;; esac
    kill -QUIT "$pid"
    tries=0
    while [ "$tries" -lt 100 ] && [ -n "$(readlink "/proc/$pid/cwd" 2>/dev/null)" ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ "$tries" -lt 100 ] || kill -KILL "$pid"
done
[ -n "$2" ] || rm -rf "$1"
"#;

struct Warden {
    base: PathBuf,
    // Held for its standard input, which closes with this process.
    _shell: Child,
}

static WARDEN: LazyLock<Warden> = LazyLock::new(|| {
    // Short, because a Unix socket's path has 107 bytes at most.
    let base = tempfile::Builder::new().prefix("pgo-").tempdir().expect("a folder").keep();
    let base = base.canonicalize().expect("the folder just made");
    crate::account::hand_over(&base);
    let keep = if std::env::var_os("PG_ONCE_KEEP").is_some() { "keep" } else { "" };
    let shell = Command::new("sh")
        .args(["-c", SCRIPT, "pg_once_warden"])
        .arg(&base)
        .arg(keep)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C goes to the test's process group; the warden is needed just then.
        .process_group(0)
        .spawn()
        .expect("sh starts");
    if !keep.is_empty() {
        eprintln!("PG_ONCE_KEEP: servers' folders stay in {}", base.display());
    }
    Warden { base, _shell: shell }
});

/// A new folder for one server, owned by the servers' user and watched over.
pub fn folder(name: &str) -> PathBuf {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = WARDEN.base.join(format!("{name}{number}"));
    std::fs::create_dir(&folder).expect("the warden's folder is ours");
    crate::account::hand_over(&folder);
    folder
}

/// Removes a folder made by [`folder`], unless folders are to be kept.
pub fn remove(folder: &Path) {
    if std::env::var_os("PG_ONCE_KEEP").is_none() {
        // What cannot be removed now is removed by the warden later.
        let _ = std::fs::remove_dir_all(folder);
    }
}
