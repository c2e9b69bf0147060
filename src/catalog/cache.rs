//! The stores this session has used, as the catalog had them when they were read.
//!
//! The rule: an entry may be trusted only after invalidation messages have been taken in, and
//! `is_current` says whether it still may be. A claim asks under the key's lock. What makes that
//! enough: whoever makes a leaf commits before anybody else can insert into it (for its own claims see
//! `making`), its invalidation is sent before its locks are released, and an insert needs the leaf's
//! lock; so a claimer that takes the
//! key's lock after another has written to a new leaf, and then takes in messages, knows the leaf.

use super::filters::{self, Filters};
use super::pauses::{self, StorePauses};
use super::{away, schema};
use crate::domain::day::{DAY, Day, Instant};
use crate::domain::kind::Kinds;
use crate::domain::shown::shown;
use crate::error::Refusal;
use crate::pg::bounds::{self, Range};
use crate::pg::layout::Layout;
use crate::pg::relation::TableFile;
use crate::pg::session::{self, now};
use crate::pg::{inval, privilege, table};
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::rc::Rc;

/// A leaf: a partition that holds the claims of a range of instants, as a rule one UTC day.
#[derive(Clone)]
pub struct Leaf {
    /// The table.
    pub table: Oid,
    /// The instants its claims were made at.
    pub range: Range,
    /// No claim in it expires later. The end of time where nobody promised anything.
    pub keep_until: Instant,
    /// The same with the store's pauses taken into account: before it the leaf may hold a live claim. Only
    /// where the leaf belongs to a [`Store`].
    pub live_until: Instant,
    /// What it looks like, once somebody has looked.
    pub layout: Cell<Option<Layout>>,
    /// The transaction that saw that nothing was ever written to it; 0 is none. See [`wrote_to`].
    unwritten: Cell<u32>,
    /// Its file, if it had no row when it was looked at, and keeps its pages.
    pub empty: Cell<Option<TableFile>>,
    /// Whether this session has told the others that it writes to it.
    announced: Cell<bool>,
}

impl Leaf {
    /// Whether nothing was ever written to the leaf, as far as this transaction has seen and heard.
    pub fn is_unwritten(&self, transaction: u32) -> bool {
        self.unwritten.get() == transaction
    }

    /// Remembers, for this transaction, whether it saw that nothing was ever written to the leaf.
    pub fn saw_unwritten(&self, transaction: Option<u32>) {
        self.unwritten.set(transaction.unwrap_or(0));
    }

    /// Whether the leaf covers any part of a day.
    pub fn meets(&self, day: Day) -> bool {
        self.range.from < day.end() && day.start() < self.range.to
    }

    /// Whether the leaf holds claims made at `at`.
    pub fn holds(&self, at: Instant) -> bool {
        self.range.from <= at && at < self.range.to
    }
}

/// A store as the catalog had it.
pub struct Store {
    /// The partitioned table.
    pub table: Oid,
    /// The name it was looked up by.
    pub name: Vec<u8>,
    /// Longest ttl, in microseconds.
    pub retention: i64,
    /// When the retention was raised last, and the shortest it was raised from.
    raised: Option<(Instant, i64)>,
    /// Times in which its windows stand still.
    pauses: StorePauses,
    /// When this was read.
    read_at: Instant,
    /// Whether it was asked since whether the store was away.
    asked: Cell<bool>,
    /// Kinds of keys that are not to be claimed.
    pub forbid: Kinds,
    /// Whether row-level security is in force for anybody.
    pub row_security: bool,
    /// Its leaves, newest first.
    pub leaves: Vec<Leaf>,
    /// The filters of those that are sealed.
    pub filters: Filters,
    current: Cell<bool>,
}

impl Store {
    /// False once anything about the store may have changed.
    pub fn is_current(&self) -> bool {
        self.current.get()
    }

    /// Whether it was read so long ago that absences since then may not be known, or in the future.
    pub fn is_stale(&self, now: Instant) -> bool {
        !(-TRUSTED..TRUSTED).contains(&(now - self.read_at))
    }

    /// When the window of a claim ends, pauses taken into account.
    pub fn end_of(&self, claimed_at: Instant, expires_at: Instant) -> Instant {
        self.pauses.end_of(claimed_at, expires_at)
    }

    /// For how long a claim made at an instant was remembered at most: the retention, or a shorter one that was
    /// in force then.
    pub fn remembered(&self, made_at: Instant) -> i64 {
        match self.raised {
            Some((at, from)) if made_at < at => from.min(self.retention),
            _ => self.retention,
        }
    }

    /// Whether an absence is to be found out about before a claim is made. Says so once.
    pub fn is_in_question(&self, now: Instant, away_days: i32) -> bool {
        !self.asked.replace(true)
            && away::is_in_question(&self.leaves, &self.pauses, now, away_days)
    }

    /// The name, for messages.
    pub fn display_name(&self) -> String {
        shown(&self.name)
    }
}

