//! The launcher's two settings: which databases, and how often. Nonsense is refused when it is set.

use pg_once_tests::wait;

use crate::scene::{is_there, launcher, lines, lose_a_day, maintained, preloaded, served};

#[test]
fn only_the_databases_that_are_named_are_maintained() {
    let cluster = preloaded().set("pg_once.databases", "app, \"My app\", nowhere").start();
    let mut named = served(&cluster, "app");
    let mut quoted = served(&cluster, "My app");
    let mut other = served(&cluster, "other");
    let leaf = lose_a_day(&mut other);
    for _ in 0..3 {
        maintained(&mut named);
        maintained(&mut quoted);
    }
    assert!(!is_there(&mut other, &leaf), "a database that is not named was maintained");
    let unknown = "names a database that does not exist: \"nowhere\"";
    assert_eq!(lines(&cluster.log(), unknown).len(), 1, "{}", cluster.log());
    // The name is said once more only after it has been another.
    other.run("ALTER SYSTEM SET pg_once.databases = '*'");
    other.run("SELECT pg_reload_conf()");
    wait::until("a lost day is made again", || is_there(&mut other, &leaf));
    assert_eq!(lines(&cluster.log(), unknown).len(), 1);
}

#[test]
fn nonsense_is_refused_when_it_is_set_and_the_detail_says_why() {
    let cluster = preloaded().start();
    let mut session = cluster.connect("postgres");
    let before = launcher(&mut session);
    for (value, why) in [
        ("'a,,b'", "A name in the list is empty."),
        ("'\"a'", "A double quote is not closed."),
        (
            "'my app'",
            "A name with spaces, commas or double quotes in it must stand in double quotes.",
        ),
        ("'app, *'", "* stands for all databases and only alone."),
    ] {
        let failure = session.fails(&format!("ALTER SYSTEM SET pg_once.databases = {value}"));
        assert_eq!((failure.code.as_str(), failure.detail.as_str()), ("22023", why), "{value}");
    }
    for value in ["'-1'", "'2d'", "'1 fortnight'", "'often'", "'1ms'"] {
        let failure =
            session.try_run(&format!("ALTER SYSTEM SET pg_once.maintenance_interval = {value}"));
        if value == "'1ms'" {
            // Rounded as every setting in seconds is, to 0, which is said to stop the rounds.
            assert!(failure.is_ok(), "{failure:?}");
        } else {
            assert_eq!(failure.expect_err(value).code, "22023", "{value}");
        }
    }
    // Both belong to the server, not to a session, a role or a database.
    for name in ["pg_once.databases", "pg_once.maintenance_interval"] {
        let failure = session.fails(&format!("SET {name} TO DEFAULT"));
        assert_eq!(failure.code, "55P02", "{name}: {failure}");
    }
    let described: Vec<String> = session.column(
        "SELECT concat_ws(' ', name, boot_val, unit, min_val, max_val, context) FROM pg_settings
          WHERE name IN ('pg_once.databases', 'pg_once.maintenance_interval') ORDER BY 1",
    );
    assert_eq!(
        described,
        ["pg_once.databases  sighup", "pg_once.maintenance_interval 600 s 0 86400 sighup"]
    );
    assert_eq!(launcher(&mut session), before);
}
