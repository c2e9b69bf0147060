//! Rows of a day in a default partition that somebody attached. PostgreSQL makes no leaf beside them, so they move
//! into it, in the transaction that makes it.
//!
//! The rule: their keys stay claimed throughout. From before the first row is taken out until the commit nobody else
//! can look into the default partition; who waits to has heard, once it can, that the store has changed, and looks
//! again. Nothing is lost on the way: what arrived in the leaf is compared with what was taken out.
//!
//! They are written to the leaf only when it is attached, so that a subscription to the store is told of both halves
//! of the move; in between they lie in an unlogged table, of which nobody is told.

use super::{leaves, schema, sql};
use crate::domain::day::Day;
use crate::error::Refusal;
use crate::pg::privilege::{self, Acting};
use crate::pg::relation::{Access, Relation};
use crate::pg::{bounds, lock};
use pgrx::pg_sys::Oid;

/// Claims on their way.
pub struct Aside {
    table: String,
    columns: String,
    count: i64,
}

/// Takes the claims of a day out of the store's default partition, if it has one and they are there. Called as
/// the store's owner, who may write to the default partition by way of the store, whoever owns it.
pub fn take_out(
    store: Oid,
    leaf: Oid,
    day: Day,
    before_locking: impl FnOnce(),
) -> Result<Option<Aside>, Refusal> {
    let Some(default) = bounds::default_of(store) else { return Ok(None) };
    // ATTACH takes the same locks; the parent first, as readers do, so that nobody can meet us the other way round.
    lock::hold_for_change(store);
    before_locking();
    lock::hold_exclusively(default);
    if Relation::open(default, Access::Read).is_some_and(|it| it.is_ordinary() && it.is_empty()) {
        return Ok(None);
    }
    let sql::Named { name, qualified: parent, owner } = sql::named(store)?;
    let of_day = format!(
        "claimed_at >= {} AND claimed_at < {}",
        sql::literal(&day.bound()),
        sql::literal(&day.plus(1).bound())
    );
    let found = sql::get::<i64>(&format!("SELECT count(*) FROM {parent} WHERE {of_day}"), &[])?;
    let Some(count) = found.filter(|count| *count > 0) else { return Ok(None) };
    let columns = sql::strings(
        "SELECT quote_ident(attname) FROM pg_attribute \
          WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        &[leaf.into()],
    )?
    .join(", ");
    let table = {
        let _acting = Acting::as_role(privilege::schema_owner(schema()?));
        let table = sql::in_once(&leaves::free_name(&name, day)?);
        let model = sql::named(leaf)?.qualified;
        sql::run(&format!("CREATE UNLOGGED TABLE {table} (LIKE {model})"), &[])?;
        sql::run(&format!("ALTER TABLE {table} OWNER TO {}", sql::identifier(&owner)), &[])?;
        table
    };
    sql::run(
        &format!(
            "WITH moved AS (DELETE FROM {parent} WHERE {of_day} RETURNING {columns}) \
             INSERT INTO {table} ({columns}) SELECT {columns} FROM moved"
        ),
        &[],
    )?;
    Ok(Some(Aside { table, columns, count }))
}

impl Aside {
    /// Puts them into the leaf, which is attached. How many there are.
    pub fn put_into(self, leaf: Oid) -> Result<i64, Refusal> {
        let Aside { table, columns, count } = self;
        let sql::Named { name, qualified: leaf, .. } = sql::named(leaf)?;
        sql::run(
            &format!(
                "INSERT INTO {leaf} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {table}"
            ),
            &[],
        )?;
        // A trigger of somebody's may have swallowed or changed one on either way.
        let arrived = sql::get::<i64>(
            &format!(
                "SELECT count(*) FROM {leaf} l JOIN {table} t \
                 USING (key, effect, claimed_at, expires_at)"
            ),
            &[],
        )?;
        if arrived != Some(count) {
            return Err(Refusal::AlteredByTrigger(name));
        }
        sql::run(&format!("DROP TABLE {table}"), &[])?;
        Ok(count)
    }
}
