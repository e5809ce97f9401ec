//! Shared helpers of the client's tests: server locations and calls.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "json! reads better without a borrow"
)]

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use convoke_mcp::{McpError, Options, ToolReply, ToolRequest, ToolServers};
use convoke_model::McpServer;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const INSTALL: &str = "run tests/install-test-servers first";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn from_environment(name: &str, default: &str) -> PathBuf {
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment says where the test servers are"
    )]
    std::env::var_os(name).map_or_else(|| root().join(default), PathBuf::from)
}

/// The entry point of `@modelcontextprotocol/server-everything`.
pub(crate) fn everything() -> String {
    let modules = from_environment(
        "CONVOKE_TEST_NODE_MODULES",
        "target/test-servers/node_modules",
    );
    let script = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    assert!(
        script.exists(),
        "{} is missing: {INSTALL}",
        script.display()
    );
    script.display().to_string()
}

/// A Python that has `mcp-server-time`.
pub(crate) fn time_python() -> String {
    let python = from_environment("CONVOKE_TEST_PYTHON", "target/test-servers/venv/bin/python");
    assert!(
        python.exists(),
        "{} is missing: {INSTALL}",
        python.display()
    );
    python.display().to_string()
}

pub(crate) fn server(name: &str, transport: Value) -> McpServer {
    serde_json::from_value(json!({"name": name, "transport": transport})).unwrap()
}

pub(crate) fn with_short_timeout(server: McpServer) -> McpServer {
    server.with(|fields| fields.connect_seconds = 1).unwrap()
}

/// Options with short pauses, so that failing starts are quick.
pub(crate) fn options() -> Options {
    Options {
        backoff_first: Duration::from_millis(5),
        backoff_longest: Duration::from_millis(20),
        ..Options::default()
    }
}

pub(crate) fn request(server: &str, tool: &str, arguments: Value) -> ToolRequest {
    ToolRequest {
        server: server.to_owned(),
        tool: tool.to_owned(),
        arguments: object(arguments),
        injected: Map::new(),
        idempotency_key: "key-1".to_owned(),
        timeout: Some(Duration::from_mins(1)),
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

pub(crate) async fn call(
    servers: &ToolServers,
    server: &str,
    tool: &str,
    arguments: Value,
) -> Result<ToolReply, McpError> {
    servers.call(request(server, tool, arguments)).await
}

/// A scripted server with its own log.
pub(crate) struct Scripted {
    folder: TempDir,
    mode: &'static str,
}

impl Scripted {
    pub(crate) fn new(mode: &'static str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            mode,
        }
    }

    pub(crate) fn server(&self, name: &str) -> McpServer {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/scripted.py");
        server(
            name,
            json!({"stdio": {"command": "python3", "args": [script, self.log_path(), self.mode]}}),
        )
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The log lines that start with this word, without the word.
    pub(crate) fn logged(&self, word: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        log.lines()
            .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
            .map(str::to_owned)
            .collect()
    }

    pub(crate) fn pids(&self, word: &str) -> Vec<u32> {
        self.logged(word)
            .iter()
            .map(|pid| pid.parse().unwrap())
            .collect()
    }
}

/// Waits until a condition holds, with a time limit for tests that would never end.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let patience = Duration::from_mins(1);
    let waited = tokio::time::timeout(patience, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited in vain until {what}");
}

/// Whether a process runs. Zombies do not count.
pub(crate) fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .starts_with('Z')
    })
}

pub(crate) fn kill(pid: u32) {
    let status = Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// A real server on a port, stopped when dropped.
pub(crate) struct Listening {
    child: Child,
    pub(crate) port: u16,
}

impl Listening {
    /// Starts server-everything with this transport and waits until it accepts connections.
    pub(crate) async fn everything(transport: &str, port: Option<u16>) -> Self {
        let port = port.unwrap_or_else(free_port);
        let child = Command::new("node")
            .args([&everything(), transport])
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the server listens", || async move {
            tokio::net::TcpStream::connect(("localhost", port))
                .await
                .is_ok()
        })
        .await;
        Self { child, port }
    }

    /// Starts the scripted HTTP server, which prints its port.
    pub(crate) fn scripted_http() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/scripted_http.py");
        let mut child = Command::new("python3")
            .arg(script)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            child,
            port: line.trim().parse().unwrap(),
        }
    }

    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
