//! Effects and the calls that know of claims only: complete, release, claim_once.

use pg_once_tests::shared::database;
use pg_once_tests::wait;

use crate::scene::{Calls, expired};

#[test]
fn the_answer_of_an_effect_that_is_not_finished_is_for_its_holder_to_give() {
    let mut s = database().session();
    let fence = s.begin("k", "1 minute").held();
    let failure = s.fails("SELECT once.complete('k', '1')");
    assert_eq!(failure.code, "OC008", "{failure}");
    assert!(failure.hint.contains("complete_effect"), "{failure}");
    assert_eq!(s.get::<Option<String>>("SELECT result::text FROM once.lookup('k')"), None);
    assert!(s.complete("k", fence, "'2'"));
    assert!(!s.get::<bool>("SELECT once.complete('k', '2')"), "the same answer is there");
    assert_eq!(s.fails("SELECT once.complete('k', '1')").code, "OC007");
    // In the transaction that began it, and while that has not ended, too.
    s.run("BEGIN");
    s.begin("own", "1 minute");
    assert_eq!(s.fails("SELECT once.complete('own', '1')").code, "OC008");
    s.run("ROLLBACK");
}

#[test]
fn a_complete_that_waited_for_a_beginning_is_refused() {
    let db = database();
    let (mut holder, mut other) = (db.session(), db.session());
    other.begin("before", "1 minute");
    holder.run("BEGIN");
    holder.begin("k", "1 minute");
    let waiting = other.background(|s| s.fails("SELECT once.complete('k', '1')"));
    wait::blocked(&mut db.session(), waiting.pid());
    holder.run("COMMIT");
    assert_eq!(waiting.join().1.code, "OC008");
}

#[test]
fn a_release_makes_the_fence_stale_and_the_effect_beginnable() {
    let mut s = database().session();
    let fence = s.begin("k", "1 hour").held();
    assert!(s.get::<bool>("SELECT once.release('k', 'it was never sent')"));
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.effect_state"), 0);
    assert_eq!(s.try_complete("k", fence, "'1'").expect_err("released").code, "OC008");
    assert_eq!(s.try_extend("k", fence, "1 hour").expect_err("released").code, "OC008");
    let anew = s.begin("k", "1 hour");
    assert_eq!((anew.outcome.as_str(), anew.attempt), ("started", Some(1)));
    assert!(anew.held() > fence);
    // Rolled back, the fence is as good as it was.
    s.run("BEGIN; SELECT once.release('k', 'by mistake'); ROLLBACK");
    assert!(s.complete("k", anew.held(), "'1'"));
}

#[test]
fn a_key_claimed_anew_after_an_effect_that_was_never_finished_gets_its_answer() {
    let mut s = database().session();
    let fence = s.begin("k", "1 minute").held();
    expired(&mut s, "k");
    assert!(s.claim("k"), "the window of the effect is over");
    assert_eq!(s.state_of("k"), ["expired"], "and it is still to be looked at");
    assert!(
        s.get::<bool>("SELECT once.complete('k', '1')"),
        "the claim that stands is no effect's"
    );
    assert!(!s.get::<bool>("SELECT once.complete('k', '1')"));
    assert_eq!(s.state_of("k"), ["expired"]);
    assert_eq!(s.try_complete("k", fence, "'2'").expect_err("its window is over").code, "OC008");
}

#[test]
fn a_release_takes_no_effect_along_that_another_claim_was_begun_with() {
    let mut s = database().session();
    s.begin("k", "1 hour");
    expired(&mut s, "k");
    assert!(s.claim("k"), "the window of the effect is over");
    assert!(s.get::<bool>("SELECT once.release('k', 'the later claim')"));
    assert_eq!(s.state_of("k"), ["expired"], "nobody has seen yet that it was not finished");
}
