//! The state machine of an effect outside the database: what each call comes to, by the state, the lease and the
//! clock alone. Drawn in docs/effects.md; the suite `effects` walks every state through every call.

use super::day::Instant;

/// What an unfinished effect is doing. A finished one has no state: its claim bears the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody runs it, or did when last heard of.
    Running,
    /// Somebody said that it failed.
    Failed,
    /// It was begun as often as it may be.
    GaveUp,
}

impl State {
    /// The word in the table.
    pub fn label(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Failed => "failed",
            State::GaveUp => "gave_up",
        }
    }

    /// The state of a word.
    pub fn of(label: &[u8]) -> Option<State> {
        let states = [State::Running, State::Failed, State::GaveUp];
        states.into_iter().find(|state| state.label().as_bytes() == label)
    }
}

/// An unfinished effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// When the claim that it was begun with was made.
    pub claimed_at: Instant,
    /// What it is doing.
    pub state: State,
    /// The number of whoever was given it last.
    pub fence: i64,
    /// How often it was begun.
    pub attempt: i32,
    /// Running: until when nobody takes it over.
    pub lease_until: Option<Instant>,
    /// Failed: from when on somebody may.
    pub retry_at: Option<Instant>,
    /// How often it may be begun.
    pub max_attempts: Option<i32>,
}

/// What beginning an unfinished effect comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Nobody may before this instant.
    NotBefore(Instant),
    /// It is the caller's.
    TakeOver,
    /// It was begun often enough.
    GiveUp,
    /// That was found before.
    GivenUp,
}

impl Unfinished {
    /// What somebody who begins it is told at this instant.
    pub fn begin(&self, now: Instant) -> Beginning {
        let free_from = match self.state {
            State::GaveUp => return Beginning::GivenUp,
            State::Running => self.lease_until,
            State::Failed => self.retry_at,
        };
        match free_from.filter(|&at| now < at) {
            Some(at) => Beginning::NotBefore(at),
            None if self.is_last_attempt() => Beginning::GiveUp,
            None => Beginning::TakeOver,
        }
    }

    /// What it is after its holder has said that the attempt failed.
    pub fn failed(&self) -> State {
        let is_over = self.state == State::GaveUp || self.is_last_attempt();
        if is_over { State::GaveUp } else { State::Failed }
    }

    /// Whether its holder can have a longer lease: after it was said to have failed nobody holds it.
    pub fn is_extensible(&self) -> bool {
        self.state == State::Running
    }

    fn is_last_attempt(&self) -> bool {
        self.max_attempts.is_some_and(|most| self.attempt >= most)
    }
}

#[cfg(test)]
mod tests {
    use super::{Beginning, State, Unfinished};

    const RUNNING: Unfinished = Unfinished {
        claimed_at: 0,
        state: State::Running,
        fence: 1,
        attempt: 1,
        lease_until: Some(10),
        retry_at: None,
        max_attempts: None,
    };

    #[test]
    fn a_lease_is_over_at_its_end_and_not_before() {
        assert_eq!(RUNNING.begin(9), Beginning::NotBefore(10));
        assert_eq!(RUNNING.begin(10), Beginning::TakeOver);
        assert_eq!(RUNNING.begin(i64::MIN), Beginning::NotBefore(10));
    }

    #[test]
    fn a_failed_effect_waits_for_its_retry_and_not_for_a_lease() {
        let failed = Unfinished { state: State::Failed, retry_at: Some(20), ..RUNNING };
        assert_eq!(failed.begin(19), Beginning::NotBefore(20));
        assert_eq!(failed.begin(20), Beginning::TakeOver);
        assert!(!failed.is_extensible());
    }

    #[test]
    fn the_last_attempt_is_not_taken_over() {
        let last = Unfinished { attempt: 3, max_attempts: Some(3), ..RUNNING };
        assert_eq!(last.begin(9), Beginning::NotBefore(10));
        assert_eq!(last.begin(10), Beginning::GiveUp);
        assert_eq!(last.failed(), State::GaveUp);
        assert_eq!(Unfinished { attempt: 2, ..last }.begin(10), Beginning::TakeOver);
        assert_eq!(Unfinished { attempt: 2, ..last }.failed(), State::Failed);
    }

    #[test]
    fn given_up_stays_given_up() {
        let gone = Unfinished { state: State::GaveUp, attempt: 3, max_attempts: None, ..RUNNING };
        assert_eq!(gone.begin(i64::MAX), Beginning::GivenUp);
        assert_eq!(gone.failed(), State::GaveUp);
    }

    #[test]
    fn labels_lead_back() {
        for state in [State::Running, State::Failed, State::GaveUp] {
            assert_eq!(State::of(state.label().as_bytes()), Some(state));
        }
        assert_eq!(State::of(b"done"), None);
    }
}
