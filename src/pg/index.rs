//! Searching a leaf by its primary key, and what a found row says.

use super::failure::step;
use super::layout::{Column, Layout};
use super::lock::RowId;
use super::relation::{Opened, Relation};
use super::rows::Json;
use super::snapshot::{SearchSnapshot, View};
use super::text::Text;
use super::{raw, reindexed, unwinding};
use pgrx::pg_sys;
use std::cell::OnceCell;

/// The open primary key of a leaf: unique, on (key, effect), compared byte for byte.
pub struct PrimaryKey {
    rel: pg_sys::Relation,
    closing_mode: pg_sys::LOCKMODE,
}

impl PrimaryKey {
    /// Opens the primary key of an open leaf, waiting for its lock. None where the leaf has none of
    /// the kind a claim needs.
    ///
    /// Looked for again where there is none: REINDEX CONCURRENTLY may have put another in its place between the look
    /// at the list and the lock, or be about to tell that it did. It does so once while we hold the leaf's lock.
    pub fn open(leaf: &Relation) -> Option<PrimaryKey> {
        PrimaryKey::open_listed(leaf).or_else(|| {
            reindexed::settle(leaf);
            PrimaryKey::open_listed(leaf)
        })
    }

    fn open_listed(leaf: &Relation) -> Option<PrimaryKey> {
        let oid = key_index(leaf)?;
        // SAFETY: the leaf is open and locked, so that an index in its list exists.
        let rel = unsafe { step(|| raw::index_open(oid, leaf.access().mode())) };
        PrimaryKey { rel, closing_mode: leaf.access().closing_mode() }.checked()
    }

    /// Opens it only if its lock can be had at once.
    pub fn try_open(leaf: &Relation) -> Opened<Option<PrimaryKey>> {
        let Some(oid) = key_index(leaf) else { return Opened::Open(None) };
        // SAFETY: as in `open`; the lock is held when the index is opened.
        let rel = unsafe {
            if !pg_sys::ConditionalLockRelationOid(oid, leaf.access().mode()) {
                return Opened::Busy;
            }
            pg_sys::index_open(oid, pg_sys::NoLock as pg_sys::LOCKMODE)
        };
        Opened::Open(PrimaryKey { rel, closing_mode: leaf.access().closing_mode() }.checked())
    }

    /// Only a valid, immediate, unique btree over exactly (key, effect) in collation "C" can say
    /// whether a key is there.
    fn checked(self) -> Option<PrimaryKey> {
        // SAFETY: the index is open; the per-column arrays have one element a key column.
        let fits = unsafe {
            let index = &*(*self.rel).rd_index;
            let two = index.indnkeyatts == 2 && index.indnatts == 2;
            two && index.indisunique
                && index.indimmediate
                && index.indisvalid
                && index.indisready
                && (*self.rel).rd_indpred.is_null()
                && (0..2).all(|i| {
                    *(*self.rel).rd_opfamily.add(i) == pg_sys::TEXT_BTREE_FAM_OID
                        && *(*self.rel).rd_indcollation.add(i) == pg_sys::C_COLLATION_OID
                })
        };
        fits.then_some(self)
    }

    pub(super) fn raw(&self) -> pg_sys::Relation {
        self.rel
    }

    /// The attribute numbers the two key columns index.
    pub(super) fn columns(&self) -> [i16; 2] {
        // SAFETY: the index is open and, as checked, has two columns.
        unsafe {
            let columns = (*(*self.rel).rd_index).indkey.values.as_ptr();
            [*columns, *columns.add(1)]
        }
    }
}

impl Drop for PrimaryKey {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: opened by this handle under this resource owner, closed once.
        unsafe { step(|| raw::index_close(self.rel, self.closing_mode)) }
    }
}

