//! A chat model over real HTTP that says what a script tells it, and records what it was asked.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt, Collected};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::scripted_reply::{Body, Reply};

/// One request that the model got.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// Path and query.
    pub uri: Uri,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; `null` if that was no JSON.
    pub body: Value,
}

/// What the model says to which request.
pub struct Script(Source);

enum Source {
    InOrder(Vec<Reply>),
    Always(Reply),
    By(Box<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>),
}

impl Script {
    /// A reply made from the request.
    pub fn by(reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self(Source::By(Box::new(reply)))
    }

    fn reply(&self, number: usize, asked: &RecordedRequest) -> Reply {
        match &self.0 {
            Source::Always(reply) => reply.clone(),
            Source::By(reply) => reply(asked),
            Source::InOrder(replies) => replies
                .get(number)
                .cloned()
                .unwrap_or_else(|| Reply::refusal(400, "the script has no more replies")),
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl From<Vec<Reply>> for Script {
    /// One after the other.
    fn from(replies: Vec<Reply>) -> Self {
        Self(Source::InOrder(replies))
    }
}

impl<const N: usize> From<[Reply; N]> for Script {
    /// One after the other.
    fn from(replies: [Reply; N]) -> Self {
        Self(Source::InOrder(replies.into()))
    }
}

impl From<Reply> for Script {
    /// The same every time.
    fn from(reply: Reply) -> Self {
        Self(Source::Always(reply))
    }
}

/// A running model. It ends when it is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    record: Arc<Record>,
    /// Owns the server's tasks.
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Record {
    script: Script,
    requests: Mutex<Vec<RecordedRequest>>,
    count: watch::Sender<usize>,
    under_way: AtomicUsize,
    most_at_once: AtomicUsize,
    connections: AtomicUsize,
}

impl ScriptedModel {
    /// Starts a model on a free port of this machine.
    pub async fn start(script: impl Into<Script>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let record = Arc::new(Record {
            script: script.into(),
            requests: Mutex::default(),
            count: watch::Sender::new(0),
            under_way: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, record.clone()));
        Ok(Self {
            address,
            record,
            _tasks: tasks,
        })
    }

    /// The base URL to configure.
    pub fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every request so far, in the order in which they came.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.record.lock().clone()
    }

    /// Waits until so many requests have come.
    pub async fn asked_times(&self, count: usize) {
        let mut seen = self.record.count.subscribe();
        // The sender lives as long as we do, so that this ends with the condition only.
        let _ = seen.wait_for(|&seen| seen >= count).await;
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.record.connections.load(Ordering::SeqCst)
    }

    /// How many requests were under way at the same time, at most.
    pub fn most_at_once(&self) -> usize {
        self.record.most_at_once.load(Ordering::SeqCst)
    }
}

impl Record {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<RecordedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let _counted = Counted::new(&self);
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(Collected::to_bytes);
        let asked = RecordedRequest {
            uri: head.uri,
            headers: head.headers,
            body: serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default(),
        };
        let number = {
            let mut requests = self.lock();
            requests.push(asked.clone());
            requests.len() - 1
        };
        self.count.send_modify(|count| *count += 1);
        let reply = self.script.reply(number, &asked);
        Ok(reply.response(&asked.body).await)
    }
}

/// Counts a request as under way, also when the client goes away in the middle of it.
struct Counted<'a>(&'a Record);

impl<'a> Counted<'a> {
    fn new(record: &'a Record) -> Self {
        let now = record.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        record.most_at_once.fetch_max(now, Ordering::SeqCst);
        Self(record)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(listener: TcpListener, record: Arc<Record>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        record.connections.fetch_add(1, Ordering::SeqCst);
        // Else the parts of a reply wait for each other's acknowledgement.
        let _ = socket.set_nodelay(true);
        while connections.try_join_next().is_some() {}
        let record = record.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| record.clone().answer(request));
            // A client that goes away, or a reply that is cut, ends a connection with an error.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}
