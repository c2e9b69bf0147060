//! The faults that a redelivery brings to light, each by itself, and the same handlers mended.

use pg_once_tests::shared::database;

use crate::scene::{SHOP, call, handler, lines, tapped};

const UPSERT: &str =
    "INSERT INTO orders (id, total) VALUES (m.id, m.amount) ON CONFLICT (id) DO UPDATE SET";

#[test]
fn a_time_taken_at_processing_is_found() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    for taken in [
        "now()",
        "current_timestamp(0)",
        "statement_timestamp()",
        "clock_timestamp()",
        "date_trunc('minute', now())",
        "date_trunc('hour', now())",
        "current_date",
    ] {
        handler(&mut s, &format!("{UPSERT} seen = {taken}"));
        s.run("INSERT INTO orders SELECT id, amount, 'epoch' FROM message ON CONFLICT DO NOTHING");
        let found = tapped(&mut s, "orders", "");
        assert_eq!(found.len(), 4, "{taken}: {found:?}");
        assert!(found[0].starts_with("2 orders 1 changed seen 2"), "{taken}: {found:?}");
        assert!(found[0].ends_with(" 1 order-1"), "{taken}: {found:?}");
    }
    // A month is one only if the second delivery comes in another.
    handler(&mut s, &format!("{UPSERT} seen = date_trunc('month', now())"));
    assert_eq!(tapped(&mut s, "orders", ", later => '960 hours'").len(), 4);
    // now() is again what it was.
    assert!(s.get::<bool>(
        "SELECT now() BETWEEN clock_timestamp() - interval '5 s' AND clock_timestamp()"
    ));
    s.run("BEGIN");
    let before: String = s.get("SELECT now()::text");
    tapped(&mut s, "orders", "");
    assert_eq!(s.get::<String>("SELECT now()::text"), before);
    s.run("COMMIT");
}

#[test]
fn a_counter_a_created_by_and_an_append_are_found_with_their_messages() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    handler(
        &mut s,
        &format!(
            "IF m.id = 2 THEN {UPSERT} times = orders.times + 1, made_by = current_setting('application_name');
             ELSIF m.id = 3 THEN INSERT INTO audit VALUES ('got ' || m.key); END IF"
        ),
    );
    assert_eq!(
        tapped(&mut s, "orders,audit", ""),
        [
            "2 audit - inserted - - got order-3 3 order-3",
            "2 orders 2 changed made_by - pg_once double tap, pass 2 2 order-2",
            "2 orders 2 changed times 1 2 2 order-2"
        ]
    );
    // Mended: the claim refuses the second delivery, in any order and however often.
    handler(
        &mut s,
        &format!(
            "IF NOT once.claim_once(m.key) THEN RETURN; END IF;
             {UPSERT} times = orders.times + 1, made_by = current_setting('application_name'), seen = now();
             INSERT INTO audit VALUES ('got ' || m.key)"
        ),
    );
    assert!(tapped(&mut s, "orders,audit", ", shuffle => true").is_empty());
}

#[test]
fn rows_deleted_and_keys_that_change_are_found() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("INSERT INTO orders (id, total) VALUES (10, 1), (11, 1)");
    handler(&mut s, "IF m.id = 1 THEN DELETE FROM orders WHERE id = (SELECT min(id) FROM orders); END IF;
                     IF m.id = 2 THEN UPDATE orders SET id = id + 100 WHERE id = (SELECT min(id) FROM orders); END IF");
    assert_eq!(tapped(&mut s, "orders", ""), ["2 orders 111 deleted - (111,1,,,1) - - -"]);
    // A row that was written again with what it held already is as it was.
    handler(&mut s, "UPDATE orders SET total = total, id = id");
    assert!(tapped(&mut s, "orders", "").is_empty());
    handler(
        &mut s,
        "DELETE FROM orders WHERE id = 10; INSERT INTO orders (id, total) VALUES (10, 1)",
    );
    assert!(tapped(&mut s, "orders", "").is_empty());
}

