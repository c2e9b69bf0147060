//! Copies of a server: a standby promoted, a backup taken while a filter is built, a recovery to points before and
//! after everything, a dump, an upgrade. A filter that does not belong to exactly that state of the leaf is not
//! used.

use std::path::PathBuf;
use std::process::Stdio;

use pg_once_tests::account;
use pg_once_tests::cluster::{Build, Cluster};
use pg_once_tests::server::Server;
use pg_once_tests::session::Session;
use pg_once_tests::shared::clocked;
use pg_once_tests::standby::caught_up;
use pg_once_tests::wait;

use crate::scene::{LEAF, OTHER, Scene, claim, denied, noon, refuses_all, sealed, smuggle, unseen};
use crate::steps::{STEPS, much_to_do, open, stopped_at};

/// A server by the real clock, because its copies have no other: the days of the scene are long over, and their
/// claims are not.
fn primary() -> Build {
    Cluster::build().clocked().durable().set("fsync", "off")
}

/// Everything claimed is refused by a new session of a copy, also after a pass there.
#[track_caller]
fn right(copy: &Cluster, database: &str, refused: &[&str]) {
    let mut s = copy.connect(database);
    // The copies' clock is years ahead; nothing may have expired.
    for pass in 0..2 {
        for key in refused {
            assert!(!claim(&mut s, key), "{key}, pass {pass}");
        }
        refuses_all(&mut s);
        let late = unseen("late");
        s.run(&smuggle(&late).replace("2011-11-01", "2111-11-01"));
        assert!(!claim(&mut s, &late) && !claim(&mut copy.connect(database), &late), "pass {pass}");
        s.run("CALL once.maintain()");
    }
    assert!(sealed(&mut s).len() >= 2, "{:?}", sealed(&mut s));
}

/// A scene whose claims outlive the real date: its store remembers for two hundred years.
fn lasting(cluster: &Cluster) -> Scene<'_> {
    let mut scene = Scene::new(cluster);
    scene.dba.run("SELECT once.alter_store('processed_events', retention => '73000 days')");
    scene.dba.run(
        "UPDATE once.leaf_promise SET keep_until = '2111-01-01';
         UPDATE once.processed_events SET expires_at = '2111-01-01'",
    );
    scene.dba.run("CALL once.maintain()");
    assert_eq!(sealed(&mut scene.dba), [LEAF, OTHER]);
    assert!(claim(&mut scene.claimer, "with the filters"));
    scene
}

#[test]
fn a_standby_promoted_at_any_step_and_after() {
    let cluster = primary().start();
    // Those at which what is on the standby differs.
    for number in [3, 6, 8, 9, 11] {
        let mut scene = lasting(&cluster);
        let key = much_to_do(&mut scene);
        scene.dba.run("UPDATE once.processed_events SET expires_at = '2111-01-01'");
        let standby = cluster.standby();
        let mut early = standby.connect(scene.db.name());
        // It has read the store before anything happens.
        assert_eq!(early.get::<i64>("SELECT count(*) FROM once.lookup('day2-1')"), 1);
        let late = scene.denied();
        let pass = stopped_at(&mut scene, &STEPS[number]);
        scene.dba.run("SET lock_timeout = '150ms'");
        let came = scene.dba.try_run(&smuggle(&late).replace("2011-11-01", "2111-11-01")).is_ok();
        scene.dba.run("RESET lock_timeout");
        caught_up(&mut scene.dba, &mut early);
        scene.dba.run(&format!("SELECT pg_terminate_backend({})", pass.pid()));
        pass.join();
        standby.promote();
        let refused: Vec<&str> =
            [key.as_str()].into_iter().chain(came.then_some(late.as_str())).collect();
        println!("{}: {refused:?}", STEPS[number].0);
        for key in &refused {
            assert!(!claim(&mut early, key), "by a session from before");
        }
        refuses_all(&mut early);
        open(&mut early, &STEPS[number]);
        right(&standby, scene.db.name(), &refused);
    }
}

#[test]
fn a_standby_with_filters_hears_of_a_row_that_comes_just_before_it_is_promoted() {
    let cluster = primary().start();
    let mut scene = lasting(&cluster);
    let standby = cluster.standby();
    let mut early = standby.connect(scene.db.name());
    let key = scene.denied();
    assert_eq!(early.get::<i64>("SELECT count(*) FROM once.lookup('day2-1')"), 1);
    scene.dba.run(&smuggle(&key).replace("2011-11-01", "2111-11-01"));
    caught_up(&mut scene.dba, &mut early);
    standby.promote();
    assert!(!claim(&mut early, &key));
    right(&standby, scene.db.name(), &[&key]);
}

