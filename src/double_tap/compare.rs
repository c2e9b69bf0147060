//! Two states of a table side by side: which rows and columns differ.
//!
//! Rule: a state is a relation of the columns `here`, `fresh`, `place`, `tid`, `xid`, `cid` and `c0`, `c1`, ..; what PostgreSQL knows to be
//! untouched may be left out of both, and is: of a table of a million rows only those that the pass has laid hands on
//! are looked at. `fresh` says of a row after the pass that it may have been written in it, `place`
//! and `tid` are where it is, `xid` and `cid` the transaction and command that wrote it; no `cid` where somebody has marked the
//! row, because it may then be the number of a pair of commands.
//!
//! A comparison is a query of one row for each row that differs, whatever the number of its columns that do: many of
//! either cost what the server takes to join them, and no more statements.

use super::tables::Table;
use super::{Difference, Kind};
use crate::pg::past::{self, Commands, Past};
use crate::pg::sorted::{By, Sorted};
use crate::pg::statement::{Connection, Row};

/// What a state is where all of it is compared.
const ALL: &str = "SELECT true AS here, true AS fresh, NULL::oid AS place, NULL::tid AS tid, NULL::xid AS xid, NULL::cid AS cid";

/// Places of a comparison's columns: the message, which is filled in here; what differs, in how many rows; where the row is;
/// its key, and the row where it is in one state alone. From [`at::REST`] on the columns that are not in the key, NULL where
/// they are the same and else an array of both values.
mod at {
    pub const MESSAGE: usize = 0;
    pub const KIND: usize = 1;
    pub const TIMES: usize = 2;
    pub const PLACE: usize = 3;
    pub const TID: usize = 4;
    pub const XID: usize = 5;
    pub const CID: usize = 6;
    pub const KEY: usize = 7;
    pub const WAS: usize = 8;
    pub const BECAME: usize = 9;
    pub const REST: usize = 10;
}

/// The order in which differences are handed out, but for the names of columns.
const ORDER: &[By] = &[
    By::Integer(at::MESSAGE),
    By::Text(at::KEY),
    By::Integer(at::KIND),
    By::Text(at::BECAME),
    By::Text(at::WAS),
];

/// The state of a table as it is now, all of it.
pub fn whole(table: &Table) -> Vec<u8> {
    [ALL.as_bytes(), &table.select_list(), b" FROM ", &table.from()].concat()
}

/// A state that was kept as a table of columns `c0`, `c1`, ...
pub fn kept(name: &[u8]) -> Vec<u8> {
    [ALL.as_bytes(), b", t.* FROM ", name, b" t"].concat()
}

/// Compares a table as it was with as it is, after a pass whose transaction ids begin with `mark`; in the order of the
/// messages, which `message_of` knows by their commands.
pub fn since(
    table: &Table,
    was: &Past,
    mark: u32,
    message_of: impl Fn(u32) -> Option<i64>,
    mut take: impl FnMut(&Difference),
) {
    let connection = Connection::open();
    // A row that the pass deleted or replaced is one that somebody has marked; so is a row that was only
    // locked, and it is in both.
    let old =
        [ALL.as_bytes(), &table.select_list(), b" FROM ", &table.from(), b" WHERE t.xmax <> 0"];
    // Between two bounds: what was frozen half of all ids ago keeps its old id, which looks like one to come. Ages are
    // counted from an id that stays the same as long as the transaction does.
    let bounds =
        format!("SELECT age('{}'::xid)::bigint, age('{mark}'::xid)::bigint", past::next_xid());
    let bounds = connection.first(bounds.as_bytes(), |row| (row.integer(0), row.integer(1)));
    let (youngest, oldest) = bounds.unwrap_or_default();
    let (youngest, oldest) =
        (youngest.unwrap_or(i32::MIN.into()), oldest.unwrap_or(i32::MAX.into()));
    let fresh = format!("age(t.xmin) BETWEEN {youngest} AND {oldest}");
    let new = [
        format!("SELECT true AS here, {fresh} AS fresh, t.tableoid AS place, t.ctid AS tid, t.xmin AS xid, \
                    CASE WHEN t.xmax = 0 THEN t.cmin END AS cid")
            .as_bytes(),
        &table.select_list(),
        b" FROM ",
        &table.from(),
        format!(" WHERE t.xmax <> 0 OR {fresh}").as_bytes(),
    ]
    .concat();
    let before = was.collect(&connection.prepare(&old.concat(), &[]));
    let reader = Connection::open();
    reader.lend(c"pg_once_before", &before);
    let new = [b"(", &new[..], b")"].concat();
    let sql = match before.rows() {
        0 => appended(table, &new),
        _ => differing(table, b"pg_once_before", &new),
    };
    let comparison = reader.prepare(&sql, &[]);
    let (mut found, mut commands) = (Sorted::new(&comparison, ORDER), Commands::new());
    comparison.every(|row| {
        let command = match (row.word(at::XID), row.word(at::CID)) {
            (Some(xid), Some(command)) => past::is_own(xid).then_some(command),
            _ => commands.of(row.oid(at::PLACE), row.place(at::TID)),
        };
        found.put(row, at::MESSAGE, command.and_then(&message_of));
    });
    drop(commands);
    let out = HandOut::of(table);
    found.each(|row| out.row(row, &mut take));
}

