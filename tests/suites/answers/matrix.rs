//! Every pair of what writes a claim's row, by sixteen sessions on one key: claims and removals take turns, one answer at
//! most is stored between two of them, and nobody fails but with what it is to be told.

use pg_once_tests::race;
use pg_once_tests::shared::database;

/// What each does; all give a text that is `true` or `1` where it was done.
const DEEDS: [(&str, &str); 6] = [
    ("claim", "SELECT once.claim_once('KEY')::text"),
    ("claim", "SELECT (outcome = 'claimed')::text FROM once.claim('KEY', wait => false)"),
    ("answer", "SELECT once.complete('KEY', 'ANSWER')::text"),
    ("removal", "SELECT once.release('KEY', 'test')::text"),
    (
        "answer",
        "WITH u AS (UPDATE once.processed_events SET result = 'ANSWER' WHERE key = 'KEY' AND result IS NULL RETURNING 1)
         SELECT (count(*) = 1)::text FROM u",
    ),
    (
        "removal",
        "WITH d AS (DELETE FROM once.processed_events WHERE key = 'KEY' RETURNING 1)
         SELECT (count(*) = 1)::text FROM d",
    ),
];

#[test]
fn every_pair_of_writers_leaves_one_claim_one_answer_and_no_other_error() {
    let db = database();
    let mut sessions = db.sessions(16);
    sessions[0].load();
    let mut rounds = 0;
    for (first, one) in DEEDS.iter().enumerate() {
        for other in &DEEDS[first..] {
            for claimed_before in [true, false] {
                rounds += 1;
                let key = format!("r{rounds}");
                if claimed_before {
                    sessions[0].claim(&key);
                }
                let told = race::all(&mut sessions, |n, s| {
                    let (kind, sql) = if n % 2 == 0 { one } else { other };
                    let sql = sql.replace("KEY", &key).replace("ANSWER", &n.to_string());
                    // A third in transactions that come to nothing, or to something.
                    let (before, after) =
                        [("", ""), ("BEGIN", "COMMIT"), ("BEGIN", "ROLLBACK")][n % 3];
                    s.run(before);
                    let told =
                        s.try_get::<String>(&sql, &[]).unwrap_or_else(|failure| failure.code);
                    s.run(if told.starts_with("OC") && n % 3 > 0 { "ROLLBACK" } else { after });
                    let done = told == "true" && after != "ROLLBACK";
                    assert!(
                        ["true", "false", "OC006", "OC007"].contains(&told.as_str()),
                        "{sql}: {told}"
                    );
                    (*kind, done)
                });
                let count =
                    |kind: &str| told.iter().filter(|did| **did == (kind, true)).count() as i64;
                let (claims, removals, answers) =
                    (count("claim"), count("removal"), count("answer"));
                let at_the_end: Vec<bool> = sessions[0].column(&format!(
                    "SELECT result IS NOT NULL FROM once.processed_events WHERE key = '{key}'"
                ));
                let pair = format!("{} and {}, {claimed_before}: {told:?}", one.1, other.1);
                let standing = i64::from(claimed_before) + claims - removals;
                assert_eq!(at_the_end.len() as i64, standing, "{pair}");
                assert!(
                    (0..=1).contains(&standing) && answers <= i64::from(claimed_before) + claims,
                    "{pair}"
                );
                if removals == 0 {
                    assert_eq!(at_the_end.contains(&true), answers == 1, "{pair}");
                }
            }
        }
    }
    assert_eq!(sessions[0].claimed_twice("once.processed_events"), [""; 0]);
    sessions[0].verify("once.processed_events", db.cluster().server().ships("amcheck"));
}