/// The leaf's primary key as its relation cache entry has it.
fn key_index(leaf: &Relation) -> Option<pg_sys::Oid> {
    // SAFETY: the leaf is open; building the index list fills rd_pkindex.
    let oid = unsafe {
        if !(*leaf.raw()).rd_indexvalid {
            pg_sys::list_free(pg_sys::RelationGetIndexList(leaf.raw()));
        }
        (*leaf.raw()).rd_pkindex
    };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// A search by primary key that can be repeated with other keys.
pub struct Search {
    scan: pg_sys::IndexScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: SearchSnapshot,
    keys: Box<[pg_sys::ScanKeyData; 2]>,
    layout: Layout,
}

/// What a search found.
pub struct Found {
    /// Where the row version is.
    pub at: RowId,
    /// The transaction in flight that wrote it, if there is one: then nothing else is known of the row.
    pub written_by: Option<pg_sys::TransactionId>,
    /// The transaction in flight that is replacing or removing it, if there is one. Until that commits it stands.
    pub changed_by: Option<pg_sys::TransactionId>,
    /// When the claim was made.
    pub claimed_at: i64,
    /// When it expires.
    pub expires_at: i64,
}

impl Search {
    /// A search of `leaf` through `index`, which both outlive it.
    pub fn new(leaf: &Relation, index: &PrimaryKey, layout: Layout, view: View) -> Search {
        let snapshot = SearchSnapshot::new(view);
        let snapshot_at = snapshot.raw();
        // SAFETY: both relations are open; the snapshot has an address of its own that lives as
        // long as the scan; the slot belongs to this handle.
        let (scan, slot) = unsafe {
            step(|| {
                (
                    begin_scan(leaf.raw(), index.raw(), snapshot_at),
                    raw::table_slot_create(leaf.raw(), std::ptr::null_mut()),
                )
            })
        };
        Search { scan, slot, snapshot, keys: Box::new(equalities()), layout }
    }

    /// The first row version with this key and effect that the view shows, if any; one that is committed, or the
    /// transaction's own, before one that another transaction in flight wrote. Its page stays pinned until the next
    /// search or [`Search::release`].
    pub fn find(&mut self, key: &Text, effect: &Text) -> Option<Found> {
        self.keys[0].sk_argument = key.datum();
        self.keys[1].sk_argument = effect.datum();
        // SAFETY: scan, slot and snapshot are this handle's own and alive; the key values live
        // longer than this call, and nothing looks at them after it but a new search sets them.
        unsafe {
            let keys = self.keys.as_mut_ptr();
            let direction = pg_sys::ScanDirection::ForwardScanDirection;
            let wanted = self.layout.instants_end();
            let dirty = self.snapshot.is_dirty();
            let seen = step(|| {
                (*self.scan).xs_heaptid.ip_posid = 0;
                raw::index_rescan(self.scan, keys, 2, std::ptr::null_mut(), 0);
                let mut found = raw::index_getnext_slot(self.scan, direction, self.slot);
                let (mut writer, mut changed_by) = (None, None);
                if found && dirty {
                    // Whoever replaces a row writes its new version where there is room, which may come before
                    // the old one here. Until that is committed the old one is what counts.
                    while found && let Some(xid) = self.snapshot.written_by() {
                        writer.get_or_insert((RowId((*self.slot).tts_tid), xid));
                        found = raw::index_getnext_slot(self.scan, direction, self.slot);
                    }
                    changed_by = self.snapshot.changed_by();
                }
                // Entries of the key, and none alive. The entries were read at one moment and their rows
                // at later ones: an UPDATE past the protocol that committed in between has left the old
                // version dead and put the new one where it was not looked for. A snapshot taken now
                // shows it.
                if !found && writer.is_none() && dirty && (*self.scan).xs_heaptid.ip_posid != 0 {
                    let fresh = raw::RegisterSnapshot(raw::GetLatestSnapshot());
                    let usual = std::mem::replace(&mut (*self.scan).xs_snapshot, fresh);
                    raw::index_rescan(self.scan, keys, 2, std::ptr::null_mut(), 0);
                    found = raw::index_getnext_slot(self.scan, direction, self.slot);
                    (*self.scan).xs_snapshot = usual;
                    raw::UnregisterSnapshot(fresh);
                }
                if found {
                    raw::slot_getsomeattrs_int(self.slot, wanted);
                    writer = None;
                }
                (found, writer, changed_by)
            });
            match seen {
                (true, _, changed_by) => Some(Found {
                    at: RowId((*self.slot).tts_tid),
                    written_by: None,
                    changed_by,
                    claimed_at: self.instant(Column::ClaimedAt),
                    expires_at: self.instant(Column::ExpiresAt),
                }),
                (false, Some((at, xid)), _) => Some(Found {
                    at,
                    written_by: Some(xid),
                    changed_by: None,
                    claimed_at: 0,
                    expires_at: 0,
                }),
                (false, None, _) => None,
            }
        }
    }

    /// Lets go of the row found last and of every page, for a wait that may be long.
    pub fn release(&mut self) {
        // SAFETY: scan and slot are this handle's own; the keys keep their last values' addresses,
        // which a rescan does not follow.
        unsafe {
            pg_sys::ExecClearTuple(self.slot);
            pg_sys::index_rescan(self.scan, self.keys.as_mut_ptr(), 2, std::ptr::null_mut(), 0);
        }
    }

    /// Whether the row found last was written by the calling transaction.
    pub fn found_is_own(&self) -> bool {
        // SAFETY: the slot holds the row version found last, with its buffer pinned, and gives its
        // heap tuple without a copy. A frozen row keeps an old number that says nothing any more.
        unsafe {
            let mut copied = false;
            let tuple = pg_sys::ExecFetchSlotHeapTuple(self.slot, false, &mut copied);
            let header = (*tuple).t_data;
            let frozen = pg_sys::HEAP_XMIN_FROZEN as u16;
            (*header).t_infomask & frozen != frozen
                && pg_sys::TransactionIdIsCurrentTransactionId((*header).t_choice.t_heap.t_xmin)
        }
    }

    /// Whether the row found last is visible to the transaction's one snapshot.
    pub fn found_is_visible(&self, leaf: &Relation) -> bool {
        // SAFETY: the leaf is open; the slot holds a row version of it, with its buffer pinned; a
        // SQL function runs under an active snapshot.
        unsafe {
            let snapshot = pg_sys::GetActiveSnapshot();
            pg_sys::table_tuple_satisfies_snapshot(leaf.raw(), self.slot, snapshot)
        }
    }

    /// Whether the row version found last still stands for the calling transaction, after all that it has done itself.
    pub fn found_stands(&self, leaf: &Relation) -> bool {
        // SAFETY: as in `found_is_visible`; a snapshot of this type is all zeroes but for it, and reads no other field.
        unsafe {
            let mut itself: pg_sys::SnapshotData = std::mem::zeroed();
            itself.snapshot_type = pg_sys::SnapshotType::SNAPSHOT_SELF;
            pg_sys::table_tuple_satisfies_snapshot(leaf.raw(), self.slot, &mut itself)
        }
    }

    /// Whether key or effect of the row found last are stored compressed or elsewhere.
    pub(super) fn found_is_packed(&self) -> bool {
        [Column::Key, Column::Effect].into_iter().any(|column| {
            // SAFETY: a column of type text of a row whose page is pinned.
            self.value(column).is_some_and(|value| unsafe {
                let value = value.cast_mut_ptr::<pg_sys::varlena>();
                pgrx::varlena::varatt_is_1b_e(value) || pgrx::varlena::varatt_is_4b_c(value)
            })
        })
    }

    /// The digest of the request of the row found last.
    pub fn found_fingerprint(&self) -> Option<Vec<u8>> {
        // SAFETY: a bytea of a row whose page is pinned; what is unpacked lies in the call's memory.
        self.value(Column::Fingerprint).map(|value| unsafe {
            let value = pg_sys::pg_detoast_datum_packed(value.cast_mut_ptr());
            pgrx::varlena::varlena_to_byte_slice(value).to_vec()
        })
    }

    /// Where the row found last is.
    pub(super) fn found_at(&self) -> pg_sys::ItemPointerData {
        // SAFETY: the slot is this handle's own.
        unsafe { (*self.slot).tts_tid }
    }

    /// The row found last, every column, for the path through the executor and for look-ups.
    pub(super) fn slot(&self) -> *mut pg_sys::TupleTableSlot {
        self.slot
    }

    /// The stored answer of the row found last.
    pub fn found_result(&self) -> Option<Json> {
        self.value(Column::Result).map(Json::copy)
    }

    /// A column of the row found last.
    fn value(&self, column: Column) -> Option<pg_sys::Datum> {
        let mut is_null = false;
        // SAFETY: the slot holds a row version; the layout's numbers are of its table.
        let value = unsafe {
            pg_sys::slot_getattr(self.slot, i32::from(self.layout.number(column)), &mut is_null)
        };
        (!is_null).then_some(value)
    }

    /// A timestamptz column, which `find` has read out of the row already.
    fn instant(&self, column: Column) -> i64 {
        // SAFETY: the slot has values for every attribute up to the last of the two instants; their
        // columns are NOT NULL.
        unsafe {
            (*(*self.slot).tts_values.add(self.layout.number(column) as usize - 1)).value() as i64
        }
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: both were made by this handle and are given back once; ending the scan and
        // dropping the slot release every pin.
        unsafe {
            step(|| {
                raw::index_endscan(self.scan);
                raw::ExecDropSingleTupleTableSlot(self.slot);
            });
        }
    }
}

/// # Safety
/// Both relations are open and the snapshot outlives the scan.
unsafe fn begin_scan(
    leaf: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
) -> pg_sys::IndexScanDesc {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(feature = "pg18")]
        return raw::index_beginscan(leaf, index, snapshot, std::ptr::null_mut(), 2, 0);
        #[cfg(not(feature = "pg18"))]
        return raw::index_beginscan(leaf, index, snapshot, 2, 0);
    }
}

thread_local! {
    /// The two conditions without their values; made once, because looking the function up costs more
    /// than the rest of a search's preparation.
    static EQUALITIES: OnceCell<[pg_sys::ScanKeyData; 2]> = const { OnceCell::new() };
}

/// `key = ? AND effect = ?`, by texteq in collation "C".
fn equalities() -> [pg_sys::ScanKeyData; 2] {
    EQUALITIES.with(|keys| *keys.get_or_init(|| [equality(1), equality(2)]))
}

fn equality(column: i16) -> pg_sys::ScanKeyData {
    // SAFETY: fills a zeroed key; texteq is a built-in function, and what is remembered of it is
    // made in a memory context that lives as long as the session.
    unsafe {
        let mut key: pg_sys::ScanKeyData = std::mem::zeroed();
        let old = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
        pg_sys::ScanKeyInit(
            &mut key,
            column,
            pg_sys::BTEqualStrategyNumber as u16,
            pg_sys::Oid::from(pg_sys::F_TEXTEQ),
            pg_sys::Datum::from(0usize),
        );
        pg_sys::MemoryContextSwitchTo(old);
        key.sk_collation = pg_sys::C_COLLATION_OID;
        key
    }
}
