//! Where a pass can be stopped: at every step of sealing, building, merging and putting away.

use pg_once_tests::background::Background;
use pg_once_tests::session::Session;
use pg_once_tests::wait;

use crate::scene::{Scene, claim, noon, smuggle};

/// A step, and what makes a pass sleep there.
pub(crate) type Step = (&'static str, Gate);

pub(crate) enum Gate {
    /// An event trigger: the event and the tag.
    Event(&'static str, &'static str),
    /// A row trigger: when, and the table.
    Row(&'static str, &'static str),
}

use Gate::{Event, Row};

pub(crate) const STEPS: [Step; 13] = [
    ("before the trigger is made", Event("ddl_command_start", "CREATE TRIGGER")),
    ("when the trigger is made", Event("ddl_command_end", "CREATE TRIGGER")),
    ("before the old seal goes", Row("BEFORE DELETE", "leaf_seal")),
    ("when the seal is written", Row("AFTER INSERT", "leaf_seal")),
    ("before the filter has a table", Event("ddl_command_start", "CREATE TABLE")),
    ("when the filter's table is there", Event("ddl_command_end", "CREATE TABLE")),
    ("when its pages are written", Row("BEFORE INSERT", "filter")),
    ("when the filter is named", Row("AFTER INSERT", "filter")),
    ("when its days are named", Row("AFTER INSERT", "filter_day")),
    ("when the one that was merged away is retired", Row("AFTER UPDATE", "filter")),
    ("when the seal is logged", Row("AFTER INSERT", "maintenance_log")),
    ("when the retired one is forgotten", Row("AFTER DELETE", "filter")),
    ("before its table is dropped", Event("ddl_command_start", "DROP TABLE")),
];

/// It is the 5th, and a row has come into the 2nd: the next pass seals the 4th, and the 2nd anew, builds a filter that
/// takes the old one in, and puts that away. The key of the row.
#[track_caller]
pub(crate) fn much_to_do(scene: &mut Scene<'_>) -> String {
    let key = scene.denied();
    scene.cluster.clock().set(noon(5));
    scene.dba.run("SET pg_once.filters = off");
    scene.dba.run("CALL once.maintain()");
    scene.dba.run("RESET pg_once.filters");
    assert!(claim(&mut scene.claimer, "on the 5th"));
    scene.dba.run(&smuggle(&key));
    key
}

/// A pass that stands still at a step.
#[track_caller]
pub(crate) fn stopped_at(scene: &mut Scene<'_>, step: &Step) -> Background<bool> {
    scene.dba.run(
        "CREATE FUNCTION public.halt() RETURNS void LANGUAGE plpgsql AS
             $$ BEGIN
                 FOR i IN 1..1200 LOOP
                     EXIT WHEN pg_catalog.current_setting('tests.halt', true) IS DISTINCT FROM 'on';
                     EXIT WHEN EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = 'go_on');
                     PERFORM pg_catalog.pg_sleep(0.05);
                 END LOOP;
             END $$;
         CREATE FUNCTION public.gate() RETURNS event_trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM public.halt(); END $$;
         CREATE FUNCTION public.gate_of_row() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM public.halt(); RETURN coalesce(NEW, OLD); END $$",
    );
    scene.dba.run(&match step.1 {
        Event(event, tag) => format!(
            "CREATE EVENT TRIGGER gate ON {event} WHEN TAG IN ('{tag}') EXECUTE FUNCTION public.gate()"
        ),
        Row(when, table) => format!(
            "CREATE TRIGGER gate {when} ON once.{table} FOR EACH ROW EXECUTE FUNCTION public.gate_of_row()"
        ),
    });
    let pass = scene.db.session().background(|s| {
        s.run("SET tests.halt = on");
        s.try_run("CALL once.maintain()").is_ok()
    });
    let pid = pass.pid();
    wait::until(step.0, || {
        assert!(!pass.done(), "the pass went by: {}", step.0);
        scene.dba.get_with::<bool>(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep')",
            &[&pid],
        )
    });
    pass
}

/// Lets the pass go on, which is not stopped again.
#[track_caller]
pub(crate) fn go_on(s: &mut Session, pass: Background<bool>) -> bool {
    s.run("CREATE TABLE public.go_on ()");
    pass.join().1
}

/// Takes the gate away again.
#[track_caller]
pub(crate) fn open(s: &mut Session, step: &Step) {
    match step.1 {
        Event(..) => s.run("DROP EVENT TRIGGER gate"),
        Row(_, table) => s.run(&format!("DROP TRIGGER gate ON once.{table}")),
    }
}

/// Everything is as it should be, before and after another pass, which leaves nothing behind.
#[track_caller]
pub(crate) fn whole(scene: &mut Scene<'_>, key: &str, what: &str) {
    println!("{what}");
    scene.refuses_all();
    scene.refuses(key);
    let other = scene.denied();
    scene.dba.run(&smuggle(&other));
    scene.refuses(&other);
    scene.sealed_anew(key, 3);
    scene.refuses(&other);
    scene.refuses_all();
    assert!(claim(&mut scene.claimer, &format!("new {what}")));
    tidy(scene);
}

/// No table of pages that no filter names, and no filter that waits to be put away.
#[track_caller]
pub(crate) fn tidy(scene: &mut Scene<'_>) {
    scene.dba.run("CALL once.maintain()");
    let tables: Vec<String> = scene.dba.column(
        r"SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'once'::regnamespace
             AND relname ~ '^filter_[0-9a-f]{16}$' ORDER BY 1",
    );
    let named: Vec<String> =
        scene.dba.column("SELECT pages_in::text FROM once.filter WHERE NOT retired ORDER BY 1");
    assert_eq!(tables, named);
    let members: i64 = scene.dba.get(
        r"SELECT count(*) FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass
           WHERE d.deptype = 'e' AND c.relname ~ '^filter_[0-9a-f]{16}$'",
    );
    assert_eq!(members, named.len() as i64, "each belongs to the extension");
}
