//! Making and dropping leaves. A leaf is made standalone and then attached, so that the parent is
//! locked only against other changes of its definition, never against readers or claims.
//!
//! Two roles take part. The schema's owner creates the bare table, from fixed text that evaluates
//! nothing of anybody's; the store's owner, to whom it is given, does all that could run code a store's
//! owner put there (checks, defaults, indexes, triggers).

use super::log::{self, Action, Entry};
use super::{cache, overflow, schema, sealing, sql};
use crate::domain::day::Day;
use crate::domain::{naming, window};
use crate::error::Refusal;
use crate::pg::privilege::{self, Acting, TableRight};
use crate::pg::relation::{Access, Relation};
use crate::pg::{bounds, lock, session};
use pgrx::pg_sys::Oid;
use std::ffi::CString;

/// The columns of every store and leaf. The fixed-width ones come first, which saves padding.
pub const COLUMNS: &str = "claimed_at timestamptz NOT NULL, \
     expires_at timestamptz NOT NULL, \
     key text COLLATE \"C\" NOT NULL, \
     effect text COLLATE \"C\" NOT NULL DEFAULT '', \
     fingerprint bytea, \
     result jsonb";

/// Makes the leaf of `day` for a store unless the day is covered, in the current transaction. What became of it:
/// None where there was nothing to make, otherwise how many claims a default partition had of the day, which are
/// now in the leaf. Holds the store's definition lock to the end of the transaction. `before_default` is called
/// before a default partition, if there is one, is locked against everybody.
pub fn make(store: Oid, day: Day, before_default: impl FnOnce()) -> Result<Option<i64>, Refusal> {
    let began = session::now();
    lock::hold_definition(store);
    if !privilege::exists(store) {
        return Ok(None);
    }
    // Read under the lock: two makers of one day come one after the other.
    let leaves = cache::leaves_of(store)?;
    if leaves.iter().any(|leaf| leaf.meets(day)) {
        return Ok(None);
    }
    let Some(retention) = cache::retention_of(store)? else { return Ok(None) };
    let schema_owner = privilege::schema_owner(schema()?);
    let model = leaves.first().map(|leaf| leaf.table);

    let leaf = {
        let _acting = Acting::as_role(schema_owner);
        let sql::Named { name: store_name, owner, .. } = sql::named(store)?;
        let name = free_name(&store_name, day)?;
        create_bare(store, &name, model)?;
        let leaf = relation(&name)?;
        sql::run(
            &format!("ALTER TABLE {} OWNER TO {}", sql::in_once(&name), sql::identifier(&owner)),
            &[],
        )?;
        sql::run(
            &format!(
                "COMMENT ON TABLE {} IS {}",
                sql::in_once(&name),
                sql::literal(&format!("claims made on {} UTC", &day.bound()[..10]))
            ),
            &[],
        )?;
        promise(leaf, store, window::keep_until(day, retention))?;
        leaf
    };
    let acting = Acting::as_role(privilege::table_owner(store));
    liken(store, leaf)?;
    copy_grants(store, leaf)?;
    let aside = overflow::take_out(store, leaf, day, before_default)?;
    attach(store, leaf, day)?;
    let moved = aside.map_or(Ok(0), |aside| aside.put_into(leaf))?;
    if bounds::range_of(leaf) != Some(bounds::Range { from: day.start(), to: day.end() }) {
        return Err(Refusal::Internal(format!("leaf {leaf} does not cover its day")));
    }
    drop(acting);
    let detail = if moved > 0 { "with claims that were in the default partition" } else { "" };
    let entry = Entry {
        day: Some(day),
        rows: (moved > 0).then_some(moved),
        took: Some(session::now() - began),
        ..Entry::of(Action::Create, detail)
    };
    log::write(store, &entry)?;
    Ok(Some(moved))
}

pub(super) fn relation(name: &str) -> Result<Oid, Refusal> {
    CString::new(name)
        .ok()
        .and_then(|name| bounds::relation_in(schema().ok()?, &name))
        .ok_or_else(|| Refusal::Internal(format!("table {name} was not made")))
}

/// The first name for the leaf that no other relation has.
pub(super) fn free_name(store: &str, day: Day) -> Result<String, Refusal> {
    (0..100)
        .map(|attempt| naming::leaf_name(store, day, attempt))
        .find(|name| relation(name).is_err())
        .ok_or_else(|| Refusal::Internal(format!("no free name for a leaf of {store}")))
}

