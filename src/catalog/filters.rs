//! The filters of a store's sealed days, as the catalog has them, and asking them.
//!
//! What makes a "no" of them right. A day is sealed by a trigger, made under a lock that waits for everybody
//! who is writing to the leaf and keeps others out; whoever comes after finds it, whatever road the row takes
//! (a leaf with a trigger is not written to directly). Before its row is in the leaf it sets the seal's flag, at
//! once and past transactions, and then tells every session. A claim takes such words in under its key's
//! lock before it asks. The rows of the day are read after the seal is committed, so none is missing.
//! Everything is logged with PostgreSQL's own records: pages before the row that names them, so that no
//! crash, standby or restore shows one without the other; and a page says of which filter it is.
//!
//! A filter answers for a leaf only as long as the leaf's seal is the one it was built under, the flag is not
//! set, and the leaf bears the [`Mark`] that the seal had.

use super::cache::Leaf;
use super::schema;
use crate::domain::day::Instant;
use crate::domain::filter::Shape;
use crate::error::Refusal;
use crate::pg::layout::key_columns_of;
use crate::pg::pages::{self, Pages};
use crate::pg::seal::{self, Mark, Marks};
use crate::pg::{bounds, inval, table};
use pgrx::pg_sys::Oid;
use std::ffi::CStr;

/// The trigger that a seal is.
pub const TRIGGER: &CStr = c"pg_once_sealed";

/// How many leaves a key may be in, by the filters, before all are looked at.
const FEW: usize = 6;

/// The leaves to look at for a key, of those that filters answer for.
#[derive(Clone, Copy)]
pub struct Places {
    few: [u16; FEW],
    count: usize,
    all: bool,
}

impl Places {
    /// None of them.
    pub const NONE: Places = Places { few: [0; FEW], count: 0, all: false };
    /// All of them: nobody was asked.
    pub const ALL: Places = Places { all: true, ..Places::NONE };

    /// Whether every leaf is to be looked at.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// The places, where they are not all.
    pub fn few(&self) -> impl Iterator<Item = usize> + use<> {
        let few = self.few;
        (0..self.count).map(move |n| usize::from(few[n]))
    }

    /// Whether the leaf at a place is to be looked at, if a filter answers for it.
    pub fn include(&self, place: usize) -> bool {
        self.all || self.few().any(|few| few == place)
    }

    /// These and others.
    pub fn or(&self, others: &Places) -> Places {
        let mut both = *self;
        both.all |= others.all;
        for &place in &others.few[..others.count] {
            if !both.include(usize::from(place)) {
                both.add(Some(place));
            }
        }
        both
    }

    fn add(&mut self, place: Option<u16>) {
        match place {
            Some(place) if self.count < FEW => {
                self.few[self.count] = place;
                self.count += 1;
            }
            // Not a day of the filter, or more than there is room for.
            _ => self.all = true,
        }
    }
}

/// A filter.
struct Filter {
    table: Oid,
    shape: Shape,
    pages: Pages,
    /// The leaf of each of its days; of one that counts no more, none.
    places: Vec<Option<u16>>,
}

/// The filters of a store.
#[derive(Default)]
pub struct Filters {
    filters: Vec<Filter>,
    /// The leaves for which none answers.
    unanswered: Vec<usize>,
    /// Place by place, whether some filter answers for it.
    answered: Vec<bool>,
}

impl Filters {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// The places of the leaves for which none answers.
    pub fn unanswered(&self) -> &[usize] {
        &self.unanswered
    }

    /// Whether a table belongs to them.
    pub fn read_from(&self, table: Oid) -> bool {
        self.filters.iter().any(|filter| filter.table == table)
    }

    /// Whether some filter answers for the leaf at a place.
    pub fn answer_for(&self, place: usize) -> bool {
        self.answered.get(place).copied().unwrap_or(false)
    }

    /// The places of the leaves that filters answer for, each with the table of its filter.
    pub fn tables(&self) -> Vec<(usize, Oid)> {
        let of = |filter: &Filter| {
            let table = filter.table;
            let places = filter.places.clone();
            places.into_iter().flatten().map(move |place| (usize::from(place), table))
        };
        self.filters.iter().flat_map(of).collect()
    }

    /// Somebody will ask for a hash: what will be looked at is fetched meanwhile.
    pub fn expect(&self, hash: u64) {
        for Filter { shape, pages, .. } in &self.filters {
            pages::expect(pages, shape.page_of(hash), shape.depth_of(hash));
        }
    }

