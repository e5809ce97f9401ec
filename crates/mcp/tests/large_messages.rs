//! Messages beyond the limit, over every transport: they are not read, whatever length they declare, and
//! those within the limit take a small multiple of their size in memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[path = "support/large.rs"]
mod large;
mod support;

use convoke_mcp::{McpError, Options, ToolReply, ToolServers};
use convoke_testkit::peak_memory;
use large::LargeServer;
use serde_json::{Value, json};
use support::{Scripted, call, options, server};

const MIB: u64 = 1024 * 1024;

/// Memory of a process that reads no large message, with a margin.
const AT_REST: u64 = 48 * MIB;

/// A limit far below what the servers send.
const LIMIT: usize = 256 * 1024;

fn limited(max_message_bytes: usize) -> Options {
    Options {
        max_message_bytes,
        connect_attempts: 1,
        ..options()
    }
}

/// Calls one tool of the large server over a transport.
async fn ask(
    transport: &str,
    options: Options,
    tool: &str,
    arguments: Value,
) -> Result<ToolReply, McpError> {
    let large = LargeServer::start().await;
    let path = if transport == "sse" { "legacy" } else { "mcp" };
    let url = format!("http://{}/{path}", large.address);
    let servers = ToolServers::new(vec![server("s", json!({transport: {"url": url}}))], options);
    let outcome = call(&servers, "s", tool, arguments).await;
    servers.shutdown().await;
    outcome
}

fn in_a_runtime<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

#[test]
fn an_endless_body_is_abandoned_at_the_limit() {
    let peak = peak_memory("an_endless_body_is_abandoned_at_the_limit", || {
        in_a_runtime(async {
            for tool in ["endless", "endless_stream", "too_long"] {
                let error = ask("http", limited(LIMIT), tool, json!({}))
                    .await
                    .unwrap_err();
                assert_eq!(error.code(), "tool.result_too_large", "{tool}: {error}");
                assert!(error.to_string().contains("262144"), "{tool}: {error}");
                // The server has answered, so the call has ended and is not repeated.
                assert!(!error.had_no_effect() && !error.is_transient());
            }
        });
    });
    assert!(peak.is_none_or(|peak| peak < AT_REST), "{peak:?}");
}

#[test]
fn an_endless_error_body_is_abandoned_too() {
    let peak = peak_memory("an_endless_error_body_is_abandoned_too", || {
        in_a_runtime(async {
            let error = ask("http", limited(LIMIT), "endless_error", json!({}))
                .await
                .unwrap_err();
            // The status means that the server failed at an unknown point.
            assert_eq!(error.code(), "mcp.connection_lost", "{error}");
        });
    });
    assert!(peak.is_none_or(|peak| peak < AT_REST), "{peak:?}");
}

#[test]
fn an_endless_event_ends_the_connection() {
    let peak = peak_memory("an_endless_event_ends_the_connection", || {
        in_a_runtime(async {
            for (transport, tool) in [("http", "endless_comment"), ("sse", "endless")] {
                let error = ask(transport, limited(LIMIT), tool, json!({}))
                    .await
                    .unwrap_err();
                assert!(
                    ["mcp.connection_lost", "tool.result_too_large"].contains(&error.code()),
                    "{transport}: {error}"
                );
                assert!(error.to_string().contains("262144"), "{transport}: {error}");
            }
        });
    });
    assert!(peak.is_none_or(|peak| peak < AT_REST), "{peak:?}");
}

#[tokio::test]
async fn a_body_shorter_than_it_claims_is_a_lost_answer() {
    let error = ask("http", limited(LIMIT), "too_short", json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "mcp.connection_lost", "{error}");
}

#[tokio::test]
async fn the_same_limit_holds_over_every_transport() {
    let (fits, exceeds) = (LIMIT - 4096, LIMIT + 1);
    for (transport, tool) in [("http", "text"), ("http", "text_stream"), ("sse", "text")] {
        let size = |size: usize| json!({ "size": size });
        let reply = ask(transport, limited(LIMIT), tool, size(fits)).await;
        assert_eq!(reply.unwrap().text.len(), fits, "{transport} {tool}");
        let error = ask(transport, limited(LIMIT), tool, size(exceeds)).await;
        let error = error.unwrap_err();
        assert!(
            error.to_string().contains("262144"),
            "{transport} {tool}: {error}"
        );
    }
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], limited(LIMIT));
    let echo = |size: usize| call(&servers, "s", "echo", json!({"text": "x".repeat(size)}));
    assert_eq!(echo(fits).await.unwrap().text.len(), fits);
    let error = echo(exceeds).await.unwrap_err();
    assert!(error.to_string().contains("262144"), "stdio: {error}");
    servers.shutdown().await;
}

#[test]
fn a_result_of_many_small_values_takes_a_small_multiple_of_its_size() {
    let name = "a_result_of_many_small_values_takes_a_small_multiple_of_its_size";
    let peak = peak_memory(name, || {
        in_a_runtime(async {
            for (tool, size) in [("numbers", 8_000_000), ("objects", 2_000_000)] {
                let size = json!({ "size": size });
                let error = ask("http", options(), tool, size).await.unwrap_err();
                assert_eq!(error.code(), "tool.result_too_large", "{tool}: {error}");
                assert!(error.to_string().contains("values"), "{tool}: {error}");
            }
        });
    });
    // Three of the copies are the server's.
    let limit = Options::default().max_message_bytes as u64;
    assert!(
        peak.is_none_or(|peak| peak < AT_REST + 4 * limit),
        "{peak:?}"
    );
}

#[test]
fn a_result_near_the_limit_takes_a_small_multiple_of_its_size() {
    let name = "a_result_near_the_limit_takes_a_small_multiple_of_its_size";
    let limit = Options::default().max_message_bytes;
    let peak = peak_memory(name, || {
        in_a_runtime(async {
            let size = limit - 1024;
            let reply = ask("http", options(), "letters", json!({ "size": size })).await;
            assert_eq!(reply.unwrap().text.len(), size);
            let size = Options::default().max_message_values - 100;
            let reply = ask("http", options(), "numbers", json!({ "size": size })).await;
            assert!(!reply.unwrap().is_error);
        });
    });
    // Two of the copies are the server's.
    assert!(
        peak.is_none_or(|peak| peak < AT_REST + 6 * limit as u64),
        "{peak:?}"
    );
}
