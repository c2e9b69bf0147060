//! A statement that waits: it runs on a thread of its own while the test goes on.

use std::thread::JoinHandle;
use std::time::Duration;

use crate::session::Session;
use crate::wait;

/// Work of a session that has not come back yet.
#[derive(Debug)]
pub struct Background<R> {
    thread: JoinHandle<(Session, R)>,
    pid: i32,
}

impl Session {
    /// Gives the session to a thread that does `work`.
    pub fn background<R: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Session) -> R + Send + 'static,
    ) -> Background<R> {
        let pid = self.pid();
        let name = std::thread::current().name().unwrap_or("test").to_owned();
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                let result = work(&mut self);
                (self, result)
            })
            .expect("a thread");
        Background { thread, pid }
    }
}

impl<R> Background<R> {
    /// Process id of the backend at work.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether the work is done.
    pub fn done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits, bounded, until the work is done; false when it is not by then.
    pub fn done_within(&self, bound: Duration) -> bool {
        wait::poll(bound, || self.done())
    }

    /// The session and what its work returned. Bounded by the session's patience.
    pub fn join(self) -> (Session, R) {
        match self.thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
