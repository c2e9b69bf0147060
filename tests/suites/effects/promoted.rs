//! A standby is promoted while consumers run effects: what was acknowledged stands, and its fences are not given again.

use pg_once_tests::cluster::Cluster;
use pg_once_tests::standby::caught_up;
use pg_once_tests::{race, wait};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::history::History;
use crate::scene::Calls;

#[test]
fn after_failover_to_a_synchronous_standby_no_fence_is_given_twice_and_no_answer_is_lost() {
    let primary = Cluster::build().durable().start();
    let db = primary.database();
    db.session().claim("load");
    let standby = primary.synchronous_standby();
    let history = History::default();
    let run = |sessions: &mut [pg_once_tests::session::Session], round: usize, turns: usize| {
        race::all(sessions, |number, s| {
            let mut chance = StdRng::seed_from_u64((round * 100 + number) as u64);
            for n in 0..turns {
                let key = format!("r{round}-{}", n / 2);
                let told = history.begins(s, &key, "50 milliseconds").and_then(|begun| {
                    begun.fence.map_or(Ok(()), |fence| history.runs(s, &key, fence, &mut chance))
                });
                if told.is_err() {
                    break;
                }
            }
        });
    };
    let mut sessions = db.sessions(6);
    std::thread::scope(|scope| {
        scope.spawn(|| run(&mut sessions, 0, usize::MAX));
        wait::until("there is some load", || history.done() > 50);
        primary.stop("immediate");
    });
    standby.promote();
    let mut s = standby.connect(db.name());
    s.run(&format!("ALTER DATABASE {} SET synchronous_commit = 'local'", db.name()));
    s.run("SET synchronous_commit = 'local'");
    println!("{} done before", history.done());
    history.check(&mut s, false);
    // The same keys go on where they were, and new ones.
    for round in [0, 1] {
        let mut sessions: Vec<_> = (0..6).map(|_| standby.connect(db.name())).collect();
        run(&mut sessions, round, 60);
    }
    history.check(&mut s, false);
}

#[test]
fn a_standby_shows_effects_and_refuses_to_begin_any() {
    let primary = Cluster::build().durable().start();
    let db = primary.database();
    let mut p = db.session();
    let fence = p.begin("k", "1 hour").held();
    let standby = primary.standby();
    let mut s = standby.connect(db.name());
    caught_up(&mut p, &mut s);
    assert_eq!(s.state_of("k"), ["running"]);
    s.get::<i64>("SELECT count(*) FROM once.health");
    for call in [
        "begin_effect('k', '1 minute')".to_owned(),
        format!("extend_effect('k', {fence}, '1 minute')"),
        format!("complete_effect('k', {fence})"),
        format!("fail_effect('k', {fence}, 'x')"),
    ] {
        assert_eq!(s.fails(&format!("SELECT once.{call}")).code, "25006", "{call}");
    }
}
