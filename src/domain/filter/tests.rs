//! A filter against the set of keys it was made of: no key missed, few wrong maybes, few bytes, few writes.
#![allow(clippy::expect_used, clippy::print_stdout)] // A test fails by it and says what it saw.

use super::merge::{Elder, Source, next, taken_in};
use super::page::{Crowded, Entry};
use super::{MOST_DAYS, Shape};

/// Entries sorted in memory as a source.
struct Sorted {
    entries: std::vec::IntoIter<Entry>,
    next: Option<Entry>,
}

impl Sorted {
    fn new(mut entries: Vec<Entry>) -> Sorted {
        entries.sort_unstable();
        let mut entries = entries.into_iter();
        let next = entries.next();
        Sorted { entries, next }
    }
}

impl Source for Sorted {
    fn peek(&mut self) -> Option<Entry> {
        self.next
    }

    fn advance(&mut self) {
        self.next = self.entries.next();
    }
}

/// A number that looks random: splitmix64 (Steele, Lea and Flood, 2014).
fn hash(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The pages of a filter of sorted entries.
fn build(id: u64, source: &mut [Sorted], entries: u64, days: usize) -> (Shape, Vec<Vec<u8>>) {
    let shape = Shape::fit(id, entries, days, 0);
    let (mut pages, mut page, mut held) = (Vec::new(), Vec::new(), Vec::<Entry>::new());
    let mut write = |held: &mut Vec<Entry>, pages: &mut Vec<Vec<u8>>| {
        assert_eq!(shape.write(pages.len() as u32, held, &mut page), Ok(()));
        pages.push(page.clone());
        held.clear();
    };
    while let Some(entry) = next(source) {
        while shape.page_of(entry.0) > pages.len() as u32 {
            write(&mut held, &mut pages);
        }
        held.push(entry);
    }
    while (pages.len() as u32) < shape.pages {
        write(&mut held, &mut pages);
    }
    (shape, pages)
}

fn of_days(id: u64, days: &[std::ops::Range<u64>]) -> (Shape, Vec<Vec<u8>>) {
    let entries: Vec<Entry> = days
        .iter()
        .zip(0..)
        .flat_map(|(keys, day)| keys.clone().map(move |key| (hash(key), day)))
        .collect();
    let count = entries.len() as u64;
    build(id, &mut [Sorted::new(entries)], count, days.len())
}

fn answer(shape: &Shape, pages: &[Vec<u8>], hash: u64) -> Vec<u8> {
    let mut days = Vec::new();
    let page = &pages[shape.page_of(hash) as usize];
    assert_eq!(shape.look(page, hash, |day| days.push(day)), Some(()));
    days
}

/// How often, of new keys, any day is a maybe.
fn errors(shape: &Shape, pages: &[Vec<u8>]) -> f64 {
    let new = 1_000_000_000..1_000_050_000_u64;
    let maybe = new.clone().filter(|&key| !answer(shape, pages, hash(key)).is_empty()).count();
    maybe as f64 / new.count() as f64
}

#[test]
fn every_key_is_found_in_its_day_whatever_the_sizes() {
    for sizes in
        [&[0][..], &[1], &[0, 1, 0], &[3, 70_000, 11], &[5_000; 30], &[400; 64], &[100_000, 1]]
    {
        let mut begin = 0;
        let days: Vec<_> = sizes
            .iter()
            .map(|size| {
                begin += size;
                begin - size..begin
            })
            .collect();
        let (shape, pages) = of_days(7, &days);
        assert!(shape.is_sound());
        for (day, keys) in days.iter().enumerate() {
            for key in keys.clone() {
                assert!(answer(&shape, &pages, hash(key)).contains(&(day as u8)), "{sizes:?}");
            }
        }
    }
}

#[test]
fn a_new_key_is_a_maybe_once_in_a_hundred_at_most_and_an_entry_takes_less_than_three_bytes() {
    for days in [1_usize, 7, 30, 32] {
        let each = 200_000 / days as u64;
        let ranges: Vec<_> = (0..days as u64).map(|day| day * each..(day + 1) * each).collect();
        let (shape, pages) = of_days(1, &ranges);
        assert!(errors(&shape, &pages) < 0.01, "{days} days: {}", errors(&shape, &pages));
        let bytes = pages.len() as f64 * 8_192.0 / (each * days as u64) as f64;
        assert!(bytes < 3.0, "{days} days: {bytes}");
    }
}

#[test]
fn merged_filters_answer_as_one_made_of_the_keys() {
    let days = [0..40_000, 40_000..90_000, 90_000..120_000, 120_000..150_000];
    let parts = [of_days(1, &days[..1]), of_days(2, &days[1..3]), of_days(3, &days[3..])];
    let first = [0_u8, 1, 3];
    let whole = Shape::fit(9, 150_000, 4, 0);
    let mut sources = Vec::new();
    for ((shape, pages), first) in parts.iter().zip(first) {
        assert!(whole.takes(shape), "{shape:?} into {whole:?}");
        let (mut all, mut some) = (Vec::new(), Vec::new());
        for (page, number) in pages.iter().zip(0..) {
            assert_eq!(shape.read(page, number, &mut some), Some(()));
            assert!(some.is_sorted());
            all.extend(some.iter().map(|&(hash, day)| (hash, day + first)));
        }
        sources.push(Sorted::new(all));
    }
    let (shape, pages) = build(9, &mut sources, 150_000, 4);
    for (day, keys) in days.iter().enumerate() {
        for key in keys.clone() {
            assert!(answer(&shape, &pages, hash(key)).contains(&(day as u8)));
        }
    }
    assert!(errors(&shape, &pages) < 0.01);
}

#[test]
fn a_small_day_is_not_known_well_enough_to_be_merged_with_a_large_one() {
    let (small, large) = (Shape::fit(1, 1_000, 1, 0), Shape::fit(2, 1_000_000, 1, 0));
    let both = Shape::fit(3, 1_001_000, 2, 0);
    assert!(both.takes(&large) && !both.takes(&small));
}

#[test]
fn a_page_of_another_filter_or_number_is_none_at_all() {
    let (shape, pages) = of_days(1, &[0..20_000, 20_000..20_001]);
    let number = shape.page_of(hash(1));
    let page = &pages[number as usize];
    assert!(shape.look(page, hash(1), |_| ()).is_some());
    let other = Shape { id: 2, ..shape };
    assert!(other.look(page, hash(1), |_| ()).is_none());
    assert!(shape.look(&pages[(number as usize + 1) % pages.len()], hash(1), |_| ()).is_none());
    for cut in [0, 8, 15, 16, page.len() - 1] {
        assert!(shape.look(&page[..cut], hash(1), |_| ()).is_none());
        assert!(shape.read(&page[..cut], number, &mut Vec::new()).is_none());
    }
}

#[test]
fn entries_that_crowd_are_refused_and_fit_with_more_room() {
    let crowd: Vec<Entry> = (0..6_000).map(|n| (n, 0)).collect();
    assert_eq!(Shape::fit(1, 6_000, 1, 0).write(0, &crowd, &mut Vec::new()), Err(Crowded));
    assert!(Shape::fit(1, 1_000_000, 1, 3).pages > Shape::fit(1, 1_000_000, 1, 0).pages);
}

/// Days that come and go: the filters there are at most and on average, and how often an entry is written.
fn live(window: usize, size: impl Fn(usize) -> u64) -> (usize, f64, f64) {
    let mut filters: Vec<Vec<usize>> = Vec::new();
    let (mut most, mut sum, mut written, mut came) = (0, 0, 0, 0);
    for day in 0..window * 4 {
        for filter in &mut filters {
            filter.retain(|&old| old + window > day);
        }
        filters.retain(|filter| !filter.is_empty());
        let elder = |filter: &Vec<usize>| Elder {
            entries: filter.iter().map(|&day| size(day)).sum(),
            days: filter.len(),
        };
        let elders: Vec<Elder> = filters.iter().map(elder).collect();
        let taken = taken_in(&elders, size(day), 1, MOST_DAYS);
        let mut made = vec![day];
        made.extend(filters.drain(..taken).flatten());
        came += size(day);
        written += made.iter().map(|&day| size(day)).sum::<u64>();
        filters.insert(0, made);
        if day >= window {
            most = most.max(filters.len());
            sum += filters.len();
        }
    }
    (most, sum as f64 / (window * 3) as f64, written as f64 / came as f64)
}

#[test]
fn there_are_few_filters_and_no_entry_is_written_often() {
    for window in [7, 30, 90] {
        let (most, average, writes) = live(window, |_| 1_000_000);
        assert!(most <= 5 && average < 4.0 && writes < 6.5, "{window}: {most} {average} {writes}");
        // Weekends bring a tenth.
        let (most, average, writes) =
            live(window, |day| if day % 7 < 5 { 1_000_000 } else { 100_000 });
        assert!(most <= 6 && average < 4.0 && writes < 6.5, "{window}: {most} {average} {writes}");
    }
}

/// A filter, the entries that are in it, and of how many days they are.
type Part = (Shape, Vec<Vec<u8>>, Vec<Entry>, usize);

/// A filter of everything that is in these, by a merge: what [`super::merge::next`] gives, with days numbered on.
fn merged(id: u64, parts: &[Part]) -> (Shape, Vec<Vec<u8>>) {
    let entries: u64 = parts.iter().map(|(_, _, held, _)| held.len() as u64).sum();
    let days: usize = parts.iter().map(|(.., days)| days).sum();
    let whole = Shape::fit(id, entries, days, 0);
    let mut first = 0;
    let mut sources = Vec::new();
    for (shape, pages, held, days) in parts {
        let mut all = Vec::new();
        if whole.takes(shape) {
            let mut some = Vec::new();
            for (page, number) in pages.iter().zip(0..) {
                shape.read(page, number, &mut some).expect("it is the page");
                all.extend(some.iter().map(|&(hash, day)| (hash, day + first)));
            }
            assert_eq!(all.len(), held.len(), "no entry is lost");
        } else {
            all.extend(held.iter().map(|&(hash, day)| (hash, day + first)));
        }
        sources.push(Sorted::new(all));
        first += *days as u8;
    }
    build(id, &mut sources, entries, days)
}

/// The same, with the entries that are in it.
fn put_together(id: u64, parts: &[Part]) -> Part {
    let (shape, pages) = merged(id, parts);
    let (mut all, mut first) = (Vec::new(), 0);
    for (_, _, held, days) in parts {
        all.extend(held.iter().map(|&(hash, day)| (hash, day + first)));
        first += *days as u8;
    }
    (shape, pages, all, usize::from(first))
}

/// However days of any size are put together, one by one, no key of theirs is denied. `PG_ONCE_LONG=1` asks a
/// hundred million times.
#[test]
fn no_filter_denies_a_key_of_its_set() {
    let wanted: u64 =
        if std::env::var_os("PG_ONCE_LONG").is_some() { 100_000_000 } else { 2_000_000 };
    let (mut asked, mut maybe, mut seed) = (0_u64, [0_u64; 2], 0);
    while asked < wanted {
        seed += 1;
        let mut next = 0;
        let mut random = |below: u64| {
            next += 1;
            hash(seed << 32 | next) % below
        };
        // Days, each with keys of its own and some that the one before has too.
        let mut parts = Vec::new();
        let mut begin = seed << 40;
        for _ in 0..1 + random(6) {
            let days = 1 + random(20) as usize;
            let mut held: Vec<Entry> = Vec::new();
            for day in 0..days {
                let size = [0, 1, random(50), random(3_000), random(30_000)][random(5) as usize];
                let back = begin.saturating_sub(random(20));
                held.extend((back..begin + size).map(|key| (hash(key), day as u8)));
                begin += size;
            }
            let (shape, pages) =
                build(seed, &mut [Sorted::new(held.clone())], held.len() as u64, days);
            parts.push((shape, pages, held, days));
        }
        // All at once, or each with what those before it have become: then an entry is written again and again,
        // and known by fewer bits each time.
        if seed % 2 == 0 {
            parts = vec![put_together(seed, &parts)];
        }
        while let [first, second, ..] = parts.as_slice() {
            let both = put_together(seed, &[first.clone(), second.clone()]);
            parts.splice(..2, [both]);
        }
        let (shape, pages, held, _) = &parts[0];
        for &(hash, day) in held {
            let found = answer(shape, pages, hash);
            assert!(found.contains(&day), "seed {seed}: {hash:x} of day {day}");
        }
        asked += held.len() as u64;
        for other in 0..2_000 {
            maybe[0] += 1;
            maybe[1] += u64::from(!answer(shape, pages, hash(other)).is_empty());
        }
    }
    println!("{asked} look-ups; of {} others {} maybe", maybe[0], maybe[1]);
    assert!(maybe[1] * 30 < maybe[0], "a filter that never denies proves nothing: {maybe:?}");
}
