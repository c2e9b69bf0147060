//! Building the filter of days that were sealed, and putting away those it takes the place of.
//!
//! A new filter's pages are written and named in one transaction; the tables of filters it has taken in are
//! dropped in another, once no claim is reading them.

mod checking;
mod leaf;
mod source;

pub use self::checking::retire_spoilt;
use self::leaf::Batch;
use self::source::{Source, Stored};
use crate::catalog::filters::{self, Known, KnownDay, Seal};
use crate::catalog::{cache, schema, sql};
use crate::domain::day::Instant;
use crate::domain::filter::merge::{self, Elder};
use crate::domain::filter::page::Entry;
use crate::domain::filter::{MOST_DAYS, Shape};
use crate::error::Refusal;
use crate::pg::pages::{Pages, Writer};
use crate::pg::privilege::{self, Acting};
use crate::pg::{bounds, inval, lock, member, session};
use pgrx::pg_sys::Oid;
use std::ffi::CString;

/// How often a filter is begun anew with more room, before it is left to the next pass.
const TRIES: u32 = 6;

/// A day that has a filter now.
pub struct Built {
    /// Its leaf.
    pub leaf: Oid,
    /// The claims in it.
    pub keys: i64,
}

/// A day of a filter that is being built.
#[derive(Clone, Copy)]
struct Day {
    leaf: Oid,
    seal: i64,
    keys: u64,
    newest: Option<Instant>,
}

/// Builds a filter of days that are sealed and have none: of as many as fit in memory, of one at least. Days
/// that it answers for come back, none where there was nothing to do or another session does it.
pub fn build(store: Oid) -> Result<Vec<Built>, Refusal> {
    if !lock::try_hold_filters(store) {
        return Ok(Vec::new());
    }
    let leaves = cache::leaves_of(store)?;
    let seals = filters::seals(store, &leaves)?;
    let known: Vec<Known> =
        filters::known(store)?.into_iter().filter(|filter| !filter.retired).collect();
    let counting: Vec<Vec<(usize, Day)>> =
        known.iter().map(|filter| counting_days(filter, &seals)).collect();
    let mut spoilt = Vec::new();
    let answered = |seal: &Seal| {
        counting.iter().flatten().any(|(_, day)| (day.leaf, day.seal) == (seal.leaf, seal.number))
    };
    let new: Vec<Seal> = seals.iter().filter(|seal| !answered(seal)).copied().collect();
    let mut gone: Vec<Oid> = known
        .iter()
        .zip(&counting)
        .filter(|(_, days)| days.is_empty())
        .map(|(filter, _)| filter.table)
        .collect();
    let mut built = Vec::new();
    if !new.is_empty() {
        let batch = Batch::read(store, &new)?;
        let useful: Vec<(&Known, &[(usize, Day)])> = known
            .iter()
            .zip(counting.iter().map(Vec::as_slice))
            .filter(|(_, days)| !days.is_empty())
            .collect();
        let elders: Vec<Elder> = useful
            .iter()
            .map(|(_, days)| Elder {
                entries: days.iter().map(|(_, day)| day.keys).sum(),
                days: days.len(),
            })
            .collect();
        let count = merge::taken_in(&elders, batch.keys(), batch.days().len(), MOST_DAYS);
        let taken = &useful[..count];
        built = batch.days().iter().map(|day| Built { leaf: day.leaf, keys: keys(day) }).collect();
        spoilt = write(store, batch, taken)?;
        if spoilt.is_empty() {
            gone.extend(taken.iter().map(|(filter, _)| filter.table));
        }
    }
    if !spoilt.is_empty() {
        // Their days are without one then, and read anew.
        retire(&spoilt)?;
        session::next_command();
        return build(store);
    }
    if !gone.is_empty() || !built.is_empty() {
        retire(&gone)?;
        inval::announce(store);
    }
    Ok(built)
}

fn keys(day: &Day) -> i64 {
    i64::try_from(day.keys).unwrap_or(i64::MAX)
}

