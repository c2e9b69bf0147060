//! Bounds are UTC days with an explicit offset, whatever any TimeZone says.

use pg_once_tests::shared::database;

#[test]
fn leaves_made_by_sessions_in_any_zone_are_the_same_contiguous_utc_days() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let mut ahead = 3;
    for (zone, style) in [
        ("UTC", "ISO, DMY"),
        ("Asia/Seoul", "German"),
        ("America/Los_Angeles", "SQL, MDY"),
        ("Pacific/Kiritimati", "Postgres, DMY"),
        ("Pacific/Pago_Pago", "ISO, YMD"),
        ("<+14:59>-14:59", "ISO, MDY"),
    ] {
        ahead += 2;
        let mut s = db.session();
        s.run(&format!("SET TimeZone = '{zone}'; SET DateStyle = '{style}'; SET pg_once.precreate_days = {ahead}"));
        s.run("CALL once.maintain()");
        s.run(&format!("SELECT once.create_store('from {zone}')"));
    }
    let stores: Vec<String> = s.column("SELECT store FROM once.stores ORDER BY store");
    for store in stores {
        let days = s.days_of(&format!("once.\"{store}\""));
        assert!(days.len() >= 4, "{store}: {days:?}");
        for leaf in &days {
            assert_eq!(
                (leaf.from % 86_400.0, leaf.to - leaf.from),
                (0.0, 86_400.0),
                "{store}: {leaf:?}"
            );
            assert!(leaf.name.ends_with(&leaf.day), "{store}: {leaf:?}");
        }
        for pair in days.windows(2) {
            assert_eq!(pair[0].to, pair[1].from, "{store}: a hole or an overlap: {pair:?}");
        }
    }
    assert_eq!(
        s.days_of("once.processed_events").len(),
        usize::try_from(ahead).expect("small") + 1
    );
}

#[test]
fn zones_of_role_and_database_do_not_move_the_days() {
    let db = database();
    let app = db.role("app");
    db.session().run(&format!(
        "ALTER DATABASE {} SET TimeZone = 'Asia/Seoul'; ALTER ROLE {app} SET TimeZone = 'America/Los_Angeles';
         GRANT USAGE, CREATE ON SCHEMA once TO {app}",
        db.name()
    ));
    assert!(db.session_of(&app).claim("k"));
    db.session_of(&app).run("SELECT once.create_store('orders')");
    let mut s = db.session();
    let (a, b) = (s.days_of("once.processed_events"), s.days_of("once.orders"));
    let spans = |days: &[pg_once_tests::look::Leaf]| {
        days.iter().map(|l| (l.from, l.to)).collect::<Vec<_>>()
    };
    assert_eq!(spans(&a), spans(&b));
    assert!(a.iter().all(|leaf| leaf.from % 86_400.0 == 0.0));
}

#[test]
fn a_leafs_day_is_read_from_its_bound() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    s.run("SET TimeZone = 'Pacific/Kiritimati'");
    let right: bool = s.get(
        "SELECT bool_and(leaf = 'processed_events_' || to_char(day, 'YYYYMMDD')
                         AND day = once.leaf_day(format('once.%I', leaf)::regclass)) FROM once.partitions",
    );
    assert!(right);
    assert_eq!(
        s.get::<Option<i32>>(
            "SELECT once.leaf_day('once.processed_events')::date - date '2000-01-01'"
        ),
        None
    );
    assert_eq!(
        s.get::<Option<i32>>("SELECT once.leaf_day('pg_class')::date - date '2000-01-01'"),
        None
    );
    assert_eq!(s.get::<Option<i32>>("SELECT once.leaf_day(NULL)::date - date '2000-01-01'"), None);
    let states: Vec<String> = s.column("SELECT state FROM once.partitions ORDER BY day");
    assert_eq!(states, ["current", "future", "future", "future"]);
}

#[test]
fn settings_that_make_no_sense_are_refused_when_they_are_set() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    for (name, bad) in [
        ("pg_once.precreate_days", ["0", "31", "-1", "'ten'", "'1.5x'"]),
        ("pg_once.max_key_bytes", ["0", "2049", "-5", "'1 fortnight'", "''"]),
        ("pg_once.default_retention", ["'0'", "'-5 days'", "'ten days'", "''", "'10 dd'"]),
        ("pg_once.horizon_factor", ["0", "-1", "'x'", "''", "'1e9'"]),
    ] {
        for value in bad {
            let failure = s.fails(&format!("SET {name} = {value}"));
            assert_eq!(failure.code, "22023", "{name} = {value}: {failure}");
        }
    }
    assert_eq!(s.get::<String>("SHOW pg_once.default_retention"), "7d");
    s.run("SET pg_once.default_retention = '36h'; SELECT once.create_store('a')");
    assert!(s.get::<bool>("SELECT retention = '36 hours' FROM once.stores WHERE store = 'a'"));
    assert_eq!(s.fails("SET pg_once.no_such_setting = 1").code, "42602", "the prefix is ours");
}
