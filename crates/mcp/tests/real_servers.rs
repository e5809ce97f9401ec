//! The client against third-party servers, over every transport.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod support;

use convoke_mcp::ToolServers;
use convoke_model::McpServer;
use futures::future::join_all;
use serde_json::{Value, json};
use support::{Listening, call, everything, options, request, server, time_python, until};

fn over_stdio(name: &str) -> McpServer {
    server(
        name,
        json!({"stdio": {
            "command": "node",
            "args": [everything(), "stdio"],
            "env": {"DECLARED": "by the app"},
        }}),
    )
}

/// Expectations of server-everything over any transport.
async fn everything_answers(servers: &ToolServers) {
    let tools = servers.tools("every").await.unwrap();
    let echo = tools.iter().find(|tool| tool.name == "echo").unwrap();
    assert_eq!(echo.server, "every");
    assert!(echo.takes("message"), "{echo:?}");

    let reply = call(servers, "every", "echo", json!({"message": "hello"}))
        .await
        .unwrap();
    assert_eq!(reply.text, "Echo: hello");
    assert_eq!(reply.content, json!({"text": "Echo: hello"}));
    assert!(!reply.is_error);

    let arguments = json!({"location": "Chicago"});
    let reply = call(servers, "every", "get-structured-content", arguments)
        .await
        .unwrap();
    assert!(reply.content["temperature"].is_number(), "{reply:?}");

    let reply = call(servers, "every", "get-tiny-image", json!({}))
        .await
        .unwrap();
    assert_eq!(
        reply.content["content"][0]["type"], "image",
        "{:?}",
        reply.text
    );

    let error = call(servers, "every", "echo", json!({"message": 1}))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "mcp.bad_arguments");
    let error = call(servers, "every", "no-such-tool", json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "mcp.unknown_tool");

    let sums = join_all(
        (0..50).map(|number| call(servers, "every", "get-sum", json!({"a": number, "b": 1}))),
    )
    .await;
    for (number, sum) in sums.into_iter().enumerate() {
        let text = sum.unwrap().text;
        assert!(text.contains(&format!("is {}.", number + 1)), "{text}");
    }
}

#[tokio::test]
async fn server_everything_answers_over_stdio() {
    let servers = ToolServers::new(vec![over_stdio("every")], options());
    everything_answers(&servers).await;
    servers.shutdown().await;
}

#[tokio::test]
async fn server_everything_answers_over_streamable_http() {
    let listening = Listening::everything("streamableHttp", None).await;
    let url = format!("http://localhost:{}/mcp", listening.port);
    let servers = ToolServers::new(
        vec![server("every", json!({"http": {"url": url}}))],
        options(),
    );
    everything_answers(&servers).await;
    servers.shutdown().await;
}

#[tokio::test]
async fn server_everything_answers_over_sse() {
    let listening = Listening::everything("sse", None).await;
    let url = format!("http://localhost:{}/sse", listening.port);
    let servers = ToolServers::new(
        vec![server("every", json!({"sse": {"url": url}}))],
        options(),
    );
    everything_answers(&servers).await;
    servers.shutdown().await;
}

#[tokio::test]
async fn the_time_server_answers() {
    let transport = json!({"stdio": {"command": time_python(), "args": ["-m", "mcp_server_time"]}});
    let servers = ToolServers::new(vec![server("time", transport)], options());
    let arguments = json!({
        "source_timezone": "Europe/Warsaw",
        "time": "16:30",
        "target_timezone": "Asia/Tokyo",
    });
    let reply = call(&servers, "time", "convert_time", arguments)
        .await
        .unwrap();
    assert!(!reply.is_error, "{reply:?}");
    let text = reply.content.to_string();
    assert!(
        text.contains("Asia/Tokyo") && text.contains(":30"),
        "{text}"
    );
    servers.shutdown().await;
}

