//! Invalidation: word from other sessions that what a cache holds is no longer so.

use pgrx::pg_sys;
use std::cell::Cell;

/// Told which relation has changed; None: it may be any.
type Watcher = fn(Option<pg_sys::Oid>);

thread_local! {
    static WATCHER: Cell<Option<Watcher>> = const { Cell::new(None) };
}

/// Has `watcher` called whenever a relation's definition may have changed (None: any relation's).
/// It may be called at any point where PostgreSQL takes a lock or opens a table, so it must not
/// raise, allocate PostgreSQL memory or open anything. Registered once a session.
pub fn watch_relations(watcher: Watcher) {
    if WATCHER.with(|w| w.replace(Some(watcher))).is_some() {
        return;
    }
    // SAFETY: the callback is a plain function that lives as long as the library.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(on_relcache), pg_sys::Datum::from(0));
    }
}

unsafe extern "C-unwind" fn on_relcache(_arg: pg_sys::Datum, relid: pg_sys::Oid) {
    if let Some(watcher) = WATCHER.with(Cell::get) {
        watcher((relid != pg_sys::InvalidOid).then_some(relid));
    }
}

/// Takes in what other sessions have committed since the last look. Cheap when there is nothing.
pub fn accept() {
    // SAFETY: allowed wherever a lock may be taken inside a transaction.
    unsafe { pg_sys::AcceptInvalidationMessages() }
}

/// Tells every session now, whatever becomes of this transaction, that what it remembers of a
/// relation is stale.
pub fn announce_now(relid: pg_sys::Oid) {
    // SAFETY: a zeroed message is valid for each of its forms; the queue copies it. An entry that a
    // session does not have is not looked for further.
    unsafe {
        let mut message: pg_sys::SharedInvalidationMessage = std::mem::zeroed();
        message.rc = pg_sys::SharedInvalRelcacheMsg {
            id: pg_sys::SHAREDINVALRELCACHE_ID as i8,
            dbId: pg_sys::MyDatabaseId,
            relId: relid,
        };
        pg_sys::SendSharedInvalidMessages(&message, 1);
    }
}

/// Tells every session, at commit, that this relation's entry is stale; this session at once.
pub fn announce(relid: pg_sys::Oid) {
    // SAFETY: takes any oid; raises for a relation that does not exist.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relid) }
}
