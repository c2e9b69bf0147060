//! Heavyweight locks and waiting.
//!
//! The key lock lives in a lock-tag space of our own: locktype "advisory" with a fourth field that
//! no advisory function of PostgreSQL uses (those write 1 and 2), so it can neither collide with an
//! application's advisory locks nor be taken or released by one.

use super::failure::step;
use super::relation::Relation;
use super::{raw, unwinding};
use pgrx::pg_sys;

/// Fourth field of a key's lock tag: shows as objsubid in pg_locks.
const KEY_SPACE: u16 = 20_302;
/// Fourth field of the lock under which one claimer at a time has something made.
const MAKE_SPACE: u16 = 20_303;
/// Fourth field of the lock under which a store's days and policy change.
const DEFINITION_SPACE: u16 = 20_304;
/// Fourth field of the lock under which a store's filters are built and put away.
const FILTER_SPACE: u16 = 20_305;

/// An exclusive lock in our own space, held until dropped, never to the end of the transaction.
pub struct OwnLock {
    tag: pg_sys::LOCKTAG,
}

impl OwnLock {
    /// Waits for the lock on a key's number (SQLSTATE 55P03 after lock_timeout, 57014 when
    /// cancelled, 40P01 in a deadlock), then takes in what other sessions have changed and reads
    /// the clock.
    pub fn key(number: u64) -> (OwnLock, i64) {
        let tag = tag(number, KEY_SPACE);
        // SAFETY: the tag is a plain value that LockAcquire copies; messages may be taken in
        // wherever a lock may be taken.
        let now = unsafe {
            step(|| {
                raw::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, false, false);
                raw::AcceptInvalidationMessages();
                raw::GetCurrentTimestamp()
            })
        };
        (OwnLock { tag }, now)
    }

    /// The same only if the lock can be had at once.
    pub fn key_at_once(number: u64) -> Option<(OwnLock, i64)> {
        let tag = tag(number, KEY_SPACE);
        // SAFETY: as in `key`; where the lock is not had nothing is held.
        let now = unsafe {
            step(|| {
                try_acquire(&tag).then(|| {
                    raw::AcceptInvalidationMessages();
                    raw::GetCurrentTimestamp()
                })
            })
        };
        now.map(|now| (OwnLock { tag }, now))
    }

    /// Waits for the right to have a store, or a day of it, made.
    pub fn making(number: u64) -> OwnLock {
        OwnLock::acquire(number, MAKE_SPACE)
    }

    fn acquire(number: u64, space: u16) -> OwnLock {
        let tag = tag(number, space);
        // SAFETY: the tag is a plain value that LockAcquire copies.
        unsafe {
            step(|| raw::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, false, false));
        }
        OwnLock { tag }
    }
}

/// The locks of several keys, held until dropped.
pub struct KeyLocks {
    tags: Vec<pg_sys::LOCKTAG>,
    held: usize,
}

impl KeyLocks {
    /// Takes the locks on the numbers in their order, up to the first that cannot be had without waiting,
    /// then takes in what other sessions have changed and reads the clock. Waits for nobody, so that
    /// several locks in one hand cannot deadlock.
    pub fn try_keys(numbers: impl Iterator<Item = u64>) -> (KeyLocks, i64) {
        let tags: Vec<_> = numbers.map(|number| tag(number, KEY_SPACE)).collect();
        // SAFETY: the tags are plain values that are copied; nothing in the step has a destructor.
        let (held, now) = unsafe {
            step(|| {
                let held = tags.iter().take_while(|tag| try_acquire(tag)).count();
                raw::AcceptInvalidationMessages();
                (held, raw::GetCurrentTimestamp())
            })
        };
        (KeyLocks { tags, held }, now)
    }

    /// How many of the locks are held.
    pub fn held(&self) -> usize {
        self.held
    }
}

/// # Safety
/// Within a step.
unsafe fn try_acquire(tag: &pg_sys::LOCKTAG) -> bool {
    // A full lock table is a lock not had: one by one they may still go.
    // SAFETY: the tag is a plain value that is copied.
    let result = unsafe {
        raw::LockAcquireExtended(
            tag,
            pg_sys::ExclusiveLock as i32,
            false,
            true,
            false,
            std::ptr::null_mut(),
            #[cfg(feature = "pg18")]
            false,
        )
    };
    result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

impl Drop for KeyLocks {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: these locks were taken under this resource owner and not released since.
        unsafe {
            step(|| {
                for tag in &self.tags[..self.held] {
                    raw::LockRelease(tag, pg_sys::ExclusiveLock as i32, false);
                }
            });
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // the two halves of the number
fn tag(number: u64, space: u16) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        locktag_field1: super::session::database().to_u32(),
        locktag_field2: (number >> 32) as u32,
        locktag_field3: number as u32,
        locktag_field4: space,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    }
}

/// Waits for the right to change a store's days and policy, and keeps it to the end of the
/// transaction: what is read under it is still so when the change commits.
pub fn hold_definition(store: pg_sys::Oid) {
    hold(u64::from(store.to_u32()), DEFINITION_SPACE);
}

/// Takes the right to build and put away a store's filters, and keeps it to the end of the transaction; false
/// where somebody has it.
pub fn try_hold_filters(store: pg_sys::Oid) -> bool {
    let tag = tag(u64::from(store.to_u32()), FILTER_SPACE);
    // SAFETY: the tag is a plain value that is copied; the transaction's end releases the lock.
    unsafe { step(|| try_acquire(&tag)) }
}

/// Waits for the right to make a store of a name, and keeps it to the end of the transaction.
pub fn hold_name(number: u64) {
    hold(number, MAKE_SPACE);
}

fn hold(number: u64, space: u16) {
    let tag = tag(number, space);
    // SAFETY: the tag is a plain value that LockAcquire copies; the transaction's end releases it.
    unsafe { step(|| raw::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, false, false)) };
}

