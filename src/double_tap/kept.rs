//! States that are kept across transactions, so that a consumer outside the database can run between two of them.
//!
//! Rule: what is kept of a table is a table of the role that kept it, which nobody else may read; it is a member of the
//! extension, so that no dump carries it. A state is compared only with a table that is defined as it was.

use super::compare;
use super::sequences::{self, Position};
use super::tables::{self, Table};
use super::{Difference, Kind, PINNED, literal};
use crate::catalog::{schema, sql};
use crate::error::{Refusal, TapFault};
use crate::pg::nested::Settings;
use crate::pg::privilege::{self, Acting};
use crate::pg::statement::{Connection, Row};
use crate::pg::{bounds, member, query, session};
use pgrx::pg_sys::Oid;
use std::ffi::CString;

/// A table of a snapshot.
struct Part {
    relation: Oid,
    kept_in: Oid,
    definition: Vec<u8>,
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&literal(name)).into_owned()
}

/// Keeps the state of tables under a name.
pub fn take(name: &[u8], watch: &[Oid], ignore: &[&[u8]]) -> Result<(), Refusal> {
    if !privilege::may_create_in(schema()?) {
        return Err(TapFault::MayNotKeep.into());
    }
    if !parts(name)?.0.is_empty() {
        return Err(TapFault::Taken(shown(name)).into());
    }
    let _pinned = Settings::set(PINNED);
    let tables = tables::watched(watch, ignore)?;
    let ignored: Vec<Vec<u8>> = ignore.iter().map(|name| literal(name)).collect();
    let ignored = [b"ARRAY[", &ignored.join(&b", "[..])[..], b"]::text[]"].concat();
    let positions = sequences::positions(&tables);
    for table in &tables {
        let kept_in = keep(table)?;
        let definition = table.definition(&Connection::open());
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        let values = [
            b"INSERT INTO once.state_snapshot (name, relation, kept_in, definition, ignored, made_by) VALUES (".as_slice(),
            &literal(name),
            format!(", {}, {}, ", table.oid.to_u32(), kept_in.to_u32()).as_bytes(),
            &literal(&definition),
            b", ",
            &ignored,
            b", ",
            &literal(session::role_name().as_bytes()),
            b")",
        ]
        .concat();
        Connection::open().run(&values);
    }
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    for position in positions {
        let value = position.value.map_or("NULL".to_owned(), |value| value.to_string());
        let values = [
            b"INSERT INTO once.state_sequence (name, sequence, relation, value) VALUES ("
                .as_slice(),
            &literal(name),
            format!(", {}, {}, {value})", position.sequence.to_u32(), position.table.to_u32())
                .as_bytes(),
        ]
        .concat();
        Connection::open().run(&values);
    }
    Ok(())
}

/// Copies what counts of a table into one of the caller's own.
fn keep(table: &Table) -> Result<Oid, Refusal> {
    let name = format!("state_{:016x}", session::random());
    let quoted = sql::in_once(&name);
    let columns = table.select_list();
    let columns = columns.strip_prefix(b", ").unwrap_or(&columns);
    let copy =
        [b"CREATE TABLE ", quoted.as_bytes(), b" AS SELECT ", columns, b" FROM ", &table.from()];
    let connection = Connection::open();
    connection.run(&copy.concat());
    let comment = literal(&[b"state of ", &table.name[..], b" that once.snapshot() kept"].concat());
    connection.run(&[b"COMMENT ON TABLE ", quoted.as_bytes(), b" IS ", &comment].concat());
    let kept_in = CString::new(name)
        .ok()
        .and_then(|name| bounds::relation_in(schema().ok()?, &name))
        .ok_or_else(|| Refusal::Internal("the state's table was not made".to_owned()))?;
    member::join(kept_in, c"pg_once");
    Ok(kept_in)
}