/// Creates the table with our columns and nothing else, always logged and a heap, in the parent's
/// tablespace and with the storage parameters of the newest leaf: a partitioned table has none.
fn create_bare(store: Oid, name: &str, model: Option<Oid>) -> Result<(), Refusal> {
    let tablespace = sql::strings(
        "SELECT t.spcname::text FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace \
         WHERE c.oid = $1",
        &[store.into()],
    )?;
    let (table_space, index_space) = tablespace.first().map_or_else(Default::default, |space| {
        let space = sql::identifier(space);
        (format!(" TABLESPACE {space}"), format!(" USING INDEX TABLESPACE {space}"))
    });
    let mut options = match model {
        Some(model) => sql::strings(
            "SELECT format('%I = %L', o.option_name, o.option_value) \
             FROM pg_class c, pg_options_to_table(c.reloptions) o WHERE c.oid = $1",
            &[model.into()],
        )?,
        None => Vec::new(),
    };
    // Giving empty pages back would take a lock that stops claims, and make a leaf look as if nothing had
    // ever been written to it.
    if !options.iter().any(|option| option.contains("vacuum_truncate")) {
        options.push("vacuum_truncate = 'false'".to_owned());
    }
    let with = format!(" WITH ({})", options.join(", "));
    let name = sql::in_once(name);
    sql::run(
        &format!(
            "CREATE TABLE {name} ({COLUMNS}, PRIMARY KEY (key, effect){index_space}) \
             USING heap{with}{table_space}"
        ),
        &[],
    )
}

/// Gives the leaf whatever else the parent has: storage of columns, further columns, checks.
fn liken(store: Oid, leaf: Oid) -> Result<(), Refusal> {
    let changes = sql::strings(
        "SELECT format('ALTER COLUMN %I SET STORAGE %s', p.attname, \
                CASE p.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' \
                                  WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END) \
           FROM pg_attribute p JOIN pg_attribute l ON l.attrelid = $2 AND l.attname = p.attname \
          WHERE p.attrelid = $1 AND p.attnum > 0 AND NOT p.attisdropped \
            AND p.attstorage <> l.attstorage \
         UNION ALL \
         SELECT format('ALTER COLUMN %I SET COMPRESSION %s', p.attname, \
                CASE p.attcompression WHEN 'p' THEN 'pglz' ELSE 'lz4' END) \
           FROM pg_attribute p \
          WHERE p.attrelid = $1 AND p.attnum > 0 AND NOT p.attisdropped AND p.attcompression <> '' \
         UNION ALL \
         SELECT format('ADD COLUMN %I %s%s%s%s', p.attname, format_type(p.atttypid, p.atttypmod), \
                CASE WHEN p.attcollation <> t.typcollation THEN \
                     (SELECT format(' COLLATE %I.%I', n.nspname, c.collname) FROM pg_collation c \
                       JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = p.attcollation) \
                END, \
                CASE WHEN p.attgenerated = 's' THEN \
                          format(' GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid)) \
                     WHEN p.attgenerated = 'v' THEN \
                          format(' GENERATED ALWAYS AS (%s) VIRTUAL', pg_get_expr(d.adbin, d.adrelid)) \
                     WHEN d.adbin IS NOT NULL THEN format(' DEFAULT %s', pg_get_expr(d.adbin, d.adrelid)) \
                END, \
                CASE WHEN p.attnotnull THEN ' NOT NULL' END) \
           FROM pg_attribute p JOIN pg_type t ON t.oid = p.atttypid \
           LEFT JOIN pg_attrdef d ON d.adrelid = p.attrelid AND d.adnum = p.attnum \
          WHERE p.attrelid = $1 AND p.attnum > 0 AND NOT p.attisdropped \
            AND NOT EXISTS (SELECT FROM pg_attribute l WHERE l.attrelid = $2 AND l.attname = p.attname) \
         UNION ALL \
         SELECT format('ADD CONSTRAINT %I %s', conname, pg_get_constraintdef(oid)) \
           FROM pg_constraint WHERE conrelid = $1 AND contype = 'c'",
        &[store.into(), leaf.into()],
    )?;
    if changes.is_empty() {
        return Ok(());
    }
    let leaf = sql::named(leaf)?.qualified;
    sql::run(&format!("ALTER TABLE {leaf} {}", changes.join(", ")), &[])
}

/// Makes the leaf's privileges the parent's: what default privileges added goes, what the parent
/// grants comes.
fn copy_grants(store: Oid, leaf: Oid) -> Result<(), Refusal> {
    let statements = sql::strings(
        "SELECT format('REVOKE ALL ON %s FROM %s CASCADE', l.oid::regclass, \
                CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END) \
           FROM pg_class l, aclexplode(l.relacl) a WHERE l.oid = $2 \
         UNION ALL \
         SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, $2::regclass, \
                CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, \
                CASE WHEN a.is_grantable AND a.grantee <> p.relowner THEN ' WITH GRANT OPTION' END) \
           FROM pg_class p JOIN pg_class l ON l.oid = $2, \
                aclexplode(coalesce(p.relacl, acldefault('r', p.relowner))) a \
          WHERE p.oid = $1 AND (p.relacl IS NOT NULL OR l.relacl IS NOT NULL)",
        &[store.into(), leaf.into()],
    )?;
    statements.iter().try_for_each(|statement| sql::run(statement, &[]))
}

fn attach(store: Oid, leaf: Oid, day: Day) -> Result<(), Refusal> {
    let (store, leaf) = (sql::named(store)?.qualified, sql::named(leaf)?.qualified);
    sql::run(
        &format!(
            "ALTER TABLE {store} ATTACH PARTITION {leaf} FOR VALUES FROM ({}) TO ({})",
            sql::literal(&day.bound()),
            sql::literal(&day.plus(1).bound())
        ),
        &[],
    )
}

