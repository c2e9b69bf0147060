//! Programs and packages that only tests want: where `pgrx-config/servers tools` has put them.
//!
//! `make test` sets the variables. A test that is run by hand asks the same script once, which gets what is
//! missing; what cannot be had fails the test with the script's one line, and is never skipped.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// What the script said: settings, and lines about what it could not get.
static ASKED: LazyLock<(HashMap<String, String>, String)> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("below the repository");
    let output = Command::new(root.join("pgrx-config/servers")).arg("tools").output();
    let output = output.expect("pgrx-config/servers runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // Quoted as a shell wants it, where it has to be.
    let plain = |path: &str| path.trim_matches('\'').to_owned();
    let settings = said.lines().filter_map(|line| line.split_once('='));
    let settings = settings.map(|(name, path)| (name.to_owned(), plain(path))).collect();
    (settings, String::from_utf8_lossy(&output.stderr).into_owned())
});

/// The path that a variable such as `PG_ONCE_JDBC` names.
#[track_caller]
pub fn path(variable: &str) -> PathBuf {
    if let Some(set) = std::env::var_os(variable) {
        return set.into();
    }
    let (settings, complaints) = &*ASKED;
    let found = settings.get(variable).map(PathBuf::from);
    found.unwrap_or_else(|| panic!("`pgrx-config/servers tools` gets no {variable}:\n{complaints}"))
}
