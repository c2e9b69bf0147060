//! Days with unfinished effects, windows that stand still, clocks that step, and stores that go.

use std::time::Duration;

use pg_once_tests::clock::Instant;
use pg_once_tests::session::Session;
use pg_once_tests::shared::{clocked, database};

use crate::scene::Calls;

fn noon(year: i64) -> Instant {
    Instant::midnight(year, 3, 1).plus(43_200.0)
}

fn begin(s: &mut Session, key: &str) -> i64 {
    s.try_begin_with(key, "lease => '1 minute', ttl => '1 hour'").expect("an answer").held()
}

fn days(s: &mut Session) -> Vec<String> {
    s.days_of("once.processed_events").into_iter().map(|leaf| leaf.day).collect()
}

fn findings(s: &mut Session) -> Vec<String> {
    s.column("SELECT finding FROM once.health WHERE finding ~ 'effects' ORDER BY 1")
}

#[test]
fn a_day_with_an_unfinished_effect_goes_a_day_after_a_pass_has_seen_it() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = noon(2010);
    let mut s = db.session_at(noon);
    s.default_store("1 hour");
    let fence = begin(&mut s, "finished");
    assert!(s.complete("finished", fence, "'1'"));
    let fence = begin(&mut s, "unfinished");
    begin(&mut s, "given up");
    s.run("UPDATE once.effect_state SET state = 'gave_up' WHERE key = 'given up'");
    // Due long since, and no pass has been there.
    let late = noon.days(3);
    cluster.clock().set(late);
    s.claim("load");
    assert_eq!(findings(&mut s), ["windows of unfinished effects are over"]);
    s.run("CALL once.maintain(force => true)");
    assert_eq!(days(&mut s)[0], "20100301");
    let shown: i64 =
        s.get("SELECT count(*) FROM once.effects WHERE state = 'expired' AND shown_at IS NOT NULL");
    assert_eq!(shown, 2);
    let said: Vec<String> = s.column(
        "SELECT detail FROM once.maintenance_log WHERE action = 'keep' ORDER BY at, detail",
    );
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(
        s.try_complete("unfinished", fence, "'1'").expect_err("its window is over").code,
        "OC008"
    );
    cluster.clock().set(late.plus(23.9 * 3600.0));
    s.run("CALL once.maintain(force => true)");
    assert_eq!(days(&mut s)[0], "20100301", "not a day yet");
    cluster.clock().set(late.plus(24.1 * 3600.0));
    s.run("CALL once.maintain(force => true)");
    assert_ne!(days(&mut s)[0], "20100301");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.effect_state"), 0);
    assert_eq!(findings(&mut s), [""; 0]);
    let dropped: String = s.get(
        "SELECT detail FROM once.maintenance_log WHERE action = 'drop' AND day = '2010-03-01'",
    );
    assert_eq!(dropped, "with 2 unfinished effects");
}

#[test]
fn a_day_whose_effects_are_finished_or_begun_anew_goes_when_it_is_due() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = noon(2011);
    let mut s = db.session_at(noon);
    s.default_store("1 hour");
    let fence = begin(&mut s, "finished");
    assert!(s.complete("finished", fence, "'1'"));
    begin(&mut s, "anew");
    cluster.clock().set(noon.days(1));
    assert_eq!(s.begin("anew", "1 minute").outcome, "started");
    s.run("CALL once.maintain()");
    // Well after the lease, which began as late as a busy machine came to it.
    cluster.clock().set(noon.days(1).plus(600.0));
    s.run("CALL once.maintain()");
    assert_ne!(days(&mut s)[0], "20110301");
    assert_eq!(s.state_of("anew"), ["overdue"]);
}

#[test]
fn in_a_hold_a_window_stands_still_and_its_effect_with_it() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = noon(2012);
    let mut s = db.session_at(noon);
    s.default_store("1 hour");
    let fence = begin(&mut s, "k");
    s.run("SELECT once.hold('processed_events', 'an incident')");
    cluster.clock().set(noon.days(2));
    assert_eq!(s.state_of("k"), ["overdue"]);
    s.run("CALL once.maintain(force => true)");
    assert_eq!(
        s.get::<i64>("SELECT count(*) FROM once.effect_state WHERE shown_at IS NOT NULL"),
        0
    );
    assert!(s.try_extend("k", fence, "1 minute").expect("its window is open"));
    assert!(s.complete("k", fence, "'1'"));
    assert_eq!(s.begin("k", "1 minute").outcome, "done");
}

