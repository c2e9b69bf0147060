//! Sealing a leaf whose day is over: see [`super::filters`] for what a seal is good for.

use super::filters::TRIGGER;
use super::{schema, sql};
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::layout::key_columns_of;
use crate::pg::privilege::{self, Acting};
use crate::pg::relation::{Access, Relation};
use crate::pg::seal::Marks;
use crate::pg::{bounds, lock, session};
use pgrx::pg_sys::Oid;

/// Seals a leaf, anew where it was sealed before, if its day is over by `now`. Waits for whoever is writing
/// to it, and keeps writers out until the transaction ends; readers and claims that only look are not in the
/// way. False where it is no such leaf any more.
pub fn seal(store: Oid, leaf: Oid, now: Instant) -> Result<bool, Refusal> {
    if !privilege::exists(leaf) {
        return Ok(false);
    }
    lock::hold_against_writers(leaf);
    let is_over = bounds::range_of(leaf).is_some_and(|range| range.to <= now);
    // A partitioned or foreign table may get rows that no trigger on it sees.
    let is_ordinary = Relation::open(leaf, Access::Read).is_some_and(|leaf| leaf.is_ordinary());
    if !is_over || !is_ordinary || bounds::parent(leaf) != Some(store) {
        return Ok(false);
    }
    {
        let _acting = Acting::as_role(privilege::table_owner(leaf));
        let (leaf, trigger) = (sql::named(leaf)?.qualified, TRIGGER.to_string_lossy());
        sql::run(
            &format!(
                "CREATE OR REPLACE TRIGGER {trigger} BEFORE INSERT OR UPDATE ON {leaf} \
                 FOR EACH ROW EXECUTE FUNCTION once.void_filter()"
            ),
            &[],
        )?;
        sql::run(&format!("ALTER TABLE {leaf} ENABLE ALWAYS TRIGGER {trigger}"), &[])?;
        let comment = sql::literal(
            "the day is over: says, when a row comes all the same, that its filter counts no more",
        );
        sql::run(&format!("COMMENT ON TRIGGER {trigger} ON {leaf} IS {comment}"), &[])?;
    }
    session::next_command();
    let (key_at, effect_at) = key_columns_of(store);
    let mark = Marks::open()
        .and_then(|marks| marks.of(leaf, TRIGGER))
        .ok_or_else(|| Refusal::Internal(format!("leaf {leaf} was not sealed")))?;
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    sql::run("DELETE FROM once.leaf_seal WHERE leaf = $1", &[leaf.into()])?;
    sql::run(
        "INSERT INTO once.leaf_seal (leaf, store, made_trigger, made_by, file, seal, key_at, effect_at, altered_by) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            leaf.into(),
            store.into(),
            mark.trigger.into(),
            i64::from(mark.made_by).into(),
            mark.file.into(),
            session::random().into(),
            i64::from(key_at).into(),
            i64::from(effect_at).into(),
            i64::from(mark.altered_by).into(),
        ],
    )?;
    Ok(true)
}

/// Forgets the seal of a leaf that is dropped.
pub fn forget(leaf: Oid) -> Result<(), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    sql::run("DELETE FROM once.leaf_seal WHERE leaf = $1", &[leaf.into()])
}
