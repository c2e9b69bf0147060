//! The table that claims are imported from: what it must be, and its rows, read by ranges of pages.
//!
//! A range of pages is one statement: it needs no cursor and no snapshot that would outlive a commit, and
//! all ranges together go through the table once. Of a partitioned table one range is that range of
//! every partition.

use crate::catalog::cache::Store;
use crate::domain::day::Instant;
use crate::domain::shown::shown;
use crate::error::{Refusal, SourceFault};
use crate::pg::privilege::{self, Acting};
use crate::pg::query;
use pgrx::pg_sys::{self, Oid};
use pgrx::spi::Spi;
use std::ffi::CString;

/// What is read of a source. Names are taken verbatim.
pub struct Columns<'a> {
    /// The column of keys: its text form is the key.
    pub key: &'a [u8],
    /// The column of times.
    pub claimed_at: &'a [u8],
    /// The column of effects.
    pub effect: Option<&'a [u8]>,
    /// What zone times without one are in.
    pub time_zone: Option<&'a [u8]>,
}

/// A source that may be read.
pub struct Source {
    table: Oid,
    name: Vec<u8>,
    select: Vec<u8>,
    time_zone: Option<Vec<u8>>,
    parts: Vec<Part>,
}

/// The table itself, or a partition or child of it.
struct Part {
    table: Oid,
    /// Changes when the table is rewritten.
    file: Oid,
    pages: u32,
    /// As many as were there when they were last counted.
    rows: f64,
    is_heap: bool,
}

/// A row of the source.
pub struct Row<'a> {
    /// The text form of the key.
    pub key: Option<&'a [u8]>,
    /// When it was processed.
    pub claimed_at: Option<Instant>,
    /// Its effect, where there is a column of effects.
    pub effect: Option<&'a [u8]>,
}

impl Source {
    /// Looks at a table that is to be imported into `store`.
    pub fn new(table: Oid, columns: &Columns, store: &Store) -> Result<Source, Refusal> {
        let name = query::qualified(table)
            .ok_or_else(|| SourceFault::NotATable(format!("table {table}, which is gone")))?;
        let named = || shown(&name);
        let parts = parts_of(table)?;
        let is_store = |part: &Part| {
            part.table == store.table || store.leaves.iter().any(|leaf| leaf.table == part.table)
        };
        if parts.iter().any(is_store) {
            return Err(SourceFault::TheStore(named()).into());
        }
        if parts.is_empty() || !parts.iter().all(|part| part.is_heap) {
            return Err(SourceFault::NotATable(named()).into());
        }
        Ok(Source {
            table,
            select: select(table, &name, columns)?,
            time_zone: columns.time_zone.map(<[u8]>::to_vec),
            parts,
            name,
        })
    }

    /// Its name, for messages.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    fn shown(&self) -> String {
        shown(&self.name)
    }

    /// How many pages the longest part had when the import began. What comes behind is left.
    pub fn pages(&self) -> u32 {
        self.parts.iter().map(|part| part.pages).max().unwrap_or(0)
    }

    /// How much of the source lies before a page, as a part of one.
    pub fn share(&self, page: u32) -> f64 {
        let sum = |limit: u32| -> f64 {
            self.parts.iter().map(|part| f64::from(part.pages.min(limit))).sum()
        };
        if page >= self.pages() { 1.0 } else { sum(page) / sum(u32::MAX) }
    }

    /// About how many rows it has; None where nobody has counted them.
    pub fn estimated_rows(&self) -> Option<f64> {
        let rows = self.parts.iter().map(|part| part.rows).sum();
        (rows > 0.0).then_some(rows)
    }

    /// Reads the rows of the pages from `from` to before `to`, as the current user.
    pub fn read(&self, from: u32, to: u32, mut each: impl FnMut(Row)) -> Result<(), Refusal> {
        if privilege::row_security_applies(self.table) {
            return Err(SourceFault::RowSecurity(self.shown()).into());
        }
        let range = format!(
            " WHERE ctid >= '({from},0)'::pg_catalog.tid AND ctid < '({to},0)'::pg_catalog.tid"
        );
        let query = CString::new([&self.select[..], range.as_bytes()].concat())
            .map_err(|_| Refusal::Internal("a name has a zero in it".to_owned()))?;
        {
            let _acting = Acting::as_caller();
            query::read_blocks(&query, self.time_zone.as_deref(), |row| {
                each(Row { key: row.bytes(1), claimed_at: row.instant(2), effect: row.bytes(3) });
            });
        }
        self.require_unmoved()
    }

    /// Asked after a read, whose locks keep it so to the end of the transaction: a rewrite gives rows other
    /// places, before or behind what was read.
    fn require_unmoved(&self) -> Result<(), Refusal> {
        let now = parts_of(self.table)?;
        let moved = |part: &&Part| {
            self.parts.iter().any(|old| old.table == part.table && old.file != part.file)
        };
        match now.iter().find(moved) {
            Some(_) => Err(SourceFault::Moved(self.shown()).into()),
            None => Ok(()),
        }
    }
}

