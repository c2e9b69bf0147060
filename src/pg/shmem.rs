//! A piece of shared memory: words that every session adds to, and one lock for what is more than an
//! addition.
//!
//! Preloaded, it is part of the server's main shared memory, and what is in it can be written to a file
//! when the server stops and read when it starts. Otherwise, from PostgreSQL 17 on, it is a named segment
//! of dynamic shared memory, which lives as long as the server runs. In 15 and 16 there is none without
//! preload. After a crash of a backend the postmaster makes all shared memory anew, this with it.
//!
//! The rule: whatever a process was doing to the words when it died, each of them is whole. The words are
//! atomics and nothing else; what belongs together is published by one of them.

use super::{procedure, unwinding};
use pgrx::pg_sys;
use std::ffi::CStr;
use std::mem::size_of;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// What the memory is for.
pub struct Plan {
    /// What it is known by; another name wherever the words mean something else, so that sessions with an
    /// older library and with a newer one do not share it.
    pub name: &'static CStr,
    /// How many words; all are zero at first.
    pub words: usize,
    /// Called once in the postmaster, with words that nobody else can reach yet.
    pub load: fn(&[AtomicU64]),
    /// Called once in the postmaster when it stops in good order and nobody else is left.
    pub save: fn(&[AtomicU64]),
}

/// In front of the words, and as long as a multiple of their lines.
#[repr(C, align(128))]
struct Head {
    lock: pg_sys::LWLock,
}

/// What waits for the lock show in pg_stat_activity.
const LOCK_NAME: &CStr = c"pg_once";

static PLAN: OnceLock<Plan> = OnceLock::new();
/// Null until this process (or the postmaster it was forked from) has the memory.
static BASE: AtomicPtr<Head> = AtomicPtr::new(std::ptr::null_mut());
static REQUEST_BEFORE: OnceLock<pg_sys::shmem_request_hook_type> = OnceLock::new();
static STARTUP_BEFORE: OnceLock<pg_sys::shmem_startup_hook_type> = OnceLock::new();

/// Says what the memory is for; called when the library is loaded. Preloaded, it is asked for here.
pub fn define(plan: Plan) {
    PLAN.get_or_init(|| plan);
    // SAFETY: the postmaster, or a standalone backend, is loading libraries and has no other thread; the
    // hooks found there are called by ours.
    unsafe {
        if pg_sys::process_shared_preload_libraries_in_progress {
            REQUEST_BEFORE.get_or_init(|| pg_sys::shmem_request_hook);
            STARTUP_BEFORE.get_or_init(|| pg_sys::shmem_startup_hook);
            pg_sys::shmem_request_hook = Some(on_request);
            pg_sys::shmem_startup_hook = Some(on_startup);
        }
    }
}

fn name() -> &'static CStr {
    PLAN.get().map_or(c"", |plan| plan.name)
}

fn size() -> usize {
    size_of::<Head>() + PLAN.get().map_or(0, |plan| plan.words) * size_of::<AtomicU64>()
}

#[pgrx::pg_guard]
extern "C-unwind" fn on_request() {
    // SAFETY: called where requests are allowed, and only there.
    unsafe {
        if let Some(Some(before)) = REQUEST_BEFORE.get() {
            before();
        }
        pg_sys::RequestAddinShmemSpace(size());
    }
}

/// Runs when the server starts and again when it recovers from a crash; then at another place, perhaps.
#[pgrx::pg_guard]
extern "C-unwind" fn on_startup() {
    // SAFETY: the postmaster (or a standalone backend) is alone: no child has been forked yet, so neither
    // the lock on such memory nor any order is needed. What ShmemInitStruct gives is of the size asked
    // for, aligned to a line, and stays until the next call of this function.
    unsafe {
        if let Some(Some(before)) = STARTUP_BEFORE.get() {
            before();
        }
        let mut found = false;
        let place = pg_sys::ShmemInitStruct(name().as_ptr(), size(), &mut found);
        if !found {
            initialise(place);
        }
        let area = Area::at(place.cast());
        area.name_the_lock();
        BASE.store(place.cast(), Ordering::Relaxed);
        if let Some(plan) = PLAN.get().filter(|_| !found) {
            (plan.load)(area.words);
        }
        if !pg_sys::IsUnderPostmaster {
            pg_sys::on_shmem_exit(Some(on_shutdown), pg_sys::Datum::from(0usize));
        }
    }
}

