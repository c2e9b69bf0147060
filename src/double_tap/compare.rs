//! Two states of a table side by side: which rows and columns differ.
//!
//! Rule: a state is a relation of the columns `here`, `fresh`, `place`, `tid`, `xid` and `c0`, `c1`, ..; what PostgreSQL knows to be
//! untouched may be left out of both, and is: of a table of a million rows only those that the pass has laid hands on
//! are looked at. `fresh` says of a row after the pass that it may have been written in it, `xid` by which transaction; `place`
//! and `tid` are where it is.

use super::tables::Table;
use super::{Difference, Kind, literal};
use crate::error::Refusal;
use crate::pg::past::{self, Past};
use crate::pg::statement::{Connection, Row};

/// What a state is where all of it is compared.
const ALL: &str =
    "SELECT true AS here, true AS fresh, NULL::oid AS place, NULL::tid AS tid, NULL::bigint AS xid";

/// The state of a table as it is now, all of it.
pub fn whole(table: &Table) -> Vec<u8> {
    [ALL.as_bytes(), &table.select_list(), b" FROM ", &table.from()].concat()
}

/// A state that was kept as a table of columns `c0`, `c1`, ...
pub fn kept(name: &[u8]) -> Vec<u8> {
    [ALL.as_bytes(), b", t.* FROM ", name, b" t"].concat()
}

/// Compares a table as it was with as it is, after a pass whose transaction ids begin with `mark`.
pub fn since<E: From<Refusal>>(
    table: &Table,
    was: &Past,
    mark: u32,
    take: impl FnMut(Found) -> Result<(), E>,
) -> Result<(), E> {
    let connection = Connection::open();
    // A row that the pass deleted or replaced is one that somebody has marked; so is a row that was only
    // locked, and it is in both.
    let old =
        [ALL.as_bytes(), &table.select_list(), b" FROM ", &table.from(), b" WHERE t.xmax <> 0"];
    // Between two bounds: what was frozen half of all ids ago keeps its old id, which looks like one to come.
    let next = past::next_xid();
    let fresh = format!("age(t.xmin) BETWEEN age('{next}'::xid) AND age('{mark}'::xid)");
    let new = [
        format!(
            "SELECT true AS here, {fresh} AS fresh, \
                    t.tableoid AS place, t.ctid AS tid, t.xmin::text::bigint AS xid"
        )
        .as_bytes(),
        &table.select_list(),
        b" FROM ",
        &table.from(),
        format!(" WHERE t.xmax <> 0 OR {fresh}").as_bytes(),
    ]
    .concat();
    let before = was.collect(&connection.prepare(&old.concat(), &[]));
    let after = connection.collect(&new);
    if before.rows() == 0 && after.rows() == 0 {
        return Ok(());
    }
    let reader = Connection::open();
    reader.lend(c"pg_once_before", &before);
    reader.lend(c"pg_once_after", &after);
    read(&reader, table, b"pg_once_before", b"pg_once_after", false, take)
}

/// Compares two states that are queries.
pub fn states<E: From<Refusal>>(
    table: &Table,
    before: &[u8],
    after: &[u8],
    take: impl FnMut(Found) -> Result<(), E>,
) -> Result<(), E> {
    let item = |query: &[u8]| [b"(", query, b")"].concat();
    read(&Connection::open(), table, &item(before), &item(after), true, take)
}

/// A difference, and the command that made it.
pub struct Found<'r> {
    /// What differs.
    pub difference: Difference<'r>,
    /// The number of the command, where it was one of the transaction in progress.
    pub command: Option<u32>,
}

fn read<E: From<Refusal>>(
    connection: &Connection,
    table: &Table,
    before: &[u8],
    after: &[u8],
    in_order: bool,
    mut take: impl FnMut(Found) -> Result<(), E>,
) -> Result<(), E> {
    let mut sql = if table.key.is_empty() {
        by_rows(table, before, after)
    } else {
        by_key(table, before, after)
    };
    if in_order {
        let columns = b") AS d (kind, key, name, was, became, place, tid, xid) \
            ORDER BY key COLLATE \"C\", kind, name COLLATE \"C\", became COLLATE \"C\", was COLLATE \"C\"";
        sql = [b"SELECT * FROM (", &sql[..], columns].concat();
    }
    connection.each(&sql, |row: &Row| {
        let kind = match row.integer(0) {
            Some(0) => Kind::Inserted,
            Some(1) => Kind::Deleted,
            _ => Kind::Changed,
        };
        let xid = row.integer(7).and_then(|xid| u32::try_from(xid).ok());
        let ours = xid.is_some_and(past::is_own);
        let command = if ours { past::command_of(row.oid(5), row.place(6)) } else { None };
        let difference = Difference {
            pass: None,
            relation: table.oid,
            key: row.bytes(1),
            kind,
            column: row.bytes(2),
            before: row.bytes(3),
            after: row.bytes(4),
            message: None,
            message_key: None,
        };
        take(Found { difference, command })
    })
}

