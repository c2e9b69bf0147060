//! Logical replication of a store: published through its root, applied on another database with
//! pg_once, where the same keys are then refused.

use pg_once_tests::cluster::Cluster;
use pg_once_tests::session::Session;
use pg_once_tests::wait;

fn applied(subscriber: &mut Session, key: &str, count: i64) {
    wait::until("the change has been applied", || {
        subscriber
            .get_with::<i64>("SELECT count(*) FROM once.processed_events WHERE key = $1", &[&key])
            == count
    });
}

#[test]
fn claims_replicate_and_are_refused_on_the_other_side() {
    let cluster = Cluster::build().set("wal_level", "logical").start();
    for via_root in [true, false] {
        let (publisher, subscriber) = (cluster.database(), cluster.database());
        let (mut p, mut s) = (publisher.session(), subscriber.session());
        p.claim("before");
        // Both sides have their own store and days; the subscriber has claimed nothing.
        s.run("SELECT once.create_store('processed_events')");
        let name = publisher.name();
        p.run(&format!(
            "CREATE PUBLICATION store_{name} FOR TABLE once.processed_events WITH (publish_via_partition_root = {via_root})"
        ));
        p.run(&format!("SELECT pg_create_logical_replication_slot('slot_{name}', 'pgoutput')"));
        s.run(&format!(
            "CREATE SUBSCRIPTION sub_{name} CONNECTION 'host={} dbname={name} user=postgres' PUBLICATION store_{name}
                 WITH (create_slot = false, slot_name = 'slot_{name}', copy_data = true)",
            cluster.folder().display()
        ));
        applied(&mut s, "before", 1);
        assert!(p.claim("single"));
        assert_eq!(p.claim_many(&["b1", "b2", "b3"]).iter().filter(|(_, c)| *c).count(), 3);
        applied(&mut s, "b3", 1);
        for key in ["before", "single", "b1", "b2", "b3"] {
            assert!(!s.claim(key), "{key}");
        }
        // The same window on both sides.
        let instant = "SELECT extract(epoch FROM expires_at)::text FROM once.lookup('single')";
        assert_eq!(p.get::<String>(instant), s.get::<String>(instant));
        // An expired key claimed again is an update or a delete and an insert: both need a replica identity.
        assert!(p.get::<bool>("SELECT once.claim_once('again', '1 microsecond')"));
        applied(&mut s, "again", 1);
        assert!(p.claim("again"));
        wait::until("the second window has been applied", || {
            s.get::<i64>("SELECT count(*) FROM once.lookup('again')") == 1
        });
        applied(&mut s, "again", 1);
        assert!(!s.claim("again"));
        p.run("BEGIN");
        assert!(p.claim("rolled back"));
        p.run("ROLLBACK");
        assert!(p.claim("last"));
        applied(&mut s, "last", 1);
        assert!(s.claim("rolled back"), "what rolled back never arrives");
        s.run(&format!("ALTER SUBSCRIPTION sub_{name} DISABLE"));
        s.run(&format!("ALTER SUBSCRIPTION sub_{name} SET (slot_name = NONE)"));
        s.run(&format!("DROP SUBSCRIPTION sub_{name}"));
        wait::until("the slot is free", || {
            p.get::<i64>(&format!("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'slot_{name}' AND active")) == 0
        });
        p.run(&format!("SELECT pg_drop_replication_slot('slot_{name}')"));
        s.verify("once.processed_events", cluster.server().ships("amcheck"));
    }
}

#[test]
fn a_row_that_moves_out_of_a_default_partition_stays_claimed_on_the_other_side() {
    let cluster = Cluster::build().set("wal_level", "logical").start();
    let (publisher, subscriber) = (cluster.database(), cluster.database());
    let (mut p, mut s) = (publisher.session(), subscriber.session());
    for side in [&mut p, &mut s] {
        side.run("SET pg_once.precreate_days = 1; SELECT once.create_store('processed_events')");
        side.run("CREATE TABLE once.rest PARTITION OF once.processed_events (PRIMARY KEY (key, effect)) DEFAULT");
    }
    let name = publisher.name();
    p.run(&format!(
        "CREATE PUBLICATION store_{name} FOR TABLE once.processed_events WITH (publish_via_partition_root = true)"
    ));
    p.run(&format!("SELECT pg_create_logical_replication_slot('slot_{name}', 'pgoutput')"));
    s.run(&format!(
        "CREATE SUBSCRIPTION sub_{name} CONNECTION 'host={} dbname={name} user=postgres' PUBLICATION store_{name}
             WITH (create_slot = false, slot_name = 'slot_{name}', copy_data = true)",
        cluster.folder().display()
    ));
    p.run(
        "INSERT INTO once.processed_events (claimed_at, expires_at, key)
         SELECT now() + interval '2 days', now() + interval '3 days', 'k' || g FROM generate_series(1, 3) g",
    );
    applied(&mut s, "k3", 1);
    p.run("SET pg_once.precreate_days = 3");
    p.run("CALL once.maintain()");
    assert_eq!(p.get::<i64>("SELECT count(*) FROM once.rest"), 0);
    assert!(p.claim("last"));
    applied(&mut s, "last", 1);
    for key in ["k1", "k2", "k3"] {
        applied(&mut s, key, 1);
        assert!(!s.claim(key), "{key}");
    }
    s.run(&format!("ALTER SUBSCRIPTION sub_{name} DISABLE"));
    s.run(&format!("ALTER SUBSCRIPTION sub_{name} SET (slot_name = NONE)"));
    s.run(&format!("DROP SUBSCRIPTION sub_{name}"));
}
