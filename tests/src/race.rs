//! Many sessions doing something at the same moment.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::session::Session;

/// Lets every session do `work` on a thread of its own, all set off together; the results in the
/// sessions' order. `work` gets the session's number.
#[track_caller]
pub fn all<R: Send>(
    sessions: &mut [Session],
    work: impl Fn(usize, &mut Session) -> R + Sync,
) -> Vec<R> {
    let start = Barrier::new(sessions.len());
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .iter_mut()
            .enumerate()
            .map(|(number, session)| {
                let (start, work) = (&start, &work);
                std::thread::Builder::new()
                    .name(name.clone())
                    .spawn_scoped(scope, move || {
                        start.wait();
                        work(number, session)
                    })
                    .expect("a thread")
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// How many of the answers are true.
pub fn trues(answers: &[bool]) -> usize {
    answers.iter().filter(|claimed| **claimed).count()
}

/// Ends what goes on beside a session, however that session ends.
#[derive(Debug)]
pub struct End<'a>(pub &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