    /// For each hash the leaves to look at. Asked under a key's lock, and of a store that was current then: that
    /// keeps the filters' tables from being dropped meanwhile.
    pub fn ask(&self, hashes: &[u64], places: &mut [Places]) {
        let count = self.filters.len();
        let blocks = hashes.iter().enumerate().flat_map(|(key, &hash)| {
            self.filters.iter().enumerate().map(move |(place, filter)| {
                (key * count + place, &filter.pages, filter.shape.page_of(hash))
            })
        });
        pages::read(blocks, |asked, page| {
            let (key, filter) = (asked / count, &self.filters[asked % count]);
            let answer = &mut places[key];
            let look = filter.shape.look(page, hashes[key], |day| {
                match filter.places.get(usize::from(day)) {
                    // A day that counts no more.
                    Some(None) => {}
                    Some(&place) => answer.add(place),
                    None => answer.add(None),
                }
            });
            if look.is_none() {
                answer.all = true;
            }
        });
    }
}

/// A seal that holds.
#[derive(Clone, Copy)]
pub struct Seal {
    /// Its leaf.
    pub leaf: Oid,
    /// Which seal it is of the leaf's.
    pub number: i64,
}

/// The seals of these leaves that hold.
pub fn seals(store: Oid, leaves: &[Leaf]) -> Result<Vec<Seal>, Refusal> {
    let table = relation(c"leaf_seal")?;
    // Renaming columns goes through the store as long as the leaf is one of its partitions.
    let columns = key_columns_of(store);
    let mut found = Vec::new();
    table::for_each_row(table, |row| {
        let (Some(false), Some(leaf)) = (row.boolean(0), row.oid(1)) else { return };
        let mark = row.oid(3).zip(row.integer(4)).zip(row.oid(5));
        let number = row.integer(6);
        let column = |n| row.integer(n).and_then(|at| i16::try_from(at).ok());
        let has_its_columns = column(7).zip(column(8)) == Some(columns);
        let altered_by = row.integer(9).and_then(|xid| u32::try_from(xid).ok());
        if let (Some(((trigger, made_by), file)), Some(number)) = (mark, number)
            && row.oid(2) == Some(store)
            && leaves.iter().any(|known| known.table == leaf)
            && has_its_columns
            && let (Ok(made_by), Some(altered_by)) = (u32::try_from(made_by), altered_by)
        {
            found.push((Seal { leaf, number }, Mark { trigger, made_by, file, altered_by }));
        }
    });
    let marks = Marks::open();
    let mark_of = |leaf| marks.as_ref().and_then(|marks| marks.of(leaf, TRIGGER));
    found.retain(|(seal, mark)| mark_of(seal.leaf) == Some(*mark));
    Ok(found.into_iter().map(|(seal, _)| seal).collect())
}

/// A filter as the catalog has it.
pub struct Known {
    /// The table its pages are in.
    pub table: Oid,
    /// How to read them.
    pub shape: Shape,
    /// It is to be dropped.
    pub retired: bool,
    /// Its days.
    pub days: Vec<KnownDay>,
}

/// A day of a filter as the catalog has it.
#[derive(Clone, Copy)]
pub struct KnownDay {
    /// Its number in the filter.
    pub place: usize,
    /// The leaf.
    pub leaf: Oid,
    /// The number of the seal it was built under.
    pub seal: i64,
    /// The claims in it.
    pub keys: i64,
    /// When the last of them expires, pauses left out; None where there is none.
    pub newest: Option<Instant>,
}

/// The filters of a store, youngest first.
pub fn known(store: Oid) -> Result<Vec<Known>, Refusal> {
    let mut known = Vec::new();
    table::for_each_row(relation(c"filter")?, |row| {
        if row.oid(1) != Some(store) {
            return;
        }
        let size = |column| row.integer(column).and_then(|value| u32::try_from(value).ok());
        let shape = size(3).zip(size(4)).zip(size(5));
        if let (Some(table), Some(id), Some(((pages, bucket_bits), day_bits)), Some(made_at)) =
            (row.oid(0), row.integer(2), shape, row.instant(8))
        {
            let shape = Shape { id: id.cast_unsigned(), pages, bucket_bits, day_bits };
            let retired = row.boolean(7) != Some(false) || !shape.is_sound();
            known.push((made_at, Known { table, shape, retired, days: Vec::new() }));
        }
    });
    known.sort_by_key(|(made_at, _)| std::cmp::Reverse(*made_at));
    let mut known: Vec<Known> = known.into_iter().map(|(_, filter)| filter).collect();
    table::for_each_row(relation(c"filter_day")?, |row| {
        let filter = known.iter_mut().find(|filter| row.oid(0) == Some(filter.table));
        let day = row.integer(1).and_then(|number| usize::try_from(number).ok());
        if let (Some(filter), Some(day), Some(leaf), Some(seal), Some(keys)) =
            (filter, day, row.oid(2), row.integer(3), row.integer(4))
        {
            filter.days.push(KnownDay { place: day, leaf, seal, keys, newest: row.instant(5) });
        }
    });
    Ok(known)
}

