//! pg_upgrade to the latest major keeps every claim: the files move, and what refers to stores and
//! leaves still does.

use pg_once_tests::account;
use pg_once_tests::cluster::Cluster;
use pg_once_tests::server::Server;

/// Whether the new server restores a plain table of the old one as its own pg_dump writes it. A minor
/// release of an older major can be ahead of the newer major's, and then nothing can be upgraded.
fn understands(old: &Cluster, new: &Cluster) -> bool {
    let probe = old.create("TEMPLATE template0");
    probe.session().run("CREATE TABLE plain (a int)");
    let mut dump = new.server().command("pg_dump");
    dump.env("PGHOST", old.folder()).args([
        "-U",
        "postgres",
        "-s",
        "-t",
        "plain",
        "-d",
        probe.name(),
    ]);
    let dump = account::run(&mut dump);
    let statements =
        dump.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n");
    new.connect("template1").try_run(&format!("BEGIN; {statements}; ROLLBACK")).is_ok()
}

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
    // pg_upgrade wants to look into every database.
    old.connect("postgres").run("ALTER DATABASE with_pg_once ALLOW_CONNECTIONS true");
    let mut build = Cluster::build().server(later.clone());
    if later.major >= 18 {
        // From 18 on initdb turns checksums on, and both sides must agree.
        build = build.initdb("--no-data-checksums");
    }
    let new = build.start();
    if !understands(&old, &new) {
        println!(
            "{} cannot take over any table of this {}: not upgraded",
            later.major,
            old.server().major
        );
        return;
    }
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
