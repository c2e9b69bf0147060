//! Sequences of the watched tables. What they give out is not rolled back and is no state; one that moves without a row
//! says that the handler went part of its way, and is told apart.

use super::tables::Table;
use super::{Difference, Kind, PINNED};
use crate::pg::nested::Settings;
use crate::pg::statement::Connection;
use pgrx::pg_sys::Oid;

/// Where a sequence stands.
pub struct Position {
    /// The sequence.
    pub sequence: Oid,
    /// The table it numbers the rows of.
    pub table: Oid,
    /// The value it gave out last; none if none yet.
    pub value: Option<i64>,
}

/// Where the sequences stand that number the rows of these tables, of those that the caller may look at.
pub fn positions(tables: &[Table]) -> Vec<Position> {
    let _pinned = Settings::set(PINNED);
    let oids: Vec<String> = tables.iter().map(|table| table.oid.to_u32().to_string()).collect();
    let sql = format!(
        "SELECT s.oid, u.relid, CASE WHEN has_sequence_privilege(s.oid, 'USAGE, SELECT') THEN pg_sequence_last_value(s.oid) END \
           FROM (SELECT d.objid, d.refobjid FROM pg_depend d \
                  WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') \
                  UNION SELECT d.refobjid, a.adrelid FROM pg_depend d JOIN pg_attrdef a ON a.oid = d.objid \
                  WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass) u (seqid, relid) \
           JOIN pg_class s ON s.oid = u.seqid AND s.relkind = 'S' WHERE u.relid = ANY ('{{{}}}'::oid[])",
        oids.join(",")
    );
    let mut found = Vec::new();
    Connection::open().every(sql.as_bytes(), |row| {
        found.push(Position { sequence: row.oid(0), table: row.oid(1), value: row.integer(2) });
    });
    found
}

/// Tells of the sequences that stand elsewhere now though none of their tables has grown.
pub fn moved(was: &[Position], grown: &[Oid], mut take: impl FnMut(&Difference)) {
    let grew = |sequence: Oid| {
        was.iter().any(|position| position.sequence == sequence && grown.contains(&position.table))
    };
    let mut told = Vec::new();
    for position in was {
        if grew(position.sequence) || told.contains(&position.sequence) {
            continue;
        }
        let sql = format!(
            "SELECT pg_catalog.pg_sequence_last_value(oid) FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) {} \
              AND pg_catalog.has_sequence_privilege(oid, 'USAGE, SELECT')",
            position.sequence.to_u32()
        );
        let is = Connection::open().first(sql.as_bytes(), |row| row.integer(0)).flatten();
        if is == position.value {
            continue;
        }
        told.push(position.sequence);
        let (before, after) = (printed(position.value), printed(is));
        take(&Difference {
            pass: None,
            relation: position.sequence,
            key: None,
            kind: Kind::Sequence,
            column: None,
            before: before.as_deref(),
            after: after.as_deref(),
            message: None,
            message_key: None,
        });
    }
}

fn printed(value: Option<i64>) -> Option<Vec<u8>> {
    value.map(|value| value.to_string().into_bytes())
}
