//! The tables whose state counts: which they are, and how each of their columns is compared.
//!
//! Rule: what cannot be seen whole is refused, and each row is in one of them once. A partitioned table is one table;
//! a table that others inherit from is compared by itself, and so is each of those. Statements here run under
//! [`PINNED`](super::PINNED), so that names are those of pg_catalog.

use super::literal;
use crate::error::{Refusal, TapFault};
use crate::pg::query::quoted;
use crate::pg::statement::{Connection, Row};
use pgrx::pg_sys::Oid;

/// How a column is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// By its type's own equality, which knows 1.0 = 1.00 and 0.0 = -0.0 and nothing else that is not identity.
    Value,
    /// By its characters.
    Characters,
    /// By what its type prints, for types without equality and such whose equality overlooks differences.
    Print,
}

/// A column that counts.
pub struct Column {
    /// Its name.
    pub name: Vec<u8>,
    /// What it can hold, as far as that tells what changes it.
    pub sort: Sort,
    /// Whether a cast to text prints it as its type does, which is cheaper than format().
    pub cast: bool,
    by: By,
}

/// What a column can hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Times and dates.
    Time,
    /// Numbers.
    Number,
    /// Uuids.
    Uuid,
    /// Anything else.
    Other,
}

/// A table whose state counts.
pub struct Table {
    /// Its oid.
    pub oid: Oid,
    /// Its name, with schema and quoted.
    pub name: Vec<u8>,
    /// The columns that count, in order.
    pub columns: Vec<Column>,
    /// Places in `columns` of the primary key; none where there is none, or part of it is ignored.
    pub key: Vec<usize>,
    partitioned: bool,
}

impl Table {
    /// Places in `columns` of what is not in the key; nothing where there is no key.
    pub fn rest(&self) -> Vec<usize> {
        if self.key.is_empty() {
            return Vec::new();
        }
        (0..self.columns.len()).filter(|n| !self.key.contains(n)).collect()
    }

    /// For messages.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// `"name" AS c1, ..` of each column that counts, of a table called `t`.
    pub fn select_list(&self) -> Vec<u8> {
        let one = |(n, column): (usize, &Column)| {
            [b", t.", &quoted(&column.name)[..], format!(" AS c{n}").as_bytes()].concat()
        };
        self.columns.iter().enumerate().map(one).collect::<Vec<_>>().concat()
    }

    /// What stands after FROM, called `t`.
    pub fn from(&self) -> Vec<u8> {
        let only = if self.partitioned { "" } else { "ONLY " };
        [only.as_bytes(), &self.name, b" t"].concat()
    }

    /// Column `n` of a row called `row`, as it is compared.
    pub fn compared(&self, row: &str, n: usize) -> String {
        match self.columns[n].by {
            By::Value => format!("{row}.c{n}"),
            By::Characters => format!("({row}.c{n})::text COLLATE \"C\""),
            By::Print => format!("ROW({row}.c{n})::text COLLATE \"C\""),
        }
    }

    /// What says that the table is still what it was: its name, its columns and key, where its rows are, and which
    /// tables are part of it or inherit from it.
    pub fn shape(&self, connection: &Connection) -> Vec<u8> {
        let sql = format!(
            "WITH RECURSIVE tree (relid) AS ( \
                 SELECT {oid}::oid UNION SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = relid) \
             SELECT concat_ws(' ', string_agg(concat_ws('/', relid, pg_relation_filenode(relid)), ',' ORDER BY relid), \
                    (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                      WHERE c.oid = {oid}), {}) \
               FROM tree",
            definition(self.oid),
            oid = self.oid.to_u32(),
        );
        connection.first(sql.as_bytes(), |row| row.owned(0)).unwrap_or_default()
    }

    /// The columns that are compared, with their types and the key: what a snapshot must find again.
    pub fn definition(&self, connection: &Connection) -> Vec<u8> {
        let sql = format!("SELECT {}", definition(self.oid));
        connection.first(sql.as_bytes(), |row| row.owned(0)).unwrap_or_default()
    }
}

fn definition(oid: Oid) -> String {
    format!(
        "concat_ws(' key ', (SELECT string_agg(concat_ws('/', a.attnum, a.attname, a.atttypid, a.attisdropped), ',' ORDER BY a.attnum) \
                               FROM pg_attribute a WHERE a.attrelid = {oid} AND a.attnum > 0), \
                            (SELECT x.indkey::text FROM pg_index x WHERE x.indrelid = {oid} AND x.indisprimary AND x.indisvalid))",
        oid = oid.to_u32()
    )
}