/// The days of a filter whose seals still hold.
fn counting_days(filter: &Known, seals: &[Seal]) -> Vec<(usize, Day)> {
    // What somebody has dropped or emptied answers for nothing.
    if Pages::find(filter.table, filter.shape.pages).is_none() {
        return Vec::new();
    }
    let holds =
        |leaf, number| seals.iter().any(|seal: &Seal| seal.leaf == leaf && seal.number == number);
    filter
        .days
        .iter()
        .filter(|day| holds(day.leaf, day.seal))
        .map(|&KnownDay { place, leaf, seal, keys, newest }| {
            (place, Day { leaf, seal, keys: u64::try_from(keys).unwrap_or(0), newest })
        })
        .collect()
}

/// Writes the filter of a batch of new days and of those it takes in; or comes back with the tables of those
/// that cannot be taken in, because somebody has spoilt their pages.
fn write(
    store: Oid,
    batch: Batch,
    taken: &[(&Known, &[(usize, Day)])],
) -> Result<Vec<Oid>, Refusal> {
    let days: Vec<Day> = batch
        .days()
        .iter()
        .copied()
        .chain(taken.iter().flat_map(|(_, days)| days.iter().map(|(_, day)| *day)))
        .collect();
    let entries: u64 = days.iter().map(|day| day.keys).sum();
    for tries in 0..TRIES {
        let shape = Shape::fit(session::random().cast_unsigned(), entries, days.len(), tries);
        let mut sources = vec![Source::Read(batch.source())];
        let mut first = batch.days().len();
        for (filter, elder) in taken {
            sources.push(if shape.takes(&filter.shape) {
                Source::Stored(Stored::new(filter, elder, first)?)
            } else {
                Source::Read(Batch::again(store, elder, first)?.source())
            });
            first += elder.len();
        }
        let table = make_table(shape.id)?;
        let done = fill(&shape, table, &mut sources)?;
        let mut spoilt = Vec::new();
        for source in sources {
            spoilt.extend(source.finish()?);
        }
        if done && spoilt.is_empty() {
            name(store, table, &shape, entries, &days)?;
            return Ok(spoilt);
        }
        drop_table(table)?;
        if !spoilt.is_empty() {
            return Ok(spoilt);
        }
    }
    Err(Refusal::Internal(format!("the keys of store {store} crowd in the filter")))
}

/// Writes the pages. False where some entries crowd.
fn fill(shape: &Shape, table: Oid, sources: &mut [Source]) -> Result<bool, Refusal> {
    let lost = || Refusal::Internal(format!("page of filter {table} is not where it belongs"));
    let mut writer = Writer::open(table).ok_or_else(lost)?;
    let (mut page, mut held, mut number) = (Vec::new(), Vec::<Entry>::new(), 0);
    let mut next = merge::next(sources);
    while number < shape.pages {
        while let Some(entry) = next.filter(|(hash, _)| shape.page_of(*hash) == number) {
            held.push(entry);
            next = merge::next(sources);
        }
        if shape.write(number, &held, &mut page).is_err() {
            return Ok(false);
        }
        if !writer.write(&page) {
            return Err(lost());
        }
        held.clear();
        number += 1;
    }
    // An entry out of order would be missing, and its key denied.
    match next {
        None => Ok(true),
        Some(_) => Err(Refusal::Internal(format!("filter {table} was given entries out of order"))),
    }
}

fn make_table(id: u64) -> Result<Oid, Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    let name = format!("filter_{id:016x}");
    let quoted = sql::in_once(&name);
    // Nothing in it changes, so there is nothing to vacuum, and no page may go. As little as can be of each page is
    // to be filled by more than one row, so that a row has a page to itself even where it fills it half.
    sql::run(
        &format!(
            "CREATE TABLE {quoted} () USING heap \
             WITH (autovacuum_enabled = 'false', vacuum_truncate = 'false', fillfactor = 10)"
        ),
        &[],
    )?;
    // In one statement, so that no table is made for values too long for a page.
    let column = "ADD COLUMN page bytea NOT NULL, ALTER COLUMN page SET STORAGE PLAIN";
    sql::run(&format!("ALTER TABLE {quoted} {column}"), &[])?;
    let table = CString::new(name)
        .ok()
        .and_then(|name| bounds::relation_in(schema().ok()?, &name))
        .ok_or_else(|| Refusal::Internal("the filter's table was not made".to_owned()))?;
    member::join(table, c"pg_once");
    Ok(table)
}