#[test]
fn a_message_that_only_harms_out_of_order_is_found_by_the_shuffled_pass_and_found_again_by_its_seed()
 {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run("CREATE TABLE latest (one bool PRIMARY KEY DEFAULT true, id int)");
    // The last message wins, whatever its number: the same order gives the same end.
    handler(
        &mut s,
        "INSERT INTO latest (id) VALUES (m.id) ON CONFLICT (one) DO UPDATE SET id = m.id",
    );
    assert!(tapped(&mut s, "latest", "").is_empty());
    let ends: Vec<Vec<String>> = (1..=6)
        .map(|seed| tapped(&mut s, "latest", &format!(", shuffle => true, seed => {seed}")))
        .collect();
    assert!(ends.iter().any(|found| !found.is_empty()), "no order of six changed the end");
    for (seed, found) in (1..).zip(&ends) {
        assert_eq!(
            &tapped(&mut s, "latest", &format!(", shuffle => true, seed => {seed}")),
            found,
            "seed {seed}"
        );
        assert!(found.iter().all(|line| line.starts_with("3 latest t changed id 4 ")), "{found:?}");
    }
    // Each message is there twice.
    s.run("CREATE TABLE heard (id int)");
    handler(&mut s, "INSERT INTO heard VALUES (m.id)");
    let heard = tapped(&mut s, "heard", ", shuffle => true");
    assert_eq!(heard.iter().filter(|line| line.starts_with("3 heard")).count(), 8, "{heard:?}");
}

#[test]
fn a_sequence_that_moved_without_a_row_is_a_warning_and_no_change() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    s.run(
        "CREATE TABLE numbered (no bigint GENERATED ALWAYS AS IDENTITY, id int PRIMARY KEY);
           CREATE TABLE old (no serial, id int PRIMARY KEY)",
    );
    handler(&mut s, "INSERT INTO numbered (id) VALUES (m.id) ON CONFLICT DO NOTHING");
    assert_eq!(tapped(&mut s, "numbered,old", ""), ["2 numbered_no_seq - sequence - 4 8 - -"]);
    let report: String = s.get(&format!(
        "SELECT {}",
        call("numbered", "").replace("double_tap(", "double_tap_report(")
    ));
    assert!(report.starts_with("READY: 4 messages"), "{report}");
    assert!(report.contains("public.numbered_no_seq: warning: moved"), "{report}");
    handler(
        &mut s,
        "INSERT INTO numbered (id) SELECT m.id WHERE NOT EXISTS (SELECT FROM numbered n WHERE n.id = m.id)",
    );
    assert!(tapped(&mut s, "numbered", "").is_empty());
    // Where rows came, they are what is told of.
    handler(&mut s, "INSERT INTO old (id) SELECT count(*) FROM old");
    let found = tapped(&mut s, "old", "");
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|line| line.contains(" inserted ")), "{found:?}");
}

#[test]
fn the_report_gives_verdict_counts_examples_causes_and_only_suggests_to_ignore() {
    let db = database();
    let mut s = db.session();
    s.run(SHOP);
    handler(&mut s, &format!("{UPSERT} seen = now(), times = orders.times + 1, made_by = session_user || pg_backend_pid()::text || random();
                              INSERT INTO audit VALUES ('got ' || m.key); PERFORM nextval('s')"));
    s.run("CREATE SEQUENCE s; CREATE TABLE aside (id int)");
    handler(&mut s, &format!("{UPSERT} seen = now(), times = orders.times + 1, made_by = current_setting('application_name');
                              INSERT INTO audit VALUES ('got ' || m.key); INSERT INTO aside VALUES (m.id)"));
    let report: String = s.get(&format!(
        "SELECT {}",
        call("orders,audit", "").replace("double_tap(", "double_tap_report(")
    ));
    println!("{report}");
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[0], "NOT READY: 4 messages, delivered again, made 16 differences.");
    assert_eq!(lines[1], "Watched: public.audit, public.orders; everything was rolled back.");
    assert_eq!(
        lines[2],
        "Also written by a message that was handled before, but not watched: public.aside."
    );
    for expected in [
        "public.audit: 4 rows inserted in pass 2",
        "    got order-1  (message 1, order-1)",
        "  usual cause: a row appended without a claim",
        "public.orders, column times: 4 rows changed in pass 2",
        "    1: 1 -> 2  (message 1, order-1)",
        "  usual cause: a counter or a sum that every delivery adds to",
        "public.orders, column seen: 4 rows changed in pass 2",
        "  usual cause: a time taken at processing: now(), a default, a trigger",
        "  only if a redelivery may change it: ignore => '{public.orders.seen}'",
        "public.orders, column made_by: 4 rows changed in pass 2",
        "  usual cause: who processed the message: a created_by, a worker's or a session's name",
    ] {
        assert!(lines.contains(&expected), "{expected} is not in\n{report}");
    }
    assert!(!report.contains("order-4"), "four examples:\n{report}");
    // A suggestion can be pasted.
    let rest = lines_of(&mut s, ", ignore => '{public.orders.seen, orders.times, made_by}'");
    assert!(rest.iter().all(|line| line.starts_with("2 audit ")), "{rest:?}");
}

fn lines_of(s: &mut pg_once_tests::session::Session, more: &str) -> Vec<String> {
    lines(s, &call("orders,audit", more))
}