/// The columns as they are printed, in one.
fn printed(row: &str, places: &[usize]) -> String {
    let list: Vec<String> = places.iter().map(|n| format!("{row}.c{n}")).collect();
    match list.as_slice() {
        [one] => format!("format('%s', {one})"),
        _ => format!("ROW({})::text", list.join(", ")),
    }
}

/// A value of a column that differs, as it is shown: NULL only where it is NULL.
fn shown(row: &str, n: usize, differs: &str) -> String {
    format!("CASE WHEN {differs} AND num_nulls({row}.c{n}) = 0 THEN format('%s', {row}.c{n}) END")
}

fn by_key(table: &Table, before: &[u8], after: &[u8]) -> Vec<u8> {
    let every: Vec<usize> = (0..table.columns.len()).collect();
    let on: Vec<String> = table
        .key
        .iter()
        .map(|&n| format!("{} = {}", table.compared("b", n), table.compared("a", n)))
        .collect();
    let rest: Vec<usize> = every.iter().copied().filter(|n| !table.key.contains(n)).collect();
    let differs = |n: usize| {
        format!("{} IS DISTINCT FROM {}", table.compared("b", n), table.compared("a", n))
    };
    let any = rest.iter().map(|&n| format!(" OR {}", differs(n))).collect::<String>();
    let columns: Vec<Vec<u8>> = rest
        .iter()
        .map(|&n| {
            let d = differs(n);
            let values = format!(", {}, {}, {d})", shown("b", n, &d), shown("a", n, &d));
            [b"(", &literal(&table.columns[n].name)[..], values.as_bytes()].concat()
        })
        .collect();
    let changed = if columns.is_empty() {
        Vec::new()
    } else {
        [
            b" UNION ALL SELECT 2::bigint, v.name, v.was, v.became FROM (VALUES ".as_slice(),
            &columns.join(&b", "[..]),
            b") AS v (name, was, became, differs) WHERE b.here AND a.here AND v.differs",
        ]
        .concat()
    };
    [
        format!(
            "SELECT d.kind, coalesce({}, {}), d.name, d.was, d.became, a.place, a.tid, a.xid FROM ",
            if_here("a", &table.key),
            if_here("b", &table.key)
        )
        .as_bytes(),
        before,
        b" b FULL JOIN ",
        after,
        format!(
            " a ON {} CROSS JOIN LATERAL ( \
                 SELECT 0::bigint, NULL::text, NULL::text, {} WHERE b.here IS NULL \
                 UNION ALL SELECT 1::bigint, NULL::text, {}, NULL::text WHERE a.here IS NULL",
            on.join(" AND "),
            printed("a", &every),
            printed("b", &every)
        )
        .as_bytes(),
        &changed,
        // What is not fresh was there before, whoever has marked it meanwhile.
        format!(
            ") AS d (kind, name, was, became) WHERE (b.here IS NULL AND a.fresh) OR a.here IS NULL \
              OR ((b.here AND a.here) AND (false{any}))"
        )
        .as_bytes(),
    ]
    .concat()
}

fn if_here(row: &str, key: &[usize]) -> String {
    format!("CASE WHEN {row}.here THEN {} END", printed(row, key))
}

/// Rows without a key are alike or not: how many there are of each counts.
fn by_rows(table: &Table, before: &[u8], after: &[u8]) -> Vec<u8> {
    let every: Vec<usize> = (0..table.columns.len()).collect();
    let compared: Vec<String> =
        every.iter().map(|&n| format!("{} AS k{n}", table.compared("s", n))).collect();
    let keys: Vec<String> = every.iter().map(|n| format!("u.k{n}")).collect();
    let (print, list) = (printed("s", &every), compared.join(", "));
    let part = |sign: i32| {
        format!(
            "SELECT {sign} AS sign, {print} AS print, s.fresh, s.place, s.tid, s.xid, {list} FROM "
        )
    };
    [
        b"SELECT CASE WHEN g.n > 0 THEN 0 ELSE 1 END::bigint, NULL::text, NULL::text, \
            CASE WHEN g.n < 0 THEN g.print END, CASE WHEN g.n > 0 THEN g.print END, \
            CASE WHEN g.n = 1 AND g.written = 1 THEN g.place END, g.tid, g.xid \
          FROM (SELECT sum(u.sign) AS n, min(u.print) AS print, \
                       count(*) FILTER (WHERE u.sign > 0 AND u.fresh) AS written, \
                       max(u.place) FILTER (WHERE u.sign > 0 AND u.fresh) AS place, \
                       max(u.xid) FILTER (WHERE u.sign > 0 AND u.fresh) AS xid, \
                       max(u.tid) FILTER (WHERE u.sign > 0 AND u.fresh) AS tid FROM ("
            .as_slice(),
        part(-1).as_bytes(),
        before,
        b" s UNION ALL ",
        part(1).as_bytes(),
        after,
        format!(
            " s) u GROUP BY {} HAVING sum(u.sign) <> 0) g \
             CROSS JOIN LATERAL generate_series(1, CASE WHEN g.n < 0 THEN -g.n ELSE least(g.n, g.written) END)",
            keys.join(", ")
        )
        .as_bytes(),
    ]
    .concat()
}