/// The tables that are asked for, in the order of their names, each readable, without the columns to ignore.
pub fn watched(watch: &[Oid], ignore: &[&[u8]]) -> Result<Vec<Table>, Refusal> {
    if watch.is_empty() {
        return Err(TapFault::NothingWatched.into());
    }
    let connection = Connection::open();
    let mut tables = find(&connection, watch)?;
    let names: Vec<Vec<u8>> = ignore.iter().map(|name| literal(name)).collect();
    let names = [b"ARRAY[", &names.join(&b", "[..])[..], b"]::text[]"].concat();
    known(&connection, &tables, &names)?;
    for table in &mut tables {
        read_columns(&connection, table, &names)?;
        if table.columns.is_empty() {
            let why = "has no column that counts";
            return Err(TapFault::CannotSee { relation: table.shown(), why }.into());
        }
        // Raises where it may not be read, or where row-level security would hide rows.
        let probe =
            [b"SELECT t.xmin", &table.select_list()[..], b" FROM ", &table.from(), b" LIMIT 0"];
        connection.run(&probe.concat());
    }
    Ok(tables)
}

fn find(connection: &Connection, watch: &[Oid]) -> Result<Vec<Table>, Refusal> {
    let oids: Vec<String> = watch.iter().map(|oid| oid.to_u32().to_string()).collect();
    let asked = oids.join(",");
    let missing = format!(
        "SELECT o FROM unnest('{{{asked}}}'::oid[]) o WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = o) LIMIT 1"
    );
    if let Some(oid) = connection.first(missing.as_bytes(), |row| row.oid(0)) {
        return Err(TapFault::NoTable(oid.to_u32()).into());
    }
    let sql = format!(
        "WITH RECURSIVE tree (oid, relkind) AS ( \
             SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = ANY ('{{{asked}}}'::oid[]) \
             UNION \
             SELECT c.oid, c.relkind FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid \
               JOIN pg_class c ON c.oid = i.inhrelid WHERE t.relkind <> 'p') \
         SELECT c.oid, format('%I.%I', n.nspname, c.relname), c.relkind = 'p', \
                c.relkind NOT IN ('r', 'p'), pg_is_other_temp_schema(c.relnamespace), \
                EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid \
                         WHERE l.relkind NOT IN ('r', 'p')) \
           FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace \
          WHERE NOT EXISTS (SELECT FROM pg_partition_ancestors(c.oid) a (relid) JOIN tree x ON x.oid = a.relid \
                             WHERE a.relid <> c.oid) \
          ORDER BY n.nspname, c.relname"
    );
    let mut tables = Vec::new();
    connection.each(sql.as_bytes(), |row: &Row| {
        let table = Table {
            oid: row.oid(0),
            name: row.owned(1),
            columns: Vec::new(),
            key: Vec::new(),
            partitioned: row.truth(2),
        };
        let why = [
            (row.truth(3), "is a view, a foreign table or another relation that is no table"),
            (row.truth(4), "is a temporary table of another session"),
            (row.truth(5), "has a foreign partition"),
        ];
        if let Some((_, why)) = why.into_iter().find(|(holds, _)| *holds) {
            return Err(Refusal::from(TapFault::CannotSee { relation: table.shown(), why }));
        }
        tables.push(table);
        Ok(())
    })?;
    Ok(tables)
}

/// Whether a name to ignore, split into `p`, means column `a` of table `c` in schema `n`.
const MEANT: &str = "CASE cardinality(i.p) WHEN 1 THEN a.attname = i.p[1] \
                          WHEN 2 THEN c.relname = i.p[1] AND a.attname = i.p[2] \
                          WHEN 3 THEN n.nspname = i.p[1] AND c.relname = i.p[2] AND a.attname = i.p[3] \
                          ELSE false END";

