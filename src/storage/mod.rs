//! Where claims are kept: one open leaf, searched by key and written to. A plain leaf is written
//! directly; any other through the executor. Which of the two is decided from the leaf as it is under
//! its lock, at every opening.

use crate::catalog::cache::Leaf;
use crate::domain::day::Instant;
use crate::error::Refusal;
use crate::pg::btree::Entry;
use crate::pg::bulk::{self, Bulk};
use crate::pg::descent::{self, Hint};
use crate::pg::executor::{self, Removed, Stored};
use crate::pg::index::{Found, PrimaryKey, Search};
use crate::pg::layout::Layout;
use crate::pg::lock;
use crate::pg::peek;
use crate::pg::relation::{Access, Opened, Relation};
use crate::pg::rows::Json;
use crate::pg::session;
use crate::pg::snapshot::View;
use crate::pg::text::Text;
use crate::pg::tuple::{self, NewRow, Replaced, Strength};
use pgrx::pg_sys::TransactionId;
use std::cell::Cell;

thread_local! {
    /// Whether the next key is more likely new than a duplicate of today: as the last one was.
    static GUESS_NEW: Cell<bool> = const { Cell::new(true) };
}

/// Whether the next key is more likely a duplicate than new.
pub fn expects_duplicate() -> bool {
    !GUESS_NEW.with(Cell::get)
}

/// An open leaf. Fields are dropped in order: the search before what it searches.
pub struct OpenLeaf {
    content: Option<Content>,
    table: Relation,
}

/// What a leaf that was ever written to can be searched with.
struct Content {
    search: Option<Search>,
    index: PrimaryKey,
    layout: Layout,
    view: View,
    /// Where a key was last looked for.
    hint: Hint,
}

/// What a look at pages alone tells of a key.
pub enum Peek {
    /// There is no row of it.
    Absent,
    /// A row of it stands: when it was made, and when it expires.
    Stands(Instant, Instant),
    /// It has to be searched for.
    Unknown,
}

impl OpenLeaf {
    /// Opens a leaf to write to, waiting for its lock; None when it is gone.
    pub fn to_write(leaf: &Leaf) -> Result<Option<OpenLeaf>, Refusal> {
        let Some(table) = Relation::open(leaf.table, Access::Write) else { return Ok(None) };
        require_ordinary(&table)?;
        let index = PrimaryKey::open(&table);
        OpenLeaf::with(leaf, table, index, View::Dirty).map(Some)
    }

    /// Opens a leaf to search, waiting for its lock; None when it is gone.
    pub fn to_search(leaf: &Leaf, view: View) -> Result<Option<OpenLeaf>, Refusal> {
        let Some(table) = Relation::open(leaf.table, Access::Read) else { return Ok(None) };
        require_ordinary(&table)?;
        if table.is_empty() {
            return Ok(Some(OpenLeaf { content: None, table }));
        }
        let index = PrimaryKey::open(&table);
        OpenLeaf::with(leaf, table, index, view).map(Some)
    }

    /// Opens a leaf to search only if nobody stands in the way.
    pub fn to_search_at_once(leaf: &Leaf, view: View) -> Result<Opened<OpenLeaf>, Refusal> {
        let table = match Relation::try_open(leaf.table, Access::Read) {
            Opened::Open(table) => table,
            Opened::Busy => return Ok(Opened::Busy),
            Opened::Gone => return Ok(Opened::Gone),
        };
        require_ordinary(&table)?;
        // The common case for the days ahead: nothing was ever written, nothing to look for.
        if is_unwritten(leaf, &table) {
            return Ok(Opened::Open(OpenLeaf { content: None, table }));
        }
        match PrimaryKey::try_open(&table) {
            // The same once more, with waiting, should it have been replaced that moment.
            Opened::Open(None) => {
                let index = PrimaryKey::open(&table);
                OpenLeaf::with(leaf, table, index, view).map(Opened::Open)
            }
            Opened::Open(index) => OpenLeaf::with(leaf, table, index, view).map(Opened::Open),
            Opened::Busy => Ok(Opened::Busy),
            Opened::Gone => Ok(Opened::Gone),
        }
    }

