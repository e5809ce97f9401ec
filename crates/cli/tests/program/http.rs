//! A client of the HTTP service: one request a connection, over a plain socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// A request that is being written down.
pub(crate) struct Request<'a> {
    address: &'a str,
    head: String,
    body: Vec<u8>,
}

/// An answer whose head has been read.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

enum Body {
    Sized(BufReader<TcpStream>, usize),
    Chunked(Chunks),
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SentEvent {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl<'a> Request<'a> {
    /// A request to an address such as `127.0.0.1:8080`.
    pub(crate) fn new(address: &'a str, method: &str, path: &str) -> Self {
        Self {
            address,
            head: format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n"),
            body: Vec::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head += name;
        self.head += ": ";
        self.head += value;
        self.head += "\r\n";
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = body.to_string().into_bytes();
        self.header("content-type", "application/json")
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Sends it and reads the head of the answer. Fails if the connection is refused or cut.
    pub(crate) fn try_send(mut self) -> std::io::Result<Answer> {
        let mut stream = TcpStream::connect(self.address)?;
        if !self.head.contains("\r\nhost: ") {
            self = Self {
                head: format!("{}host: {}\r\n", self.head, self.address),
                ..self
            };
        }
        let head = format!("{}content-length: {}\r\n\r\n", self.head, self.body.len());
        stream.write_all(head.as_bytes())?;
        // The answer may come before the body was read.
        let _ = stream.write_all(&self.body);
        read_head(BufReader::new(stream))
    }

    pub(crate) fn send(self) -> Answer {
        self.try_send().unwrap()
    }
}

fn cut() -> std::io::Error {
    std::io::ErrorKind::UnexpectedEof.into()
}

fn read_head(mut stream: BufReader<TcpStream>) -> std::io::Result<Answer> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).ok_or_else(cut)?.parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let header = |wanted: &str| {
        let found = headers.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str())
    };
    let body = match header("content-length") {
        Some(length) => Body::Sized(stream, length.parse().unwrap()),
        None if status == 204 => Body::Sized(stream, 0),
        None => {
            assert_eq!(header("transfer-encoding"), Some("chunked"), "{headers:?}");
            Body::Chunked(Chunks {
                stream,
                left: Vec::new(),
            })
        }
    };
    Ok(Answer {
        status,
        headers,
        body,
    })
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn try_text(self) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        match self.body {
            Body::Sized(mut stream, length) => {
                bytes.resize(length, 0);
                stream.read_exact(&mut bytes)?;
            }
            Body::Chunked(mut chunks) => {
                chunks.read_to_end(&mut bytes)?;
            }
        }
        Ok(String::from_utf8(bytes).unwrap())
    }

    pub(crate) fn text(self) -> String {
        self.try_text().unwrap()
    }

    pub(crate) fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The events of a stream, as they arrive. Ends with the stream, however that ends.
    pub(crate) fn events(self) -> impl Iterator<Item = SentEvent> {
        let Body::Chunked(chunks) = self.body else {
            panic!("no stream: {}", self.status)
        };
        let mut lines = BufReader::new(chunks).lines();
        std::iter::from_fn(move || {
            let mut event = SentEvent::default();
            loop {
                let line = lines.next()?.ok()?;
                if let Some(id) = line.strip_prefix("id: ") {
                    event.id = Some(id.to_owned());
                } else if let Some(name) = line.strip_prefix("event: ") {
                    name.clone_into(&mut event.name);
                } else if let Some(data) = line.strip_prefix("data: ") {
                    event.data = serde_json::from_str(data).unwrap();
                } else if line.is_empty() && !event.name.is_empty() {
                    return Some(event);
                }
            }
        })
    }
}

/// Reads the content of a chunked body.
struct Chunks {
    stream: BufReader<TcpStream>,
    left: Vec<u8>,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left.is_empty() {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim_end(), 16).map_err(|_| cut())?;
            self.left.resize(size + 2, 0);
            self.stream.read_exact(&mut self.left)?;
            self.left.truncate(size);
        }
        let taken = self.left.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&self.left[..taken]);
        self.left.drain(..taken);
        Ok(taken)
    }
}
