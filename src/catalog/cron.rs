//! Maintenance as a job of pg_cron, which has its jobs in schema cron of one database of the server.
//!
//! Everything runs as the caller: pg_cron judges what the caller may do, and the job runs as the caller.
//! A caller has one job a database, known by its name, however often it is scheduled.

use super::sql;
use crate::error::Refusal;
use crate::pg::privilege::Acting;
use crate::pg::session;
use pgrx::datum::DatumWithOid;

/// The database in argument 1, or else this one, and what its job is called. Job names have at most 63
/// bytes in pg_cron 1.4, so a hash stands for the end of a long name.
const WANTED: &str = "\
    (SELECT n.name, 'pg_once maintain ' || CASE WHEN octet_length(n.name) <= 46 THEN n.name \
            ELSE left(n.name, 7) || '~' || to_hex(hashtextextended(n.name, 0)) END AS job \
       FROM (SELECT coalesce(convert_from($1, getdatabaseencoding()), current_database()::text) AS name) n) w";

/// Takes away the caller's job of that name.
const TAKE_AWAY: &str = "SELECT cron.unschedule(j.jobid) FROM cron.job j, ";
const THEIRS: &str = "j.jobname::text = w.job AND j.username = current_user::text";

/// Makes the job, or changes the one there is; `schedule` and `database` are the bytes of text values.
pub fn schedule(schedule: &[u8], database: Option<&[u8]>) -> Result<i64, Refusal> {
    let _acting = as_caller_with_cron()?;
    let here = sql::get::<bool>(
        &format!(
            "SELECT w.name = current_database() FROM {WANTED} JOIN pg_database d ON d.datname = w.name"
        ),
        &[database.into()],
    )?
    .ok_or(Refusal::UnknownDatabase)?;
    // pg_cron changes schedule and command of a job, and nothing else: one that was switched off, or was
    // made for a server on another port, is made anew.
    let stale = "(NOT j.active OR j.nodeport <> current_setting('port')::integer)";
    sql::run(&format!("{TAKE_AWAY}{WANTED} WHERE {THEIRS} AND {stale}"), &[database.into()])?;
    // Two functions, because not everybody may use the second.
    let call = if here {
        "cron.schedule(w.job, t.schedule, t.command)"
    } else {
        "cron.schedule_in_database(w.job, t.schedule, t.command, w.name)"
    };
    let statement = format!(
        "SELECT {call} FROM {WANTED}, (SELECT convert_from($2, getdatabaseencoding()) AS schedule, \
                'CALL once.maintain()'::text AS command) t"
    );
    let args: [DatumWithOid; 2] = [database.into(), schedule.into()];
    sql::get::<i64>(&statement, &args)?
        .ok_or_else(|| Refusal::Internal("pg_cron gave the job no number".to_owned()))
}

/// Takes the job away; false where there is none. The database need not exist any more.
pub fn unschedule(database: Option<&[u8]>) -> Result<bool, Refusal> {
    let _acting = as_caller_with_cron()?;
    let statement = format!("{TAKE_AWAY}{WANTED} WHERE {THEIRS}");
    Ok(sql::get::<bool>(&statement, &[database.into()])?.unwrap_or(false))
}

/// That the extension is here means that schema cron is its own.
fn as_caller_with_cron() -> Result<Acting, Refusal> {
    if session::has_extension(c"pg_cron") { Ok(Acting::as_caller()) } else { Err(Refusal::NoCron) }
}
