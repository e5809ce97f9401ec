//! A chat model over real HTTP that follows a script and records its requests.

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

/// One recorded request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// Path and query.
    pub uri: Uri,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; `null` if it was not JSON.
    pub body: Value,
}

/// The replies of the model.
pub struct Script(Source);

enum Source {
    InOrder(Vec<Reply>),
    Always(Reply),
    By(Box<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>),
}

impl Script {
    /// Computes each reply from the request.
    pub fn by(reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self(Source::By(Box::new(reply)))
    }

    fn reply(&self, number: usize, request: &RecordedRequest) -> Reply {
        match &self.0 {
            Source::Always(reply) => reply.clone(),
            Source::By(reply) => reply(request),
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
    /// In sequence.
    fn from(replies: Vec<Reply>) -> Self {
        Self(Source::InOrder(replies))
    }
}

impl<const N: usize> From<[Reply; N]> for Script {
    /// In sequence.
    fn from(replies: [Reply; N]) -> Self {
        Self(Source::InOrder(replies.into()))
    }
}

impl From<Reply> for Script {
    /// The same reply to every request.
    fn from(reply: Reply) -> Self {
        Self(Source::Always(reply))
    }
}

/// A running model. Dropping it stops the server.
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
    running: AtomicUsize,
    max_concurrent: AtomicUsize,
    connections: AtomicUsize,
}

impl ScriptedModel {
    /// Starts a model on a free local port.
    pub async fn start(script: impl Into<Script>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let record = Arc::new(Record {
            script: script.into(),
            requests: Mutex::default(),
            count: watch::Sender::new(0),
            running: AtomicUsize::new(0),
            max_concurrent: AtomicUsize::new(0),
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

    /// The base URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// All requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.record.lock().clone()
    }

    /// Waits for this many requests.
    pub async fn wait_for_requests(&self, count: usize) {
        let mut seen = self.record.count.subscribe();
        // The sender lives as long as the model, so the wait ends only when the condition holds.
        let _ = seen.wait_for(|&seen| seen >= count).await;
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.record.connections.load(Ordering::SeqCst)
    }

    /// The maximum number of concurrent requests so far.
    pub fn max_concurrent(&self) -> usize {
        self.record.max_concurrent.load(Ordering::SeqCst)
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
        let request = RecordedRequest {
            uri: head.uri,
            headers: head.headers,
            body: serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default(),
        };
        let number = {
            let mut requests = self.lock();
            requests.push(request.clone());
            requests.len() - 1
        };
        self.count.send_modify(|count| *count += 1);
        let reply = self.script.reply(number, &request);
        Ok(reply.response(&request.body).await)
    }
}

/// Counts a request as running until dropped, even if the client disconnects.
struct Counted<'a>(&'a Record);

impl<'a> Counted<'a> {
    fn new(record: &'a Record) -> Self {
        let now = record.running.fetch_add(1, Ordering::SeqCst) + 1;
        record.max_concurrent.fetch_max(now, Ordering::SeqCst);
        Self(record)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(listener: TcpListener, record: Arc<Record>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        record.connections.fetch_add(1, Ordering::SeqCst);
        // Otherwise parts of a reply would wait for acknowledgements.
        let _ = socket.set_nodelay(true);
        while connections.try_join_next().is_some() {}
        let record = record.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| record.clone().answer(request));
            // A disconnecting client or a truncated reply ends the connection with an error.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}
