//! `audit_keys`: what the keys in use look like. Needs SELECT on the store.
//!
//! Errors: 22004 for a NULL store or sample; 22023 for a sample out of range; 42501 without the privilege; 42704 for an
//! unknown store; 0A000 under row-level security.

use super::given;
use crate::catalog::{audit, cache};
use crate::claim::arbiter::{require, unknown};
use crate::domain::audit::Counted;
use crate::error::{Refusal, raise};
use crate::gucs;
use crate::pg::failure::{Sql, sql};
use crate::pg::privilege::{self, TableRight};
use crate::pg::rows::{RowSet, Value};
use crate::pg::{inval, session};
use pgrx::pg_extern;

/// Most keys that can be asked for: they are in memory together.
const MOST: i32 = 100_000;

/// One row an effect.
#[pg_extern(sql = false)]
fn audit_keys(store: Option<&[u8]>, sample: Option<i32>) -> Sql<RowSet<'static, 13>> {
    let look = || {
        let (name, sample) = (given(store, "store")?, given(sample, "sample")?);
        if !(1..=MOST).contains(&sample) {
            return Err(Refusal::SampleSize(MOST));
        }
        inval::accept();
        let store = cache::find(name)?.ok_or_else(|| unknown(name))?;
        require(&store, TableRight::Select)?;
        let (role, now) = (privilege::current_user(), session::now());
        let audited = audit::look(store.table, role, sample, gucs::track_claims(), now)?;
        Ok((audited, now))
    };
    sql(|| {
        let (audited, now) = raise(look());
        RowSet::new(audited.into_iter().map(move |one| {
            let portrait = one.portrait;
            let share = |place: usize| match portrait.sampled {
                0 => Value::Null,
                _ => Value::Float(portrait.shares[place]),
            };
            let length = |place: usize| {
                portrait.lengths.map_or(Value::Null, |all| Value::Integer(i64::from(all[place])))
            };
            let (claimed, duplicates, since) = match one.counted {
                Counted::Since { claimed, duplicates, time, .. } => (
                    Value::Integer(claimed),
                    Value::Integer(duplicates),
                    Value::Instant(now - time),
                ),
                _ => (Value::Null, Value::Null, Value::Null),
            };
            let findings = one.findings.into_iter().map(|finding| finding.words.into_bytes());
            [
                Value::Owned(one.effect),
                Value::Integer(i64::try_from(portrait.sampled).unwrap_or(i64::MAX)),
                share(0),
                share(1),
                share(2),
                share(3),
                length(0),
                length(1),
                length(2),
                claimed,
                duplicates,
                since,
                Value::Texts(findings.collect()),
            ]
        }))
    })
}
