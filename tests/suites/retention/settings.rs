//! Settings: the page about them says what the server says, and nonsense is refused when it is set.

use pg_once_tests::shared::database;

#[test]
fn the_page_about_settings_says_what_the_server_says() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    let known: Vec<String> = s.column(
        "SELECT concat_ws(' | ', name, coalesce(unit, ''), boot_val,
                coalesce(array_to_string(enumvals, ', '), min_val || ' to ' || max_val,
                    CASE vartype WHEN 'bool' THEN 'on, off' ELSE '' END), context)
           FROM pg_settings WHERE name LIKE 'pg_once.%' ORDER BY name",
    );
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md"))
        .expect("docs/settings.md");
    let mut told: Vec<String> = page
        .lines()
        .filter(|line| line.starts_with("| `pg_once."))
        .map(|line| {
            let cells: Vec<&str> = line
                .trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().trim_matches('`'))
                .collect();
            cells[..5].join(" | ")
        })
        .collect();
    told.sort();
    assert_eq!(told, known);
    for name in known.iter().filter_map(|line| line.split(' ').next()) {
        let bare = name.trim_start_matches("pg_once.");
        assert!(page.contains(&format!("- **{bare}**: ")), "no sentence about {name}");
    }
    let silent: Vec<String> = s.column(
        "SELECT name FROM pg_settings WHERE name LIKE 'pg_once.%'
            AND (short_desc NOT LIKE '%.' OR context NOT IN ('superuser', 'user', 'sighup', 'postmaster'))",
    );
    assert_eq!(silent, [""; 0], "settings without a sentence");
}

#[test]
fn nonsense_is_refused_when_it_is_set() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    for (name, values) in [
        ("default_retention", "'0' '-5 days' 'ten days' '' '7 fortnights' 'NaN' '100000d'"),
        ("precreate_days", "'0' '31' '-1' 'three' ''"),
        ("horizon_factor", "'0' '101' 'pi'"),
        ("max_key_bytes", "'0' '2049' '3kB' 'x'"),
        ("away_days", "'-1' '367' 'never'"),
        ("maintenance_lock_timeout", "'0' '-1' '2min' 'soon'"),
        ("late_policy", "'maybe' '' '1'"),
    ] {
        for value in values.split("' '").map(|value| value.trim_matches('\'')) {
            let failure = s.fails(&format!("SET pg_once.{name} = '{value}'"));
            assert_eq!(failure.code, "22023", "{name} = '{value}': {failure}");
        }
    }
    assert_eq!(s.fails("SET pg_once.no_such_setting = 1").code, "42602");
}

#[test]
fn a_retention_without_a_unit_counts_minutes() {
    let db = database();
    let mut s = db.session();
    s.claim("load");
    for (value, shown) in [("10", "10min"), ("10 d", "10d"), ("90", "90min"), ("36h", "36h")] {
        s.run(&format!("SET pg_once.default_retention = '{value}'"));
        assert_eq!(s.get::<String>("SHOW pg_once.default_retention"), shown);
    }
    s.run("SET pg_once.default_retention = '10'; SELECT once.create_store('short')");
    let retention: bool =
        s.get("SELECT retention = '10 minutes' FROM once.stores WHERE store = 'short'");
    assert!(retention);
}
