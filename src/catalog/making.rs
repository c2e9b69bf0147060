//! What a claim needs and does not find is made in another transaction, by a short background
//! process: a leaf made in the claimer's own would block every other claimer until it commits. Where
//! no process can be had, or it fails, the claimer makes it itself after all, and sees the error.

use super::{SCHEMA, away, cache, leaves, pauses, schema, stores};
use crate::domain::day::{Day, Instant};
use crate::domain::key::lock_number;
use crate::error::Refusal;
use crate::pg::lock::OwnLock;
use crate::pg::privilege::{self, Acting};
use crate::pg::{session, worker};
use pgrx::pg_sys::Oid;
use std::cell::Cell;

/// The function of this library that such a process runs.
pub const FUNCTION: &str = "pg_once_make";
/// How often a process is started before the claimer tries itself, and sees the error.
const TRIES: u32 = 3;
/// The store that is made on first use.
pub const DEFAULT_STORE: &str = "processed_events";

/// What a process is to make.
#[derive(Debug, PartialEq, Eq)]
pub enum Order {
    /// The leaf of a day.
    Leaf {
        /// The database.
        database: u32,
        /// The store.
        store: u32,
        /// The day.
        day: i32,
    },
    /// What is known of a store's absences: see [`away`].
    Settle {
        /// The database.
        database: u32,
        /// The store.
        store: u32,
        /// The claimer's clock.
        now: Instant,
        /// Days without a claim that are more than usual.
        days: i32,
    },
    /// The default store.
    Store {
        /// The database.
        database: u32,
        /// Who will own it.
        owner: u32,
        /// Microseconds.
        retention: i64,
        /// The first day.
        day: i32,
        /// Days ahead.
        ahead: i32,
    },
}

impl Order {
    /// As text that fits the 128 bytes a background worker is given.
    pub fn encode(&self) -> String {
        match self {
            Order::Leaf { database, store, day } => format!("leaf {database} {store} {day}"),
            Order::Settle { database, store, now, days } => {
                format!("settle {database} {store} {now} {days}")
            }
            Order::Store { database, owner, retention, day, ahead } => {
                format!("store {database} {owner} {retention} {day} {ahead}")
            }
        }
    }

    /// Reads what `encode` wrote.
    pub fn decode(text: &str) -> Option<Order> {
        let mut words = text.split(' ');
        match words.next()? {
            "leaf" => Some(Order::Leaf {
                database: words.next()?.parse().ok()?,
                store: words.next()?.parse().ok()?,
                day: words.next()?.parse().ok()?,
            }),
            "settle" => Some(Order::Settle {
                database: words.next()?.parse().ok()?,
                store: words.next()?.parse().ok()?,
                now: words.next()?.parse().ok()?,
                days: words.next()?.parse().ok()?,
            }),
            "store" => Some(Order::Store {
                database: words.next()?.parse().ok()?,
                owner: words.next()?.parse().ok()?,
                retention: words.next()?.parse().ok()?,
                day: words.next()?.parse().ok()?,
                ahead: words.next()?.parse().ok()?,
            }),
            _ => None,
        }
    }

    /// The database to connect to.
    pub fn database(&self) -> u32 {
        match self {
            Order::Leaf { database, .. }
            | Order::Settle { database, .. }
            | Order::Store { database, .. } => *database,
        }
    }

    /// Makes it, in the current transaction. Does nothing where it is there already, or where the
    /// extension is not (a transaction that is installing it has not committed).
    pub fn carry_out(&self) -> Result<(), Refusal> {
        if schema().is_err() {
            return Ok(());
        }
        match self {
            Order::Leaf { store, day, .. } => {
                let store = Oid::from(*store);
                if privilege::exists(store) {
                    leaves::make(store, Day(*day), || ())?;
                }
            }
            Order::Settle { store, now, days, .. } => {
                away::settle(Oid::from(*store), *now, *days)?;
            }
            Order::Store { owner, retention, day, ahead, .. } => {
                // Looked for under the lock: somebody else's may have been committed meanwhile.
                stores::hold_name(DEFAULT_STORE);
                if cache::find(DEFAULT_STORE.as_bytes())?.is_none() {
                    let _acting = Acting::as_role(Oid::from(*owner));
                    stores::create(DEFAULT_STORE, &NO_POLICY, *retention, Day(*day), *ahead)?;
                }
            }
        }
        Ok(())
    }
}

const NO_POLICY: stores::Policy = stores::Policy {
    retention: None,
    retry_horizon: None,
    note: None,
    forbid: None,
    max_attempts: None,
};