/// How long what was read is used without looking whether the store was away meanwhile.
const TRUSTED: Instant = DAY / 24;

thread_local! {
    static STORES: RefCell<Vec<Rc<Store>>> = const { RefCell::new(Vec::new()) };
    /// The tables that messages were about since a store's entry was begun to be read: which of them are its
    /// own is known only at the end. None while nothing is read.
    static HEARD: RefCell<Option<Heard>> = const { RefCell::new(None) };
    /// The table whose invalidation says that some session has begun to write to some leaf:
    /// once.leaf_promise, which hardly any session has open.
    static WRITES: Cell<Option<Oid>> = const { Cell::new(None) };
}

/// What messages said that arrived meanwhile.
#[derive(Default)]
struct Heard {
    tables: Vec<Oid>,
    of_any: bool,
}

impl Heard {
    /// How many tables are told apart.
    const MOST: usize = 1_000;

    fn of(&mut self, table: Option<Oid>) {
        match table {
            Some(table) if self.tables.len() < Heard::MOST => self.tables.push(table),
            _ => self.of_any = true,
        }
    }

    /// Whether any of it was about a store, a leaf of it, whose seal may be none any more, or the table of a
    /// filter.
    fn concerns(&self, store: Oid, leaves: &[Leaf], filters: &Filters) -> bool {
        let is_ours = |&table: &Oid| {
            table == store
                || leaves.iter().any(|leaf| leaf.table == table)
                || filters.read_from(table)
        };
        self.of_any || self.tables.iter().any(is_ours)
    }
}

fn on_change(table: Option<Oid>) {
    HEARD.with(|heard| {
        if let Ok(mut heard) = heard.try_borrow_mut()
            && let Some(heard) = heard.as_mut()
        {
            heard.of(table);
        }
    });
    let writes = table.is_some() && table == WRITES.with(Cell::get);
    STORES.with(|stores| {
        // A shared borrow: while the list is being changed no message can arrive, because nothing
        // of PostgreSQL is called then.
        let Ok(stores) = stores.try_borrow() else { return };
        for store in stores.iter() {
            if table.is_none_or(|table| table == store.table || store.filters.read_from(table)) {
                store.current.set(false);
            }
            for (place, leaf) in store.leaves.iter().enumerate() {
                if writes {
                    leaf.unwritten.set(0);
                    // The writer may have given the leaf another file in its transaction.
                    leaf.empty.set(None);
                }
                if table.is_none_or(|table| table == leaf.table) {
                    leaf.layout.set(None);
                    leaf.unwritten.set(0);
                    leaf.empty.set(None);
                    leaf.announced.set(false);
                    // What its seal was may be none any more.
                    if store.filters.answer_for(place) {
                        store.current.set(false);
                    }
                }
            }
        }
    });
}

/// Called after a claim was written to `leaf`, with the key's lock still held: the first time, every
/// session is told, at once and whatever becomes of this transaction, that its `unwritten` marks are
/// stale.
///
/// Why it is enough: a session marks a leaf unwritten only after seeing that its file has no page,
/// under the key's lock. Whoever claims in it afterwards makes a page first; then either this is the
/// writer's first row there, and the message is out before the key's lock is, or the writer has told of
/// an earlier one, and the file, which never gets shorter under its name, had a page already.
///
/// A row written past the protocol (INSERT, COPY, a restore, an apply worker) tells nobody; so a mark
/// lasts no longer than the transaction that made it, and the next one looks at the file again.
pub fn wrote_to(leaf: &Leaf) {
    if leaf.announced.get() {
        return;
    }
    if let Some(marker) = WRITES.with(Cell::get) {
        inval::announce_now(marker);
    }
    leaf.announced.set(true);
}

/// The store of this name, from the cache or the catalog. None where there is none.
pub fn find(name: &[u8]) -> Result<Option<Rc<Store>>, Refusal> {
    let known = STORES.with(|stores| {
        stores.borrow().iter().find(|s| s.is_current() && s.name == name).map(Rc::clone)
    });
    match known {
        Some(store) => Ok(Some(store)),
        None => load(name, None),
    }
}

/// Reads a store as if its consumers were away, where that could not be found out: in doubt, windows that guard
/// stand still. The next pass finds out and writes it down.
pub fn assume_away(store: &Store, now: Instant, days: i32) -> Result<(), Refusal> {
    let since = away::earliest(&store.leaves, now, days);
    if let Some(store) = load(&store.name, since)? {
        store.asked.set(true);
    }
    Ok(())
}

/// Forgets what is known of a store, so that the next look reads the catalog.
pub fn forget(store: &Store) {
    store.current.set(false);
}