impl Drop for OwnLock {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: the lock was taken by `acquire` under this resource owner and not released since.
        unsafe {
            step(|| raw::LockRelease(&self.tag, pg_sys::ExclusiveLock as i32, false));
        }
    }
}

/// Waits until transaction `xid` has ended. The wait shows in pg_locks and obeys lock_timeout,
/// statement_timeout and cancel; `relation` and `tid` only word the error's context.
pub fn wait_for_transaction(xid: pg_sys::TransactionId, relation: &Relation, tid: RowId) {
    let mut tid = tid.0;
    // SAFETY: the relation is open; no lock of ours but those on leaves is held by the caller.
    unsafe {
        step(|| {
            let operation = pg_sys::XLTW_Oper::XLTW_InsertIndex;
            raw::XactLockTableWait(xid, relation.raw(), &mut tid, operation);
        });
    }
}

/// Where a row version is.
#[derive(Clone, Copy)]
pub struct RowId(pub(super) pg_sys::ItemPointerData);

/// A process and the key it is deciding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Decider {
    pid: i32,
    number: (u32, u32),
}

/// Who holds the lock of a key in this database.
pub fn deciders() -> Vec<Decider> {
    // SAFETY: the list is a copy in memory of the call's own, given back at its end.
    unsafe {
        let list = pg_sys::GetLockStatusData();
        let locks = std::slice::from_raw_parts((*list).locks, (*list).nelements as usize);
        let database = super::session::database().to_u32();
        let of_a_key = |tag: &pg_sys::LOCKTAG| {
            tag.locktag_type == pg_sys::LockTagType::LOCKTAG_ADVISORY as u8
                && (tag.locktag_field1, tag.locktag_field4) == (database, KEY_SPACE)
        };
        let found = locks
            .iter()
            .filter(|lock| lock.holdMask != 0 && of_a_key(&lock.locktag))
            .map(|lock| Decider {
                pid: lock.pid,
                number: (lock.locktag.locktag_field2, lock.locktag.locktag_field3),
            })
            .collect();
        pg_sys::pfree((*list).locks.cast());
        pg_sys::pfree(list.cast());
        found
    }
}

/// Waits until nobody holds a key's lock who holds it now; false if that takes longer than `patience`
/// milliseconds. A claim holds one for microseconds, and never while it waits for somebody.
pub fn wait_for_deciders(patience: i32) -> bool {
    let mut waited_for = deciders();
    for _ in 0..patience.max(1) {
        if waited_for.is_empty() {
            return true;
        }
        pause(1);
        let still = deciders();
        waited_for.retain(|decider| still.contains(decider));
    }
    waited_for.is_empty()
}

/// Waits for AccessExclusiveLock on a table, kept to the end of the transaction.
pub fn hold_exclusively(table: pg_sys::Oid) {
    // SAFETY: takes any oid; whether the relation exists is the caller's to check.
    unsafe { pg_sys::LockRelationOid(table, pg_sys::AccessExclusiveLock as i32) }
}

/// Waits until nobody is writing to a table and keeps writers out to the end of the transaction; those who only
/// read go on.
pub fn hold_against_writers(table: pg_sys::Oid) {
    // SAFETY: as for `hold_exclusively`.
    unsafe { pg_sys::LockRelationOid(table, pg_sys::ShareRowExclusiveLock as i32) }
}

/// Waits for the lock under which a table's definition changes while it is read and written to, kept to the end
/// of the transaction.
pub fn hold_for_change(table: pg_sys::Oid) {
    // SAFETY: takes any oid; whether the relation exists is the caller's to check.
    unsafe { pg_sys::LockRelationOid(table, pg_sys::ShareUpdateExclusiveLock as i32) }
}

/// Sleeps, and is cancelled as any statement is.
pub fn pause(millis: i64) {
    // SAFETY: pg_usleep is a plain sleep.
    unsafe { pg_sys::pg_usleep(millis * 1_000) };
    pgrx::check_for_interrupts!();
}
