//! The web server is killed at each step of a request, and the client sends it again to another instance.

use std::io::Read;

use crate::app::{App, LANGUAGES};
use crate::scene::{Scene, payment};
use crate::steps::{Moment, Then};
use crate::tap::Tap;

/// Where it dies, and whether the work is there by then. After one statement is before the next: who is dead knows neither.
const STEPS: [(Moment, &str, bool); 6] = [
    (Moment::Before, "once.claim(", false),
    (Moment::After, "once.claim(", false),
    (Moment::After, "INSERT INTO payment", false),
    (Moment::After, "once.complete(", false),
    (Moment::Before, "COMMIT", false),
    (Moment::After, "COMMIT", true),
];

#[test]
fn whenever_a_web_server_is_killed_a_retry_pays_once_and_gets_the_answer() {
    let mut scene = Scene::new();
    let tap = Tap::before(scene.db.cluster());
    for language in LANGUAGES {
        let other = scene.app(language);
        for (number, (moment, marker, committed)) in STEPS.into_iter().enumerate() {
            let step = format!("{language:?}, {moment:?} {marker}");
            let app = App::start(language, &scene, tap.folder(), &[]);
            let order = format!("{language:?}-{number}");
            let request = payment(&order).by("ann").key(&order);
            let process = app.process();
            tap.steps.at(moment, marker, move || {
                process.kill();
                Then::Cut
            });
            let lost = request.try_send(app.port);
            assert!(lost.is_err() && !app.process().alive(), "{step}: {lost:?}");
            let reply = request.insist(other.port);
            assert_eq!((reply.status, reply.replayed()), (201, committed), "{step}: {reply:?}");
            let again = request.send(other.port);
            assert_eq!(
                (again.status, again.replayed(), again.body),
                (201, true, reply.body),
                "{step}"
            );
            assert_eq!(scene.payments(&order), 1, "{step}");
        }
    }
    assert_eq!(scene.spent("ann"), 2 * 6 * 990);
}

#[test]
fn an_answer_that_is_lost_on_its_way_is_replayed() {
    let mut scene = Scene::new();
    for language in LANGUAGES {
        let (app, other) = (scene.app(language), scene.app(language));
        let order = format!("{language:?}");
        let request = payment(&order).by("ann").key(&order);
        // Its first byte is written, the rest is never read, and the web server dies.
        let mut stream = request.begin(app.port).expect("a connection");
        stream.read_exact(&mut [0]).expect("an answer");
        app.process().kill();
        drop(stream);
        let reply = request.send(other.port);
        assert_eq!((reply.status, reply.replayed()), (201, true), "{reply:?}");
        assert_eq!(scene.payments(&order), 1);
    }
}

#[test]
fn a_client_that_hangs_up_finds_its_answer_later() {
    let mut scene = Scene::new();
    let tap = Tap::before(scene.db.cluster());
    for language in LANGUAGES {
        let app = App::start(language, &scene, tap.folder(), &[]);
        let order = format!("{language:?}");
        let request = payment(&order).by("ann").key(&order);
        let gate = tap.steps.hold(Moment::After, "once.claim(");
        let stream = request.begin(app.port).expect("a connection");
        gate.reached();
        drop(stream);
        gate.open(Then::GoOn);
        let reply = request.insist(app.port);
        assert_eq!(reply.status, 201, "{reply:?}");
        assert_eq!(request.send(app.port).body, reply.body);
        assert_eq!(scene.payments(&order), 1);
    }
}
