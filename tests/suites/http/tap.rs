//! A tap on the wire between a program and PostgreSQL: it passes every message on, and knows which statement is asked
//! for and when it is done. So a program is stopped, or killed, between two statements without knowing it.
//!
//! Rule: it listens on a Unix socket, where neither side asks for encryption first.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pg_once_tests::cluster::Cluster;
use pg_once_tests::{account, warden};

use crate::steps::{Moment, Steps, Then};

const SOCKET: &str = ".s.PGSQL.5432";

/// A tap before a cluster; its thread ends with the test's process.
pub(crate) struct Tap {
    folder: PathBuf,
    pub(crate) steps: Steps,
}

impl Tap {
    pub(crate) fn before(cluster: &Cluster) -> Tap {
        let folder = warden::folder("w");
        let socket = folder.join(SOCKET);
        let listener = UnixListener::bind(&socket).expect("our folder");
        account::hand_over(&socket);
        let (steps, server) = (Steps::default(), cluster.folder().join(SOCKET));
        let tap = Tap { folder, steps: steps.clone() };
        std::thread::spawn(move || {
            for program in listener.incoming().flatten() {
                // A server that is down answers nobody: then the program's connection closes too.
                if let Ok(server) = UnixStream::connect(&server) {
                    connect(program, server, &steps);
                }
            }
        });
        tap
    }

    /// The folder that a program takes for the server's.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The statement of a connection that is being worked on.
type Current = Arc<Mutex<String>>;

fn connect(program: UnixStream, server: UnixStream, steps: &Steps) {
    let current = Current::default();
    let (program_too, server_too) = (clone(&program), clone(&server));
    let (steps_too, current_too) = (steps.clone(), Arc::clone(&current));
    let steps = steps.clone();
    std::thread::spawn(move || {
        let _ = asking(&program, &server, &steps, &current);
        close(&program, &server);
    });
    std::thread::spawn(move || {
        let _ = answering(&server_too, &program_too, &steps_too, &current_too);
        close(&server_too, &program_too);
    });
}

/// From the program to the server.
fn asking(
    mut program: &UnixStream,
    mut server: &UnixStream,
    steps: &Steps,
    current: &Current,
) -> std::io::Result<()> {
    // The first message has no type.
    let start = body(program)?;
    server.write_all(&framed(None, &start))?;
    let mut prepared: HashMap<String, String> = HashMap::new();
    loop {
        let kind = byte(&mut program)?;
        let message = body(program)?;
        let words = strings(&message);
        let asked = match (kind, words.as_slice()) {
            (b'Q', [sql, ..]) => Some(sql.clone()),
            (b'P', [name, sql, ..]) => {
                prepared.insert(name.clone(), sql.clone());
                None
            }
            (b'B', [_, name, ..]) => prepared.get(name).cloned(),
            _ => None,
        };
        if let Some(sql) = asked {
            current.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&sql);
            if steps.reached(Moment::Before, &sql) == Then::Cut {
                return Ok(());
            }
        }
        server.write_all(&framed(Some(kind), &message))?;
    }
}

/// From the server to the program.
fn answering(
    mut server: &UnixStream,
    mut program: &UnixStream,
    steps: &Steps,
    current: &Current,
) -> std::io::Result<()> {
    loop {
        let kind = byte(&mut server)?;
        let message = body(server)?;
        if kind == b'Z' {
            // Ready for the next: what was asked for is done.
            let done = std::mem::take(&mut *current.lock().unwrap_or_else(PoisonError::into_inner));
            if !done.is_empty() && steps.reached(Moment::After, &done) == Then::Cut {
                return Ok(());
            }
        }
        program.write_all(&framed(Some(kind), &message))?;
    }
}

fn byte(from: &mut impl Read) -> std::io::Result<u8> {
    let mut one = [0];
    from.read_exact(&mut one)?;
    Ok(one[0])
}

/// A message without its type and length.
fn body(mut from: &UnixStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let rest = u32::from_be_bytes(length).saturating_sub(4);
    let mut message = vec![0; rest as usize];
    from.read_exact(&mut message)?;
    Ok(message)
}

fn framed(kind: Option<u8>, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len() + 4).expect("a message's length");
    let mut whole: Vec<u8> = kind.into_iter().collect();
    whole.extend(length.to_be_bytes());
    whole.extend(message);
    whole
}

/// The strings that a message begins with.
fn strings(message: &[u8]) -> Vec<String> {
    message.split(|byte| *byte == 0).take(2).map(|s| String::from_utf8_lossy(s).into()).collect()
}

fn clone(stream: &UnixStream) -> UnixStream {
    stream.try_clone().expect("a file descriptor")
}

fn close(one: &UnixStream, other: &UnixStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}
