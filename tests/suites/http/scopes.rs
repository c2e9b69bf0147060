//! One caller's keys are nothing to another, and one route's nothing to another route.

use crate::app::LANGUAGES;
use crate::scene::{Scene, payment};

#[test]
fn two_callers_with_one_key_get_an_answer_each_and_never_the_other_s() {
    let mut scene = Scene::new();
    for language in LANGUAGES {
        let app = scene.app(language);
        let order = format!("{language:?}");
        let [ann, bob] = ["ann", "bob"].map(|caller| payment(&order).by(caller).key(&order));
        let anns = ann.send(app.port);
        let bobs = bob.send(app.port);
        assert_eq!((anns.status, anns.replayed()), (201, false));
        assert_eq!((bobs.status, bobs.replayed()), (201, false), "bob got ann's answer: {bobs:?}");
        assert_ne!(anns.field("payment"), bobs.field("payment"));
        assert_eq!(ann.send(app.port).body, anns.body);
        assert_eq!(bob.send(app.port).body, bobs.body);
        assert_eq!(scene.payments(&order), 2);
        // Nor is it told whether a key is another's: other content is no mismatch.
        let other = payment(&format!("{order}-2")).by("bob").key(&format!("{order}-only-ann"));
        assert_eq!(
            payment(&order).by("ann").key(&format!("{order}-only-ann")).send(app.port).status,
            201
        );
        assert_eq!(other.send(app.port).status, 201);
    }
}

#[test]
fn names_and_keys_that_read_the_same_when_joined_stay_apart() {
    let mut scene = Scene::new();
    for caller in ["x", "x:y", "x\\", "x\\:y"] {
        scene.account(caller);
    }
    for language in LANGUAGES {
        let app = scene.app(language);
        let order = format!("{language:?}");
        let pairs = [("x", "y:z"), ("x:y", "z"), ("x", ":z"), ("x:y", ":z"), ("x", "y::z")];
        for (caller, key) in pairs {
            let reply = payment(&order).by(caller).key(&format!("{key}{order}")).send(app.port);
            assert_eq!((reply.status, reply.replayed()), (201, false), "{caller} {key}: {reply:?}");
        }
        assert_eq!(scene.payments(&order), 5);
    }
}
