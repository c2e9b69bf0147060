//! What refusals say that come from how claims and leaves stand, and not from how they were asked for.

use super::Refusal;
use super::words::{State, Words, literal, words};
use pgrx::PgSqlErrorCode as Code;

impl Refusal {
    pub(super) fn about_state(&self) -> Words {
        match self {
            Refusal::Invisible => words(
                Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "could not serialize access due to concurrent update",
                "Another transaction claimed the key after this one's snapshot was taken.",
                "Retry the transaction.",
            ),
            Refusal::Uncovered { store, day } => words(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("store {} has no leaf for now", literal(store)),
                format!(
                    "The leaf of {} is missing and cannot be made: a leaf of another shape covers part of \
                     that UTC day, or a later day was made first and no background process can be had.",
                    &day.bound()[..10]
                ),
                "See once.partitions; attach leaves by whole UTC days, or run CALL once.maintain().",
            ),
            Refusal::UnusableLeaf(leaf) => words(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("leaf \"{leaf}\" cannot be searched for keys"),
                "It is no ordinary table, or lacks a column of its store or a valid primary key on (key, effect) in collation \"C\".",
                "Mend it, or detach the leaf if its claims no longer count.",
            ),
            Refusal::AlteredByTrigger(leaf) => words(
                Code::ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION,
                format!("a trigger on leaf \"{leaf}\" swallowed or altered the claim"),
                "The row that was written is not the row that was claimed.",
                "A BEFORE ROW trigger must return claimed_at, expires_at, key, effect, fingerprint and result unchanged.",
            ),
            Refusal::KeptByTrigger(leaf) => words(
                Code::ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION,
                format!("a trigger on leaf \"{leaf}\" kept the claim from being released"),
                "The row is still there, so that the key would be refused as before.",
                "A BEFORE DELETE ROW trigger must return OLD, or raise an error that says why it does not.",
            ),
            Refusal::TooLate { store } => words(
                State::Own(b"OC001"),
                "message is too late to be claimed",
                format!(
                    "Its event_time is older than what store {} still remembers, so that nobody can tell whether \
                     it was processed.",
                    literal(store)
                ),
                "Look into the effect's own data; with pg_once.late_policy = 'claim' it is claimed as if it were new.",
            ),
            Refusal::NotClaimed { store } => words(
                State::Own(b"OC006"),
                "the key is not claimed",
                format!(
                    "Store {} has no claim of this key and effect whose window is not over.",
                    literal(store)
                ),
                "Claim first, and store the answer in the same transaction or well within the window.",
            ),
            Refusal::OtherAnswer { store } => words(
                State::Own(b"OC007"),
                "the claim has another answer",
                format!(
                    "Store {} has an answer for this key and effect, and it is not this one.",
                    literal(store)
                ),
                "An answer is stored once. once.lookup() shows it; to do the work again, release the claim.",
            ),
            other => words(
                Code::ERRCODE_INTERNAL_ERROR,
                "pg_once could not change its catalog",
                match other {
                    Refusal::Internal(what) => what.clone(),
                    _ => String::new(),
                },
                "This is a bug or a catalog changed by hand: compare once.partitions with \\d+.",
            ),
        }
    }
}