/// A data folder copied while the server runs, started by itself; with where to stop replaying.
fn restored(
    cluster: &Cluster,
    backup: &std::path::Path,
    archive: &std::path::Path,
    target: &str,
) -> Cluster {
    let copy = cluster.restored(backup);
    copy.configure(&format!(
        "restore_command = 'cp {}/%f %p'\nrecovery_target_name = '{target}'\nrecovery_target_action = 'promote'\narchive_mode = off\n",
        archive.display()
    ));
    copy.start();
    let mut s = copy.connect("postgres");
    wait::until("it is recovered", || !s.get::<bool>("SELECT pg_is_in_recovery()"));
    copy
}

#[test]
fn a_recovery_to_points_before_the_seal_before_the_filter_after_it_and_after_a_row_came() {
    let archive: PathBuf = pg_once_tests::warden::folder("a");
    let cluster = primary()
        .set("archive_mode", "on")
        .set("archive_command", &format!("cp %p {}/%f", archive.display()))
        .start();
    let mut scene = lasting(&cluster);
    let key = much_to_do(&mut scene);
    scene.dba.run("UPDATE once.processed_events SET expires_at = '2111-01-01'");
    let backup = cluster.backup();
    let point =
        |s: &mut Session, name: &str| s.run(&format!("SELECT pg_create_restore_point('{name}')"));
    point(&mut scene.dba, "before the seal");
    let pass = stopped_at(&mut scene, &STEPS[4]);
    point(&mut scene.dba, "before the filter");
    open(&mut scene.dba, &STEPS[4]);
    scene.dba.run(&format!("SELECT pg_terminate_backend({})", pass.pid()));
    pass.join();
    scene.dba.run("CALL once.maintain()");
    point(&mut scene.dba, "with the filter");
    let late = scene.denied();
    scene.dba.run(&smuggle(&late).replace("2011-11-01", "2111-11-01"));
    point(&mut scene.dba, "after the row");
    scene.dba.run("SELECT pg_switch_wal()");
    let last: String = scene.dba.get("SELECT pg_walfile_name(pg_current_wal_lsn() - 1)");
    scene.dba.run("CHECKPOINT");
    wait::until("all is archived", || archive.join(&last).exists());
    for (target, refused) in [
        ("before the seal", &[&key][..]),
        ("before the filter", &[&key]),
        ("with the filter", &[&key]),
        ("after the row", &[&key, &late]),
    ] {
        println!("{target}");
        let copy = restored(&cluster, &backup, &archive, target);
        let refused: Vec<&str> = refused.iter().map(|key| key.as_str()).collect();
        if target == "before the filter" {
            copy.connect(scene.db.name()).run("DROP EVENT TRIGGER gate");
        }
        right(&copy, scene.db.name(), &refused);
    }
    pg_once_tests::warden::remove(&archive);
    pg_once_tests::warden::remove(&backup);
}

#[test]
fn a_backup_taken_while_a_filter_is_built() {
    let cluster = primary().start();
    let mut scene = lasting(&cluster);
    let key = much_to_do(&mut scene);
    scene.dba.run("UPDATE once.processed_events SET expires_at = '2111-01-01'");
    let pass = stopped_at(&mut scene, &STEPS[7]);
    let copy = cluster.standby();
    scene.dba.run(&format!("SELECT pg_terminate_backend({})", pass.pid()));
    pass.join();
    open(&mut scene.dba, &STEPS[7]);
    copy.promote();
    let mut s = copy.connect(scene.db.name());
    // The trigger at which the pass stood may be there or not.
    s.run("DROP TRIGGER IF EXISTS gate ON once.filter");
    right(&copy, scene.db.name(), &[&key]);
}

