//! The few pieces every statement of ours is made of: quoted names, values with types, runs.
//!
//! Statements name everything in full. They run under [`Acting`](crate::pg::privilege::Acting), so
//! nothing is looked up through the caller's search_path.

use crate::domain::day::{DAY, Instant};
use crate::domain::window::Span;
use crate::error::Refusal;
use pgrx::datum::{DatumWithOid, FromDatum, Interval, IntoDatum, TimestampWithTimeZone};
use pgrx::pg_sys::Oid;
use pgrx::spi::{Spi, quote_identifier, quote_literal};

/// `once."name"`.
pub fn in_once(name: &str) -> String {
    format!("once.{}", quote_identifier(name))
}

/// A quoted string literal.
pub fn literal(text: &str) -> String {
    quote_literal(text)
}

/// A quoted identifier.
pub fn identifier(name: &str) -> String {
    quote_identifier(name)
}

/// Runs a statement.
pub fn run(statement: &str, args: &[DatumWithOid]) -> Result<(), Refusal> {
    Ok(Spi::run_with_args(statement, args)?)
}

/// Runs a query that gives one value, NULL or none being None.
pub fn get<T: FromDatum + IntoDatum>(
    query: &str,
    args: &[DatumWithOid],
) -> Result<Option<T>, Refusal> {
    match Spi::get_one_with_args(query, args) {
        Err(pgrx::spi::SpiError::InvalidPosition) => Ok(None),
        other => Ok(other?),
    }
}

/// The same for a query that only reads, by the snapshot of the calling statement: `get` takes a transaction id, which a
/// standby has none of.
pub fn look<T: FromDatum + IntoDatum>(
    query: &str,
    args: &[DatumWithOid],
) -> Result<Option<T>, Refusal> {
    Spi::connect(|client| {
        let first = client.select(query, Some(1), args)?.next();
        first.map_or(Ok(None), |row| Ok(row.get::<T>(1)?))
    })
}

/// Runs a query that gives a column of strings. They may hold names of somebody's, which are refused where they
/// are no UTF-8: fetched as strings they would be a panic, and end more than the step at hand.
pub fn strings(query: &str, args: &[DatumWithOid]) -> Result<Vec<String>, Refusal> {
    let query = format!(
        "SELECT pg_catalog.convert_to(q.s, pg_catalog.getdatabaseencoding()) FROM ({query}) AS q (s)"
    );
    Spi::connect(|client| {
        let mut values = Vec::new();
        for row in client.select(&query, None, args)? {
            values.extend(row.get::<Vec<u8>>(1)?.map(utf8).transpose()?);
        }
        Ok(values)
    })
}

fn utf8(bytes: Vec<u8>) -> Result<String, Refusal> {
    String::from_utf8(bytes).map_err(|_| Refusal::NameEncoding)
}

/// What a relation is called, wherever it is.
pub struct Named {
    /// Its bare name.
    pub name: String,
    /// Its name with schema, quoted, for statements.
    pub qualified: String,
    /// Its owner.
    pub owner: String,
}

/// The name and owner of a relation.
pub fn named(relation: Oid) -> Result<Named, Refusal> {
    let found = Spi::connect(|client| {
        let query = "SELECT pg_catalog.convert_to(c.relname::text, e.encoding), \
                            pg_catalog.convert_to(pg_catalog.format('%I.%I', n.nspname, c.relname), e.encoding), \
                            pg_catalog.convert_to(pg_catalog.pg_get_userbyid(c.relowner)::text, e.encoding) \
                       FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
                         ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
                      CROSS JOIN pg_catalog.getdatabaseencoding() e (encoding) \
                      WHERE c.oid OPERATOR(pg_catalog.=) $1";
        let mut rows = client.select(query, Some(1), &[relation.into()])?;
        let Some(row) = rows.next() else { return Ok::<_, Refusal>(None) };
        Ok(row.get::<Vec<u8>>(1)?.zip(row.get::<Vec<u8>>(2)?).zip(row.get::<Vec<u8>>(3)?))
    })?;
    let ((name, qualified), owner) =
        found.ok_or_else(|| Refusal::Internal(format!("relation {relation} is gone")))?;
    Ok(Named { name: utf8(name)?, qualified: utf8(qualified)?, owner: utf8(owner)? })
}

/// An instant as a timestamptz argument.
pub fn instant(at: Instant) -> Result<DatumWithOid<'static>, Refusal> {
    TimestampWithTimeZone::try_from(at)
        .map(Into::into)
        .map_err(|_| Refusal::Internal(format!("instant {at} is out of range")))
}

/// No instant, as a timestamptz argument.
pub fn no_instant() -> DatumWithOid<'static> {
    None::<TimestampWithTimeZone>.into()
}

/// A length as an interval argument of days and a rest.
pub fn interval(micros: i64) -> Result<DatumWithOid<'static>, Refusal> {
    i32::try_from(micros / DAY)
        .ok()
        .and_then(|days| Interval::new(0, days, micros % DAY).ok())
        .map(Into::into)
        .ok_or(Refusal::BadInterval("interval"))
}

/// The same of one that may be zero.
pub fn length_or_zero(months: i32, days: i32, micros: i64) -> i64 {
    if (months, days, micros) == (0, 0, 0) { 0 } else { length(months, days, micros) }
}

/// The length of an interval the catalog holds; one that somebody made unreadable by hand counts
/// as endless, so that nothing is dropped for it.
pub fn length(months: i32, days: i32, micros: i64) -> i64 {
    Span { months, days, micros }.length().unwrap_or(i64::MAX)
}