fn known(connection: &Connection, tables: &[Table], names: &[u8]) -> Result<(), Refusal> {
    let oids: Vec<String> = tables.iter().map(|table| table.oid.to_u32().to_string()).collect();
    let sql = [
        b"SELECT i.name FROM (SELECT name, parse_ident(name) AS p FROM unnest(".as_slice(),
        names,
        b") AS name OFFSET 0) i WHERE NOT EXISTS (SELECT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
          JOIN pg_namespace n ON n.oid = c.relnamespace WHERE a.attnum > 0 AND NOT a.attisdropped AND c.oid = ANY ('{",
        oids.join(",").as_bytes(),
        b"}'::oid[]) AND ",
        MEANT.as_bytes(),
        b") LIMIT 1",
    ]
    .concat();
    match connection.first(&sql, |row| row.owned(0)) {
        Some(name) => Err(TapFault::NoColumn(String::from_utf8_lossy(&name).into_owned()).into()),
        None => Ok(()),
    }
}

/// Types whose equality is identity, but for a zero's sign and a number's scale; beneath domains, in arrays, composite
/// types and ranges as well.
const EXACT: &str = "'{bool,int2,int4,int8,oid,float4,float8,numeric,date,time,timestamp,timestamptz,uuid,bytea,jsonb}'::regtype[]";
/// Types of which a cast to text is what they print, of those that are common.
const CAST: &str = "'{int2,int4,int8,float4,float8,numeric,date,time,timestamp,timestamptz,uuid,jsonb,text,varchar}'::regtype[]";
/// Those of them in which equality is not the same as printing the same.
const LOOSE: &str = "'{float4,float8,numeric,jsonb}'::regtype[]";

fn read_columns(connection: &Connection, table: &mut Table, names: &[u8]) -> Result<(), Refusal> {
    let sql = [
        format!(
            "WITH RECURSIVE leaf (attnum, typ, coll) AS ( \
                 SELECT a.attnum, a.atttypid, a.attcollation FROM pg_attribute a \
                  WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped \
                 UNION \
                 SELECT l.attnum, b.typ, b.coll FROM leaf l JOIN pg_type t ON t.oid = l.typ CROSS JOIN LATERAL ( \
                     SELECT t.typbasetype, CASE WHEN l.coll <> 0 THEN l.coll ELSE t.typcollation END WHERE t.typtype = 'd' \
                     UNION ALL SELECT t.typelem, l.coll WHERE t.typsubscript = 'array_subscript_handler'::regproc \
                     UNION ALL SELECT x.atttypid, x.attcollation FROM pg_attribute x \
                      WHERE t.typtype = 'c' AND x.attrelid = t.typrelid AND x.attnum > 0 AND NOT x.attisdropped \
                     UNION ALL SELECT r.rngsubtype, r.rngcollation FROM pg_range r \
                      WHERE t.oid IN (r.rngtypid, r.rngmultitypid)) b (typ, coll)), \
             judged AS ( \
                 SELECT l.attnum, bool_or(l.typ = ANY ({LOOSE})) AS loose, \
                        bool_and(l.typ = ANY ({EXACT}) OR t.typtype IN ('d', 'c', 'r', 'm', 'e') \
                                 OR t.typsubscript = 'array_subscript_handler'::regproc \
                                 OR l.typ IN ('text'::regtype, 'varchar'::regtype) \
                                    AND coalesce((SELECT k.collisdeterministic FROM pg_collation k WHERE k.oid = l.coll), true)) AS exact \
                   FROM leaf l JOIN pg_type t ON t.oid = l.typ GROUP BY l.attnum) \
             SELECT a.attname::text, j.exact AND (j.loose OR a.atttypid = ANY ({EXACT})), \
                    a.atttypid IN ('text'::regtype, 'varchar'::regtype), \
                    coalesce(array_position(x.indkey::int2[], a.attnum), -1)::bigint, \
                    EXISTS (SELECT FROM (SELECT parse_ident(name) AS p FROM unnest(",
            oid = table.oid.to_u32()
        )
        .as_bytes(),
        names,
        format!(
            ") AS name) i WHERE {MEANT}), \
                    CASE WHEN b.typcategory = 'D' THEN 1 WHEN b.typcategory = 'N' THEN 2 \
                         WHEN b.oid = 'uuid'::regtype THEN 3 ELSE 0 END::bigint, a.atttypid = ANY ({CAST}) \
               FROM pg_attribute a JOIN judged j ON j.attnum = a.attnum \
               JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
               JOIN pg_type d ON d.oid = a.atttypid \
               JOIN pg_type b ON b.oid = CASE WHEN d.typtype = 'd' THEN d.typbasetype ELSE d.oid END \
               LEFT JOIN pg_index x ON x.indrelid = a.attrelid AND x.indisprimary AND x.indisvalid \
              WHERE a.attrelid = {} ORDER BY a.attnum",
            table.oid.to_u32()
        )
        .as_bytes(),
    ]
    .concat();
    let (mut key, mut whole) = (Vec::new(), true);
    connection.each(&sql, |row: &Row| {
        let at = row.integer(3).unwrap_or(-1);
        if row.truth(4) {
            whole &= at < 0;
            return Ok::<_, Refusal>(());
        }
        if at >= 0 {
            key.push((at, table.columns.len()));
        }
        table.columns.push(Column {
            name: row.owned(0),
            sort: match row.integer(5) {
                Some(1) => Sort::Time,
                Some(2) => Sort::Number,
                Some(3) => Sort::Uuid,
                _ => Sort::Other,
            },
            cast: row.truth(6),
            by: match (row.truth(1), row.truth(2)) {
                (true, _) => By::Value,
                (false, true) => By::Characters,
                (false, false) => By::Print,
            },
        });
        Ok(())
    })?;
    key.sort_unstable();
    if whole {
        table.key = key.into_iter().map(|(_, place)| place).collect();
    }
    Ok(())
}