#[test]
fn a_dump_has_no_filters_and_they_are_made_anew() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let key = scene.denied();
    scene.dba.run(&smuggle(&key));
    scene.dba.run("CALL once.maintain()");
    let to = cluster.create("TEMPLATE template0");
    let mut dump = cluster.client("pg_dump");
    let mut dump =
        dump.args(["-d", scene.db.name()]).stdout(Stdio::piped()).spawn().expect("pg_dump");
    let mut load = cluster.client("psql");
    load.args(["-d", to.name(), "-qX", "-v", "ON_ERROR_STOP=1"]);
    account::run(load.stdin(dump.stdout.take().expect("a pipe")));
    assert!(dump.wait().expect("it was started").success());
    let mut s = to.session();
    for table in ["filter", "filter_day", "leaf_seal"] {
        assert_eq!(s.get::<i64>(&format!("SELECT count(*) FROM once.{table}")), 0, "{table}");
    }
    let tables = r"SELECT count(*) FROM pg_class WHERE relname ~ '^filter_[0-9a-f]{16}$'";
    assert_eq!(s.get::<i64>(tables), 0);
    refuses_all(&mut s);
    assert!(!claim(&mut s, &key));
    // The trigger came along, without a seal: a row that comes says nothing and harms nothing.
    s.run(&smuggle("after the restore"));
    assert!(!claim(&mut s, "after the restore"));
    s.run("CALL once.maintain()");
    assert_eq!(sealed(&mut s), [LEAF, OTHER]);
    assert!(!claim(&mut s, "after the restore") && !claim(&mut s, &key));
    refuses_all(&mut s);
    let late = denied(&mut s);
    s.run(&smuggle(&late));
    assert!(!claim(&mut s, &late));
}

#[test]
fn a_database_made_from_one_with_sealed_days_has_filters_of_its_own() {
    let cluster = clocked();
    let mut scene = Scene::new(&cluster);
    let template = scene.db.name().to_owned();
    drop(scene.claimer);
    let key = denied(&mut scene.dba);
    drop(scene.dba);
    wait::until("nobody is in it", || {
        cluster.connect("postgres").get_with::<i64>(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = $1",
            &[&template],
        ) == 0
    });
    let copy = cluster.create(&format!("TEMPLATE {template}"));
    let (mut s, mut old) = (copy.session(), cluster.connect(&template));
    assert_eq!(sealed(&mut s), [LEAF, OTHER]);
    assert!(claim(&mut s, "new") && claim(&mut old, "new"));
    s.run(&smuggle(&key));
    assert!(!claim(&mut s, &key) && !claim(&mut copy.session(), &key));
    refuses_all(&mut s);
    assert_eq!(sealed(&mut old), [LEAF, OTHER], "the one it was made from knows nothing of it");
    assert!(claim(&mut old, &key));
    old.run("CALL once.maintain()");
    s.run("CALL once.maintain()");
    refuses_all(&mut s);
    assert!(!claim(&mut s, &key));
    cluster.clock().set(noon(4));
}

#[test]
fn an_upgrade_in_place_uses_no_filter_of_before() {
    // Where only one major is being tested there is no later one; the run over all majors has it.
    for later in Server::later() {
        let old = Cluster::build().clocked().start();
        let mut scene = lasting(&old);
        let name = scene.db.name().to_owned();
        let key = scene.denied();
        scene.dba.run(&smuggle(&key).replace("2011-11-01", "2111-11-01"));
        scene.dba.run("CALL once.maintain()");
        drop((scene.dba, scene.claimer));
        old.connect("postgres").run("ALTER DATABASE with_pg_once ALLOW_CONNECTIONS true");
        let mut build = Cluster::build().server(later.clone());
        if later.major >= 18 {
            build = build.initdb("--no-data-checksums");
        }
        let new = build.start();
        old.stop("fast");
        new.stop("fast");
        let mut upgrade = later.command("pg_upgrade");
        upgrade.arg("-b").arg(&old.server().bin).arg("-B").arg(&later.bin).args(["-U", "postgres"]);
        upgrade.arg("-d").arg(old.folder().join("data")).arg("-D").arg(new.folder().join("data"));
        upgrade.arg("-s").arg(new.folder()).current_dir(new.folder());
        let done = account::output(&mut upgrade);
        if !done.status.success() {
            // A minor release of an older major can be ahead of the newer major's; see stores/upgrade.rs.
            println!("{} cannot take over this {}", later.major, old.server().major);
            continue;
        }
        new.start();
        let mut s = Session::open(new.endpoint(&name));
        assert_eq!(sealed(&mut s), [""; 0], "by no seal of before");
        right(&new, &name, &[&key]);
    }
}
