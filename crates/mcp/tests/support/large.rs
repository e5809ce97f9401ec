//! A tool server on loopback whose answers exceed the limits.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

/// The server; dropping it stops it.
pub(crate) struct LargeServer {
    pub(crate) address: SocketAddr,
    calls: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

/// The tools; their names describe their behaviour.
const TOOLS: [&str; 11] = [
    "endless",
    "endless_error",
    "endless_stream",
    "endless_comment",
    "too_long",
    "too_short",
    "text",
    "text_stream",
    "numbers",
    "objects",
    "letters",
];

/// State shared by all connections.
#[derive(Clone)]
struct World {
    /// The schema of every tool's arguments.
    schema: Arc<Value>,
    calls: Arc<AtomicUsize>,
    events: broadcast::Sender<String>,
}

impl LargeServer {
    pub(crate) async fn start() -> Self {
        Self::with_schema(json!({"type": "object"})).await
    }

    /// The number of calls that have arrived.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Starts the server with one schema for the arguments of all tools.
    pub(crate) async fn with_schema(schema: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let world = World {
            schema: Arc::new(schema),
            calls: Arc::default(),
            events: broadcast::channel(16).0,
        };
        let calls = Arc::clone(&world.calls);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(serve(connection, world.clone()));
            }
        });
        Self {
            address,
            calls,
            _serving: serving,
        }
    }
}

/// Serves one connection until the peer disconnects. An answer over legacy events goes to all streams.
async fn serve(connection: TcpStream, world: World) {
    let mut connection = BufReader::new(connection);
    while let Some((verb, body)) = read_request(&mut connection).await {
        if body["method"] == "tools/call" {
            world.calls.fetch_add(1, Ordering::SeqCst);
        }
        let done = match verb.as_str() {
            "GET" => stream(&mut connection, world.events.subscribe()).await,
            "POST /legacy" => legacy(&mut connection, &body, &world).await,
            "POST" => answer(&mut connection, &body, &world).await,
            _ => respond(&mut connection, "405 Method Not Allowed", "text/plain", "").await,
        };
        if done.is_err() {
            return;
        }
    }
}

async fn read_request(connection: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let (mut verb, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await.ok()?;
        let line = line.trim_end().to_ascii_lowercase();
        if verb.is_empty() {
            verb = match line.split(' ').take(2).collect::<Vec<_>>()[..] {
                ["get", "/legacy"] => "GET".to_owned(),
                ["post", "/legacy"] => "POST /legacy".to_owned(),
                ["post", _] => "POST".to_owned(),
                [] | [""] => return None,
                _ => "other".to_owned(),
            };
        } else if line.is_empty() {
            break;
        } else if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.ok()?;
    Some((verb, serde_json::from_slice(&body).unwrap_or_default()))
}

type Written = std::io::Result<()>;

async fn respond(
    connection: &mut BufReader<TcpStream>,
    status: &str,
    kind: &str,
    body: &str,
) -> Written {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(body.as_bytes()).await
}

/// Sends a body that never ends.
async fn endless(
    connection: &mut BufReader<TcpStream>,
    head: &str,
    first: &str,
    piece: &str,
) -> Written {
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(b"Connection: close\r\n\r\n").await?;
    connection.write_all(first.as_bytes()).await?;
    let block = piece.repeat(64 * 1024 / piece.len());
    loop {
        connection.write_all(block.as_bytes()).await?;
    }
}

/// The start of an answer whose text never ends.
const ENDLESS_TEXT: &str = r#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"#;

async fn answer(connection: &mut BufReader<TcpStream>, message: &Value, world: &World) -> Written {
    const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    let call = &message["params"];
    let filler = match call["name"].as_str() {
        Some("numbers") => "0,",
        Some("objects") => r#"{"a":0},"#,
        _ => "",
    };
    if !filler.is_empty() {
        // Written as text, because the server's own memory must not be measured.
        let begin = r#"{"jsonrpc":"2.0","id":"#;
        let values = filler.repeat(size(&call["arguments"]));
        let (id, values) = (&message["id"], values.trim_end_matches(','));
        let body = format!(
            r#"{begin}{id},"result":{{"content":[],"structuredContent":{{"n":[{values}]}}}}}}"#
        );
        return respond(connection, "200 OK", "application/json", &body).await;
    }
    if call["name"] == "letters" {
        let (id, text) = (&message["id"], "x".repeat(size(&call["arguments"])));
        let begin = r#"{"jsonrpc":"2.0","id":"#;
        let body =
            format!(r#"{begin}{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#);
        drop(text);
        return respond(connection, "200 OK", "application/json", &body).await;
    }
    let Some(result) = result(message, world) else {
        let (arguments, id) = (&message["params"]["arguments"], &message["id"]);
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}});
        return match message["params"]["name"].as_str() {
            Some("endless") => endless(connection, JSON, ENDLESS_TEXT, "x").await,
            Some("endless_error") => {
                let head = "HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\n";
                endless(connection, head, ENDLESS_TEXT, "x").await
            }
            Some("endless_stream") => {
                let first = format!("data: {ENDLESS_TEXT}");
                endless(connection, EVENTS, &first, "x").await
            }
            Some("endless_comment") => endless(connection, EVENTS, ":", "x").await,
            Some("too_long") => {
                let head = format!("{JSON}Content-Length: {}\r\n", u64::MAX / 4);
                endless(connection, &head, ENDLESS_TEXT, "x").await
            }
            Some("too_short") => {
                let head = format!("{JSON}Content-Length: 4000\r\n\r\n");
                connection.write_all(head.as_bytes()).await?;
                connection.write_all(ENDLESS_TEXT.as_bytes()).await?;
                Err(std::io::ErrorKind::ConnectionAborted.into())
            }
            Some("text_stream") => {
                let text = "x".repeat(size(arguments));
                let body = format!(
                    "data: {}\n\n",
                    reply(id, &json!({"content": [{"type": "text", "text": text}]}))
                );
                respond(connection, "200 OK", "text/event-stream", &body).await
            }
            _ if id.is_null() => respond(connection, "202 Accepted", "text/plain", "").await,
            _ => respond(connection, "200 OK", "application/json", &error.to_string()).await,
        };
    };
    let body = reply(&message["id"], &result);
    respond(connection, "200 OK", "application/json", &body).await
}

