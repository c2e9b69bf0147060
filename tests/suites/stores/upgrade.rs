//! pg_upgrade to the latest major keeps every claim: the files move, and what refers to stores and
//! leaves still does.

use pg_once_tests::account;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::server::Server;

#[test]
fn a_cluster_upgraded_in_place_to_the_latest_major_keeps_every_claim() {
    // Where only one major is being tested there is no later one; the run over all majors has it.
    let Some(later) = Server::later().pop() else { return };
    let old = Cluster::build().start();
    let db = old.database();
    let mut s = db.session();
    s.claim_many(&["a", "b", "c"]);
    s.run("SELECT once.create_store('Orders', retention => '20 days', note => 'kept')");
    assert!(s.get::<bool>("SELECT once.claim_once('a', store => 'Orders')"));
    drop(s);
    let mut build = Cluster::build().server(later.clone());
    if later.major >= 18 {
        // From 18 on initdb turns checksums on, and both sides must agree.
        build = build.initdb("--no-data-checksums");
    }
    let new = build.start();
    old.stop("fast");
    new.stop("fast");
    let mut upgrade = later.command("pg_upgrade");
    upgrade.arg("-b").arg(&old.server().bin).arg("-B").arg(&later.bin).args(["-U", "postgres"]);
    upgrade.arg("-d").arg(old.folder().join("data")).arg("-D").arg(new.folder().join("data"));
    upgrade.arg("-s").arg(new.folder()).current_dir(new.folder());
    account::run(&mut upgrade);
    new.start();
    let mut s = pg_once_tests::session::Session::open(new.endpoint(db.name()));
    for key in ["a", "b", "c"] {
        assert!(!s.claim(key), "{key}");
    }
    assert!(!s.get::<bool>("SELECT once.claim_once('a', store => 'Orders')"));
    assert!(s.claim("d"));
    s.run("SET pg_once.precreate_days = 5");
    s.run("CALL once.maintain()");
    let stores: Vec<String> =
        s.column("SELECT concat_ws(' ', store, days, note) FROM once.stores ORDER BY store DESC");
    assert_eq!(stores, ["processed_events 6", "Orders 6 kept"]);
    s.verify("once.processed_events", later.ships("amcheck"));
}
