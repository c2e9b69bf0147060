//! Writing claims through the executor, for a leaf that carries more than our own layout: all its
//! indexes, checks, generated columns, defaults and row triggers are served, as they are for a row
//! that INSERT routes to the leaf. Rules and statement triggers do not fire, as there.
//!
//! The steps are those by which logical replication applies a row (replication/logical/worker.c).

use super::failure::step;
use super::index::Search;
use super::layout::{COLUMNS, Column, Layout, further_columns};
use super::relation::Relation;
use super::tuple::{NewRow, Replaced, try_lock_row};
use super::{raw, unwinding};
use pgrx::{PgBox, pg_sys};

/// What the executor made of a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The row stands as it was given.
    AsGiven,
    /// A trigger kept it from being written, or wrote another key, effect or window.
    Altered,
}

/// Executor state for one row of one leaf.
struct Work {
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
}

impl Work {
    fn new(leaf: &Relation, layout: &Layout, row: &NewRow) -> Work {
        // SAFETY: the leaf is open for writing; what is allocated here belongs to the executor
        // state and is freed with it; the range table names the leaf so that errors can word
        // their details by the caller's privileges.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let old = pg_sys::MemoryContextSwitchTo((*estate).es_query_cxt);
            let mut entry =
                PgBox::<pg_sys::RangeTblEntry>::alloc_node(pg_sys::NodeTag::T_RangeTblEntry);
            entry.rtekind = pg_sys::RTEKind::RTE_RELATION;
            entry.relid = leaf.oid();
            entry.relkind = (*(*leaf.raw()).rd_rel).relkind;
            entry.rellockmode = pg_sys::AccessShareLock as i32;
            let entry = entry.into_pg();
            init_range_table(estate, entry, layout);
            (*estate).es_output_cid = pg_sys::GetCurrentCommandId(true);
            (*estate).es_snapshot = pg_sys::GetActiveSnapshot();

            let target =
                PgBox::<pg_sys::ResultRelInfo>::alloc_node(pg_sys::NodeTag::T_ResultRelInfo)
                    .into_pg();
            pg_sys::InitResultRelInfo(target, leaf.raw(), 1, std::ptr::null_mut(), 0);
            // The leaf was chosen by its bound, under its lock. Checking the bound again would make
            // PostgreSQL lock the parent, which a claim never does: let the check be "true".
            (*target).ri_PartitionCheckExpr = pg_sys::ExecInitExpr(
                pg_sys::makeBoolConst(true, false).cast(),
                std::ptr::null_mut(),
            );
            // After triggers find their target among the opened ones.
            (*estate).es_opened_result_relations =
                pg_sys::lappend((*estate).es_opened_result_relations, target.cast());
            pg_sys::ExecOpenIndices(target, false);

            let descriptor = (*leaf.raw()).rd_att;
            let slot = pg_sys::ExecInitExtraTupleSlot(
                estate,
                descriptor,
                &raw const pg_sys::TTSOpsVirtual,
            );
            let work = Work { estate, target, slot };
            work.fill(leaf, layout, row);
            pg_sys::MemoryContextSwitchTo(old);
            pg_sys::AfterTriggerBeginQuery();
            work
        }
    }

    /// Our six columns from the row, the further ones from their defaults.
    ///
    /// # Safety
    /// Called with the executor state's memory context current.
    unsafe fn fill(&self, leaf: &Relation, layout: &Layout, row: &NewRow) {
        let (values, nulls) = row.values();
        // SAFETY: the slot has one place for each attribute of the leaf.
        unsafe {
            pg_sys::ExecClearTuple(self.slot);
            for i in 0..(*(*leaf.raw()).rd_att).natts as usize {
                *(*self.slot).tts_values.add(i) = pg_sys::Datum::from(0usize);
                *(*self.slot).tts_isnull.add(i) = true;
            }
            for (number, (value, null)) in COLUMN_ORDER
                .map(|c| layout.number(c))
                .into_iter()
                .zip(values.into_iter().zip(nulls))
            {
                *(*self.slot).tts_values.add(number as usize - 1) = value;
                *(*self.slot).tts_isnull.add(number as usize - 1) = null;
            }
            for number in further_columns(leaf, layout) {
                let default = pg_sys::build_column_default(leaf.raw(), i32::from(number));
                if default.is_null() {
                    continue;
                }
                let planned = pg_sys::expression_planner(default.cast());
                let state = pg_sys::ExecInitExpr(planned, std::ptr::null_mut());
                let place = number as usize - 1;
                let context = match (*self.estate).es_per_tuple_exprcontext {
                    made if made.is_null() => pg_sys::MakePerTupleExprContext(self.estate),
                    made => made,
                };
                *(*self.slot).tts_values.add(place) =
                    pg_sys::ExecEvalExpr(state, context, (*self.slot).tts_isnull.add(place));
            }
            pg_sys::ExecStoreVirtualTuple(self.slot);
        }
    }

    /// Fires what is queued, then says whether the row stands as it was given.
    fn finish(self, layout: &Layout, row: &NewRow) -> Stored {
        // SAFETY: the query level opened by `new` is closed once.
        unsafe {
            step(|| raw::AfterTriggerEndQuery(self.estate));
            let written = (*self.slot).tts_tid.ip_posid != 0;
            let (values, _) = row.values();
            let same = |column: Column| {
                let mut is_null = false;
                let stored =
                    pg_sys::slot_getattr(self.slot, i32::from(layout.number(column)), &mut is_null);
                let given = values[column as usize];
                match column {
                    Column::Key | Column::Effect => !is_null && bytes_of(stored) == bytes_of(given),
                    _ => !is_null && stored.value() == given.value(),
                }
            };
            let as_given = written
                && [Column::ClaimedAt, Column::ExpiresAt, Column::Key, Column::Effect]
                    .into_iter()
                    .all(same);
            if as_given { Stored::AsGiven } else { Stored::Altered }
        }
    }
}