/// Compares two states that are queries; in the order of the keys.
pub fn states(table: &Table, before: &[u8], after: &[u8], mut take: impl FnMut(&Difference)) {
    let item = |query: &[u8]| [b"(", query, b")"].concat();
    let connection = Connection::open();
    let comparison = connection.prepare(&differing(table, &item(before), &item(after)), &[]);
    let mut found = Sorted::new(&comparison, ORDER);
    comparison.every(|row| found.put(row, at::MESSAGE, None));
    let out = HandOut::of(table);
    found.each(|row| out.row(row, &mut take));
}

/// What the rows of a comparison say of a table.
struct HandOut<'t> {
    table: &'t Table,
    /// Names of the columns that are not in the key, in order, and their places in the row.
    rest: Vec<(&'t [u8], usize)>,
}

impl<'t> HandOut<'t> {
    fn of(table: &'t Table) -> HandOut<'t> {
        let rest = table.rest().into_iter().enumerate();
        let mut rest: Vec<(&[u8], usize)> =
            rest.map(|(place, n)| (&table.columns[n].name[..], at::REST + place)).collect();
        rest.sort_unstable();
        HandOut { table, rest }
    }

    fn row(&self, row: &Row, take: &mut impl FnMut(&Difference)) {
        let kind = match row.integer(at::KIND) {
            Some(0) => Kind::Inserted,
            Some(1) => Kind::Deleted,
            _ => Kind::Changed,
        };
        let difference = Difference {
            pass: None,
            relation: self.table.oid,
            key: row.bytes(at::KEY),
            kind,
            column: None,
            before: row.bytes(at::WAS),
            after: row.bytes(at::BECAME),
            message: row.integer(at::MESSAGE),
            message_key: None,
        };
        if kind != Kind::Changed {
            (0..row.integer(at::TIMES).unwrap_or(0)).for_each(|_| take(&difference));
            return;
        }
        for (name, place) in &self.rest {
            if let Some([before, after]) = row.pair(*place) {
                take(&Difference { column: Some(name), before, after, ..difference });
            }
        }
    }
}

/// The query of what differs, see [`at`].
fn differing(table: &Table, before: &[u8], after: &[u8]) -> Vec<u8> {
    if table.key.is_empty() { by_rows(table, before, after) } else { by_key(table, before, after) }
}

/// The columns as they are printed, in one.
fn printed(table: &Table, row: &str, places: &[usize]) -> String {
    let list: Vec<String> = places.iter().map(|n| format!("{row}.c{n}")).collect();
    match (list.as_slice(), places) {
        ([one], [n]) if table.columns[*n].cast => format!("coalesce(({one})::text, '')"),
        ([one], _) => format!("format('%s', {one})"),
        _ => format!("ROW({})::text", list.join(", ")),
    }
}

/// A value as it is shown: NULL only where it is NULL.
fn shown(table: &Table, row: &str, n: usize) -> String {
    match table.columns[n].cast {
        true => format!("({row}.c{n})::text"),
        false => format!("CASE WHEN num_nulls({row}.c{n}) = 0 THEN format('%s', {row}.c{n}) END"),
    }
}

/// What differs where nothing of before has gone: each row that was written is one more.
fn appended(table: &Table, after: &[u8]) -> Vec<u8> {
    let every: Vec<usize> = (0..table.columns.len()).collect();
    let key = match table.key.as_slice() {
        [] => "NULL::text".to_owned(),
        key => printed(table, "a", key),
    };
    let mut columns = String::new();
    for n in table.rest() {
        columns += &format!(", NULL::text[] AS v{n}");
    }
    [
        format!(
            "SELECT NULL::bigint AS message, 0::bigint AS kind, 1::bigint AS times, a.place, a.tid, a.xid, a.cid, {key} AS key, \
                    NULL::text AS was, {} AS became{columns} FROM ",
            printed(table, "a", &every)
        )
        .as_bytes(),
        after,
        b" a WHERE a.fresh",
    ]
    .concat()
}

fn by_key(table: &Table, before: &[u8], after: &[u8]) -> Vec<u8> {
    let every: Vec<usize> = (0..table.columns.len()).collect();
    let pair = |n: usize| (table.compared("b", n), table.compared("a", n));
    let on: Vec<String> =
        table.key.iter().map(|&n| pair(n)).map(|(b, a)| format!("{b} = {a}")).collect();
    let (mut columns, mut any) = (String::new(), String::new());
    for n in table.rest() {
        let (b, a) = pair(n);
        let differs = format!("{b} IS DISTINCT FROM {a}");
        let (was, became) = (shown(table, "b", n), shown(table, "a", n));
        columns += &format!(
            ", CASE WHEN b.here AND a.here AND {differs} THEN ARRAY[{was}, {became}] END AS v{n}"
        );
        any += &format!(" OR {differs}");
    }
    let here = |row| format!("CASE WHEN {row}.here THEN {} END", printed(table, row, &table.key));
    [
        format!(
            "SELECT NULL::bigint AS message, CASE WHEN b.here IS NULL THEN 0 WHEN a.here IS NULL THEN 1 ELSE 2 END::bigint AS kind, \
                    1::bigint AS times, a.place, a.tid, a.xid, a.cid, coalesce({}, {}) AS key, \
                    CASE WHEN a.here IS NULL THEN {} END AS was, CASE WHEN b.here IS NULL THEN {} END AS became{columns} FROM ",
            here("a"),
            here("b"),
            printed(table, "b", &every),
            printed(table, "a", &every)
        )
        .as_bytes(),
        before,
        b" b FULL JOIN ",
        after,
        // What is not fresh was there before, whoever has marked it meanwhile.
        format!(
            " a ON {} WHERE (b.here IS NULL AND a.fresh) OR a.here IS NULL OR ((b.here AND a.here) AND (false{any}))",
            on.join(" AND ")
        )
        .as_bytes(),
    ]
    .concat()
}

/// Rows without a key are alike or not: how many there are of each counts.
fn by_rows(table: &Table, before: &[u8], after: &[u8]) -> Vec<u8> {
    let every: Vec<usize> = (0..table.columns.len()).collect();
    let compared: Vec<String> =
        every.iter().map(|&n| format!("{} AS k{n}", table.compared("s", n))).collect();
    let keys: Vec<String> = every.iter().map(|n| format!("u.k{n}")).collect();
    let (print, list) = (printed(table, "s", &every), compared.join(", "));
    let part = |sign: i32| {
        format!("SELECT {sign} AS sign, {print} AS print, s.fresh, s.place, s.tid, {list} FROM ")
    };
    [
        b"SELECT NULL::bigint AS message, CASE WHEN g.n > 0 THEN 0 ELSE 1 END::bigint AS kind, \
                 CASE WHEN g.n < 0 THEN -g.n ELSE least(g.n, g.written) END AS times, \
                 CASE WHEN g.n = 1 AND g.written = 1 THEN g.place END AS place, g.tid, NULL::xid AS xid, NULL::cid AS cid, NULL::text AS key, \
                 CASE WHEN g.n < 0 THEN g.print END AS was, CASE WHEN g.n > 0 THEN g.print END AS became \
          FROM (SELECT sum(u.sign) AS n, min(u.print) AS print, \
                       count(*) FILTER (WHERE u.sign > 0 AND u.fresh) AS written, \
                       max(u.place) FILTER (WHERE u.sign > 0 AND u.fresh) AS place, \
                       max(u.tid) FILTER (WHERE u.sign > 0 AND u.fresh) AS tid FROM ("
            .as_slice(),
        part(-1).as_bytes(),
        before,
        b" s UNION ALL ",
        part(1).as_bytes(),
        after,
        format!(" s) u GROUP BY {} HAVING sum(u.sign) <> 0) g", keys.join(", ")).as_bytes(),
    ]
    .concat()
}
