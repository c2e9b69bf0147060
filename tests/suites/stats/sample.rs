//! pg_once.log_duplicates: some duplicates in the server's log, and no key in it.

use pg_once_tests::cluster::Cluster;

fn lines(cluster: &Cluster) -> Vec<String> {
    let log = cluster.log();
    log.lines().filter(|line| line.contains("pg_once: duplicate")).map(str::to_owned).collect()
}

#[test]
fn of_many_duplicates_a_few_are_logged_without_their_keys() {
    let cluster = Cluster::build().start();
    let db = cluster.database();
    let mut s = db.session();
    s.claim("private@example.org");
    s.claim("private@example.org");
    assert!(lines(&cluster).is_empty(), "off unless asked for");
    assert_eq!(s.fails("SET pg_once.log_duplicates = 'all'").code, "22023");
    s.run("SET pg_once.log_duplicates = sample; SET client_min_messages = debug1");
    s.run("SELECT once.claim_once('other', effect => 'mail')");
    s.run("SELECT once.claim_once('private@example.org')");
    let first = lines(&cluster);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(
        first[0].contains("LOG:") && first[0].contains("store \"processed_events\", effect \"\"")
    );
    // By the instant in it, whoever may read the store finds the key.
    let instant = first[0].split("claimed at ").nth(1).and_then(|rest| rest.split(',').next());
    let key: String = s.get(&format!(
        "SELECT key FROM once.processed_events WHERE claimed_at = '{}'",
        instant.expect("an instant")
    ));
    assert_eq!(key, "private@example.org");
    // However many come within a second, one line at most is written in it.
    let began = std::time::Instant::now();
    s.run("SELECT count(once.claim_once('private@example.org')) FROM generate_series(1, 5000)");
    s.run("SELECT * FROM once.claim_many(array_fill('private@example.org'::text, ARRAY[500]))");
    let more = lines(&cluster).len() - 1;
    let seconds = began.elapsed().as_secs() as usize;
    assert!(more <= seconds + 1, "{more} lines in {seconds} s");
    // And of those a second apart one in a hundred: five thousand and two have come.
    s.run("SELECT pg_sleep(1.1)");
    s.run("SELECT count(once.claim_once('private@example.org')) FROM generate_series(1, 100)");
    assert_eq!(lines(&cluster).len(), 2 + more);
    // In PL/pgSQL the context of a message quotes the statement.
    s.run("SELECT pg_sleep(1.1)");
    s.run(
        "DO $$ BEGIN FOR i IN 1..100 LOOP
            EXECUTE 'SELECT once.claim_once(''private@example.org'')'; END LOOP; END $$",
    );
    assert_eq!(lines(&cluster).len(), 3 + more);
    assert!(!cluster.log().contains("private@example.org"), "a key went to the log");
}
