//! Makes a hang a failure that can be read.
//!
//! Every statement is registered while it runs. One that outlives its session's patience gets the
//! locks and the activity of its server printed, then its backend is terminated, and at last killed,
//! so that the test fails with an error instead of standing still.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process, test_kill_process};

use crate::session::{Endpoint, Session};

struct Running {
    endpoint: Endpoint,
    pid: i32,
    statement: String,
    until: Instant,
    /// How often it has been acted upon.
    warnings: u32,
}

static RUNNING: Mutex<Option<HashMap<u64, Running>>> = Mutex::new(None);

/// A statement that is being watched until this is dropped.
pub(crate) struct Watched(u64);

/// Watches a statement from now on.
pub(crate) fn watch(endpoint: &Endpoint, pid: i32, statement: &str, patience: Duration) -> Watched {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    static MONITOR: Once = Once::new();
    MONITOR.call_once(|| {
        std::thread::Builder::new().name("hang monitor".into()).spawn(monitor).expect("a thread");
    });
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let running = Running {
        endpoint: endpoint.clone(),
        pid,
        statement: statement.chars().take(300).collect(),
        until: Instant::now() + patience,
        warnings: 0,
    };
    table(|all| all.insert(id, running));
    Watched(id)
}

impl Drop for Watched {
    fn drop(&mut self) {
        table(|all| all.remove(&self.0));
    }
}

fn table<R>(act: impl FnOnce(&mut HashMap<u64, Running>) -> R) -> R {
    let mut guard = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    act(guard.get_or_insert_with(HashMap::new))
}

fn monitor() {
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let mut overdue = Vec::new();
        table(|all| {
            for running in all.values_mut().filter(|r| Instant::now() > r.until) {
                running.warnings += 1;
                running.until = Instant::now() + Duration::from_secs(15);
                overdue.push((
                    running.endpoint.clone(),
                    running.pid,
                    running.statement.clone(),
                    running.warnings,
                ));
            }
        });
        for (endpoint, pid, statement, warnings) in overdue {
            if warnings == 1 {
                tell(&format!("HANG: backend {pid} is still at: {statement}"));
                // In a thread of its own: the server may not even let us in.
                std::thread::spawn(move || match Session::try_open(endpoint) {
                    Ok(mut observer) => {
                        tell(&report(&mut observer));
                        let _ = observer.try_run(&format!("SELECT pg_terminate_backend({pid})"));
                    }
                    Err(failure) => tell(&format!("and nobody else gets in: {failure}")),
                });
            } else {
                kill(pid);
            }
        }
    }
}

/// Says it at once: what `eprintln!` prints here would belong to whichever test started the monitor.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The locks and the activity of a server, as text.
pub fn report(observer: &mut Session) -> String {
    const LOCKS: &str = "SELECT concat_ws(' ', pid, locktype, relation::regclass, page, tuple, virtualxid, transactionid,
            classid, objid, objsubid, mode, CASE WHEN granted THEN 'granted' ELSE 'WAITING' END)
       FROM pg_locks WHERE pid <> pg_backend_pid() ORDER BY pid, granted, locktype";
    const ACTIVITY: &str = "SELECT concat_ws(' ', pid, datname, backend_type, application_name, state,
            wait_event_type, wait_event, 'blocked by', pg_blocking_pids(pid)::text, left(query, 120))
       FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type NOT IN
            ('checkpointer', 'background writer', 'walwriter', 'io worker') ORDER BY pid";
    let mut text = String::from("--- pg_locks\n");
    for (title, query) in [("", LOCKS), ("--- pg_stat_activity\n", ACTIVITY)] {
        text.push_str(title);
        match observer.try_column::<String>(query) {
            Ok(lines) => text.push_str(&lines.join("\n")),
            Err(failure) => text.push_str(&failure.to_string()),
        }
        text.push('\n');
    }
    text
}

/// SIGKILL to one process.
pub fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// A signal to one process.
pub fn signal(pid: i32, signal: Signal) {
    // It may have gone by itself: who kills wants that, and who does not looks for it.
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
}

/// SIGSEGV to one process: what a crash of it looks like to its parent.
pub fn crash(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a process id");
    kill_process(pid, Signal::SEGV).expect("the process is there");
}

/// Whether a process is there and is more than a zombie.
pub fn alive(pid: i32) -> bool {
    let there = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok());
    there && stat_field(pid, 0).is_some_and(|state| state != "Z")
}

/// The parent of a process.
pub fn parent(pid: i32) -> Option<i32> {
    stat_field(pid, 1)?.parse().ok()
}

/// A field of /proc/PID/stat, counted after the program's name in brackets.
fn stat_field(pid: i32, index: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(index).map(str::to_owned)
}
