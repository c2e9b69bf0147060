//! Writing claims straight to a plain leaf: one heap row, one index entry.

use super::bulk::Bulk;
use super::failure::step;
use super::index::{PrimaryKey, Search};
use super::layout::{COLUMNS, Column};
use super::raw;
use super::relation::Relation;
use super::rows::Json;
use super::text::Text;
use pgrx::pg_sys;

/// What a claim writes.
pub struct NewRow<'a> {
    /// When the claim is made.
    pub claimed_at: i64,
    /// When it expires.
    pub expires_at: i64,
    /// The key.
    pub key: &'a Text,
    /// The effect.
    pub effect: &'a Text,
    /// The digest of the request.
    pub fingerprint: Option<&'a Text>,
}

impl NewRow<'_> {
    pub(super) fn id(&self) -> (&Text, &Text) {
        (self.key, self.effect)
    }

    pub(super) fn strength(&self) -> Strength {
        Strength::for_key(self.key, self.effect)
    }

    /// Values and nulls in the order of [`super::layout::Column`].
    pub(super) fn values(&self) -> ([pg_sys::Datum; COLUMNS], [bool; COLUMNS]) {
        let null = pg_sys::Datum::from(0usize);
        let values = [
            pg_sys::Datum::from(self.claimed_at),
            pg_sys::Datum::from(self.expires_at),
            self.key.datum(),
            self.effect.datum(),
            self.fingerprint.map_or(null, Text::datum),
            null,
        ];
        (values, [false, false, false, false, self.fingerprint.is_none(), true])
    }
}

/// How a row is locked before it is replaced.
#[derive(Clone, Copy)]
pub enum Strength {
    /// As an UPDATE that leaves the key alone does.
    KeepsKey,
    /// As an UPDATE of the key does.
    Whole,
}

/// A row longer than this may be stored compressed, and PostgreSQL then takes the same key for another.
const MAY_BE_COMPRESSED: usize = 1_500;

impl Strength {
    /// What replacing a row of this key needs.
    pub fn for_key(key: &Text, effect: &Text) -> Strength {
        if key.bytes().len() + effect.bytes().len() > MAY_BE_COMPRESSED {
            Strength::Whole
        } else {
            Strength::KeepsKey
        }
    }
}

/// What became of a replacement.
pub enum Replaced {
    /// The new row version stands.
    Done,
    /// Another transaction has locked or is changing the row: wait for it, then look again.
    Busy,
    /// The row is not what was found any more: look again.
    Changed,
}

/// Writes a new row to a plain leaf. The primary key is the second line of defence: a row written
/// past the claim protocol raises 23505 here.
pub fn insert(leaf: &Relation, index: &PrimaryKey, row: &NewRow, bulk: Option<&Bulk>) {
    let (values, nulls) = row.values();
    let bulk = bulk.map_or(std::ptr::null_mut(), Bulk::state);
    // SAFETY: a plain leaf is a heap with exactly these columns in this order, open for writing; the
    // values are copied into the row version, which is freed here. GetCurrentCommandId marks the
    // command as used.
    unsafe {
        step(|| {
            let formed =
                raw::heap_form_tuple((*leaf.raw()).rd_att, values.as_ptr(), nulls.as_ptr());
            raw::heap_insert(leaf.raw(), formed, raw::GetCurrentCommandId(true), 0, bulk);
            add_to_index(leaf, index, row.id(), &mut (*formed).t_self, false);
            raw::heap_freetuple(formed);
        });
    }
}

