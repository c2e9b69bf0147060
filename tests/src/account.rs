//! The ordinary user that servers run as, and commands run as that user.
//!
//! `initdb` and `postgres` refuse root, so a test run started by root steps down by itself: to
//! `postgres` where that user exists, else to `nobody`. An ordinary user stays who they are.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

/// User and group id to step down to; `None` when the tests do not run as root.
static STEP_DOWN: LazyLock<Option<(u32, u32)>> = LazyLock::new(|| {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = std::fs::read_to_string("/etc/passwd").expect("/etc/passwd is readable");
    let ids = ["postgres", "nobody"].iter().find_map(|name| {
        let line = passwd.lines().find(|l| l.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    Some(ids.expect("as root, the tests need a user `postgres` or `nobody` to run servers as"))
});

/// A command that runs as the servers' user, with none of the caller's `PG*` settings.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    // A server started with it would add a Rust backtrace to the detail of its errors.
    command.env_remove("RUST_BACKTRACE");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    // A working directory the ordinary user can enter; messages in English.
    command.current_dir("/").env("LC_ALL", "C").env("PGCONNECT_TIMEOUT", "20");
    if let Some((uid, gid)) = *STEP_DOWN {
        command.uid(uid).gid(gid);
    }
    command
}

/// Gives a file or folder to the servers' user.
pub fn hand_over(path: &Path) {
    if let Some((uid, gid)) = *STEP_DOWN {
        chown(path, Some(uid), Some(gid)).expect("root may chown");
    }
}

/// Runs a command to its end and returns its standard output; panics with everything it said when
/// it fails.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = output(command);
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command to its end, whatever that end is.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"))
}