    fn with(
        leaf: &Leaf,
        table: Relation,
        index: Option<PrimaryKey>,
        view: View,
    ) -> Result<OpenLeaf, Refusal> {
        // Under the leaf's lock its layout stays what it is, and a change made before has let the
        // remembered one be forgotten.
        let found = index.and_then(|index| {
            Some((leaf.layout.get().or_else(|| Layout::of(&table, &index))?, index))
        });
        let Some((layout, index)) = found else {
            return Err(Refusal::UnusableLeaf(table.name()));
        };
        leaf.layout.set(Some(layout));
        let content = Content { search: None, index, layout, view, hint: Hint::default() };
        Ok(OpenLeaf { content: Some(content), table })
    }

    /// What can be told of a key at little cost. Absence only of the leaf that is written to: were it ever told
    /// wrongly, the primary key would refuse the insert; other leaves have no such second line.
    pub fn peek(&self, key: &Text, effect: &Text) -> Peek {
        let Some(Content { index, layout, view: View::Dirty, hint, .. }) = &self.content else {
            return Peek::Unknown;
        };
        match descent::entry(index, hint, key.bytes(), effect.bytes()) {
            Entry::Absent if self.table.is_for_writing() => {
                self.found(false);
                Peek::Absent
            }
            Entry::Of(row) if layout.has_rows_as_made() => {
                match peek::window(&self.table, row, key, effect) {
                    Some((claimed_at, expires_at)) => {
                        self.found(true);
                        Peek::Stands(claimed_at, expires_at)
                    }
                    None => Peek::Unknown,
                }
            }
            _ => Peek::Unknown,
        }
    }

    fn found(&self, found: bool) {
        if self.table.is_for_writing() {
            GUESS_NEW.with(|guess| guess.set(!found));
        }
    }

    /// The row version with this key that the view shows, if any.
    pub fn find(&mut self, key: &Text, effect: &Text) -> Option<Found> {
        // None where it was opened empty: see has_outgrown.
        let Content { search, index, layout, view, .. } = self.content.as_mut()?;
        let found = search
            .get_or_insert_with(|| Search::new(&self.table, index, *layout, *view))
            .find(key, effect);
        self.found(found.is_some());
        found
    }

    /// Whether a leaf that was empty when it was opened is so no more and must be opened anew.
    pub fn has_outgrown(&self, leaf: &Leaf) -> bool {
        self.content.is_none() && !is_unwritten(leaf, &self.table)
    }

    /// Whether the row found last is the calling transaction's own.
    pub fn found_is_own(&self) -> bool {
        self.search().is_some_and(Search::found_is_own)
    }

    /// Whether the row found last is visible to the transaction's one snapshot.
    pub fn found_is_visible(&self) -> bool {
        self.search().is_some_and(|search| search.found_is_visible(&self.table))
    }

    /// The stored answer of the row found last.
    pub fn found_result(&self) -> Option<Json> {
        self.search().and_then(Search::found_result)
    }

    /// The digest of the request of the row found last.
    pub fn found_fingerprint(&self) -> Option<Vec<u8>> {
        self.search().and_then(Search::found_fingerprint)
    }

    /// Gives the row found last, of this key, an answer.
    pub fn complete(&mut self, id: (&Text, &Text), answer: &Json) -> Result<Replaced, Refusal> {
        let Some((content, search)) =
            self.content.as_ref().and_then(|content| Some((content, content.search.as_ref()?)))
        else {
            return Ok(Replaced::Changed);
        };
        if content.layout.is_plain() {
            return Ok(tuple::complete(&self.table, &content.index, search, id, answer));
        }
        match executor::complete(&self.table, &content.layout, search, answer) {
            Ok(stored) => self.unaltered(stored).map(|()| Replaced::Done),
            Err(other) => Ok(other),
        }
    }

    /// Removes the row found last.
    pub fn remove(&mut self) -> Result<Replaced, Refusal> {
        let Some((content, search)) =
            self.content.as_ref().and_then(|content| Some((content, content.search.as_ref()?)))
        else {
            return Ok(Replaced::Changed);
        };
        match executor::remove(&self.table, &content.layout, search) {
            Ok(Removed::Gone) => Ok(Replaced::Done),
            Ok(Removed::Kept) => Err(Refusal::KeptByTrigger(self.table.name())),
            Err(other) => Ok(other),
        }
    }

