//! A client of a web server: one request a connection, and a retry as retries are made.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use pg_once_tests::wait;

/// A request to be sent, once or again.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn post(path: &str, body: &str) -> Request {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        Request { path: path.to_owned(), headers, body: body.to_owned() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: &str) -> Request {
        body.clone_into(&mut self.body);
        self
    }

    /// Sends it and does not wait for the answer.
    pub(crate) fn begin(&self, port: u16) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut head = format!("POST {} HTTP/1.1\r\nHost: localhost\r\n", self.path);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Connection: close\r\nContent-Length: {}\r\n\r\n", self.body.len());
        stream.write_all((head + &self.body).as_bytes())?;
        Ok(stream)
    }

    /// Sends it; an error is that no whole answer came.
    pub(crate) fn try_send(&self, port: u16) -> std::io::Result<Reply> {
        let mut text = Vec::new();
        self.begin(port)?.read_to_end(&mut text)?;
        Reply::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    #[track_caller]
    pub(crate) fn send(&self, port: u16) -> Reply {
        self.try_send(port).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// Sends it again until there is an answer that is not to wait: what a client does.
    #[track_caller]
    pub(crate) fn insist(&self, port: u16) -> Reply {
        let mut last = None;
        wait::until("the request gets its answer", || {
            let reply = self.send(port);
            let again = reply.status == 409 || reply.status == 503;
            if again {
                // A client that is told to wait and does not is told so again.
                std::thread::sleep(Duration::from_millis(20));
            }
            last = Some(reply);
            !again
        });
        last.expect("it was sent")
    }
}

impl Reply {
    fn parse(text: &str) -> Option<Reply> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers =
            headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let reply = Reply { status, headers, body: body.to_owned() };
        let length = reply.header("content-length")?.parse::<usize>().ok()?;
        (length == body.len()).then_some(reply)
    }

    /// The value of a header, named in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Whether it says that it is a stored answer.
    pub(crate) fn replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// A field of its body.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> serde_json::Value {
        let body: serde_json::Value = serde_json::from_str(&self.body).expect("a body of JSON");
        body[name].clone()
    }
}