fn reply(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn size(arguments: &Value) -> usize {
    usize::try_from(arguments["size"].as_u64().unwrap_or_default()).unwrap()
}

/// The result of ordinary requests.
fn result(message: &Value, world: &World) -> Option<Value> {
    let params = &message["params"];
    match message["method"].as_str()? {
        "initialize" => Some(json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "large", "version": "1"},
        })),
        "tools/list" => Some(json!({
            "tools": TOOLS.map(|name| json!({"name": name, "inputSchema": *world.schema})),
        })),
        "tools/call" => {
            let text = || "x".repeat(size(&params["arguments"]));
            (params["name"] == "text")
                .then(|| json!({"content": [{"type": "text", "text": text()}]}))
        }
        _ => None,
    }
}

/// The event stream of the first protocol version.
async fn stream(
    connection: &mut BufReader<TcpStream>,
    mut events: broadcast::Receiver<String>,
) -> Written {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    connection.write_all(head.as_bytes()).await?;
    connection
        .write_all(b"event: endpoint\ndata: /legacy\n\n")
        .await?;
    while let Ok(data) = events.recv().await {
        if data.is_empty() {
            return endless_event(connection).await;
        }
        connection
            .write_all(format!("data: {data}\n\n").as_bytes())
            .await?;
    }
    Ok(())
}

async fn endless_event(connection: &mut BufReader<TcpStream>) -> Written {
    connection.write_all(b"data: ").await?;
    connection.write_all(ENDLESS_TEXT.as_bytes()).await?;
    let block = "x".repeat(64 * 1024);
    loop {
        connection.write_all(block.as_bytes()).await?;
    }
}

async fn legacy(connection: &mut BufReader<TcpStream>, message: &Value, world: &World) -> Written {
    let id = &message["id"];
    if !id.is_null() {
        let is_endless = message["params"]["name"] == "endless";
        let unknown =
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}});
        let data = match result(message, world) {
            Some(result) => reply(id, &result),
            None if is_endless => String::new(),
            None => unknown.to_string(),
        };
        let _ = world.events.send(data);
    }
    respond(connection, "202 Accepted", "text/plain", "").await
}
