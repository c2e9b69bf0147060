//! A payment provider that keeps its word: one charge a key, and the first answer to whoever asks again.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::steps::{Moment, Steps, Then};

/// What it has been asked: for each key how often.
type Asked = Arc<Mutex<HashMap<String, usize>>>;

pub(crate) struct Provider {
    pub(crate) url: String,
    /// The text of a step is the request's body.
    pub(crate) steps: Steps,
    asked: Asked,
    /// The status of what it answers next, where that is not 201.
    status: Arc<Mutex<Option<u16>>>,
}

impl Provider {
    pub(crate) fn start() -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a port");
        let (steps, asked, status) = (Steps::default(), Asked::default(), Arc::default());
        let provider = Provider {
            url: format!("http://{address}/charges"),
            steps: steps.clone(),
            asked: Arc::clone(&asked),
            status: Arc::clone(&status),
        };
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (steps, asked, status) =
                    (steps.clone(), Arc::clone(&asked), Arc::clone(&status));
                std::thread::spawn(move || serve(&client, &steps, &asked, &status));
            }
        });
        provider
    }

    /// Lets its next answer have this status, and do nothing.
    pub(crate) fn fail_once(&self, status: u16) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    /// How often each charge was asked for.
    pub(crate) fn asked(&self) -> Vec<usize> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }
}

fn serve(
    client: &TcpStream,
    steps: &Steps,
    asked: &Asked,
    status: &Mutex<Option<u16>>,
) -> Option<()> {
    let mut reader = BufReader::new(client);
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let (name, value) = line.trim_end().split_once(':').unwrap_or_default();
        match name.to_lowercase().as_str() {
            "idempotency-key" => value.trim().trim_matches('"').clone_into(&mut key),
            "content-length" => length = value.trim().parse().ok()?,
            "" if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8_lossy(&body);
    if steps.reached(Moment::Before, &body) == Then::Cut {
        return None;
    }
    let wrong = status.lock().unwrap_or_else(PoisonError::into_inner).take();
    if wrong.is_none() {
        *asked.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default() += 1;
    }
    if steps.reached(Moment::After, &body) == Then::Cut {
        return None;
    }
    let answer = format!("{{\"id\": \"ch-{key}\"}}");
    let head = format!(
        "HTTP/1.1 {} Said\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        wrong.unwrap_or(201),
        answer.len()
    );
    let mut client = client;
    client.write_all((head + &answer).as_bytes()).ok()
}
