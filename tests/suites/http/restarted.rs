//! PostgreSQL is restarted, or crashes, while web servers stay up.

use pg_once_tests::cluster::Cluster;

use crate::app::{App, LANGUAGES};
use crate::scene::{Scene, payment};
use crate::steps::{Moment, Then};
use crate::tap::Tap;

#[test]
fn an_answer_outlives_a_restart_and_connections_that_ended_are_no_error() {
    let cluster = Cluster::build().durable().start();
    let scene = Scene::on(&cluster);
    let requests = LANGUAGES.map(|language| {
        let order = format!("{language:?}");
        (scene.app(language), payment(&order).by("ann").key(&order))
    });
    let firsts = requests.each_ref().map(|(app, request)| request.send(app.port));
    cluster.restart();
    for ((app, request), first) in requests.iter().zip(firsts) {
        let again = request.send(app.port);
        assert_eq!((again.status, again.replayed(), again.body), (201, true, first.body));
    }
}

#[test]
fn whenever_postgresql_crashes_a_retry_pays_once_and_gets_the_answer() {
    let cluster = Cluster::build().durable().start();
    let mut scene = Scene::on(&cluster);
    let tap = Tap::before(&cluster);
    for language in LANGUAGES {
        let app = App::start(language, &scene, tap.folder(), &[]);
        let steps = [(Moment::After, "once.complete(", false), (Moment::After, "COMMIT", true)];
        for (moment, marker, committed) in steps {
            let order = format!("{language:?}-{committed}");
            let request = payment(&order).by("ann").key(&order);
            let gate = tap.steps.hold(moment, marker);
            let first = std::thread::spawn({
                let (request, port) = (request.clone(), app.port);
                move || request.send(port)
            });
            gate.reached();
            cluster.crash_and_restart();
            gate.open(Then::Cut);
            let first = first.join().expect("an answer");
            assert!(first.status >= 500, "{language:?} {marker}: {first:?}");
            let reply = request.insist(app.port);
            assert_eq!((reply.status, reply.replayed()), (201, committed), "{language:?} {marker}");
            scene.session = scene.db.session();
            assert_eq!(scene.payments(&order), 1, "{language:?} {marker}");
            assert!(app.process().alive(), "{language:?} {marker}");
        }
    }
}
