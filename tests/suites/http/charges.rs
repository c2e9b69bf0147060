//! The route that calls a payment provider: whoever dies, the provider is asked for one charge, and it is booked once.

use std::thread::JoinHandle;

use crate::app::{App, LANGUAGES, Language};
use crate::client::{Reply, Request};
use crate::provider::Provider;
use crate::scene::{Scene, body};
use crate::steps::{Moment, Then};
use crate::tap::Tap;

fn charge(order: &str) -> Request {
    Request::post("/charges", &body(order, 990)).by("ann").key(order)
}

/// A web server of a language that calls a provider, and has a lease for each attempt.
fn app(language: Language, scene: &Scene<'_>, tap: &Tap, provider: &Provider, lease: &str) -> App {
    let settings = [("PROVIDER", provider.url.as_str()), ("LEASE", lease)];
    App::start(language, scene, tap.folder(), &settings)
}

fn in_background(request: &Request, port: u16) -> JoinHandle<std::io::Result<Reply>> {
    let request = request.clone();
    std::thread::spawn(move || request.try_send(port))
}

#[test]
fn a_charge_is_made_once_and_its_answer_is_replayed() {
    let mut scene = Scene::new();
    let tap = Tap::before(scene.db.cluster());
    for language in LANGUAGES {
        let provider = Provider::start();
        let app = app(language, &scene, &tap, &provider, "30 seconds");
        let order = format!("{language:?}");
        let gate = provider.steps.hold(Moment::Before, "990");
        let first = in_background(&charge(&order), app.port);
        gate.reached();
        let waits = charge(&order).send(app.port);
        assert_eq!((waits.status, waits.header("retry-after")), (409, Some("1")), "{waits:?}");
        gate.open(Then::GoOn);
        let first = first.join().expect("a request").expect("an answer");
        assert_eq!((first.status, first.replayed()), (201, false), "{first:?}");
        let again = charge(&order).send(app.port);
        assert_eq!((again.status, again.replayed(), again.body), (201, true, first.body));
        assert_eq!(charge(&order).body(&body(&order, 991)).send(app.port).status, 422);
        assert_eq!((provider.asked(), scene.payments(&order)), (vec![1], 1));
        // The same key on another route is another request.
        let paid = Request::post("/payments", &body(&order, 990)).by("ann").key(&order);
        assert_eq!(paid.send(app.port).status, 201);
    }
}

/// Where a web server dies, by the wire or by the provider.
const STEPS: [(Moment, &str); 7] = [
    (Moment::Before, "once.begin_effect("),
    (Moment::After, "once.begin_effect("),
    (Moment::Before, "provider"),
    (Moment::After, "provider"),
    (Moment::After, "once.complete_effect("),
    (Moment::Before, "COMMIT"),
    (Moment::After, "COMMIT"),
];

#[test]
fn whenever_a_web_server_is_killed_another_takes_over_and_nothing_is_charged_twice() {
    let mut scene = Scene::new();
    let (tap, provider) = (Tap::before(scene.db.cluster()), Provider::start());
    let others = LANGUAGES.map(|language| app(language, &scene, &tap, &provider, "30 seconds"));
    // All die first, so that their leases run out at the same time.
    let mut dead = Vec::new();
    for (language, other) in LANGUAGES.into_iter().zip(others.iter().rev()) {
        for (number, (moment, marker)) in STEPS.into_iter().enumerate() {
            let app = app(language, &scene, &tap, &provider, "2 seconds");
            let order = format!("{language:?}-{number}");
            let process = app.process();
            let steps = if marker == "provider" { &provider.steps } else { &tap.steps };
            steps.at(moment, if marker == "provider" { "990" } else { marker }, move || {
                process.kill();
                Then::Cut
            });
            let lost = charge(&order).try_send(app.port);
            assert!(lost.is_err() && !app.process().alive(), "{moment:?} {marker}: {lost:?}");
            dead.push((order, format!("{language:?}, {moment:?} {marker}"), other));
        }
    }
    for (order, step, other) in dead {
        // By an instance of the other kind.
        let reply = charge(&order).insist(other.port);
        assert_eq!(reply.status, 201, "{step}: {reply:?}");
        assert_eq!(reply.replayed(), step.ends_with("After COMMIT"), "{step}");
        let again = charge(&order).send(other.port);
        assert_eq!((again.status, again.replayed(), again.body), (201, true, reply.body), "{step}");
        assert_eq!(scene.payments(&order), 1, "{step}");
    }
    let asked = provider.asked();
    assert_eq!(asked.len(), 2 * STEPS.len(), "one charge for each order: {asked:?}");
    // Once by whoever died after the provider had done it, and once by whoever took over.
    assert_eq!(asked.iter().filter(|times| **times == 2).count(), 2 * 3, "{asked:?}");
    assert_eq!(scene.session.get::<i64>("SELECT count(*) FROM once.effects"), 0);
}

