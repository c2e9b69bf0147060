//! The log of releases: which claims were given up, by whom and why. Written in the transaction that gives them up, and
//! never trimmed by us.

use super::{schema, sql};
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::privilege::{self, Acting};

/// The claim that was given up.
pub struct Claim<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its effect.
    pub effect: &'a [u8],
    /// When it was made.
    pub claimed_at: Instant,
    /// When it would have expired.
    pub expires_at: Instant,
    /// Whether an answer was stored with it.
    pub had_answer: bool,
}

/// Writes a release down, in the current user's name.
pub fn write(store: &[u8], reason: &[u8], claim: &Claim) -> Result<(), Refusal> {
    let by = privilege::current_user();
    let _acting = Acting::as_role(privilege::schema_owner(schema()?));
    sql::run(
        "INSERT INTO once.release_log (store, effect, key, claimed_at, expires_at, had_answer, reason, made_by, application_name) \
         SELECT convert_from($1, e), convert_from($2, e), convert_from($3, e), $4, $5, $6, convert_from($7, e), \
                pg_get_userbyid($8), coalesce(current_setting('application_name'), '') \
           FROM getdatabaseencoding() e",
        &[
            store.into(),
            claim.effect.into(),
            claim.key.into(),
            sql::instant(claim.claimed_at)?,
            sql::instant(claim.expires_at)?,
            claim.had_answer.into(),
            reason.into(),
            by.into(),
        ],
    )
}