/// The tables of a snapshot, and the columns that it ignores.
fn parts(name: &[u8]) -> Result<(Vec<Part>, Vec<Vec<u8>>), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    let connection = Connection::open();
    let of = [b" FROM once.state_snapshot s WHERE s.name = ", &literal(name)[..]].concat();
    let mut parts = Vec::new();
    let sql =
        [b"SELECT s.relation::oid, s.kept_in::oid, s.definition", &of[..], b" ORDER BY 1"].concat();
    connection.each(&sql, |row: &Row| {
        parts.push(Part { relation: row.oid(0), kept_in: row.oid(1), definition: row.owned(2) });
        Ok::<_, Refusal>(())
    })?;
    let mut ignored = Vec::new();
    let sql = [
        b"SELECT DISTINCT i",
        &of.strip_prefix(b" FROM once.state_snapshot s").map_or_else(Vec::new, |rest| {
            [b" FROM once.state_snapshot s, unnest(s.ignored) i", rest].concat()
        })[..],
    ]
    .concat();
    connection.each(&sql, |row: &Row| {
        ignored.push(row.owned(0));
        Ok::<_, Refusal>(())
    })?;
    Ok((parts, ignored))
}

/// The tables of a snapshot that the caller took, or may act as whoever did.
fn own_parts(name: &[u8]) -> Result<(Vec<Part>, Vec<Vec<u8>>), Refusal> {
    let (parts, ignored) = parts(name)?;
    if parts.is_empty() {
        return Err(TapFault::NoSnapshot(shown(name)).into());
    }
    for part in &parts {
        if privilege::exists(part.kept_in) && !privilege::owns(part.kept_in) {
            return Err(TapFault::NotYours(shown(name)).into());
        }
    }
    Ok((parts, ignored))
}

/// Compares the state that was kept under a name with what is there now.
pub fn compare(name: &[u8], mut take: impl FnMut(&Difference)) -> Result<(), Refusal> {
    let (parts, ignored) = own_parts(name)?;
    let was = positions(name)?;
    let _pinned = Settings::set(PINNED);
    let watch: Vec<Oid> = parts.iter().map(|part| part.relation).collect();
    let ignore: Vec<&[u8]> = ignored.iter().map(Vec::as_slice).collect();
    let tables = tables::watched(&watch, &ignore)?;
    let mut grown = Vec::new();
    for table in &tables {
        let part = parts.iter().find(|part| part.relation == table.oid);
        let replaced = || Refusal::from(TapFault::Replaced(table.shown()));
        // A table that inherits from one of them and was made since has no state to be compared with.
        let part = part.ok_or_else(replaced)?;
        let kept = query::qualified(part.kept_in).ok_or_else(replaced)?;
        if table.definition(&Connection::open()) != part.definition {
            return Err(replaced());
        }
        let (before, after) = (compare::kept(&kept), compare::whole(table));
        compare::states(table, &before, &after, |difference| {
            if difference.kind == Kind::Inserted && !grown.contains(&table.oid) {
                grown.push(table.oid);
            }
            take(difference);
        });
    }
    if let Some(lost) = parts.iter().find(|part| !tables.iter().any(|t| t.oid == part.relation)) {
        return Err(TapFault::NoTable(lost.relation.to_u32()).into());
    }
    sequences::moved(&was, &grown, take);
    Ok(())
}

fn positions(name: &[u8]) -> Result<Vec<Position>, Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    let sql = [
        b"SELECT sequence::oid, relation::oid, value FROM once.state_sequence WHERE name = ",
        &literal(name)[..],
        b" ORDER BY 1, 2",
    ];
    let mut found = Vec::new();
    Connection::open().each(&sql.concat(), |row: &Row| {
        found.push(Position { sequence: row.oid(0), table: row.oid(1), value: row.integer(2) });
        Ok::<_, Refusal>(())
    })?;
    Ok(found)
}

/// Drops what was kept under a name.
pub fn drop_state(name: &[u8]) -> Result<(), Refusal> {
    let (parts, _) = own_parts(name)?;
    for part in &parts {
        if let Some(kept) = query::qualified(part.kept_in) {
            member::leave(part.kept_in);
            session::next_command();
            Connection::open().run(&[b"DROP TABLE ", &kept[..]].concat());
        }
    }
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    for table in ["state_snapshot", "state_sequence"] {
        let sql = [b"DELETE FROM once.", table.as_bytes(), b" WHERE name = ", &literal(name)];
        Connection::open().run(&sql.concat());
    }
    Ok(())
}
