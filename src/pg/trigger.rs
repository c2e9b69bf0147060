//! A row trigger of ours being fired.

use super::keys::Packed;
use super::layout;
use super::relation::{Access, Relation};
use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::pg_sys;

/// The firing: not a SQL argument, but taken by the function as if it were one. None where the function was
/// not called as a trigger for each row.
pub struct Fired(*mut pg_sys::TriggerData);

/// The row as it came, to go on.
pub struct Passed(pg_sys::Datum);

impl Fired {
    /// The table it fired on; None where the function was not called before the insert or update of a row.
    pub fn table(&self) -> Option<pg_sys::Oid> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: a trigger's data, with its table open, for as long as the function runs.
        unsafe {
            let event = (*self.0).tg_event;
            let of_a_row = event & pg_sys::TRIGGER_EVENT_ROW != 0
                && event & pg_sys::TRIGGER_EVENT_TIMINGMASK == pg_sys::TRIGGER_EVENT_BEFORE;
            let kind = event & pg_sys::TRIGGER_EVENT_OPMASK;
            let brings =
                kind == pg_sys::TRIGGER_EVENT_INSERT || kind == pg_sys::TRIGGER_EVENT_UPDATE;
            (of_a_row && brings).then(|| (*(*self.0).tg_relation).rd_id)
        }
    }

    /// Whether the row that comes may have a key or an expiry that is not known: a new row has, and so has one
    /// that another trigger may change after this one.
    pub fn may_bring_news(&self) -> bool {
        // SAFETY: as in `table`, which the caller has asked; of an update both rows are there.
        unsafe {
            let data = &*self.0;
            if data.tg_event & pg_sys::TRIGGER_EVENT_OPMASK == pg_sys::TRIGGER_EVENT_INSERT {
                return true;
            }
            let triggers = (*data.tg_relation).trigdesc;
            let alone = !triggers.is_null() && (*triggers).numtriggers == 1;
            let columns = self
                .table()
                .and_then(|table| Relation::open(table, Access::Read))
                .and_then(|table| layout::key_columns(&table));
            let Some([key, effect, expiry]) = columns.filter(|_| alone) else { return true };
            let descriptor = (*data.tg_relation).rd_att;
            let value = |row, number: i16| {
                let mut null = true;
                let value = pg_sys::heap_getattr(row, i32::from(number), descriptor, &mut null);
                (!null).then_some(value)
            };
            let (old, new) = (data.tg_trigtuple, data.tg_newtuple);
            let ends = value(old, expiry).zip(value(new, expiry));
            let same = [key, effect].into_iter().all(|number| {
                let text = |row| value(row, number).map(|value| Packed::new(value));
                text(old).zip(text(new)).is_some_and(|(old, new)| old.bytes() == new.bytes())
            }) && ends.is_some_and(|(old, new)| old.value() == new.value());
            !same
        }
    }

    /// The row, to go on as it is.
    pub fn pass(self) -> Passed {
        if self.0.is_null() {
            return Passed(pg_sys::Datum::from(0usize));
        }
        // SAFETY: as in `table`.
        unsafe {
            let data = &*self.0;
            let updates =
                data.tg_event & pg_sys::TRIGGER_EVENT_OPMASK == pg_sys::TRIGGER_EVENT_UPDATE;
            Passed(pg_sys::Datum::from(if updates { data.tg_newtuple } else { data.tg_trigtuple }))
        }
    }
}

// SAFETY: reads the call context of a valid fcinfo; consumes no SQL argument.
unsafe impl<'fcx> ArgAbi<'fcx> for Fired {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: FunctionCallInfo is itself a virtual argument.
        let fcinfo: pg_sys::FunctionCallInfo = unsafe { arg.unbox_unchecked() };
        // SAFETY: the context, where there is one, is a node.
        unsafe {
            let context = (*fcinfo).context;
            let fired = !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData;
            Fired(if fired { context.cast() } else { std::ptr::null_mut() })
        }
    }

    fn is_virtual_arg() -> bool {
        true
    }
}

// SAFETY: a trigger's result is a pointer to a row, returned as a plain datum.
unsafe impl BoxRet for Passed {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the trait's contract.
        unsafe { fcinfo.return_raw_datum(self.0) }
    }
}
