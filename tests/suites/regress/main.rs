//! The SQL surface as a DBA types it, run by PostgreSQL's own `pg_regress` against the files in
//! `tests/regress`. Where a server ships no `pg_regress`, the same files are run by psql and compared
//! here. `PG_ONCE_ACCEPT=1` writes what came out over what was expected, to be read before it is
//! committed.

mod docs;
mod isolation;

use std::path::{Path, PathBuf};

use pg_once_tests::account;
use pg_once_tests::shared::cluster;
use pg_once_tests::warden;

/// In this order: they share a database.
const FILES: [&str; 5] = ["first_claim", "stores", "refusals", "describe", "uninstall"];

const DATABASE: &str = "regression";

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("regress")
}

/// A copy of the files where the servers' user can read and write them.
fn workplace() -> PathBuf {
    let place = warden::folder("r");
    for part in ["sql", "expected", "results"] {
        let folder = place.join(part);
        std::fs::create_dir(&folder).expect("a folder of our own");
        account::hand_over(&folder);
        if part == "results" {
            continue;
        }
        for file in std::fs::read_dir(source().join(part)).expect("tests/regress").flatten() {
            let copy = folder.join(file.file_name());
            std::fs::copy(file.path(), &copy).expect("a readable file");
            account::hand_over(&copy);
        }
    }
    place
}

/// What may come out: `name.out`, `name_1.out`, ...
fn expected(place: &Path, name: &str) -> Vec<PathBuf> {
    let folder = place.join("expected");
    let variants = (1..9).map(|n| folder.join(format!("{name}_{n}.out")));
    std::iter::once(folder.join(format!("{name}.out")))
        .chain(variants)
        .filter(|path| path.exists())
        .collect()
}

/// Runs every file by `pg_regress`; what it said when it found a difference.
fn by_pg_regress(program: &Path, place: &Path) -> Result<(), String> {
    let server = cluster().server();
    let mut run = account::command(program);
    run.current_dir(place)
        .arg(format!("--bindir={}", server.bin.display()))
        .arg(format!("--inputdir={}", place.display()))
        .arg(format!("--outputdir={}", place.display()))
        .arg(format!("--host={}", cluster().folder().display()))
        .args(["--port=5432", "--user=postgres", &format!("--dbname={DATABASE}")])
        .args(FILES);
    let output = account::output(&mut run);
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    Err(said + &std::fs::read_to_string(place.join("regression.diffs")).unwrap_or_default())
}

/// Does what `pg_regress` does with the same files.
fn by_psql(place: &Path) -> Result<(), String> {
    let mut postgres = cluster().connect("postgres");
    postgres.run(&format!("CREATE DATABASE {DATABASE} TEMPLATE template0"));
    postgres.run(&format!("ALTER DATABASE {DATABASE} SET lc_messages = 'C'"));
    let mut complaints = String::new();
    for name in FILES {
        let result = place.join("results").join(format!("{name}.out"));
        let script =
            std::fs::File::open(place.join("sql").join(format!("{name}.sql"))).expect("a script");
        let out = std::fs::File::create(&result).expect("a folder of our own");
        let mut psql = cluster().client("psql");
        psql.args(["-X", "-a", "-q", "-d", DATABASE])
            .args(["-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on"])
            .env("PGTZ", "America/Los_Angeles")
            .env("PGDATESTYLE", "Postgres, MDY")
            .stdin(script)
            .stderr(out.try_clone().expect("a file"))
            .stdout(out);
        account::run(&mut psql);
        let came = std::fs::read_to_string(&result).expect("it was written");
        let right = expected(place, name)
            .iter()
            .any(|path| std::fs::read_to_string(path).is_ok_and(|e| e == came));
        if !right {
            complaints.push_str(&format!("--- {name} differs; this came out:\n{came}\n"));
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints) }
}

/// Writes what came out over what was expected: over the only file, or over this major's.
fn accept(place: &Path) {
    for name in FILES {
        let came = place.join("results").join(format!("{name}.out"));
        let suffix = match (name, cluster().server().major) {
            ("describe", 15) => "_2",
            ("describe", 16 | 17) => "_1",
            _ => "",
        };
        let target = source().join("expected").join(format!("{name}{suffix}.out"));
        std::fs::copy(came, target).expect("tests/regress/expected is writable");
    }
}

#[test]
fn the_sql_surface_answers_as_it_is_written_down() {
    let place = workplace();
    let program = cluster().server().pgxs.join("test/regress/pg_regress");
    let outcome = if program.exists() { by_pg_regress(&program, &place) } else { by_psql(&place) };
    if std::env::var_os("PG_ONCE_ACCEPT").is_some() {
        accept(&place);
        return;
    }
    warden::remove(&place);
    if let Err(differences) = outcome {
        panic!("{differences}");
    }
}

#[test]
fn every_script_is_run_and_every_expectation_belongs_to_one() {
    for file in std::fs::read_dir(source().join("sql")).expect("tests/regress/sql").flatten() {
        let name = file.file_name().to_string_lossy().replace(".sql", "");
        assert!(FILES.contains(&name.as_str()), "{name} is in no run");
    }
    for file in
        std::fs::read_dir(source().join("expected")).expect("tests/regress/expected").flatten()
    {
        let name = file.file_name().to_string_lossy().into_owned();
        let known = FILES.iter().any(|known| name.starts_with(known));
        assert!(known, "{name} is expected of nothing");
    }
}