/// # Safety
/// Called within a step; `at` is the row's place in the heap of `leaf`, open for writing as `index` is.
pub(super) unsafe fn add_to_index(
    leaf: &Relation,
    index: &PrimaryKey,
    (key, effect): (&Text, &Text),
    at: *mut pg_sys::ItemPointerData,
    unchanged: bool,
) {
    let mut values = [key.datum(), effect.datum()];
    let mut nulls = [false; 2];
    // SAFETY: the caller's promise. A btree needs no IndexInfo; its uniqueness check passes or
    // raises 23505.
    unsafe {
        raw::index_insert(
            index.raw(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
            at,
            leaf.raw(),
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES,
            unchanged,
            std::ptr::null_mut(),
        );
    }
}

/// Replaces the row a search of this leaf found by a new claim of the same key: in place where the
/// page has room (a HOT update, which leaves the index alone). Waits for nobody.
pub fn replace(leaf: &Relation, index: &PrimaryKey, search: &Search, row: &NewRow) -> Replaced {
    // SAFETY: the leaf is open; raises 55000 where a publication could not send the update.
    unsafe { pg_sys::CheckCmdReplicaIdentity(leaf.raw(), pg_sys::CmdType::CMD_UPDATE) };
    match try_replace(leaf, index, search, row, false) {
        // Locked by somebody, perhaps by this transaction after a wait: with the lock in hand the
        // update finds nobody to wait for.
        Replaced::Busy => match try_lock_row(leaf, search, row.strength()) {
            Replaced::Done => try_replace(leaf, index, search, row, true),
            other => other,
        },
        other => other,
    }
}

fn try_replace(
    leaf: &Relation,
    index: &PrimaryKey,
    search: &Search,
    row: &NewRow,
    wait: bool,
) -> Replaced {
    let (values, nulls) = row.values();
    let mut old = search.found_at();
    // SAFETY: as in `insert`; the outputs are plain values, and heap_update sets the header flags of
    // the new row version.
    let result = unsafe {
        step(|| {
            let formed =
                raw::heap_form_tuple((*leaf.raw()).rd_att, values.as_ptr(), nulls.as_ptr());
            let result = update(leaf, &mut old, formed, wait);
            let flags = u32::from((*(*formed).t_data).t_infomask2);
            if result == pg_sys::TM_Result::TM_Ok && flags & pg_sys::HEAP_ONLY_TUPLE == 0 {
                add_to_index(leaf, index, row.id(), &mut (*formed).t_self, true);
            }
            raw::heap_freetuple(formed);
            result
        })
    };
    become_of(result)
}

/// Gives the row a search of this leaf found an answer, and leaves the rest of it as it is. Waits for nobody.
pub fn complete(
    leaf: &Relation,
    index: &PrimaryKey,
    search: &Search,
    id: (&Text, &Text),
    answer: &Json,
) -> Replaced {
    // SAFETY: as in `replace`.
    unsafe { pg_sys::CheckCmdReplicaIdentity(leaf.raw(), pg_sys::CmdType::CMD_UPDATE) };
    match try_complete(leaf, index, search, id, answer, false) {
        Replaced::Busy => match try_lock_row(leaf, search, Strength::KeepsKey) {
            Replaced::Done => try_complete(leaf, index, search, id, answer, true),
            other => other,
        },
        other => other,
    }
}

fn try_complete(
    leaf: &Relation,
    index: &PrimaryKey,
    search: &Search,
    id: (&Text, &Text),
    answer: &Json,
    wait: bool,
) -> Replaced {
    let mut old = search.found_at();
    // SAFETY: as in `try_replace`. The columns of the found row are taken as they are stored, compressed or elsewhere
    // as may be, so that the key counts as unchanged; its page is pinned.
    let result = unsafe {
        step(|| {
            let slot = search.slot();
            raw::slot_getsomeattrs_int(slot, COLUMNS as i32);
            let (mut values, mut nulls) = ([pg_sys::Datum::from(0usize); COLUMNS], [true; COLUMNS]);
            for place in 0..COLUMNS {
                values[place] = *(*slot).tts_values.add(place);
                nulls[place] = *(*slot).tts_isnull.add(place);
            }
            let place = Column::Result as usize;
            (values[place], nulls[place]) = (answer.datum(), false);
            let formed =
                raw::heap_form_tuple((*leaf.raw()).rd_att, values.as_ptr(), nulls.as_ptr());
            let result = update(leaf, &mut old, formed, wait);
            let flags = u32::from((*(*formed).t_data).t_infomask2);
            if result == pg_sys::TM_Result::TM_Ok && flags & pg_sys::HEAP_ONLY_TUPLE == 0 {
                add_to_index(leaf, index, id, &mut (*formed).t_self, true);
            }
            raw::heap_freetuple(formed);
            result
        })
    };
    become_of(result)
}

fn become_of(result: pg_sys::TM_Result::Type) -> Replaced {
    match result {
        pg_sys::TM_Result::TM_Ok => Replaced::Done,
        pg_sys::TM_Result::TM_BeingModified | pg_sys::TM_Result::TM_WouldBlock => Replaced::Busy,
        _ => Replaced::Changed,
    }
}

/// # Safety
/// `formed` is a row version for `leaf`, a heap open for writing.
unsafe fn update(
    leaf: &Relation,
    old: &mut pg_sys::ItemPointerData,
    formed: pg_sys::HeapTuple,
    wait: bool,
) -> pg_sys::TM_Result::Type {
    // SAFETY: the caller's promise; the outputs are plain values.
    unsafe {
        let mut failure: pg_sys::TM_FailureData = std::mem::zeroed();
        let mut mode: pg_sys::LockTupleMode::Type = 0;
        #[cfg(not(feature = "pg15"))]
        let mut indexes: pg_sys::TU_UpdateIndexes::Type = 0;
        raw::heap_update(
            leaf.raw(),
            old,
            formed,
            raw::GetCurrentCommandId(true),
            std::ptr::null_mut(),
            wait,
            &mut failure,
            &mut mode,
            #[cfg(not(feature = "pg15"))]
            &mut indexes,
        )
    }
}

/// Waits until nobody else holds the row the search found, by locking it. The lock is the row's own
/// and lasts to the end of the transaction, as a SELECT FOR NO KEY UPDATE's would. Whatever became
/// of the row meanwhile is for the next look to find out.
pub fn wait_for_row(leaf: &Relation, search: &Search, strength: Strength) {
    lock_row(leaf, search, strength, pg_sys::LockWaitPolicy::LockWaitBlock);
}

/// Whether the row could be locked without waiting.
pub(super) fn try_lock_row(leaf: &Relation, search: &Search, strength: Strength) -> Replaced {
    match lock_row(leaf, search, strength, pg_sys::LockWaitPolicy::LockWaitSkip) {
        pg_sys::TM_Result::TM_Ok => Replaced::Done,
        pg_sys::TM_Result::TM_WouldBlock | pg_sys::TM_Result::TM_BeingModified => Replaced::Busy,
        _ => Replaced::Changed,
    }
}

fn lock_row(
    leaf: &Relation,
    search: &Search,
    strength: Strength,
    policy: pg_sys::LockWaitPolicy::Type,
) -> pg_sys::TM_Result::Type {
    let mode = match strength {
        Strength::KeepsKey => pg_sys::LockTupleMode::LockTupleNoKeyExclusive,
        Strength::Whole => pg_sys::LockTupleMode::LockTupleExclusive,
    };
    // An answer beside it may have had a key of any length compressed: see MAY_BE_COMPRESSED.
    let mode = match search.found_is_packed() {
        true => pg_sys::LockTupleMode::LockTupleExclusive,
        false => mode,
    };
    // SAFETY: the leaf is open for writing; the slot is a copy of our own, dropped below; a SQL
    // function runs under an active snapshot.
    unsafe {
        let slot = pg_sys::table_slot_create(leaf.raw(), std::ptr::null_mut());
        let mut failure: pg_sys::TM_FailureData = std::mem::zeroed();
        let mut tid = search.found_at();
        let result = pg_sys::table_tuple_lock(
            leaf.raw(),
            &mut tid,
            pg_sys::GetActiveSnapshot(),
            slot,
            pg_sys::GetCurrentCommandId(false),
            mode,
            policy,
            0,
            &mut failure,
        );
        pg_sys::ExecDropSingleTupleTableSlot(slot);
        result
    }
}