/// Calls `each` with the store of every filter.
pub fn for_each_store(mut each: impl FnMut(Oid)) -> Result<(), Refusal> {
    table::for_each_row(relation(c"filter")?, |row| {
        if let Some(store) = row.oid(1) {
            each(store);
        }
    });
    Ok(())
}

/// What a claim asks, for these leaves of a store.
pub fn load(store: Oid, leaves: &[Leaf]) -> Result<Filters, Refusal> {
    let known = known(store)?;
    if known.iter().all(|filter| filter.retired) {
        return Ok(Filters::default());
    }
    let seals = seals(store, leaves)?;
    let mut answered = vec![false; leaves.len()];
    let mut filters = Vec::new();
    for Known { table, shape, days, .. } in known.into_iter().filter(|filter| !filter.retired) {
        let mut places = Vec::new();
        for KnownDay { place: day, leaf, seal: number, .. } in days {
            let sealed = seals.iter().any(|seal| seal.leaf == leaf && seal.number == number);
            let place = leaves.iter().position(|known| sealed && known.table == leaf);
            if places.len() <= day {
                places.resize(day + 1, None);
            }
            places[day] = place.and_then(|place| u16::try_from(place).ok());
        }
        if places.iter().all(Option::is_none) {
            continue;
        }
        let Some(pages) = Pages::find(table, shape.pages) else { continue };
        for place in places.iter().flatten() {
            answered[usize::from(*place)] = true;
        }
        filters.push(Filter { table, shape, pages, places });
    }
    let unanswered = (0..leaves.len()).filter(|&place| !answered[place]).collect();
    Ok(Filters { filters, unanswered, answered })
}

/// What is known of a leaf's claims by its seal: that one, how many there are, and when the last expires.
#[derive(Clone, Copy)]
pub struct Content {
    /// The seal.
    pub seal: Seal,
    /// The claims.
    pub keys: i64,
    /// When the last of them expires, pauses left out; None where there is none.
    pub newest: Option<Instant>,
}

/// What a leaf holds, if that is known without reading it.
pub fn content_of(store: Oid, leaf: &Leaf) -> Result<Option<Content>, Refusal> {
    let seal = seals(store, std::slice::from_ref(leaf))?.first().copied();
    let known = known(store)?;
    let days = known.iter().flat_map(|filter| &filter.days);
    Ok(seal.and_then(|seal| {
        let mut days = days.filter(|day| (day.leaf, day.seal) == (seal.leaf, seal.number));
        days.next().map(|day| Content { seal, keys: day.keys, newest: day.newest })
    }))
}

/// Whether a seal of a leaf still holds.
pub fn holds(store: Oid, leaf: &Leaf, seal: Seal) -> Result<bool, Refusal> {
    let now = seals(store, std::slice::from_ref(leaf))?;
    Ok(now.iter().any(|now| now.number == seal.number))
}

/// A row is about to be added to a leaf past the claim protocol: no filter answers for the leaf any more, from
/// this moment on.
pub fn void(leaf: Oid) -> Result<(), Refusal> {
    let (flags, parent) = (relation(c"leaf_seal")?, bounds::parent(leaf));
    let is_flagged = seal::flag(flags, leaf, |store| {
        for store in [Some(store), parent].into_iter().flatten() {
            inval::announce_now(store);
        }
    });
    // Somebody has deleted the seal; sessions that have read it before go by it until they are told.
    if let (false, Some(store)) = (is_flagged, parent) {
        inval::announce_now(store);
    }
    Ok(())
}

fn relation(name: &CStr) -> Result<Oid, Refusal> {
    bounds::relation_in(schema()?, name).ok_or(Refusal::NotInstalled)
}
