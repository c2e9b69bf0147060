//! A standby with the library preloaded: quiet while it is one, at work within one tick once it is not.

use pg_once_tests::standby::caught_up;

use crate::scene::{lines, maintained, preloaded, processes, served};

#[test]
fn a_standby_has_no_launcher_and_a_quiet_log_and_maintains_once_it_is_promoted() {
    let primary = preloaded().start();
    let mut session = served(&primary, "app");
    maintained(&mut session);
    let standby = primary.standby();
    let mut there = standby.connect("app");
    for _ in 0..5 {
        maintained(&mut session);
        caught_up(&mut session, &mut there);
        assert!(processes(&mut there, "pg_once launcher").is_empty());
        assert!(processes(&mut there, "pg_once worker").is_empty());
    }
    for level in ["WARNING", "ERROR", "FATAL", "PANIC", "pg_once"] {
        assert_eq!(lines(&standby.log(), level).join("\n"), "");
    }
    assert_eq!(there.try_claim("k").expect_err("a standby").code, "25006");
    primary.stop("fast");
    standby.promote();
    // The day is taken away after the promotion: only a launcher there can bring it back.
    maintained(&mut there);
    assert_eq!(processes(&mut there, "pg_once launcher").len(), 1);
}
