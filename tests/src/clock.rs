//! A server's clock that a test moves while the server runs.
//!
//! `libfaketime` is preloaded into the server only and reads an offset from a file at every look at
//! the clock. The time between two looks passes as it really does, so timeouts and sleeps inside
//! the server stay right; only what time it is changes.
//!
//! Tests set the clock to the past. While the server waits, a signal handler sees real time (that is
//! how `libfaketime` keeps waits right), so a timeout that is to end a wait would never be due in a
//! future that real time has not reached. And timers are kept few: the handler's look at the clock opens a file,
//! which allocates memory; where it interrupts an allocation, the process stands still for good. (PostgreSQL's
//! own look does neither.) A deadlock is found all the same, after the 20 s that such a cluster is given. Where the postmaster forks from a signal handler (before 16),
//! a background worker may see real time for the same reason.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let mut places: Vec<PathBuf> =
        std::env::var_os("PG_ONCE_FAKETIME").map(PathBuf::from).into_iter().collect();
    places.push("/usr/lib/faketime/libfaketime.so.1".into());
    if let Ok(folders) = std::fs::read_dir("/usr/lib") {
        places.extend(folders.flatten().map(|f| f.path().join("faketime/libfaketime.so.1")));
    }
    places.into_iter().find(|place| place.exists()).expect(
        "libfaketime is missing: install the package `faketime`, or set PG_ONCE_FAKETIME to libfaketime.so.1",
    )
});

/// The clock of one server. It shows real time until it is set.
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
    /// Seconds the server is ahead of real time.
    offset: Mutex<f64>,
}

impl Clock {
    pub(crate) fn new(folder: &Path) -> Clock {
        let clock = Clock { file: folder.join("clock"), offset: Mutex::new(0.0) };
        clock.write(0.0);
        clock
    }

    pub(crate) fn preload(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", LIBRARY.as_os_str())
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DISABLE_SHM", "1")
            .env("NO_FAKE_STAT", "1");
    }

    /// Sets the clock to an instant that is not in the future; it runs on from there.
    #[track_caller]
    pub fn set(&self, instant: Instant) {
        assert!(
            instant.0 <= real() + 1.0,
            "in the future no timeout would ever end a wait: see above"
        );
        self.write(instant.0 - real());
    }

    /// Moves the clock, back where `seconds` is negative.
    pub fn step(&self, seconds: f64) {
        let offset = *self.offset.lock().expect("no panic holds it");
        self.write(offset + seconds);
    }

    /// What the server's clock shows now.
    pub fn now(&self) -> Instant {
        Instant(real() + *self.offset.lock().expect("no panic holds it"))
    }

    /// Waits until the clock has passed an instant at most a minute away.
    pub fn pass(&self, instant: Instant) {
        let left = instant.0 - self.now().0;
        assert!(left < 60.0, "{left} s is a long wait: set the clock instead");
        if left > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(left));
        }
    }

    fn write(&self, offset: f64) {
        let mut held = self.offset.lock().expect("no panic holds it");
        let aside = self.file.with_extension("new");
        std::fs::write(&aside, format!("{offset:+.6}\n"))
            .expect("the cluster's folder is writable");
        // The server may read at any moment: it sees the old offset or the new one, whole.
        std::fs::rename(&aside, &self.file).expect("the same folder");
        *held = offset;
    }
}

/// A point in time: seconds since 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Instant(pub f64);

impl Instant {
    /// The start of a UTC day of the proleptic Gregorian calendar.
    pub fn midnight(year: i64, month: i64, day: i64) -> Instant {
        // Days from 1970-01-01, counting years from March so that the leap day is the last.
        let year = if month <= 2 { year - 1 } else { year };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Instant((era * 146_097 + day_of_era - 719_468) as f64 * 86_400.0)
    }

    /// The start of the real UTC day.
    pub fn today() -> Instant {
        Instant((real() / 86_400.0).floor() * 86_400.0)
    }

    /// The instant some seconds later, earlier where negative.
    pub fn plus(self, seconds: f64) -> Instant {
        Instant(self.0 + seconds)
    }

    /// The instant some days of 86,400 s later.
    pub fn days(self, days: i64) -> Instant {
        self.plus(days as f64 * 86_400.0)
    }
}

/// Seconds since 1970 by the real clock.
pub fn real() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}