    /// Lets go of every page, for a wait that may be long.
    pub fn release_pages(&mut self) {
        if let Some(search) = self.content.as_mut().and_then(|content| content.search.as_mut()) {
            search.release();
        }
    }

    /// Waits until the transaction that holds the row found has ended.
    pub fn wait_for(&mut self, xid: TransactionId, found: &Found) {
        self.release_pages();
        lock::wait_for_transaction(xid, &self.table, found.at);
    }

    /// Waits until nobody else holds the row found last, whose page stays pinned so that it stays what
    /// it is.
    pub fn wait_for_row(&self, strength: Strength) {
        if let Some(search) = self.search() {
            tuple::wait_for_row(&self.table, search, strength);
        }
    }

    /// Writes a new claim.
    pub fn insert(&mut self, row: &NewRow, bulk: Option<&Bulk>) -> Result<(), Refusal> {
        let Some(content) = &self.content else {
            return Err(Refusal::UnusableLeaf(self.table.name()));
        };
        if content.layout.is_plain() {
            tuple::insert(&self.table, &content.index, row, bulk);
            return Ok(());
        }
        self.unaltered(executor::insert(&self.table, &content.layout, row))
    }

    /// Whether rows may be written together: to a plain leaf only.
    pub fn takes_many(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.layout.is_plain())
    }

    /// Writes new claims to a leaf that takes many.
    pub fn insert_many(&mut self, rows: &[NewRow], bulk: &Bulk) -> Result<(), Refusal> {
        match self.content.as_ref().filter(|content| content.layout.is_plain()) {
            Some(content) => bulk::insert(&self.table, &content.index, rows, bulk),
            None => return Err(Refusal::UnusableLeaf(self.table.name())),
        }
        Ok(())
    }

    /// Replaces the row found last, whose claim has expired, by a new claim of the same key.
    pub fn replace(&mut self, row: &NewRow) -> Result<Replaced, Refusal> {
        let Some((content, search)) =
            self.content.as_ref().and_then(|content| Some((content, content.search.as_ref()?)))
        else {
            return Ok(Replaced::Changed);
        };
        if content.layout.is_plain() {
            return Ok(tuple::replace(&self.table, &content.index, search, row));
        }
        match executor::replace(&self.table, &content.layout, search, row) {
            Ok(stored) => self.unaltered(stored).map(|()| Replaced::Done),
            Err(other) => Ok(other),
        }
    }

    /// The search that was made last, if one was needed.
    fn search(&self) -> Option<&Search> {
        self.content.as_ref()?.search.as_ref()
    }

    fn unaltered(&self, stored: Stored) -> Result<(), Refusal> {
        match stored {
            Stored::AsGiven => Ok(()),
            Stored::Altered => Err(Refusal::AlteredByTrigger(self.table.name())),
        }
    }
}

fn require_ordinary(table: &Relation) -> Result<(), Refusal> {
    if table.is_ordinary() { Ok(()) } else { Err(Refusal::UnusableLeaf(table.name())) }
}

/// Whether nothing was ever written to the leaf, which is remembered where that can be relied on.
fn is_unwritten(leaf: &Leaf, table: &Relation) -> bool {
    let empty = table.is_empty();
    let lasting = empty && table.keeps_its_pages();
    leaf.saw_unwritten(lasting.then(session::transaction));
    leaf.empty.set(lasting.then(|| table.file()));
    empty
}

/// Whether still nothing was ever written to a leaf ahead: asked once a transaction, of its file alone where that is
/// known, because three days ahead opened and locked would make a transaction's first claim a fourth dearer.
pub fn is_still_unwritten(leaf: &Leaf) -> bool {
    let transaction = session::transaction();
    if leaf.is_unwritten(transaction) {
        return true;
    }
    // Emptied files are emptied after it was told where their rows are now: with that taken in, the file still counts.
    let empty = leaf.empty.get().is_some_and(|file| file.is_empty()) && leaf.empty.get().is_some();
    if empty {
        leaf.saw_unwritten(Some(transaction));
    }
    empty
}
