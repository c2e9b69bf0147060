//! Several instances at once, of both kinds, and sixteen equal requests.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use pg_once_tests::wait;

use crate::app::{App, LANGUAGES};
use crate::client::{Reply, Request};
use crate::scene::{Scene, payment};
use crate::steps::{Moment, Then};
use crate::tap::Tap;

const REQUESTS: usize = 16;
const ROUNDS: u16 = 8;

/// Two of each kind, on one database, by way of one tap.
fn instances(scene: &Scene<'_>, tap: &Tap) -> Vec<App> {
    let both = LANGUAGES.iter().chain(&LANGUAGES);
    both.map(|language| App::start(*language, scene, tap.folder(), &[])).collect()
}

/// Sends them all at once, to the instances in turn. `answered` counts.
fn all(apps: &[App], request: &Request, answered: &AtomicUsize) -> Vec<Reply> {
    let start = Barrier::new(REQUESTS);
    std::thread::scope(|scope| {
        let send = |number: usize| {
            let (start, port) = (&start, apps[number % apps.len()].port);
            scope.spawn(move || {
                start.wait();
                let reply = request.send(port);
                answered.fetch_add(1, Ordering::SeqCst);
                reply
            })
        };
        let threads: Vec<_> = (0..REQUESTS).map(send).collect();
        threads.into_iter().map(|thread| thread.join().expect("a request")).collect()
    })
}

/// How many of each status.
fn statuses(replies: &[Reply]) -> HashMap<u16, usize> {
    let mut count = HashMap::new();
    for reply in replies {
        *count.entry(reply.status).or_default() += 1;
    }
    count
}

#[test]
fn of_sixteen_equal_requests_at_once_one_pays_and_all_that_are_answered_get_its_answer() {
    let mut scene = Scene::new();
    let tap = Tap::before(scene.db.cluster());
    let apps = instances(&scene, &tap);
    let mut waited = 0;
    for round in 0..ROUNDS {
        let order = format!("round-{round}");
        let request = payment(&order).by("ann").key(&order);
        let replies = all(&apps, &request, &AtomicUsize::new(0));
        let count = statuses(&replies);
        waited += count.get(&409).copied().unwrap_or_default();
        assert!(count.keys().all(|status| [201, 409].contains(status)), "{replies:?}");
        let paid: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 201).collect();
        assert_eq!(paid.iter().filter(|reply| !reply.replayed()).count(), 1, "{replies:?}");
        assert!(paid.iter().all(|reply| reply.body == paid[0].body), "{replies:?}");
        assert_eq!(scene.payments(&order), 1);
        // Whoever was told to wait gets the same, from whichever instance.
        for app in &apps {
            let later = request.send(app.port);
            assert_eq!((later.status, later.replayed(), &later.body), (201, true, &paid[0].body));
        }
    }
    println!("{waited} of {} were told to wait", usize::from(ROUNDS) * REQUESTS);
    assert_eq!(scene.spent("ann"), i64::from(ROUNDS) * 990);
}

#[test]
fn while_one_works_fifteen_are_told_409_and_none_waits() {
    let mut scene = Scene::new();
    let tap = Tap::before(scene.db.cluster());
    let apps = instances(&scene, &tap);
    let request = payment("held").by("ann").key("held");
    let gate = tap.steps.hold(Moment::After, "once.complete(");
    let answered = AtomicUsize::new(0);
    let replies = std::thread::scope(|scope| {
        let sent = scope.spawn(|| all(&apps, &request, &answered));
        gate.reached();
        wait::until("the others are answered", || answered.load(Ordering::SeqCst) == REQUESTS - 1);
        gate.open(Then::GoOn);
        sent.join().expect("the requests")
    });
    assert_eq!(statuses(&replies), HashMap::from([(201, 1), (409, REQUESTS - 1)]));
    assert_eq!(scene.payments("held"), 1);
}
