//! The calls as a consumer makes them, and the states an effect can be in.

use pg_once_tests::failure::Failure;
use pg_once_tests::session::Session;

/// What begin_effect answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) outcome: String,
    pub(crate) fence: Option<i64>,
    pub(crate) attempt: Option<i32>,
    pub(crate) downstream_key: Option<String>,
    pub(crate) result: Option<String>,
    /// Whether there is a lease, and it is ahead.
    pub(crate) leased: Option<bool>,
}

impl Begun {
    /// The fence of somebody who was given the effect.
    #[track_caller]
    pub(crate) fn held(&self) -> i64 {
        assert!(["started", "taken_over"].contains(&self.outcome.as_str()), "{self:?}");
        self.fence.expect("whoever is given an effect has a fence")
    }
}

/// The calls of the default store's effects.
pub(crate) trait Calls {
    fn try_begin_with(&mut self, key: &str, rest: &str) -> Result<Begun, Failure>;
    fn try_extend(&mut self, key: &str, fence: i64, lease: &str) -> Result<bool, Failure>;
    fn try_complete(&mut self, key: &str, fence: i64, result: &str) -> Result<bool, Failure>;
    fn try_fail(&mut self, key: &str, fence: i64, after: &str) -> Result<String, Failure>;
    /// The states that once.effects shows of a key.
    fn state_of(&mut self, key: &str) -> Vec<String>;

    fn try_begin(&mut self, key: &str, lease: &str) -> Result<Begun, Failure> {
        self.try_begin_with(key, &format!("lease => '{lease}', ttl => '1 hour'"))
    }

    #[track_caller]
    fn begin(&mut self, key: &str, lease: &str) -> Begun {
        self.try_begin(key, lease)
            .unwrap_or_else(|failure| panic!("begin_effect({key}): {failure}"))
    }

    #[track_caller]
    fn complete(&mut self, key: &str, fence: i64, result: &str) -> bool {
        self.try_complete(key, fence, result)
            .unwrap_or_else(|failure| panic!("complete_effect({key}, {fence}): {failure}"))
    }

    #[track_caller]
    fn fail(&mut self, key: &str, fence: i64, after: &str) -> String {
        self.try_fail(key, fence, after)
            .unwrap_or_else(|failure| panic!("fail_effect({key}, {fence}): {failure}"))
    }
}

impl Calls for Session {
    fn try_begin_with(&mut self, key: &str, rest: &str) -> Result<Begun, Failure> {
        let rows = self.try_rows(
            &format!(
                "SELECT outcome::text, fence, attempt, downstream_key::text, result::text,
                        lease_until > clock_timestamp() FROM once.begin_effect($1::text, {rest})"
            ),
            &[&key],
        )?;
        let row = &rows[0];
        Ok(Begun {
            outcome: row.get(0),
            fence: row.get(1),
            attempt: row.get(2),
            downstream_key: row.get(3),
            result: row.get(4),
            leased: row.get(5),
        })
    }

    fn try_extend(&mut self, key: &str, fence: i64, lease: &str) -> Result<bool, Failure> {
        let call = format!(
            "SELECT once.extend_effect($1::text, $2::bigint, '{lease}') > clock_timestamp()"
        );
        self.try_get(&call, &[&key, &fence])
    }

    fn try_complete(&mut self, key: &str, fence: i64, result: &str) -> Result<bool, Failure> {
        let call = format!("SELECT once.complete_effect($1::text, $2::bigint, {result})");
        self.try_get(&call, &[&key, &fence])
    }

    fn try_fail(&mut self, key: &str, fence: i64, after: &str) -> Result<String, Failure> {
        let call = format!(
            "SELECT once.fail_effect($1::text, $2::bigint, 'no answer', retry_after => '{after}')"
        );
        self.try_get(&call, &[&key, &fence])
    }

    fn state_of(&mut self, key: &str) -> Vec<String> {
        self.column(&format!("SELECT state FROM once.effects WHERE key = '{key}'"))
    }
}

/// Lets the lease of a running effect, or the wait for its retry, be over.
pub(crate) fn overdue(s: &mut Session, key: &str) {
    s.run(&format!(
        "UPDATE once.effect_state SET lease_until = lease_until - interval '1 day', retry_at = retry_at - interval '1 day'
          WHERE key = '{key}'"
    ));
}

/// Lets the window of a key be over.
pub(crate) fn expired(s: &mut Session, key: &str) {
    s.run(&format!(
        "UPDATE once.processed_events SET expires_at = clock_timestamp() WHERE key = '{key}';
         UPDATE once.effect_state SET expires_at = clock_timestamp(), lease_until = clock_timestamp() WHERE key = '{key}'"
    ));
}
