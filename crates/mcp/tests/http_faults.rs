//! What HTTP failures mean for a call.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod support;

use convoke_mcp::ToolServers;
use serde_json::json;
use support::{Listening, call, options, server};

#[tokio::test]
async fn the_status_decides_whether_a_call_may_have_had_an_effect() {
    let listening = Listening::scripted_http();
    let url = format!("http://127.0.0.1:{}/mcp", listening.port);
    let servers = ToolServers::new(vec![server("s", json!({"http": {"url": url}}))], options());
    let expected = [
        // Rejected before running.
        (400, "mcp.not_sent"),
        (401, "mcp.not_sent"),
        (403, "mcp.not_sent"),
        (413, "mcp.not_sent"),
        (429, "mcp.not_sent"),
        // A server behind it may have run the call.
        (500, "mcp.connection_lost"),
        (502, "mcp.connection_lost"),
        (503, "mcp.connection_lost"),
        (504, "mcp.connection_lost"),
        // Not a valid answer.
        (200, "mcp.connection_lost"),
        // No answer.
        (0, "mcp.connection_lost"),
    ];
    for (status, code) in expected {
        let error = call(&servers, "s", "answer", json!({"status": status}))
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "{status}: {error}");
        assert_eq!(error.had_no_effect(), code == "mcp.not_sent");
    }
    let made = call(&servers, "s", "calls", json!({})).await.unwrap().text;
    assert_eq!(
        made,
        expected.len().to_string(),
        "none of them was made twice"
    );
    servers.shutdown().await;
}
