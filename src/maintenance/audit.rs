//! Looking at a store's keys once a day, for once.health.
//!
//! The rule: no step has locks on the store and on a table of the extension at once, because whoever drops a store
//! and then the extension takes them one after the other.

use super::apply::Pass;
use crate::catalog::audit;
use pgrx::pg_sys::Oid;

const WHAT: &str = "look at its keys";

impl Pass<'_> {
    /// Looks at the keys of a store, if nobody has for a day, and writes down what somebody has to look at.
    pub(super) fn audit(&self, store: Oid) {
        let now = (self.clock)();
        let (mut due, mut found) = (false, None);
        self.step(store, WHAT, || {
            due = audit::is_due(store, now)?;
            Ok(())
        });
        if !due {
            return;
        }
        self.step(store, WHAT, || {
            found = audit::look_as_owner(store, self.counts_claims, now)?;
            Ok(())
        });
        if let Some(found) = found {
            self.step(store, WHAT, || audit::keep(store, found, now));
        }
    }
}
