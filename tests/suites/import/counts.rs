//! Calling an import, and the row of counts it gives back.

use pg_once_tests::cluster::Cluster;
use pg_once_tests::failure::Failure;
use pg_once_tests::session::Session;

/// What became of the rows of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) read: i64,
    pub(crate) imported: i64,
    pub(crate) already_there: i64,
    pub(crate) expired: i64,
    pub(crate) refused: i64,
}

/// An import with these arguments; a row is counted once and only once.
pub(crate) fn try_import(s: &mut Session, arguments: &str) -> Result<Counts, Failure> {
    let rows = s.try_rows(&format!("CALL once.import_claims({arguments})"), &[])?;
    let [row] = rows.as_slice() else { panic!("{arguments}: {} rows", rows.len()) };
    let counts = Counts {
        read: row.get("rows_read"),
        imported: row.get("imported"),
        already_there: row.get("already_there"),
        expired: row.get("expired"),
        refused: row.get("refused"),
    };
    let sum = counts.imported + counts.already_there + counts.expired + counts.refused;
    assert_eq!(counts.read, sum, "{arguments}: {counts:?}");
    Ok(counts)
}

/// An import that goes through.
#[track_caller]
pub(crate) fn import(s: &mut Session, arguments: &str) -> Counts {
    try_import(s, arguments).unwrap_or_else(|failure| panic!("{arguments}\n{failure}"))
}

/// A table `old` of keys with times, and the store `moved` of a week.
pub(crate) const OLD: &str = "CREATE TABLE old (message_id text, processed_at timestamptz);
     SELECT once.create_store('moved', retention => '7 days')";

/// The arguments that fit [`OLD`].
pub(crate) const FROM_OLD: &str = "'moved', 'old', 'message_id', 'processed_at'";

/// Runs statements by psql in autocommit; what it said on stderr, contexts included.
pub(crate) fn said(cluster: &Cluster, s: &mut Session, statement: &str) -> String {
    let database: String = s.get("SELECT current_database()::text");
    let output = cluster
        .client("psql")
        .args(["-X", "-q", "-d", &database, "-v", "SHOW_CONTEXT=always", "-c", statement])
        .output()
        .expect("psql runs");
    String::from_utf8_lossy(&output.stderr).into_owned()
}
