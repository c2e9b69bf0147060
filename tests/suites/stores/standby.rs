//! A streaming standby: it looks up and never answers a claim; after promotion it claims, and
//! refuses what the primary had acknowledged.

use std::sync::Mutex;

use pg_once_tests::cluster::Cluster;
use pg_once_tests::standby::caught_up;
use pg_once_tests::{race, wait};

#[test]
fn a_standby_looks_up_and_refuses_to_claim_and_claims_once_promoted() {
    let primary = Cluster::build().durable().start();
    let db = primary.database();
    let (mut p, mut p2) = (db.session(), db.session());
    p.claim("before");
    let standby = primary.standby();
    let connect = || standby.connect(db.name());
    let (mut s, mut early) = (connect(), connect());
    caught_up(&mut p, &mut s);
    let seen = |s: &mut pg_once_tests::session::Session, key: &str| -> i64 {
        s.get_with("SELECT count(*) FROM once.lookup($1)", &[&key])
    };
    // It has looked into every day that is there before they are written to.
    assert_eq!((seen(&mut early, "before"), seen(&mut early, "k")), (1, 0));
    for key in ["k", "l"] {
        assert!(p.claim(key));
        caught_up(&mut p, &mut s);
        assert_eq!((seen(&mut s, key), seen(&mut early, key)), (1, 1));
    }
    p2.run("BEGIN");
    assert!(p2.claim("in flight"));
    caught_up(&mut p, &mut s);
    assert_eq!(seen(&mut s, "in flight"), 0);
    for call in [
        "SELECT once.claim_once('k')",
        "SELECT once.claim_once('new')",
        "SELECT once.claim('k', wait => false)",
        "SELECT * FROM once.claim_many('{k,new}')",
        "SELECT once.create_store('x')",
        "SELECT once.alter_store('processed_events', retention => '8 days')",
        "SELECT once.drop_store('processed_events')",
        "CALL once.maintain()",
    ] {
        let failure = s.fails(call);
        assert_eq!(failure.code, "25006", "{call}: {failure}");
    }
    assert_eq!(s.get::<i64>("SELECT count(*) FROM once.partitions"), 4);
    let sampled: i64 = s.get("SELECT sampled FROM once.audit_keys('processed_events')");
    assert_eq!(sampled, 3, "before, k and l");
    p.run("SELECT once.create_store('orders')");
    caught_up(&mut p, &mut s);
    assert_eq!(
        s.column::<String>("SELECT store FROM once.stores ORDER BY 1"),
        ["orders", "processed_events"]
    );
    drop((p, p2));
    primary.stop("immediate");
    standby.promote();
    // The sessions that were there before, and new ones.
    for s in [&mut s, &mut early, &mut connect()] {
        for key in ["before", "k", "l"] {
            assert!(!s.claim(key), "{key}");
        }
        assert!(s.claim(&format!("new {}", s.pid())));
    }
    assert!(s.claim("in flight"), "it never committed");
    s.run("CALL once.maintain()");
    s.verify("once.processed_events", standby.server().ships("amcheck"));
}

#[test]
fn after_failover_to_a_synchronous_standby_every_acknowledged_claim_is_refused() {
    let primary = Cluster::build().durable().start();
    let db = primary.database();
    db.session().claim("load");
    let standby = primary.synchronous_standby();
    let acknowledged: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut sessions = db.sessions(6);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            race::all(&mut sessions, |number, s| {
                for n in 0.. {
                    let key = format!("{number}-{n}");
                    match s.try_claim(&key) {
                        Ok(claimed) => {
                            assert!(claimed, "{key}");
                            acknowledged.lock().expect("no panic holds it").push(key);
                        }
                        Err(_) => break,
                    }
                }
            });
        });
        wait::until("there is some load", || {
            acknowledged.lock().expect("no panic holds it").len() > 300
        });
        primary.stop("immediate");
    });
    standby.promote();
    let mut s = standby.connect(db.name());
    s.run("SET synchronous_commit = local");
    let keys = acknowledged.into_inner().expect("no panic holds it");
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let lost: Vec<String> =
        s.claim_many(&keys).into_iter().filter(|(_, c)| *c).map(|(key, _)| key).collect();
    assert_eq!(lost, [""; 0], "of {} acknowledged", keys.len());
}