/// # Safety
/// `datum` is a text value, good for as long as the result is used.
unsafe fn bytes_of<'a>(datum: pg_sys::Datum) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe {
        pgrx::varlena::varlena_to_byte_slice(pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr()))
    }
}

const COLUMN_ORDER: [Column; COLUMNS] = [
    Column::ClaimedAt,
    Column::ExpiresAt,
    Column::Key,
    Column::Effect,
    Column::Fingerprint,
    Column::Result,
];

impl Drop for Work {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: made by `new`, given back once; slots drop their pins before their memory goes.
        unsafe {
            pg_sys::ExecResetTupleTable((*self.estate).es_tupleTable, false);
            pg_sys::ExecCloseIndices(self.target);
            pg_sys::FreeExecutorState(self.estate);
        }
    }
}

/// # Safety
/// The memory context of the executor state is current; `entry` is allocated in it.
unsafe fn init_range_table(
    estate: *mut pg_sys::EState,
    entry: *mut pg_sys::RangeTblEntry,
    layout: &Layout,
) {
    // SAFETY: the caller's promise. The columns that a re-claim changes are named so that triggers on
    // UPDATE OF them fire.
    unsafe {
        let changed = [Column::ClaimedAt, Column::ExpiresAt, Column::Fingerprint, Column::Result]
            .into_iter()
            .fold(std::ptr::null_mut(), |set, column| {
                let number = i32::from(layout.number(column));
                pg_sys::bms_add_member(set, number - pg_sys::FirstLowInvalidHeapAttributeNumber)
            });
        let table = pg_sys::lappend(std::ptr::null_mut(), entry.cast());
        #[cfg(feature = "pg15")]
        {
            (*entry).updatedCols = changed;
            pg_sys::ExecInitRangeTable(estate, table);
        }
        #[cfg(not(feature = "pg15"))]
        {
            let mut permissions = std::ptr::null_mut();
            let permission = pg_sys::addRTEPermissionInfo(&mut permissions, entry);
            (*permission).updatedCols = changed;
            #[cfg(not(feature = "pg18"))]
            pg_sys::ExecInitRangeTable(estate, table, permissions);
            #[cfg(feature = "pg18")]
            pg_sys::ExecInitRangeTable(estate, table, permissions, pg_sys::bms_make_singleton(1));
        }
    }
}

/// Inserts a claim into a leaf of any layout.
pub fn insert(leaf: &Relation, layout: &Layout, row: &NewRow) -> Stored {
    let work = Work::new(leaf, layout, row);
    // SAFETY: target and slot belong to the executor state.
    unsafe {
        step(|| raw::ExecSimpleRelationInsert(work.target, work.estate, work.slot));
    }
    work.finish(layout, row)
}

/// Replaces the row a search of this leaf found. The row is locked first without waiting, because
/// the executor would wait while the key lock is held.
pub fn replace(
    leaf: &Relation,
    layout: &Layout,
    search: &Search,
    row: &NewRow,
) -> Result<Stored, Replaced> {
    match try_lock_row(leaf, search, row.strength()) {
        Replaced::Done => {}
        other => return Err(other),
    }
    let work = Work::new(leaf, layout, row);
    // SAFETY: the search's slot holds the row version just locked; the EPQ state is initialised
    // before use and ended after.
    unsafe {
        let mut recheck: pg_sys::EPQState = std::mem::zeroed();
        pg_sys::EvalPlanQualInit(
            &mut recheck,
            work.estate,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            -1,
            #[cfg(not(feature = "pg15"))]
            std::ptr::null_mut(),
        );
        step(|| {
            let old = search.slot();
            raw::ExecSimpleRelationUpdate(work.target, work.estate, &mut recheck, old, work.slot);
        });
        pg_sys::EvalPlanQualEnd(&mut recheck);
    }
    Ok(work.finish(layout, row))
}
