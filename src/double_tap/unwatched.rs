//! Tables that are written to and not watched: no difference, because nobody asked, but a verdict that overlooks one should
//! say so.

use super::PINNED;
use super::tables::Table;
use crate::pg::nested::Settings;
use crate::pg::statement::Connection;

/// A table, and how many rows of it the transaction has written.
pub struct Written {
    name: Vec<u8>,
    rows: i64,
}

/// What the transaction has written so far to other tables than these. Nothing where the server counts nothing.
pub fn written(tables: &[Table]) -> Vec<Written> {
    let _pinned = Settings::set(PINNED);
    let oids: Vec<String> = tables.iter().map(|table| table.oid.to_u32().to_string()).collect();
    let sql = format!(
        "SELECT w.name, w.rows FROM ( \
             SELECT format('%I.%I', n.nspname, c.relname), c.oid, pg_stat_get_xact_tuples_inserted(c.oid) \
                    + pg_stat_get_xact_tuples_updated(c.oid) + pg_stat_get_xact_tuples_deleted(c.oid) \
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
              WHERE c.relkind = 'r' AND n.nspname <> 'pg_catalog') w (name, oid, rows) \
          WHERE w.rows > 0 AND NOT w.oid = ANY ('{{{list}}}'::oid[]) \
            AND NOT EXISTS (SELECT FROM pg_partition_ancestors(w.oid) a WHERE a.relid = ANY ('{{{list}}}'::oid[])) \
          ORDER BY 1",
        list = oids.join(",")
    );
    let mut found = Vec::new();
    Connection::open().every(sql.as_bytes(), |row| {
        found.push(Written { name: row.owned(0), rows: row.integer(1).unwrap_or(0) });
    });
    found
}

/// Those of which more has been written since.
pub fn more(was: &[Written], is: Vec<Written>) -> Vec<Vec<u8>> {
    let grew = |now: &Written| was.iter().all(|then| then.name != now.name || then.rows < now.rows);
    is.into_iter().filter(grew).map(|now| now.name).collect()
}