#[test]
fn who_comes_back_after_another_took_over_changes_nothing() {
    let mut scene = Scene::new();
    let tap = Tap::before(scene.db.cluster());
    for language in LANGUAGES {
        let provider = Provider::start();
        let slow = app(language, &scene, &tap, &provider, "1 second");
        let other = app(language, &scene, &tap, &provider, "30 seconds");
        let order = format!("{language:?}");
        let gate = provider.steps.hold(Moment::After, "990");
        let first = in_background(&charge(&order), slow.port);
        gate.reached();
        let taken_over = charge(&order).insist(other.port);
        assert_eq!((taken_over.status, taken_over.replayed()), (201, false), "{taken_over:?}");
        gate.open(Then::GoOn);
        let late = first.join().expect("a request").expect("an answer");
        assert!(late.status == 409 || late.body == taken_over.body, "{late:?}");
        assert_eq!(charge(&order).send(slow.port).body, taken_over.body);
        assert_eq!((provider.asked(), scene.payments(&order)), (vec![2], 1));
    }
}

#[test]
fn a_provider_that_fails_is_asked_again_and_one_that_refuses_is_not() {
    let mut scene = Scene::new();
    let tap = Tap::before(scene.db.cluster());
    for language in LANGUAGES {
        let provider = Provider::start();
        let app = app(language, &scene, &tap, &provider, "30 seconds");
        let order = format!("{language:?}");
        provider.fail_once(500);
        let failed = charge(&order).send(app.port);
        assert_eq!(failed.status, 503, "{failed:?}");
        assert_eq!(charge(&order).send(app.port).status, 409, "before it may be tried again");
        let reply = charge(&order).insist(app.port);
        assert_eq!((reply.status, reply.replayed()), (201, false), "{reply:?}");

        let order = format!("{language:?}-refused");
        provider.fail_once(402);
        let refused = charge(&order).send(app.port);
        assert_eq!((refused.status, refused.replayed()), (402, false), "{refused:?}");
        let again = charge(&order).send(app.port);
        assert_eq!((again.status, again.replayed(), again.body), (402, true, refused.body));
        assert_eq!((provider.asked(), scene.payments(&order)), (vec![1], 0));
    }
}

#[test]
fn what_was_tried_too_often_is_for_somebody_to_look_at() {
    let mut scene = Scene::new();
    let tap = Tap::before(scene.db.cluster());
    scene.session.run("SELECT once.alter_store('requests', max_attempts => 1)");
    for language in LANGUAGES {
        let provider = Provider::start();
        let app = app(language, &scene, &tap, &provider, "30 seconds");
        let order = format!("{language:?}");
        provider.fail_once(500);
        assert_eq!(charge(&order).send(app.port).status, 503);
        let gave_up = charge(&order).insist(app.port);
        assert_eq!(gave_up.status, 502, "{gave_up:?}");
        assert_eq!((provider.asked(), scene.payments(&order)), (vec![], 0));
    }
}
