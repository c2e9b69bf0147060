//! Programs and packages that only tests want: where `pgrx-config/servers tools` has put them.
//!
//! `make test` sets the variables. A test that is run by hand asks the same script once, which gets what is
//! missing; what cannot be had fails the test with the script's one line, and is never skipped.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

static ASKED: LazyLock<Result<HashMap<String, String>, String>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("below the repository");
    let output = Command::new(root.join("pgrx-config/servers"))
        .arg("tools")
        .output()
        .map_err(|error| format!("pgrx-config/servers does not run: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let settings = said.lines().filter_map(|line| line.split_once('='));
    // Quoted as a shell wants it, where it has to be.
    Ok(settings.map(|(name, path)| (name.to_owned(), path.trim_matches('\'').to_owned())).collect())
});

/// The path that a variable such as `PG_ONCE_JDBC` names.
#[track_caller]
pub fn path(variable: &str) -> PathBuf {
    if let Some(set) = std::env::var_os(variable) {
        return set.into();
    }
    match &*ASKED {
        Ok(settings) => match settings.get(variable) {
            Some(path) => path.into(),
            None => panic!("`pgrx-config/servers tools` names no {variable}"),
        },
        Err(line) => panic!("{line}"),
    }
}
