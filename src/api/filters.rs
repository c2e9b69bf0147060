//! Filters of sealed days, as SQL sees them: the trigger that makes one void, and looks for people and tests.

use super::{given, stores::store_name};
use crate::catalog::cache;
use crate::catalog::filters::{self, Places};
use crate::claim::arbiter;
use crate::domain::key::lock_number;
use crate::error::{Refusal, raise};
use crate::pg::failure::{Sql, sql};
use crate::pg::lock::OwnLock;
use crate::pg::privilege::{self, TableRight};
use crate::pg::rows::{RowSet, Value};
use crate::pg::trigger::{Fired, Passed};
use pgrx::pg_extern;
use pgrx::pg_sys::Oid;

/// Fires before a row comes into a sealed leaf, by whatever road. Needs no privilege: whoever may write the row
/// may say so. Errors: 39P01 where it is called in another way.
#[pg_extern(sql = false)]
fn void_filter(fired: Fired) -> Sql<Passed> {
    sql(|| {
        let Some(table) = fired.table() else {
            return raise(Err(Refusal::NotATrigger));
        };
        if fired.may_bring_news() {
            raise(filters::void(table));
        }
        fired.pass()
    })
}

/// Fires before an update of a seal, and refuses it: a seal that was voided would be trusted again, and the new version
/// of one that is being voided at that moment would miss it. Errors: 55000.
#[pg_extern(sql = false)]
fn keep_seal(_fired: Fired) -> Sql<Passed> {
    sql(|| raise(Err(Refusal::SealUpdated)))
}

/// The leaves of a store that filters answer for, and the tables of those; none for a table that is no store.
/// Needs USAGE on the schema only: it tells of no key.
#[pg_extern(sql = false)]
fn sealed_leaves(store: Oid) -> Sql<RowSet<'static, 2>> {
    sql(|| {
        // Dropped by hand, perhaps: then the rest of its leaves is gone too.
        let leaves = if privilege::exists(store) { raise(cache::leaves_of(store)) } else { vec![] };
        let filters = raise(filters::load(store, &leaves));
        let rows = filters
            .tables()
            .into_iter()
            .map(|(place, table)| [Value::Oid(leaves[place].table), Value::Oid(table)]);
        RowSet::new(rows.collect::<Vec<_>>().into_iter())
    })
}

/// The sealed leaves that may hold a key, by the filters alone. Errors: 22004 for a NULL argument; 42501 without
/// SELECT on the store; 42704 for an unknown store.
#[pg_extern(sql = false)]
fn filter_probe(
    store: Option<&[u8]>,
    key: Option<&[u8]>,
    effect: Option<&[u8]>,
) -> Sql<RowSet<'static, 2>> {
    let probe = || {
        let (name, key) = (store_name(store, "store")?, given(key, "key")?);
        let effect = given(effect, "effect")?;
        let mut places = [Places::NONE];
        // As a claim asks: under the key's lock, of a store that is current then.
        let store = loop {
            let store =
                cache::find(name.as_bytes())?.ok_or_else(|| arbiter::unknown(name.as_bytes()))?;
            arbiter::require(&store, TableRight::Select)?;
            let hash = lock_number(store.table.to_u32(), effect, key);
            let _key_lock = OwnLock::key(hash);
            if store.is_current() {
                store.filters.ask(&[hash], &mut places);
                break store;
            }
        };
        let maybe = |(place, table): (usize, Oid)| {
            places[0].include(place).then(|| (store.leaves[place].table, table))
        };
        let found = store.filters.tables().into_iter().filter_map(maybe);
        Ok::<Vec<(Oid, Oid)>, Refusal>(found.collect())
    };
    sql(|| {
        let found = raise(probe()).into_iter();
        RowSet::new(found.map(|(leaf, filter)| [Value::Oid(leaf), Value::Oid(filter)]))
    })
}