fn load(name: &[u8], away_since: Option<Instant>) -> Result<Option<Rc<Store>>, Refusal> {
    inval::watch_relations(on_change);
    let Ok(c_name) = CString::new(name) else { return Ok(None) };
    loop {
        inval::accept();
        let Some(table) = bounds::relation_in(schema()?, &c_name) else { return Ok(None) };
        HEARD.with(|heard| *heard.borrow_mut() = Some(Heard::default()));
        let Some(policy) = policy_of(table)? else { return Ok(None) };
        let mut pauses = pauses::of(table)?;
        if let Some(since) = away_since {
            pauses = pauses.and_away(since, policy.guard());
        }
        let mut leaves = leaves_of(table)?;
        for leaf in &mut leaves {
            leaf.live_until = pauses.all.end(leaf.range.from, leaf.keep_until);
        }
        // A standby claims nothing, and would hear of no flag that is set before it is promoted.
        let filters = match session::in_recovery() {
            true => Filters::default(),
            false => filters::load(table, &leaves)?,
        };
        let store = Rc::new(Store {
            table,
            name: name.to_vec(),
            retention: policy.retention,
            raised: policy.raised,
            pauses,
            read_at: now(),
            asked: Cell::new(false),
            forbid: policy.forbid,
            row_security: privilege::has_row_security(table),
            leaves,
            filters,
            current: Cell::new(true),
        });
        // Something changed while we read: what we hold may be half old and half new.
        let heard = HEARD.with(|heard| heard.borrow_mut().take()).unwrap_or_default();
        if heard.concerns(table, &store.leaves, &store.filters) {
            pgrx::check_for_interrupts!();
            continue;
        }
        STORES.with(|stores| {
            let mut stores = stores.borrow_mut();
            stores.retain(|s| s.is_current() && s.name != name);
            stores.push(Rc::clone(&store));
        });
        return Ok(Some(store));
    }
}

/// What the catalog has for a store.
pub struct Policy {
    /// Microseconds.
    pub retention: i64,
    /// Microseconds.
    pub retry_horizon: Option<i64>,
    /// When it was made.
    pub created_at: Option<Instant>,
    /// The latest time that drops have gone by.
    pub clock_seen: Option<Instant>,
    /// When the retention was raised last, and the shortest it was raised from.
    pub raised: Option<(Instant, i64)>,
    /// Kinds of keys that are not to be claimed.
    pub forbid: Kinds,
}

impl Policy {
    /// Windows at least as long guard against redelivery, so that they stand still in an absence: the retry
    /// horizon, or the retention where none is known.
    pub fn guard(&self) -> i64 {
        self.retry_horizon.unwrap_or(self.retention).min(self.retention)
    }
}

/// The policy of a store; None for a table that is none.
pub fn policy_of(store: Oid) -> Result<Option<Policy>, Refusal> {
    let policies = bounds::relation_in(schema()?, c"store_policy").ok_or(Refusal::NotInstalled)?;
    let mut policy = None;
    let length = |(months, days, micros)| super::sql::length(months, days, micros);
    table::for_each_row(policies, |row| {
        if row.oid(0) == Some(store) {
            policy = row.interval(1).map(length).map(|retention| Policy {
                retention,
                retry_horizon: row.interval(2).map(length),
                created_at: row.instant(4),
                clock_seen: row.instant(6),
                raised: row.instant(9).zip(row.interval(10).map(length)),
                // A label of a later version is not known here, and forbids nothing.
                forbid: row
                    .texts(11)
                    .iter()
                    .fold(Kinds::NONE, |kinds, label| kinds.and_labelled(label).unwrap_or(kinds)),
            });
        }
    });
    Ok(policy)
}

/// The retention of a store; None for a table that is none.
pub fn retention_of(store: Oid) -> Result<Option<i64>, Refusal> {
    Ok(policy_of(store)?.map(|policy| policy.retention))
}

/// The leaves of a store as the catalog has them now, newest first.
pub fn leaves_of(store: Oid) -> Result<Vec<Leaf>, Refusal> {
    let promises = bounds::relation_in(schema()?, c"leaf_promise").ok_or(Refusal::NotInstalled)?;
    WRITES.with(|marker| marker.set(Some(promises)));
    let mut leaves: Vec<Leaf> = bounds::children(store)
        .into_iter()
        .filter_map(|table| {
            let range = bounds::range_of(table)?;
            Some(Leaf {
                table,
                range,
                keep_until: i64::MAX,
                live_until: i64::MAX,
                layout: Cell::new(None),
                unwritten: Cell::new(0),
                empty: Cell::new(None),
                announced: Cell::new(false),
            })
        })
        .collect();
    leaves.sort_by_key(|leaf| std::cmp::Reverse(leaf.range.from));
    table::for_each_row(promises, |row| {
        if row.oid(1) != Some(store) {
            return;
        }
        let promised = leaves.iter_mut().find(|leaf| row.oid(0) == Some(leaf.table));
        if let (Some(leaf), Some(keep_until)) = (promised, row.instant(2)) {
            leaf.keep_until = keep_until;
        }
    });
    Ok(leaves)
}
