//! What a test does at a step of a program that knows nothing of it: before a statement or a request is passed on,
//! or after it was answered and before the answer is passed on.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use pg_once_tests::wait;

/// On which side of the work a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It has arrived, and whoever is to do it does not know of it.
    Before,
    /// It is done, and whoever wanted it does not know that.
    After,
}

/// What becomes of what was to be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is passed on.
    GoOn,
    /// It is lost, and the connection with it.
    Cut,
}

type Act = Box<dyn FnOnce() -> Then + Send>;
type Plan = Vec<(Moment, &'static str, Act)>;

/// Interventions that wait for their step; each happens once.
#[derive(Clone, Default)]
pub(crate) struct Steps(Arc<Mutex<Plan>>);

impl Steps {
    /// Does `act` when the next text with `marker` in it comes to `moment`.
    pub(crate) fn at(
        &self,
        moment: Moment,
        marker: &'static str,
        act: impl FnOnce() -> Then + Send + 'static,
    ) {
        self.list().push((moment, marker, Box::new(act)));
    }

    /// Holds it there until the gate is opened.
    pub(crate) fn hold(&self, moment: Moment, marker: &'static str) -> Gate {
        let (came, comes) = channel();
        let (opens, open) = channel();
        self.at(moment, marker, move || {
            let _ = came.send(());
            open.recv().unwrap_or(Then::Cut)
        });
        Gate { comes, opens }
    }

    /// A text has come to a moment: acts, if something was planned for it.
    pub(crate) fn reached(&self, moment: Moment, text: &str) -> Then {
        let act = {
            let mut list = self.list();
            let found =
                list.iter().position(|(m, marker, _)| *m == moment && text.contains(marker));
            found.map(|index| list.remove(index).2)
        };
        act.map_or(Then::GoOn, |act| act())
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step at which something stands still; dropped, it cuts.
pub(crate) struct Gate {
    comes: Receiver<()>,
    opens: Sender<Then>,
}

impl Gate {
    /// Waits until somebody stands there.
    #[track_caller]
    pub(crate) fn reached(&self) {
        let came = self.comes.recv_timeout(wait::BOUND);
        assert!(came.is_ok(), "waited in vain until the step was reached");
    }

    /// Lets go.
    pub(crate) fn open(self, then: Then) {
        let _ = self.opens.send(then);
    }
}
