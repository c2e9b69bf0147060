//! Why a fence is refused. Never the key.

use super::words::{State, Words, literal, words};

/// What became of the effect that a fence was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceFault {
    /// Somebody was given the effect after the fence was given out.
    TakenOver,
    /// It is finished, with another answer or without one.
    Finished,
    /// Its claim is over, was released, or never was.
    NoClaim,
    /// Nobody holds it: the attempt was said to have failed, or was given up.
    NotRunning,
}

impl FenceFault {
    /// SQLSTATE, message, detail and hint.
    pub(super) fn words(self, store: &str, fence: i64) -> Words {
        let (detail, hint) = match self {
            FenceFault::TakenOver => (
                format!(
                    "In store {} the effect was begun anew after fence {fence} was given out: somebody else runs it, \
                     or has run it.",
                    literal(store)
                ),
                "Drop what this attempt has found out; with a lease that is long enough, or extend_effect in time, \
                 nobody takes over from a consumer that is alive.",
            ),
            FenceFault::Finished => (
                format!(
                    "In store {} the effect is finished, and its answer is not the one given with fence {fence}.",
                    literal(store)
                ),
                "Drop what this attempt has found out: begin_effect says done, with the answer that counts.",
            ),
            FenceFault::NoClaim => (
                format!(
                    "In store {} no claim of the key stands for fence {fence}: its window is over, it was released, \
                     or it was never begun.",
                    literal(store)
                ),
                "From now on the key can be claimed anew: compare with the outside what was done.",
            ),
            FenceFault::NotRunning => (
                format!(
                    "In store {} the attempt with fence {fence} was said to have failed, or given up.",
                    literal(store)
                ),
                "begin_effect gives the effect out again; complete_effect takes the fence still, if it was done \
                 after all.",
            ),
        };
        words(State::Own(b"OC008"), "fence is stale", detail, hint)
    }
}

/// What somebody is told who gives an answer without a fence.
pub(super) fn missing(store: &str) -> Words {
    words(
        State::Own(b"OC008"),
        "the key is that of an effect that is not finished",
        format!("In store {} its answer is for whoever holds the effect to give.", literal(store)),
        "Use once.complete_effect() with the fence that once.begin_effect() gave out.",
    )
}
