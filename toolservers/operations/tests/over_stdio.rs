//! The server as a child process of the real client, alone and with another on the same folder.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on ends here"
)]

use std::path::{Path, PathBuf};

use convoke_mcp::{Options, ToolReply, ToolRequest, ToolServers};
use serde_json::{Map, Value, json};

fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/operations_stdio");
    assert!(
        program.exists(),
        "run cargo build -p convoke-operations --examples first"
    );
    program
}

fn servers(folder: &Path, names: &[&str]) -> ToolServers {
    let configs = names
        .iter()
        .map(|name| {
            let stdio = json!({"command": "convoke", "args": [folder]});
            let config = json!({"name": name, "transport": {"stdio": stdio}});
            serde_json::from_value(config).unwrap()
        })
        .collect();
    ToolServers::new(
        configs,
        Options {
            self_exe: Some(program()),
            ..Options::default()
        },
    )
}

async fn call(
    servers: &ToolServers,
    server: &str,
    tool: &str,
    arguments: Value,
    key: &str,
) -> ToolReply {
    let request = ToolRequest {
        server: server.to_owned(),
        tool: tool.to_owned(),
        arguments: serde_json::from_value(arguments).unwrap(),
        injected: Map::new(),
        idempotency_key: key.to_owned(),
        timeout: None,
    };
    servers.call(request).await.unwrap()
}

#[tokio::test]
async fn what_was_done_outlives_the_server() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("operations");
    let restart = json!({"service": "search", "reason": "it is down"});
    let first = servers(&folder, &["operations"]);
    let done = call(
        &first,
        "operations",
        "restart_service",
        restart.clone(),
        "k",
    )
    .await;
    assert!(!done.is_error, "{done:?}");
    first.shutdown().await;

    let second = servers(&folder, &["operations"]);
    let status = json!({"service": "search"});
    let status = call(&second, "operations", "service_status", status, "s").await;
    assert_eq!(status.content["state"], "healthy");
    let again = call(&second, "operations", "restart_service", restart, "k").await;
    assert_eq!(again, done);
    let changes = call(&second, "operations", "list_changes", json!({}), "l").await;
    assert_eq!(
        changes.content,
        json!({"changes": [done.content["change"]]})
    );
    second.shutdown().await;
}

#[tokio::test]
async fn processes_that_share_a_folder_make_one_change_for_one_key() {
    let home = tempfile::tempdir().unwrap();
    let servers = servers(&home.path().join("operations"), &["one", "two"]);
    for round in 0..5 {
        let restart = json!({"service": "inventory", "reason": "it is slow"});
        let key = format!("key {round}");
        let (one, two) = tokio::join!(
            call(&servers, "one", "restart_service", restart.clone(), &key),
            call(&servers, "two", "restart_service", restart.clone(), &key),
        );
        assert!(!one.is_error, "{one:?}");
        assert_eq!(one, two);
        assert_eq!(one.content["restarts"], round + 1);
    }
    let of_inventory = json!({"service": "inventory"});
    let status = call(&servers, "two", "service_status", of_inventory.clone(), "s").await;
    assert_eq!(status.content["state"], "degraded");
    let listed = call(&servers, "two", "list_changes", of_inventory, "l").await;
    assert_eq!(listed.content["changes"].as_array().unwrap().len(), 5);
    servers.shutdown().await;
}
