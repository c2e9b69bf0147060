//! The log as messages, and the handler that takes one.
//!
//! Rule: the log is read once, so that every pass gets the same messages whatever the handler does to the tables they
//! come from. It is the caller's query, run with the caller's rights and settings.

use crate::error::{Refusal, TapFault};
use crate::pg::nested::Settings;
use crate::pg::query::quoted;
use crate::pg::statement::{Connection, Pile, Plan, ResultColumn, Walk};
use pgrx::pg_sys::{self, Oid};

/// The messages in order: columns number, key, message.
pub struct Messages<'c> {
    /// The rows.
    pub pile: Pile<'c>,
    /// The call of the handler with one message.
    pub call: Plan<'c>,
}

/// What is known of the handler.
struct Handler {
    name: Vec<u8>,
    procedure: bool,
    kind: Oid,
    kind_name: Vec<u8>,
    /// The columns of the row type it takes; none where it takes jsonb.
    columns: Vec<Vec<u8>>,
}

impl<'c> Messages<'c> {
    /// Runs the log.
    pub fn read(
        connection: &'c Connection,
        log: &[u8],
        handler: Oid,
    ) -> Result<Messages<'c>, Refusal> {
        let handler = {
            let _pinned = Settings::set(super::PINNED);
            Handler::find(connection, handler)?
        };
        let end =
            log.iter().rposition(|b| !b.is_ascii_whitespace() && *b != b';').map_or(0, |n| n + 1);
        let log = &log[..end];
        let columns = connection.prepare(log, &[]).columns().ok_or(TapFault::NotAQuery)?;
        let key = columns.iter().find(|column| column.name == b"key").or(columns.first());
        let key = key.ok_or(TapFault::NotAQuery)?;
        let pile = connection.collect(
            &[
                b"SELECT pg_catalog.row_number() OVER (), (q.".as_slice(),
                &quoted(&key.name),
                b")::pg_catalog.text, ",
                &handler.message(&columns)?,
                b" FROM (",
                log,
                b"\n) q",
            ]
            .concat(),
        );
        let verb: &[u8] = if handler.procedure { b"CALL " } else { b"SELECT " };
        let call = connection.prepare(&[verb, &handler.name, b"($1)"].concat(), &[handler.kind]);
        Ok(Messages { pile, call })
    }

    /// The same messages, each twice, in an order that the seed decides.
    pub fn shuffled(&self, seed: i64) -> (Connection, Vec<u8>) {
        let connection = Connection::open();
        connection.lend(c"pg_once_messages", &self.pile);
        let sql = format!(
            "SELECT m.number, m.key, m.message FROM pg_once_messages AS m (number, key, message) \
              CROSS JOIN generate_series(0, 1) AS c \
              ORDER BY hashint8extended(2 * m.number + c, '{seed}'::bigint), m.number, c"
        );
        (connection, sql.into_bytes())
    }
}

/// The keys of messages that are asked for by ascending numbers.
pub struct Keys<'p> {
    messages: Walk<'p>,
    number: i64,
    key: Option<Vec<u8>>,
}

impl Messages<'_> {
    /// Their keys. The messages are not handed out meanwhile.
    pub fn keys(&self) -> Keys<'_> {
        Keys { messages: self.pile.walk(), number: 0, key: None }
    }
}

impl Keys<'_> {
    /// The key of a message, whose number is that of the last one that was asked for or comes after it.
    pub fn of(&mut self, number: Option<i64>) -> Option<&[u8]> {
        let number = number?;
        while self.number < number {
            let row = self.messages.next()?;
            self.number = row.integer(0)?;
            if self.number == number {
                self.key = row.bytes(1).map(<[u8]>::to_vec);
            }
        }
        self.key.as_deref()
    }
}

impl Handler {
    fn find(connection: &Connection, oid: Oid) -> Result<Handler, Refusal> {
        let sql = format!(
            "SELECT format('%I.%I', n.nspname, p.proname), p.prokind = 'p', t.oid, CASE WHEN t.oid <> 0 THEN format('%I.%I', m.nspname, t.typname) END, \
                    p.prokind NOT IN ('f', 'p') OR p.provariadic <> 0 OR p.pronargs - p.pronargdefaults > 1 OR p.pronargs = 0 \
                    OR (p.prokind = 'p' AND 'o' = ANY (p.proargmodes)), \
                    t.oid <> 'jsonb'::regtype AND t.typtype <> 'c' \
               FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
               LEFT JOIN pg_type t ON t.oid = p.proargtypes[0] LEFT JOIN pg_namespace m ON m.oid = t.typnamespace \
              WHERE p.oid = {}",
            oid.to_u32()
        );
        let found = connection.first(sql.as_bytes(), |row| {
            let handler = Handler {
                name: row.owned(0),
                procedure: row.truth(1),
                kind: row.oid(2),
                kind_name: row.owned(3),
                columns: Vec::new(),
            };
            (handler, row.truth(4), row.truth(5))
        });
        let Some((mut handler, odd, other)) = found else {
            return Err(TapFault::Handler(format!(
                "There is no function with OID {}.",
                oid.to_u32()
            ))
            .into());
        };
        let name = String::from_utf8_lossy(&handler.name).into_owned();
        if odd {
            let why = format!(
                "{name} does not take exactly one argument, or is no plain function or procedure."
            );
            return Err(TapFault::Handler(why).into());
        }
        if other {
            let kind = String::from_utf8_lossy(&handler.kind_name).into_owned();
            return Err(TapFault::Handler(format!("{name} takes a value of type {kind}.")).into());
        }
        let sql = format!(
            "SELECT a.attname::text FROM pg_attribute a JOIN pg_type t ON t.typrelid = a.attrelid \
              WHERE t.oid = {} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            handler.kind.to_u32()
        );
        connection.each(sql.as_bytes(), |row| {
            handler.columns.push(row.owned(0));
            Ok::<_, Refusal>(())
        })?;
        Ok(handler)
    }

    /// A row of the log, called `q`, as the handler takes it.
    fn message(&self, columns: &[ResultColumn]) -> Result<Vec<u8>, Refusal> {
        if self.kind == pg_sys::JSONBOID {
            return Ok(b"pg_catalog.to_jsonb(q)".to_vec());
        }
        if let [only] = columns
            && only.kind == self.kind
        {
            return Ok([b"q.", &quoted(&only.name)[..]].concat());
        }
        let mut parts = Vec::new();
        for wanted in &self.columns {
            if !columns.iter().any(|column| column.name == *wanted) {
                return Err(TapFault::Lacks {
                    column: String::from_utf8_lossy(&quoted(wanted)).into_owned(),
                    kind: String::from_utf8_lossy(&self.kind_name).into_owned(),
                }
                .into());
            }
            parts.push([b"q.", &quoted(wanted)[..]].concat());
        }
        Ok([b"ROW(", &parts.join(&b", "[..])[..], b")::", &self.kind_name].concat())
    }
}