/// Makes the leaf of `day`, one claimer at a time so that they do not use up the worker slots. Where it is today's,
/// nobody has made days ahead, and whoever had it made says so.
pub fn leaf(store: &cache::Store, day: Day, is_today: bool) -> Result<(), Refusal> {
    let number = lock_number(store.table.to_u32(), b"leaf", &store.name);
    let covered =
        || Ok::<bool, Refusal>(cache::leaves_of(store.table)?.iter().any(|leaf| leaf.meets(day)));
    let order = Order::Leaf {
        database: session::database().to_u32(),
        store: store.table.to_u32(),
        day: day.0,
    };
    // A leaf made in the claimer's own transaction is seen by nobody else until it commits. Claimers of a
    // later day wait for it only if they lack a leaf too.
    // An event trigger that claims while a leaf is being made must not have another made.
    if worker::is_running() {
        return Err(Refusal::Uncovered { store: store.display_name(), day });
    }
    let may_make_itself = || {
        let later = |leaf: &cache::Leaf| day.end() <= leaf.range.from;
        if cache::leaves_of(store.table)?.iter().any(later) {
            return Err(Refusal::Uncovered { store: store.display_name(), day });
        }
        Ok(())
    };
    if make(number, &order, covered, may_make_itself)? && is_today {
        warn_of_days_run_out(store, day);
    }
    Ok(())
}

thread_local! {
    /// The last day and store that this session has warned of.
    static WARNED: Cell<(i32, u32)> = const { Cell::new((i32::MIN, 0)) };
}

fn warn_of_days_run_out(store: &cache::Store, day: Day) {
    let this = (day.0, store.table.to_u32());
    if WARNED.with(|warned| warned.replace(this)) == this {
        return;
    }
    pgrx::ereport!(
        pgrx::PgLogLevel::WARNING,
        pgrx::PgSqlErrorCode::ERRCODE_WARNING,
        format!(
            "store \"{}\" had no leaf for {}, so that a claim had it made",
            store.display_name(),
            &day.bound()[..10]
        ),
        "No maintenance has made days ahead: see once.health, and CALL once.maintain()."
    );
}

/// Has the absences of a store found out about and written down, by one claimer for all. False where there is one
/// that could not be written down: no process could be had, or somebody stood in its way.
pub fn settle(store: &cache::Store, now: Instant, days: i32) -> Result<bool, Refusal> {
    // What such a process does must not start another.
    if worker::is_running() {
        return Ok(true);
    }
    let number = lock_number(store.table.to_u32(), b"settle", &store.name);
    let _turn = OwnLock::making(number);
    let is_open = || {
        let (leaves, known) = (cache::leaves_of(store.table)?, pauses::of(store.table)?);
        Ok::<bool, Refusal>(away::is_in_question(&leaves, &known, now, days))
    };
    // Somebody may have settled it while this session waited for its turn.
    if !is_open()? {
        return Ok(true);
    }
    let order = Order::Settle {
        database: session::database().to_u32(),
        store: store.table.to_u32(),
        now,
        days,
    };
    worker::run("pg_once: finding out whether a store was away", FUNCTION, &order.encode());
    // An absence that is known and not over ends no window.
    Ok(pauses::of(store.table)?.away_since.is_some()
        || !is_open()?
        || !away::is_to_be_written(store.table, now, days)?)
}

/// Makes the default store if the current user may.
pub fn default_store(retention: i64, today: Day, ahead: i32) -> Result<(), Refusal> {
    if !privilege::may_create_in(schema()?) {
        return Err(Refusal::UnknownStore(DEFAULT_STORE.to_owned()));
    }
    let number = lock_number(0, SCHEMA.as_bytes(), DEFAULT_STORE.as_bytes());
    let order = Order::Store {
        database: session::database().to_u32(),
        owner: privilege::current_user().to_u32(),
        retention,
        day: today.0,
        ahead,
    };
    let is_there = || Ok(cache::find(DEFAULT_STORE.as_bytes())?.is_some());
    make(number, &order, is_there, || Ok(())).map(|_| ())
}

/// Has something made. False where somebody else had by the time it was this session's turn.
fn make(
    number: u64,
    order: &Order,
    is_there: impl Fn() -> Result<bool, Refusal>,
    may_make_itself: impl Fn() -> Result<(), Refusal>,
) -> Result<bool, Refusal> {
    let _turn = OwnLock::making(number);
    for tried in 0..TRIES {
        if is_there()? {
            return Ok(tried > 0);
        }
        // What was made may have been dropped again by the time it is looked for.
        if !worker::run("pg_once: making what a claim needs", FUNCTION, &order.encode()) {
            break;
        }
    }
    if is_there()? {
        return Ok(true);
    }
    may_make_itself()?;
    order.carry_out()?;
    Ok(true)
}
