//! `CALL once.import_claims(..)`: the procedure that moves a table of processed messages in. It commits
//! after each batch and therefore refuses to run where it cannot.
//!
//! Errors: 0A000 under row-level security; 22004 for a NULL argument that has no default; 22023 for an
//! effect, a ttl, a time zone or a batch size that cannot be; 25001 where it cannot commit; 25006 in a
//! read-only transaction or on a standby; 42501 without INSERT on the store or SELECT on the source; 42703
//! for an unknown column; 42704 for an unknown store; 42804 for a column of times that has none; 42809 for
//! a source that cannot be read by pages; 55000 for one that was rewritten meanwhile.

use super::{given, settings, span};
use crate::claim::import::source::Columns;
use crate::claim::import::{Import, Tally};
use crate::claim::{Settings, arbiter};
use crate::error::{Refusal, raise};
use crate::pg::failure::{Sql, sql};
use crate::pg::procedure::Call;
use crate::pg::rows::{OneRow, Value};
use crate::stats::Wanted;
use pgrx::datum::Interval;
use pgrx::pg_extern;
use pgrx::pg_sys::Oid;

const NAME: &str = "once.import_claims()";

/// Imports the claims of a table, with notices, and counts its rows.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)] // the arguments of the SQL procedure
fn import_claims(
    call: Call,
    store: Option<&[u8]>,
    source: Option<Oid>,
    key_column: Option<&[u8]>,
    claimed_at_column: Option<&[u8]>,
    effect_column: Option<&[u8]>,
    effect: Option<&[u8]>,
    ttl: Option<Interval>,
    time_zone: Option<&[u8]>,
    batch_size: Option<i32>,
) -> Sql<OneRow<'static, 5>> {
    sql(|| {
        arbiter::refuse_read_only(c"once.import_claims()");
        if call.is_atomic() {
            raise::<()>(Err(Refusal::InTransaction(NAME)));
        }
        // An import answers nobody: it is not counted among the claims.
        let measured = Wanted { counts: false, samples: false };
        let settings = Settings { measured, ..settings() };
        let commit = || call.commit_and_go_on();
        let import = || {
            Import {
                store: given(store, "store")?,
                source: given(source, "source")?,
                columns: Columns {
                    key: given(key_column, "key_column")?,
                    claimed_at: given(claimed_at_column, "claimed_at_column")?,
                    effect: effect_column,
                    time_zone,
                },
                effect: given(effect, "effect")?,
                ttl: ttl.map(span),
                batch_size: given(batch_size, "batch_size")?,
                settings: &settings,
                commit: &commit,
            }
            .run()
        };
        let tally: Tally = raise(import());
        let count = |rows: u64| Value::Integer(i64::try_from(rows).unwrap_or(i64::MAX));
        OneRow([
            count(tally.read),
            count(tally.imported),
            count(tally.already_there),
            count(tally.expired),
            count(tally.refused()),
        ])
    })
}