/// `code` is not 0 where the server stops because of a failure, or makes its memory anew after a crash.
#[pgrx::pg_guard]
extern "C-unwind" fn on_shutdown(code: std::ffi::c_int, _arg: pg_sys::Datum) {
    let base = BASE.load(Ordering::Relaxed);
    if let Some(plan) = PLAN.get().filter(|_| code == 0 && !base.is_null()) {
        // SAFETY: the memory is detached from after these callbacks.
        (plan.save)(unsafe { Area::at(base) }.words);
    }
}

/// # Safety
/// `place` is memory of `size()` bytes that nobody else looks at yet.
unsafe extern "C-unwind" fn initialise(place: *mut std::ffi::c_void) {
    // SAFETY: the caller's promise; zero is a valid value of every word.
    unsafe {
        std::ptr::write_bytes(place.cast::<u8>(), 0, size());
        let lock = &raw mut (*place.cast::<Head>()).lock;
        pg_sys::LWLockInitialize(lock, pg_sys::LWLockNewTrancheId());
    }
}

/// The memory, as this process sees it.
#[derive(Clone, Copy)]
pub struct Area {
    lock: *mut pg_sys::LWLock,
    /// The words.
    pub words: &'static [AtomicU64],
}

impl Area {
    /// # Safety
    /// `base` was set up by `initialise` and stays for as long as the process has shared memory.
    unsafe fn at(base: *mut Head) -> Area {
        // SAFETY: the caller's promise; the words follow the head, which is as long as its alignment.
        unsafe {
            Area {
                lock: &raw mut (*base).lock,
                words: std::slice::from_raw_parts(
                    base.add(1).cast(),
                    PLAN.get().map_or(0, |plan| plan.words),
                ),
            }
        }
    }

    /// Lets waits for the lock show under our name in this process and those forked from it.
    fn name_the_lock(&self) {
        // SAFETY: the tranche was given out when the lock was initialised; the name is static.
        unsafe {
            let tranche = i32::from((*self.lock).tranche);
            pg_sys::LWLockRegisterTranche(tranche, LOCK_NAME.as_ptr());
        }
    }

    /// Keeps others from holding it exclusively. Nothing that may fail or take long belongs under it.
    pub fn shared(&self) -> Held {
        self.acquire(pg_sys::LWLockMode::LW_SHARED)
    }

    /// Keeps others from holding it.
    pub fn exclusive(&self) -> Held {
        self.acquire(pg_sys::LWLockMode::LW_EXCLUSIVE)
    }

    fn acquire(&self, mode: pg_sys::LWLockMode::Type) -> Held {
        // SAFETY: a lock in shared memory that was initialised; the session has a PGPROC.
        unsafe { pg_sys::LWLockAcquire(self.lock, mode) };
        Held(self.lock)
    }
}

/// The lock, held until dropped.
pub struct Held(*mut pg_sys::LWLock);

impl Drop for Held {
    fn drop(&mut self) {
        if unwinding() {
            return;
        }
        // SAFETY: it was acquired by this process and not released since.
        unsafe { pg_sys::LWLockRelease(self.0) };
    }
}

/// Whether sessions of this server can have the memory at all.
pub fn is_available() -> bool {
    cfg!(any(feature = "pg17", feature = "pg18")) || !BASE.load(Ordering::Relaxed).is_null()
}

/// The memory, if this process has it already.
pub fn attached() -> Option<Area> {
    let base = BASE.load(Ordering::Relaxed);
    // SAFETY: it is set to memory that was initialised and that this process keeps.
    (!base.is_null()).then(|| unsafe { Area::at(base) })
}

/// The memory, got where it can be; None where this server has none. Only inside a transaction: what
/// goes wrong on the way (no memory, no segment left) goes wrong in a subtransaction and comes back as
/// its message.
pub fn attach() -> Result<Option<Area>, String> {
    if attached().is_none() {
        procedure::attempt(2_000, || {
            get_segment();
            Ok::<(), String>(())
        })
        .map_err(|failed| failed.to_string())?;
    }
    Ok(attached())
}

#[cfg(any(feature = "pg17", feature = "pg18"))]
fn get_segment() {
    // SAFETY: only one process initialises the segment, the others see it initialised; it is pinned by
    // the server, and the mapping by this process, until they end. A segment's address is aligned to a page.
    unsafe {
        let mut found = false;
        let place =
            pg_sys::GetNamedDSMSegment(name().as_ptr(), size(), Some(initialise), &mut found);
        Area::at(place.cast()).name_the_lock();
        BASE.store(place.cast(), Ordering::Relaxed);
    }
}

#[cfg(not(any(feature = "pg17", feature = "pg18")))]
fn get_segment() {}