/// The statement up to its range of pages.
fn select(table: Oid, name: &[u8], columns: &Columns) -> Result<Vec<u8>, Refusal> {
    let column = |column: &[u8]| {
        let named = || format!("\"{}\"", shown(column));
        let kind = CString::new(column).ok().and_then(|name| query::column_type(table, &name));
        match kind {
            Some(kind) => Ok((query::quoted(column), kind, named())),
            None => Err(SourceFault::NoColumn(named())),
        }
    };
    let (key, ..) = column(columns.key)?;
    let (at, kind, named) = column(columns.claimed_at)?;
    let (before, behind): (&[u8], &[u8]) = match (kind, columns.time_zone) {
        (pg_sys::TIMESTAMPTZOID, None) => (b"", b"::pg_catalog.timestamptz"),
        (pg_sys::TIMESTAMPTZOID, Some(_)) => return Err(SourceFault::NeedlessZone(named).into()),
        (pg_sys::TIMESTAMPOID, Some(_)) => {
            (b"pg_catalog.timezone($1, ", b"::pg_catalog.timestamp)")
        }
        (pg_sys::TIMESTAMPOID, None) => return Err(SourceFault::WhichZone(named).into()),
        _ => return Err(SourceFault::NotATime(named).into()),
    };
    let effect = match columns.effect {
        Some(effect) => column(effect)?.0,
        None => b"NULL".to_vec(),
    };
    let text: &[u8] = b"::pg_catalog.text, ";
    let pieces: [&[u8]; 10] = [
        b"SELECT ",
        &key,
        text,
        before,
        &at,
        behind,
        b", ",
        &effect,
        b"::pg_catalog.text FROM ",
        name,
    ];
    Ok(pieces.concat())
}

/// The parts of a table that have rows: itself, and whatever is below it.
fn parts_of(table: Oid) -> Result<Vec<Part>, Refusal> {
    let _acting = Acting::as_caller();
    let query = "WITH RECURSIVE tree AS (SELECT $1::oid AS part UNION \
                    SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.part) \
                 SELECT c.oid, coalesce(pg_relation_filenode(c.oid), 0)::oid, \
                        coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::bigint, \
                        greatest(c.reltuples, 0)::float8, \
                        c.relkind IN ('r', 'm') AND c.relam = 2 \
                   FROM tree t JOIN pg_class c ON c.oid = t.part WHERE c.relkind <> 'p'";
    Spi::connect(|client| {
        let mut parts = Vec::new();
        for row in client.select(query, None, &[table.into()])? {
            parts.push(Part {
                table: row.get(1)?.unwrap_or(Oid::INVALID),
                file: row.get(2)?.unwrap_or(Oid::INVALID),
                pages: row.get::<i64>(3)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
                rows: row.get(4)?.unwrap_or(0.0),
                is_heap: row.get(5)?.unwrap_or(false),
            });
        }
        Ok(parts)
    })
}
