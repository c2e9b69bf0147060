//! Each status, one after the other, by one web server.

use crate::app::{App, LANGUAGES};
use crate::client::Reply;
use crate::scene::{Scene, body, payment};
use crate::steps::{Moment, Then};
use crate::tap::Tap;

/// A refusal as RFC 9457 has it, and not an answer that was stored.
#[track_caller]
fn refused(reply: &Reply, status: u16) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(
        reply.header("content-type").map(|t| t.starts_with("application/problem+json")),
        Some(true)
    );
    assert_eq!(reply.field("status"), status);
    assert!(!reply.replayed(), "{reply:?}");
}

#[test]
fn a_request_that_is_sent_again_gets_the_first_answer_and_pays_once() {
    let mut scene = Scene::new();
    for language in LANGUAGES {
        let app = scene.app(language);
        let order = format!("{language:?}-1");
        let request = payment(&order).by("ann").key(&order);
        let first = request.send(app.port);
        assert_eq!((first.status, first.replayed()), (201, false), "{first:?}");
        assert_eq!(first.field("order"), order.as_str());
        for _ in 0..8 {
            // Often enough for every driver to prepare its statements.
            let again = request.send(app.port);
            assert_eq!((again.status, again.replayed()), (201, true), "{language:?} {again:?}");
            assert_eq!(again.body, first.body, "{language:?}");
            assert_eq!(again.header("content-type"), first.header("content-type"), "{language:?}");
        }
        assert_eq!(scene.payments(&order), 1, "{language:?}");
        assert_eq!(request.key("another").send(app.port).status, 400, "{language:?}: two keys");
    }
    assert_eq!(scene.spent("ann"), 2 * 990);
}

#[test]
fn without_a_key_or_with_one_that_cannot_be_it_is_400_and_nothing_is_paid() {
    let mut scene = Scene::new();
    let long = "k".repeat(256);
    for language in LANGUAGES {
        let app = scene.app(language);
        refused(&payment("none").by("ann").send(app.port), 400);
        for key in ["", "\"\"", "two words", "\"open", "a\"b", "back\\slash", "clé", &long] {
            refused(&payment("none").by("ann").key(key).send(app.port), 400);
        }
        let longest = format!("{language:?}{long}");
        assert_eq!(payment("long").by("ann").key(&longest[..255]).send(app.port).status, 201);
    }
    assert_eq!((scene.payments("none"), scene.payments("long")), (0, 2));
}

#[test]
fn a_key_is_the_same_with_quotation_marks_and_without() {
    let scene = Scene::new();
    for language in LANGUAGES {
        let app = scene.app(language);
        let order = format!("{language:?}");
        let quoted = payment(&order).by("ann").key(&format!("\"{order}\"")).send(app.port);
        let bare = payment(&order).by("ann").key(&order).send(app.port);
        assert_eq!((quoted.status, quoted.replayed()), (201, false));
        assert_eq!((bare.status, bare.replayed(), bare.body), (201, true, quoted.body));
    }
}

#[test]
fn while_the_first_is_at_work_the_second_is_told_409_at_once() {
    let mut scene = Scene::new();
    for language in LANGUAGES {
        let tap = Tap::before(scene.db.cluster());
        let app = App::start(language, &scene, tap.folder(), &[]);
        let order = format!("{language:?}");
        let request = payment(&order).by("ann").key(&order);
        let gate = tap.steps.hold(Moment::Before, "INSERT INTO payment");
        let first = std::thread::spawn({
            let (request, port) = (request.clone(), app.port);
            move || request.send(port)
        });
        gate.reached();
        let second = request.send(app.port);
        refused(&second, 409);
        assert_eq!(second.header("retry-after"), Some("1"));
        // Another request with the key is not told more than that, before it can be known.
        refused(&request.clone().body(&body(&order, 1)).send(app.port), 409);
        gate.open(Then::GoOn);
        let first = first.join().expect("the first request");
        assert_eq!((first.status, first.replayed()), (201, false));
        let third = request.send(app.port);
        assert_eq!((third.status, third.replayed(), third.body), (201, true, first.body));
        assert_eq!(scene.payments(&order), 1);
    }
}

