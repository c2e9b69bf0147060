//! Writing claims through the executor, for a leaf that carries more than our own layout: all its
//! indexes, checks, generated columns, defaults and row triggers are served, as they are for a row
//! that INSERT routes to the leaf. Rules and statement triggers do not fire, as there.
//!
//! The steps are those by which logical replication applies a row (replication/logical/worker.c).

use super::failure::step;
use super::index::Search;
use super::layout::{COLUMNS, Column, Layout, dropped_columns, further_columns};
use super::relation::Relation;
use super::rows::Json;
use super::tuple::{NewRow, Replaced, Strength, try_lock_row};
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

/// What the executor made of a removal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// The row is gone.
    Gone,
    /// A trigger kept it.
    Kept,
}

/// Executor state for one row of one leaf.
struct Work {
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
}

impl Work {
    /// For a row that `fill` describes; `changed` are the columns that an update changes.
    fn new(leaf: &Relation, layout: &Layout, changed: &[Column], fill: impl FnOnce(&Work)) -> Work {
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
            init_range_table(estate, entry, layout, changed);
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
            fill(&work);
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

    /// The columns of the row that a search found, with another answer.
    ///
    /// # Safety
    /// Called with the executor state's memory context current; the answer is a jsonb value that outlives the work,
    /// as the search's row does.
    unsafe fn fill_from(
        &self,
        leaf: &Relation,
        layout: &Layout,
        search: &Search,
        answer: pg_sys::Datum,
    ) {
        // SAFETY: both slots have one place for each attribute of the leaf.
        unsafe {
            let old = search.slot();
            pg_sys::slot_getallattrs(old);
            pg_sys::ExecClearTuple(self.slot);
            for i in 0..(*(*leaf.raw()).rd_att).natts as usize {
                *(*self.slot).tts_values.add(i) = *(*old).tts_values.add(i);
                *(*self.slot).tts_isnull.add(i) = *(*old).tts_isnull.add(i);
            }
            let place = layout.number(Column::Result) as usize - 1;
            *(*self.slot).tts_values.add(place) = answer;
            *(*self.slot).tts_isnull.add(place) = false;
            for number in dropped_columns(leaf) {
                *(*self.slot).tts_isnull.add(number as usize - 1) = true;
            }
            pg_sys::ExecStoreVirtualTuple(self.slot);
        }
    }

    /// Fires what is queued, then says whether the row stands as it was given: [`GIVEN`], in that order, and what was
    /// given beside them.
    fn finish(
        self,
        layout: &Layout,
        given: [pg_sys::Datum; 4],
        beside: Option<(Column, pg_sys::Datum)>,
    ) -> Stored {
        // SAFETY: the query level opened by `new` is closed once.
        unsafe {
            step(|| raw::AfterTriggerEndQuery(self.estate));
            let written = (*self.slot).tts_tid.ip_posid != 0;
            let same = |(column, given): (Column, pg_sys::Datum)| {
                let mut is_null = false;
                let stored =
                    pg_sys::slot_getattr(self.slot, i32::from(layout.number(column)), &mut is_null);
                match column {
                    Column::Key | Column::Effect | Column::Fingerprint => {
                        !is_null && bytes_of(stored) == bytes_of(given)
                    }
                    Column::Result => !is_null && Json::copy(stored).equals(&Json::copy(given)),
                    _ => !is_null && stored.value() == given.value(),
                }
            };
            let as_given = written && GIVEN.into_iter().zip(given).chain(beside).all(same);
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

/// What no trigger may change of a claim.
const GIVEN: [Column; 4] = [Column::ClaimedAt, Column::ExpiresAt, Column::Key, Column::Effect];

/// The columns that a claim changes which replaces an expired one.
const REPLACED: [Column; 4] =
    [Column::ClaimedAt, Column::ExpiresAt, Column::Fingerprint, Column::Result];

fn given(row: &NewRow) -> [pg_sys::Datum; 4] {
    let (values, _) = row.values();
    GIVEN.map(|column| values[column as usize])
}

fn digest(row: &NewRow) -> Option<(Column, pg_sys::Datum)> {
    row.fingerprint.map(|digest| (Column::Fingerprint, digest.datum()))
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
    changed: &[Column],
) {
    // SAFETY: the caller's promise. The columns that an update changes are named so that triggers on
    // UPDATE OF them fire.
    unsafe {
        let changed = changed.iter().fold(std::ptr::null_mut(), |set, &column| {
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
    // SAFETY: `new` calls it with that memory context current.
    let work = Work::new(leaf, layout, &[], |work| unsafe { work.fill(leaf, layout, row) });
    // SAFETY: target and slot belong to the executor state.
    unsafe {
        step(|| raw::ExecSimpleRelationInsert(work.target, work.estate, work.slot));
    }
    work.finish(layout, given(row), digest(row))
}

/// Replaces the row a search of this leaf found by a new claim. The row is locked first without waiting, because
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
    // SAFETY: `new` calls it with that memory context current.
    let work = Work::new(leaf, layout, &REPLACED, |work| unsafe { work.fill(leaf, layout, row) });
    update(&work, search);
    Ok(work.finish(layout, given(row), digest(row)))
}

/// Gives the row a search of this leaf found an answer, and leaves the rest of it as it is. Locked first as in
/// [`replace`].
pub fn complete(
    leaf: &Relation,
    layout: &Layout,
    search: &Search,
    answer: &Json,
) -> Result<Stored, Replaced> {
    match try_lock_row(leaf, search, Strength::KeepsKey) {
        Replaced::Done => {}
        other => return Err(other),
    }
    let changed = [Column::Result];
    // SAFETY: `new` calls it with that memory context current; the caller keeps answer and search.
    let work = Work::new(leaf, layout, &changed, |work| unsafe {
        work.fill_from(leaf, layout, search, answer.datum());
    });
    // SAFETY: `fill_from` has unpacked the found row, whose page stays pinned.
    let given = GIVEN.map(|column| unsafe {
        *(*search.slot()).tts_values.add(layout.number(column) as usize - 1)
    });
    update(&work, search);
    Ok(work.finish(layout, given, Some((Column::Result, answer.datum()))))
}

/// Removes the row a search of this leaf found, with what triggers and foreign keys make of that. Locked first as in
/// [`replace`].
pub fn remove(leaf: &Relation, layout: &Layout, search: &Search) -> Result<Removed, Replaced> {
    match try_lock_row(leaf, search, Strength::Whole) {
        Replaced::Done => {}
        other => return Err(other),
    }
    let work = Work::new(leaf, layout, &[], |_| {});
    rechecked(&work, |recheck| {
        // SAFETY: the search's slot holds the row version just locked; target and estate are the work's.
        unsafe {
            raw::ExecSimpleRelationDelete(work.target, work.estate, recheck, search.slot());
            raw::AfterTriggerEndQuery(work.estate);
        }
    });
    // PostgreSQL does not say whether a trigger has kept it.
    Ok(if search.found_stands(leaf) { Removed::Kept } else { Removed::Gone })
}

/// Writes the work's row over the one a search found, which this transaction has locked.
fn update(work: &Work, search: &Search) {
    rechecked(work, |recheck| {
        // SAFETY: the search's slot holds the row version just locked; the others are the work's.
        unsafe {
            let old = search.slot();
            raw::ExecSimpleRelationUpdate(work.target, work.estate, recheck, old, work.slot);
        }
    });
}

/// Runs a change of the executor's with the state that it asks for to check rows again.
fn rechecked(work: &Work, change: impl FnOnce(&mut pg_sys::EPQState)) {
    // SAFETY: the state is initialised before use and ended after.
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
        step(|| change(&mut recheck));
        pg_sys::EvalPlanQualEnd(&mut recheck);
    }
}
