//! Sixteen sessions that claim and complete the same keys, each with its own answer.

use pg_once_tests::race;
use pg_once_tests::shared::database;

#[test]
fn of_sixteen_answers_to_one_claim_one_is_stored_and_the_others_are_told() {
    let db = database();
    db.session().load();
    for round in 0..30 {
        let key = format!("r{round}");
        db.session().claim(&key);
        let outcomes = race::all(&mut db.sessions(16), |n, s| {
            s.try_get::<bool>(&format!("SELECT once.complete('{key}', '{n}')"), &[])
                .map_or_else(|failure| failure.code, |stored| stored.to_string())
        });
        let stored = outcomes.iter().filter(|outcome| *outcome == "true").count();
        let told = outcomes.iter().filter(|outcome| *outcome == "OC007").count();
        assert_eq!((stored, told), (1, 15), "{outcomes:?}");
    }
}
