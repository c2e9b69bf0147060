//! Through a transaction pooler: each step may run in another server session.

use std::time::Duration;

use pg_once_tests::failure::Failure;
use pg_once_tests::pooler::{PooledClient, Pooler};
use pg_once_tests::shared::database;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::history::History;
use crate::scene::{Begun, Calls};

fn one(client: &mut PooledClient, sql: &str) -> Result<String, Failure> {
    Ok(client.query(sql)?.into_iter().next().unwrap_or_default())
}

impl Calls for PooledClient {
    fn try_begin_with(&mut self, key: &str, rest: &str) -> Result<Begun, Failure> {
        let answer = one(
            self,
            &format!(
                "SELECT concat_ws(' ', outcome, coalesce(fence, 0), coalesce(attempt, 0))
                   FROM once.begin_effect('{key}', {rest})"
            ),
        )?;
        let parts: Vec<&str> = answer.split(' ').collect();
        let number = |part: &str| part.parse::<i64>().ok().filter(|n| *n != 0);
        Ok(Begun {
            outcome: parts[0].to_owned(),
            fence: number(parts[1]),
            attempt: number(parts[2]).and_then(|n| i32::try_from(n).ok()),
            downstream_key: None,
            result: None,
            leased: None,
        })
    }

    fn try_extend(&mut self, key: &str, fence: i64, lease: &str) -> Result<bool, Failure> {
        let call =
            format!("SELECT once.extend_effect('{key}', {fence}, '{lease}') > clock_timestamp()");
        Ok(one(self, &call)? == "t")
    }

    fn try_complete(&mut self, key: &str, fence: i64, result: &str) -> Result<bool, Failure> {
        Ok(one(self, &format!("SELECT once.complete_effect('{key}', {fence}, {result})"))? == "t")
    }

    fn try_fail(&mut self, key: &str, fence: i64, after: &str) -> Result<String, Failure> {
        one(self, &format!("SELECT once.fail_effect('{key}', {fence}, 'no answer', '{after}')"))
    }

    fn state_of(&mut self, key: &str) -> Vec<String> {
        self.query(&format!("SELECT state FROM once.effects WHERE key = '{key}'")).expect("rows")
    }
}

#[test]
fn thirty_consumers_on_two_connections_agree_and_leave_nothing_behind() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let pooler = Pooler::start(db.cluster(), 2);
    let history = History::default();
    std::thread::scope(|scope| {
        for number in 0..30_u64 {
            let (pooler, db, history) = (&pooler, &db, &history);
            scope.spawn(move || {
                let mut client = pooler.client(db.name());
                let mut chance = StdRng::seed_from_u64(number);
                for turn in 0..24 {
                    let key = format!("k{}", turn / 3);
                    let begun =
                        history.begins(&mut client, &key, "60 milliseconds").expect("an answer");
                    if let Some(fence) = begun.fence {
                        history.runs(&mut client, &key, fence, &mut chance).expect("an answer");
                    } else if chance.random_range(0..3) == 0 {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            });
        }
    });
    println!("{} effects done", history.done());
    assert!(history.done() >= 4);
    history.check(&mut s, true);
    let left: i64 = s.get(
        "SELECT count(*) FROM pg_locks WHERE pid IN (SELECT pid FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid())",
    );
    assert_eq!(left, 0, "nothing survives the transaction");
}
