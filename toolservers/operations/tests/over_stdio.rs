//! The server as a child process of the real client, alone and with another one on the same folder.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[path = "../../serving/tests/client/mod.rs"]
mod client;

use std::path::Path;

use convoke_mcp::{ToolReply, ToolServers};
use serde_json::{Map, Value, json};

fn servers(folder: &Path, names: &[&str]) -> ToolServers {
    client::servers("operations_stdio", folder, names)
}

async fn call(
    servers: &ToolServers,
    server: &str,
    tool: &str,
    arguments: Value,
    key: &str,
) -> ToolReply {
    client::call(servers, server, tool, arguments, Map::new(), key).await
}

#[tokio::test]
async fn changes_survive_a_restart() {
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
async fn processes_that_share_a_folder_make_one_change_per_key() {
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
