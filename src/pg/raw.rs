//! The functions of the claim path, declared here without pgrx's guard around each.
//!
//! pgrx calls every PostgreSQL function through a sigsetjmp of its own, which costs a claim of some
//! sixty calls an eighth of its time. Here a whole step runs under one guard: [`step`](super::failure::step).
//!
//! The signatures are those of the headers of the supported majors; pgrx's bindings, generated from
//! the headers of the server built against, hold the types.

use pgrx::pg_sys::{
    BlockNumber, Buffer, BufferAccessStrategy, BulkInsertState, CommandId, Datum, EPQState, EState,
    ForkNumber, HeapTuple, IndexInfo, IndexScanDesc, IndexUniqueCheck, ItemPointer, LOCKMODE,
    LOCKTAG, LockAcquireResult, LockTupleMode, MemoryContext, Oid, ReadBufferMode, Relation,
    ResultRelInfo, ScanDirection, ScanKey, Snapshot, TM_FailureData, TM_Result, TimestampTz,
    TransactionId, TupleDesc, TupleTableSlot, XLTW_Oper,
};
use std::ffi::{c_char, c_int};

unsafe extern "C-unwind" {
    // access/table.h, access/relation.h, access/genam.h
    pub(super) fn try_table_open(relid: Oid, mode: LOCKMODE) -> Relation;
    pub(super) fn table_close(rel: Relation, mode: LOCKMODE);
    pub(super) fn index_open(relid: Oid, mode: LOCKMODE) -> Relation;
    pub(super) fn index_close(rel: Relation, mode: LOCKMODE);
    #[cfg(not(feature = "pg18"))]
    pub(super) fn index_beginscan(
        heap: Relation,
        index: Relation,
        snapshot: Snapshot,
        keys: c_int,
        orders: c_int,
    ) -> IndexScanDesc;
    #[cfg(feature = "pg18")]
    pub(super) fn index_beginscan(
        heap: Relation,
        index: Relation,
        snapshot: Snapshot,
        instrument: *mut pgrx::pg_sys::IndexScanInstrumentation,
        keys: c_int,
        orders: c_int,
    ) -> IndexScanDesc;
    pub(super) fn index_rescan(
        scan: IndexScanDesc,
        keys: ScanKey,
        count: c_int,
        orders: ScanKey,
        order_count: c_int,
    );
    pub(super) fn index_getnext_slot(
        scan: IndexScanDesc,
        direction: ScanDirection::Type,
        slot: *mut TupleTableSlot,
    ) -> bool;
    pub(super) fn index_endscan(scan: IndexScanDesc);
    pub(super) fn index_insert(
        index: Relation,
        values: *mut Datum,
        nulls: *mut bool,
        tid: ItemPointer,
        heap: Relation,
        check: IndexUniqueCheck::Type,
        unchanged: bool,
        info: *mut IndexInfo,
    ) -> bool;
    // storage/bufmgr.h
    pub(super) fn ReadBuffer(rel: Relation, block: BlockNumber) -> Buffer;
    pub(super) fn ReadBufferWithoutRelcache(
        file: super::pages::File,
        fork: ForkNumber::Type,
        block: BlockNumber,
        mode: ReadBufferMode::Type,
        strategy: BufferAccessStrategy,
        permanent: bool,
    ) -> Buffer;
    pub(super) fn ReadRecentBuffer(
        file: super::pages::File,
        fork: ForkNumber::Type,
        block: BlockNumber,
        recent: Buffer,
    ) -> bool;
    pub(super) fn ReleaseBuffer(buffer: Buffer);
    pub(super) fn LockBuffer(buffer: Buffer, mode: c_int);
    pub(super) fn UnlockReleaseBuffer(buffer: Buffer);
    // storage/smgr.h
    pub(super) fn smgropen(file: super::pages::File, owner: c_int) -> pgrx::pg_sys::SMgrRelation;
    pub(super) fn smgrnblocks(
        storage: pgrx::pg_sys::SMgrRelation,
        fork: ForkNumber::Type,
    ) -> BlockNumber;
    // access/generic_xlog.h
    pub(super) fn GenericXLogStart(rel: Relation) -> *mut pgrx::pg_sys::GenericXLogState;
    pub(super) fn GenericXLogRegisterBuffer(
        state: *mut pgrx::pg_sys::GenericXLogState,
        buffer: Buffer,
        flags: c_int,
    ) -> pgrx::pg_sys::Page;
    pub(super) fn GenericXLogFinish(state: *mut pgrx::pg_sys::GenericXLogState) -> u64;
    pub(super) fn GenericXLogAbort(state: *mut pgrx::pg_sys::GenericXLogState);
    // access/tableam.h, executor/tuptable.h
    pub(super) fn table_slot_create(
        rel: Relation,
        registry: *mut *mut pgrx::pg_sys::List,
    ) -> *mut TupleTableSlot;
    pub(super) fn ExecDropSingleTupleTableSlot(slot: *mut TupleTableSlot);
    pub(super) fn ExecStoreHeapTuple(
        tuple: HeapTuple,
        slot: *mut TupleTableSlot,
        should_free: bool,
    ) -> *mut TupleTableSlot;
    pub(super) fn slot_getsomeattrs_int(slot: *mut TupleTableSlot, count: c_int);
    // utils/snapmgr.h
    pub(super) fn GetLatestSnapshot() -> Snapshot;
    pub(super) fn RegisterSnapshot(snapshot: Snapshot) -> Snapshot;
    pub(super) fn UnregisterSnapshot(snapshot: Snapshot);
    // access/htup_details.h, access/heapam.h
    pub(super) fn heap_form_tuple(
        descriptor: TupleDesc,
        values: *const Datum,
        nulls: *const bool,
    ) -> HeapTuple;
    pub(super) fn heap_freetuple(tuple: HeapTuple);
    pub(super) fn heap_hot_search_buffer(
        tid: ItemPointer,
        rel: Relation,
        buffer: Buffer,
        snapshot: Snapshot,
        tuple: HeapTuple,
        all_dead: *mut bool,
        first_call: bool,
    ) -> bool;
    pub(super) fn heap_insert(
        rel: Relation,
        tuple: HeapTuple,
        command: CommandId,
        options: c_int,
        bulk: BulkInsertState,
    );
    pub(super) fn heap_multi_insert(
        rel: Relation,
        slots: *mut *mut TupleTableSlot,
        count: c_int,
        command: CommandId,
        options: c_int,
        bulk: BulkInsertState,
    );
    pub(super) fn FreeBulkInsertState(bulk: BulkInsertState);
    pub(super) fn heap_update(
        rel: Relation,
        old: ItemPointer,
        tuple: HeapTuple,
        command: CommandId,
        crosscheck: Snapshot,
        wait: bool,
        failure: *mut TM_FailureData,
        mode: *mut LockTupleMode::Type,
        #[cfg(not(feature = "pg15"))] indexes: *mut pgrx::pg_sys::TU_UpdateIndexes::Type,
    ) -> TM_Result::Type;
    // executor/executor.h, commands/trigger.h, storage/lmgr.h, miscadmin.h
    pub(super) fn ExecSimpleRelationInsert(
        target: *mut ResultRelInfo,
        estate: *mut EState,
        slot: *mut TupleTableSlot,
    );
    pub(super) fn ExecSimpleRelationUpdate(
        target: *mut ResultRelInfo,
        estate: *mut EState,
        recheck: *mut EPQState,
        old: *mut TupleTableSlot,
        slot: *mut TupleTableSlot,
    );
    pub(super) fn ExecSimpleRelationDelete(
        target: *mut ResultRelInfo,
        estate: *mut EState,
        recheck: *mut EPQState,
        old: *mut TupleTableSlot,
    );
    pub(super) fn AfterTriggerEndQuery(estate: *mut EState);
    pub(super) fn XactLockTableWait(
        xid: TransactionId,
        rel: Relation,
        tid: ItemPointer,
        operation: XLTW_Oper::Type,
    );
    pub(super) fn PreventCommandIfReadOnly(command: *const c_char);
    pub(super) fn PreventCommandIfParallelMode(command: *const c_char);
    pub(super) fn PreventCommandDuringRecovery(command: *const c_char);
    // utils/memutils.h
    pub(super) fn MemoryContextReset(context: MemoryContext);
    pub(super) fn MemoryContextDelete(context: MemoryContext);
    // storage/lock.h, utils/inval.h, access/xact.h, utils/timestamp.h
    pub(super) fn LockAcquire(
        tag: *const LOCKTAG,
        mode: LOCKMODE,
        session: bool,
        dont_wait: bool,
    ) -> LockAcquireResult::Type;
    pub(super) fn LockAcquireExtended(
        tag: *const LOCKTAG,
        mode: LOCKMODE,
        session: bool,
        dont_wait: bool,
        report_memory: bool,
        local: *mut *mut pgrx::pg_sys::LOCALLOCK,
        #[cfg(feature = "pg18")] log_failure: bool,
    ) -> LockAcquireResult::Type;
    pub(super) fn LockRelease(tag: *const LOCKTAG, mode: LOCKMODE, session: bool) -> bool;
    pub(super) fn AcceptInvalidationMessages();
    pub(super) fn GetCurrentCommandId(used: bool) -> CommandId;
    pub(super) fn GetCurrentTimestamp() -> TimestampTz;
    // executor/spi.h, utils/elog.h
    pub(super) fn SPI_connect() -> c_int;
    pub(super) fn SPI_execute_with_args(
        query: *const c_char,
        count: c_int,
        kinds: *mut Oid,
        values: *mut Datum,
        nulls: *const c_char,
        read_only: bool,
        limit: std::ffi::c_long,
    ) -> c_int;
    pub(super) fn SPI_finish() -> c_int;
    fn set_errcontext_domain(domain: *const c_char) -> c_int;
    fn errcontext_msg(format: *const c_char, ...) -> c_int;
}

/// Adds to the context of the error that is being made.
///
/// # Safety
/// Called by an error context callback; the text ends in a zero.
pub(super) unsafe fn say_context(text: *const impl Sized) {
    // SAFETY: the caller's promise; the format takes one string.
    unsafe {
        set_errcontext_domain(std::ptr::null());
        errcontext_msg(c"%s".as_ptr(), text.cast::<c_char>());
    }
}

/// Empties a slot: executor/tuptable.h has it inline.
///
/// # Safety
/// The slot is alive.
pub(super) unsafe fn clear(slot: *mut TupleTableSlot) {
    // SAFETY: every kind of slot has its own way of being emptied.
    unsafe {
        if let Some(clear) = (*(*slot).tts_ops).clear {
            clear(slot);
        }
    }
}