#[tokio::test]
async fn a_child_process_gets_inherited_and_declared_variables() {
    let servers = ToolServers::new(vec![over_stdio("every")], options());
    let reply = call(&servers, "every", "get-env", json!({})).await.unwrap();
    let environment = support::object(reply.content);
    assert_eq!(
        environment.get("DECLARED"),
        Some(&Value::from("by the app"))
    );
    for name in environment.keys() {
        assert!(
            ["PATH", "HOME", "LANG", "TMPDIR", "DECLARED"].contains(&name.as_str()),
            "{name}"
        );
    }
    servers.shutdown().await;
}

/// Stops and restarts a server on the same port while a client stays connected.
async fn survives_a_restart(transport: &str, key: &str, path: &str) {
    let mut listening = Listening::everything(transport, None).await;
    let url = format!("http://localhost:{}{path}", listening.port);
    let servers = ToolServers::new(vec![server("every", json!({key: {"url": url}}))], options());
    call(&servers, "every", "echo", json!({"message": "one"}))
        .await
        .unwrap();

    listening.stop();
    // A call over a connection whose end is not yet noticed has an unknown outcome. Later calls are
    // known to be not sent.
    until("nobody is sent to", || async {
        let error = call(&servers, "every", "echo", json!({"message": "two"}))
            .await
            .unwrap_err();
        assert!(
            ["mcp.not_sent", "mcp.connection_lost"].contains(&error.code()),
            "{error}"
        );
        error.code() == "mcp.not_sent"
    })
    .await;

    let _listening = Listening::everything(transport, Some(listening.port)).await;
    let reply = call(&servers, "every", "echo", json!({"message": "three"}))
        .await
        .unwrap();
    assert_eq!(reply.text, "Echo: three");
    servers.shutdown().await;
}

#[tokio::test]
async fn a_streamable_http_server_may_restart() {
    survives_a_restart("streamableHttp", "http", "/mcp").await;
}

#[tokio::test]
async fn an_sse_server_may_restart() {
    survives_a_restart("sse", "sse", "/sse").await;
}

#[tokio::test]
async fn a_restart_between_two_calls_goes_unnoticed() {
    let mut listening = Listening::everything("streamableHttp", None).await;
    let url = format!("http://localhost:{}/mcp", listening.port);
    let servers = ToolServers::new(
        vec![server("every", json!({"http": {"url": url}}))],
        options(),
    );
    call(&servers, "every", "echo", json!({"message": "one"}))
        .await
        .unwrap();
    listening.stop();
    let _listening = Listening::everything("streamableHttp", Some(listening.port)).await;
    // The new server does not know the session, so it ran nothing and the call is sent again.
    let reply = call(&servers, "every", "echo", json!({"message": "two"}))
        .await
        .unwrap();
    assert_eq!(reply.text, "Echo: two");
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_dies_during_a_call_leaves_the_outcome_unknown() {
    for (transport, key, path) in [("streamableHttp", "http", "/mcp"), ("sse", "sse", "/sse")] {
        let mut listening = Listening::everything(transport, None).await;
        let url = format!("http://localhost:{}{path}", listening.port);
        let servers =
            ToolServers::new(vec![server("every", json!({key: {"url": url}}))], options());
        servers.tools("every").await.unwrap();
        let long = json!({"duration": 1000, "steps": 1});
        let under_way = servers.call(request("every", "trigger-long-running-operation", long));
        tokio::pin!(under_way);
        // Calls are sent in order: once this one is answered, the long one has been sent.
        let probe = async {
            let mut answered = 0;
            until("the long call has left", || {
                answered += 1;
                let enough = answered > 3;
                let servers = &servers;
                async move {
                    call(servers, "every", "echo", json!({"message": "x"}))
                        .await
                        .unwrap();
                    enough
                }
            })
            .await;
        };
        tokio::select! {
            outcome = &mut under_way => panic!("{outcome:?}"),
            () = probe => {}
        }
        listening.stop();
        let error = under_way.await.unwrap_err();
        assert_eq!(error.code(), "mcp.connection_lost", "{transport}: {error}");
        assert!(!error.had_no_effect());
        servers.shutdown().await;
    }
}
