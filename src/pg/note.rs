//! A note that one process leaves for the one that started it: a number in memory that both see. Needs no
//! memory set aside when the server starts.

use pgrx::pg_sys;
use std::sync::atomic::{AtomicU32, Ordering};

/// One number, shared by whoever knows its handle. It lasts for as long as a process has it.
pub struct Note {
    handle: u32,
    number: &'static AtomicU32,
}

impl Note {
    /// A new one, with 0 in it, for the rest of the process's life.
    pub fn new() -> Note {
        // SAFETY: a new segment, which is filled with zeros, page-aligned and larger than the number; it
        // stays mapped until the process ends.
        unsafe {
            let segment = pg_sys::dsm_create(size_of::<AtomicU32>(), 0);
            pg_sys::dsm_pin_mapping(segment);
            Note { handle: pg_sys::dsm_segment_handle(segment), number: number_in(segment) }
        }
    }

    /// The one of this handle; None where nobody has it any more.
    pub fn of(handle: u32) -> Option<Note> {
        // SAFETY: attaching to a handle that is gone answers NULL; else as above.
        unsafe {
            let segment = pg_sys::dsm_attach(handle);
            if segment.is_null() {
                return None;
            }
            pg_sys::dsm_pin_mapping(segment);
            Some(Note { handle, number: number_in(segment) })
        }
    }

    /// What another process finds it by.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Writes the number.
    pub fn write(&self, number: u32) {
        self.number.store(number, Ordering::Release);
    }

    /// Reads the number.
    pub fn read(&self) -> u32 {
        self.number.load(Ordering::Acquire)
    }
}

/// The number in a segment.
///
/// # Safety
/// The segment is mapped for the rest of the process's life and holds a number.
unsafe fn number_in(segment: *mut pg_sys::dsm_segment) -> &'static AtomicU32 {
    // SAFETY: the contract; a page's start is aligned for any number, and only atomics touch it.
    unsafe { &*pg_sys::dsm_segment_address(segment).cast::<AtomicU32>() }
}