#[test]
fn a_clock_that_steps_makes_a_take_over_early_or_late_and_no_fence_good_twice() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = noon(2013);
    let mut s = db.session_at(noon);
    s.default_store("1 hour");
    let mut last = begin(&mut s, "k");
    let mut fences = vec![last];
    for (step, expected) in [
        (120.0, "taken_over"),
        (-600.0, "in_progress"),
        (-86_400.0, "in_progress"),
        (86_400.0 + 700.0, "taken_over"),
        (30.0, "in_progress"),
        (31.0, "taken_over"),
    ] {
        cluster.clock().step(step);
        let begun = s.begin("k", "1 minute");
        assert_eq!(begun.outcome, expected, "after a step of {step} s");
        if let Some(fence) = begun.fence {
            assert!(fence > last);
            assert_eq!(
                s.try_extend("k", last, "1 minute").expect_err("it was taken over").code,
                "OC008"
            );
            last = fence;
            fences.push(fence);
        }
    }
    // Over the end of the window, begun anew, and back to where the first window was open.
    cluster.clock().set(noon.days(1));
    let anew = begin(&mut s, "k");
    cluster.clock().set(noon.plus(300.0));
    for fence in fences {
        let failure = s.try_complete("k", fence, "'1'").expect_err("begun anew since");
        assert_eq!(failure.code, "OC008", "{failure}");
    }
    assert!(s.complete("k", anew, "'2'"));
}

#[test]
fn a_mark_of_a_clock_that_was_ahead_is_made_anew() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = noon(2014);
    let mut s = db.session_at(noon);
    s.default_store("1 hour");
    begin(&mut s, "k");
    cluster.clock().set(noon.days(2));
    s.run("CALL once.maintain(force => true)");
    s.run("UPDATE once.effect_state SET shown_at = shown_at + interval '10 years'");
    cluster.clock().set(noon.days(2).plus(60.0));
    s.run("CALL once.maintain(force => true)");
    cluster.clock().set(noon.days(3).plus(120.0));
    s.run("CALL once.maintain(force => true)");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.effect_state"), 0);
}

#[test]
fn effects_of_a_day_that_somebody_dropped_by_hand_are_forgotten_after_a_day() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = noon(2015);
    let mut s = db.session_at(noon);
    s.default_store("1 hour");
    begin(&mut s, "k");
    cluster.clock().set(noon.days(1));
    s.run("CALL once.maintain(force => true)");
    s.run("DROP TABLE once.processed_events_20150301");
    cluster.clock().set(noon.days(2).plus(60.0));
    s.run("CALL once.maintain(force => true)");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.effect_state"), 0);
}

#[test]
fn a_window_about_to_end_is_said() {
    let mut s = database().session();
    s.try_begin_with("k", "lease => '1 minute', ttl => '2 minutes'").expect("an answer");
    assert_eq!(findings(&mut s), [""; 0]);
    s.run(
        "UPDATE once.effect_state SET claimed_at = clock_timestamp() - interval '2 hours',
                expires_at = clock_timestamp() + interval '1 minute'",
    );
    assert_eq!(findings(&mut s), ["windows of unfinished effects are about to end"]);
}

#[test]
fn effects_go_with_their_store_and_follow_its_new_name() {
    let mut s = database().session();
    s.run("SELECT once.create_store('orders')");
    let begun = s.try_begin_with("k", "lease => '1 minute', store => 'orders'").expect("an answer");
    s.run("ALTER TABLE once.orders RENAME TO purchases");
    assert_eq!(s.get::<String>("SELECT store FROM once.effects"), "purchases");
    let done: bool =
        s.get_with("SELECT once.complete_effect('k', $1, store => 'purchases')", &[&begun.held()]);
    assert!(done);
    s.try_begin_with("l", "lease => '1 minute', store => 'purchases'").expect("an answer");
    s.run("SELECT once.drop_store('purchases')");
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.effect_state"), 0);
}

#[test]
fn a_drop_does_not_stand_behind_somebody_who_is_beginning_an_effect_of_that_day_anew() {
    let cluster = clocked();
    let db = cluster.database();
    let noon = noon(2013);
    let mut s = db.session_at(noon);
    s.default_store("1 hour");
    begin(&mut s, "k");
    begin(&mut s, "other");
    let late = noon.days(3);
    cluster.clock().set(late);
    s.claim("load");
    s.run("CALL once.maintain(force => true)");
    cluster.clock().set(late.plus(25.0 * 3600.0));
    let mut beginning = db.session();
    beginning.run("BEGIN");
    assert_eq!(beginning.begin("k", "1 minute").outcome, "started");
    let pass = db.session().background(|s| s.run("CALL once.maintain(force => true)"));
    assert!(pass.done_within(Duration::from_secs(60)), "the pass stands behind it");
    pass.join();
    beginning.run("COMMIT");
    assert_eq!(s.state_of("k"), ["running"], "what was begun anew stays");
    s.run("CALL once.maintain(force => true)");
    assert_ne!(days(&mut s)[0], "20130301");
    assert_eq!(s.state_of("k"), ["running"]);
    assert_eq!(s.state_of("other"), [""; 0]);
}
