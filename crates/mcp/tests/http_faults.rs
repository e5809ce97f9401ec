//! What HTTP's many ways to fail mean for a call.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on ends here"
)]

mod support;

use convoke_mcp::ToolServers;
use serde_json::json;
use support::{Listening, call, options, server};

#[tokio::test]
async fn a_status_tells_whether_the_call_can_have_had_an_effect() {
    let listening = Listening::scripted_http();
    let url = format!("http://127.0.0.1:{}/mcp", listening.port);
    let servers = ToolServers::new(vec![server("s", json!({"http": {"url": url}}))], options());
    let told = [
        // Turned away at the door.
        (400, "mcp.not_sent"),
        (401, "mcp.not_sent"),
        (403, "mcp.not_sent"),
        (413, "mcp.not_sent"),
        (429, "mcp.not_sent"),
        // Whoever says this may not know what became of the call behind it.
        (500, "mcp.connection_lost"),
        (502, "mcp.connection_lost"),
        (503, "mcp.connection_lost"),
        (504, "mcp.connection_lost"),
        // An answer that is none.
        (200, "mcp.connection_lost"),
        // Silence.
        (0, "mcp.connection_lost"),
    ];
    for (status, code) in told {
        let error = call(&servers, "s", "answer", json!({"status": status}))
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "{status}: {error}");
        assert_eq!(error.had_no_effect(), code == "mcp.not_sent");
    }
    let made = call(&servers, "s", "calls", json!({})).await.unwrap().text;
    assert_eq!(made, told.len().to_string(), "none of them was made twice");
    servers.shutdown().await;
}