#[test]
fn another_request_with_the_same_key_is_422_and_the_same_one_in_other_words_is_not() {
    let mut scene = Scene::new();
    for language in LANGUAGES {
        let app = scene.app(language);
        let order = format!("{language:?}");
        let request = payment(&order).by("ann").key(&order);
        let first = request.send(app.port);
        assert_eq!(first.status, 201);
        refused(&request.clone().body(&body(&order, 991)).send(app.port), 422);
        refused(&request.clone().body(&body("other", 990)).send(app.port), 422);
        let reordered = format!("{{ \"cents\":990,\n \"order\":\"{order}\" }}");
        let again = request.clone().body(&reordered).send(app.port);
        assert_eq!((again.status, again.replayed(), again.body), (201, true, first.body));
        assert_eq!((scene.payments(&order), scene.payments("other")), (1, 0));
    }
}

#[test]
fn a_request_that_is_malformed_or_nobody_s_uses_up_no_key() {
    let mut scene = Scene::new();
    for language in LANGUAGES {
        let app = scene.app(language);
        let order = format!("{language:?}");
        let request = payment(&order).key(&order);
        refused(&request.send(app.port), 401);
        refused(&request.clone().by("eve").send(app.port), 401);
        let request = request.by("ann");
        let twice = format!(r#"{{"order": "{order}", "cents": "990"}}"#);
        let more = format!(r#"{{"order": "{order}", "cents": 990, "note": "\u0000"}}"#);
        for wrong in
            ["", "{", "[]", "null", "{}", &body("a b", 990), &body(&order, 0), &twice, &more]
        {
            refused(&request.clone().body(wrong).send(app.port), 400);
        }
        assert_eq!(request.send(app.port).status, 201);
    }
    assert_eq!(scene.session.get::<i64>("SELECT count(*) FROM once.requests"), 2);
}

#[test]
fn a_final_refusal_is_an_answer_and_stays_one() {
    let mut scene = Scene::new();
    for language in LANGUAGES {
        let app = scene.app(language);
        let order = format!("{language:?}");
        let request = payment(&order).by("bob").key(&order);
        scene.session.run("UPDATE account SET cents = 989 WHERE id = 'bob'");
        let first = request.send(app.port);
        assert_eq!((first.status, first.replayed()), (402, false), "{first:?}");
        scene.session.run("UPDATE account SET cents = 10000 WHERE id = 'bob'");
        let again = request.send(app.port);
        assert_eq!((again.status, again.replayed(), again.body), (402, true, first.body));
        assert_eq!(scene.payments(&order), 0);
        // Whoever wants it judged anew means another payment, and says so by another key.
        let anew = payment(&order).by("bob").key(&format!("{order}-anew")).send(app.port);
        assert_eq!((anew.status, anew.replayed()), (201, false));
    }
}

#[test]
fn a_request_that_fails_leaves_its_key_free() {
    let mut scene = Scene::new();
    scene.session.run(
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$",
    );
    for language in LANGUAGES {
        let app = scene.app(language);
        let order = format!("{language:?}");
        let request = payment(&order).by("ann").key(&order);
        scene.session.run(
            "CREATE TRIGGER fails BEFORE INSERT ON payment FOR EACH ROW EXECUTE FUNCTION fails()",
        );
        let failed = request.send(app.port);
        assert!(failed.status >= 500, "{failed:?}");
        scene.session.run("DROP TRIGGER fails ON payment");
        let again = request.send(app.port);
        assert_eq!((again.status, again.replayed()), (201, false), "{again:?}");
        assert_eq!(scene.payments(&order), 1);
    }
    assert_eq!(scene.spent("ann"), 2 * 990);
}

#[test]
fn without_select_on_the_store_a_retry_waits_and_nothing_is_paid_twice() {
    let mut scene = Scene::new();
    let role = scene.role.clone();
    for language in LANGUAGES {
        let app = scene.app(language);
        let order = format!("{language:?}");
        let request = payment(&order).by("ann").key(&order);
        scene.session.run(&format!("REVOKE SELECT ON once.requests FROM {role}"));
        let first = request.send(app.port);
        assert_eq!(first.status, 201, "{first:?}");
        refused(&request.send(app.port), 409);
        scene.session.run(&format!("GRANT SELECT ON once.requests TO {role}"));
        let again = request.send(app.port);
        assert_eq!((again.status, again.replayed(), again.body), (201, true, first.body));
        assert_eq!(scene.payments(&order), 1);
    }
}