/// Writes down until when a leaf is kept; never shortens what was promised for the same leaf.
/// Called as the schema's owner.
pub fn promise(leaf: Oid, store: Oid, keep_until: i64) -> Result<(), Refusal> {
    sql::run(
        "INSERT INTO once.leaf_promise AS p (leaf, store, keep_until) VALUES ($1, $2, $3) \
         ON CONFLICT (leaf) DO UPDATE SET store = excluded.store, keep_until = \
         CASE WHEN p.store = excluded.store THEN greatest(p.keep_until, excluded.keep_until) \
              ELSE excluded.keep_until END",
        &[leaf.into(), store.into(), sql::instant(keep_until)?],
    )
}

/// Forgets what was promised for leaves that somebody has dropped by hand.
pub fn forget_gone(store: Oid) -> Result<(), Refusal> {
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    for known in ["leaf_promise", "leaf_seal"] {
        sql::run(
            &format!(
                "DELETE FROM once.{known} p WHERE store = $1 \
                    AND NOT EXISTS (SELECT FROM pg_class WHERE oid = p.leaf)"
            ),
            &[store.into()],
        )?;
    }
    Ok(())
}

/// How many claims a leaf holds, and how many of them expire after `now`, whatever was promised; None for a
/// leaf that is gone. Reads the whole leaf.
pub fn count_claims(leaf: Oid, now: i64) -> Result<Option<(i64, i64)>, Refusal> {
    // Held open so that it cannot go while it is read.
    let Some(_open) = Relation::open(leaf, Access::Read) else { return Ok(None) };
    let _acting = Acting::as_role(privilege::table_owner(leaf));
    let leaf = sql::named(leaf)?.qualified;
    let query = format!("SELECT count(*), count(*) FILTER (WHERE expires_at > $1) FROM {leaf}");
    let counts = pgrx::Spi::get_two_with_args::<i64, i64>(&query, &[sql::instant(now)?])?;
    Ok(counts.0.zip(counts.1))
}

/// Until when each leaf of a store may hold a live claim, its pauses taken into account.
pub fn live_until(store: Oid) -> Result<Vec<(Oid, i64)>, Refusal> {
    let pauses = super::pauses::of(store)?.all;
    let end = |leaf: &cache::Leaf| (leaf.table, pauses.end(leaf.range.from, leaf.keep_until));
    Ok(cache::leaves_of(store)?.iter().map(end).collect())
}

/// Reads a leaf that somebody attached by hand, for which nothing was promised, once a day, to see whether a claim in
/// it is live, and writes down what there is to be said: it is never dropped. `over_by` is when a claim that is over
/// now was to expire at the latest.
pub fn see_by_hand(store: Oid, leaf: Oid, over_by: i64, since: i64) -> Result<(), Refusal> {
    if !privilege::exists(leaf) {
        return Ok(());
    }
    let name = sql::named(leaf)?.qualified;
    if log::tells_of(store, Action::Keep, &name, since)? {
        return Ok(());
    }
    let Some((all, live)) = count_claims(leaf, over_by)? else { return Ok(()) };
    let detail = match live {
        0 => format!("{name} {OVER_BY_HAND}"),
        _ => format!("{name} was attached by hand and holds live claims"),
    };
    log::write(store, &Entry { rows: Some(all), ..Entry::of(Action::Keep, &detail) })
}

/// What the log says of such a leaf, as view once.health looks for it.
const OVER_BY_HAND: &str =
    "was attached by hand, every claim in it is over, and it is never dropped";

/// When the first and the last claim of a leaf expire; None where there is none, the table is no leaf, or the
/// caller may not read its store.
pub fn expiries(leaf: Oid) -> Result<Option<(i64, i64)>, Refusal> {
    let may_read = |store| privilege::may(store, TableRight::Select);
    if !bounds::parent(leaf).is_some_and(may_read) {
        return Ok(None);
    }
    let Some(_open) = Relation::open(leaf, Access::Read) else { return Ok(None) };
    let _acting = Acting::as_role(privilege::table_owner(leaf));
    let query =
        format!("SELECT min(expires_at), max(expires_at) FROM {}", sql::named(leaf)?.qualified);
    type At = pgrx::datum::TimestampWithTimeZone;
    let (oldest, newest) = pgrx::Spi::get_two::<At, At>(&query)?;
    Ok(oldest.map(i64::from).zip(newest.map(i64::from)))
}

/// Drops a leaf with its claims. The caller holds the locks and has made sure that nothing lives.
pub fn drop_leaf(leaf: Oid) -> Result<(), Refusal> {
    {
        // A leaf's owner may be another than its store's by now.
        let _acting = Acting::as_role(privilege::table_owner(leaf));
        sql::run(&format!("DROP TABLE {}", sql::named(leaf)?.qualified), &[])?;
    }
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    sql::run("DELETE FROM once.leaf_promise WHERE leaf = $1", &[leaf.into()])?;
    sealing::forget(leaf)
}