/// Writes down whose filter it is.
fn name(store: Oid, table: Oid, shape: &Shape, entries: u64, days: &[Day]) -> Result<(), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    let comment = sql::literal(&format!(
        "filter of {} sealed days of once.{}: which of them may hold a key",
        days.len(),
        sql::named(store)?.name
    ));
    sql::run(&format!("COMMENT ON TABLE {} IS {comment}", sql::named(table)?.qualified), &[])?;
    let size = |value: u32| i64::from(value).into();
    sql::run(
        "INSERT INTO once.filter (pages_in, store, id, pages, bucket_bits, day_bits, entries) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[
            table.into(),
            store.into(),
            shape.id.cast_signed().into(),
            size(shape.pages),
            size(shape.bucket_bits),
            size(shape.day_bits),
            i64::try_from(entries).unwrap_or(i64::MAX).into(),
        ],
    )?;
    for (place, day) in (0_i64..).zip(days) {
        sql::run(
            "INSERT INTO once.filter_day (filter, place, leaf, seal, keys, newest) \
             VALUES ($1, $2, $3, $4, $5, $6)",
            &[
                table.into(),
                place.into(),
                day.leaf.into(),
                day.seal.into(),
                keys(day).into(),
                day.newest.map_or_else(|| Ok(sql::no_instant()), sql::instant)?,
            ],
        )?;
    }
    Ok(())
}

/// No claim asks these filters any more, once this transaction has committed.
fn retire(tables: &[Oid]) -> Result<(), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    for &table in tables {
        sql::run("UPDATE once.filter SET retired = true WHERE pages_in = $1", &[table.into()])?;
    }
    Ok(())
}

/// Drops the tables of a store's filters that nobody asks any more, once no claim can still be reading one: they
/// were retired in a transaction that has ended, so whoever takes a key's lock from now on knows it. False
/// where some claim does not come to its end.
pub fn drop_retired(store: Oid, patience: i32) -> Result<bool, Refusal> {
    let retired = |filter: &Known| filter.retired;
    if !filters::known(store)?.iter().any(retired) || !lock::try_hold_filters(store) {
        return Ok(true);
    }
    if !lock::wait_for_deciders(patience) {
        return Ok(false);
    }
    filters::known(store)?.iter().filter(|filter| retired(filter)).try_for_each(|filter| {
        forget(filter.table)?;
        drop_table(filter.table)
    })?;
    Ok(true)
}

fn forget(table: Oid) -> Result<(), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    sql::run("DELETE FROM once.filter_day WHERE filter = $1", &[table.into()])?;
    sql::run("DELETE FROM once.filter WHERE pages_in = $1", &[table.into()])
}

fn drop_table(table: Oid) -> Result<(), Refusal> {
    if !privilege::exists(table) {
        return Ok(());
    }
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    // It may have been made a member by this very command.
    session::next_command();
    member::leave(table);
    session::next_command();
    sql::run(&format!("DROP TABLE {}", sql::named(table)?.qualified), &[])
}

/// The stores that are gone and still have filters.
pub fn gone_stores() -> Result<Vec<Oid>, Refusal> {
    let mut gone = Vec::new();
    filters::for_each_store(|store| {
        if !privilege::exists(store) && !gone.contains(&store) {
            gone.push(store);
        }
    })?;
    Ok(gone)
}

/// Retires every filter of a store, which is to be dropped or is gone.
pub fn retire_all(store: Oid) -> Result<(), Refusal> {
    let tables: Vec<Oid> = filters::known(store)?.iter().map(|filter| filter.table).collect();
    retire(&tables)
}
