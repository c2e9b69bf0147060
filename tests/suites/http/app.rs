//! One of the examples, running: a process of its own, on a port of its own, as the servers' user.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use pg_once_tests::{account, tools, wait, warden};

use crate::scene::Scene;

/// What an example is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
}

/// Every example there is.
pub(crate) const LANGUAGES: [Language; 2] = [Language::Python, Language::Node];

impl Language {
    fn folder(self) -> PathBuf {
        let name = match self {
            Language::Python => "python",
            Language::Node => "node",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/http").join(name)
    }

    /// The command of its first lines, in a folder that has a copy of it.
    fn command(self, place: &Path) -> Command {
        for file in std::fs::read_dir(self.folder()).expect("examples/http").flatten() {
            let name = file.file_name();
            if [".py", ".js", "package.json"].iter().any(|e| name.to_string_lossy().ends_with(e)) {
                std::fs::copy(file.path(), place.join(&name)).expect("a readable file");
                account::hand_over(&place.join(&name));
            }
        }
        match self {
            Language::Python => {
                let mut python = account::command("python3");
                python.args(["-B", "-m", "uvicorn", "charges:app", "--port", "0"]);
                python.env("PYTHONPATH", tools::path("PG_ONCE_HTTP_PYTHON"));
                python
            }
            Language::Node => {
                let packages = tools::path("PG_ONCE_HTTP_NODE");
                std::os::unix::fs::symlink(packages, place.join("node_modules"))
                    .expect("our folder");
                let mut node = account::command(tools::path("PG_ONCE_NODE"));
                node.arg("server.js").env("PORT", "0");
                node
            }
        }
    }
}

/// A running web server; killed when dropped.
pub(crate) struct App {
    pub(crate) port: u16,
    process: Process,
    folder: PathBuf,
}

/// Its process, for whoever kills it from elsewhere.
#[derive(Clone)]
pub(crate) struct Process(Arc<Mutex<Child>>);

impl Process {
    fn with<R>(&self, act: impl FnOnce(&mut Child) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// SIGKILL, and it is gone.
    pub(crate) fn kill(&self) {
        self.with(|child| {
            let _ = child.kill();
            child.wait().expect("our child");
        });
    }

    pub(crate) fn alive(&self) -> bool {
        self.with(|child| child.try_wait().expect("our child").is_none())
    }
}

impl App {
    /// Starts it for a scene's database, by way of whoever listens in `server`; `settings` are variables of its own.
    #[track_caller]
    pub(crate) fn start(
        language: Language,
        scene: &Scene<'_>,
        server: &Path,
        settings: &[(&str, &str)],
    ) -> App {
        let folder = warden::folder("h");
        let log = std::fs::File::create(folder.join("log")).expect("our folder");
        let mut command = language.command(&folder);
        for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        command.current_dir(&folder).env("PGHOST", server).env("PGPORT", "5432");
        command.env("PGUSER", &scene.role).env("PGDATABASE", scene.db.name());
        command.envs(settings.iter().copied()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // For the warden, should this process end in another way.
        std::fs::write(folder.join("app.pid"), format!("{}\n", child.id())).expect("our folder");
        let mut port = None;
        wait::until("the web server listens or ends", || {
            port = listening(&folder);
            port.is_some() || child.try_wait().expect("our child").is_some()
        });
        let process = Process(Arc::new(Mutex::new(child)));
        let Some(port) = port else { panic!("{language:?} does not start:\n{}", log_of(&folder)) };
        App { port, process, folder }
    }

    pub(crate) fn process(&self) -> Process {
        self.process.clone()
    }
}

fn log_of(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// The port that it says in its log.
fn listening(folder: &Path) -> Option<u16> {
    let log = log_of(folder);
    let (_, rest) = log.split_once("http://127.0.0.1:")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..digits].parse().ok()
}

impl Drop for App {
    fn drop(&mut self) {
        self.process.kill();
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}", self.folder.display(), log_of(&self.folder));
        }
        warden::remove(&self.folder);
    }
}
