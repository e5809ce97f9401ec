//! The server as a child process of the real client, alone and with others on the same file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[path = "../../serving/tests/client/mod.rs"]
mod client;

use std::path::Path;

use convoke_mcp::{ToolReply, ToolServers};
use serde_json::{Map, Value, json};

const ANNA: &str = "123e4567-e89b-42d3-a456-426614174000";

fn servers(db: &Path, names: &[&str]) -> ToolServers {
    client::servers("todo_stdio", db, names)
}

async fn call(
    servers: &ToolServers,
    server: &str,
    tool: &str,
    arguments: Value,
    key: &str,
) -> ToolReply {
    client::call(
        servers,
        server,
        tool,
        arguments,
        Map::from_iter([("user_id".to_owned(), Value::from(ANNA))]),
        key,
    )
    .await
}

#[tokio::test]
async fn tasks_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("todo.db");
    let first = servers(&db, &["todo"]);
    let added = call(
        &first,
        "todo",
        "add_task",
        json!({"title": "buy milk"}),
        "k",
    )
    .await;
    first.shutdown().await;

    let second = servers(&db, &["todo"]);
    let listed = call(&second, "todo", "list_tasks", json!({}), "l").await;
    assert_eq!(listed.content, json!({"tasks": [added.content]}));
    assert_eq!(
        call(
            &second,
            "todo",
            "add_task",
            json!({"title": "buy milk"}),
            "k"
        )
        .await,
        added
    );
    second.shutdown().await;
}

#[tokio::test]
async fn processes_that_share_a_file_have_one_effect_per_key() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["one", "two", "three"];
    let servers = servers(&folder.path().join("todo.db"), &names);
    for round in 0..10 {
        let title = json!({"title": format!("task {round}")});
        let key = format!("key {round}");
        let (one, two, three) = tokio::join!(
            call(&servers, names[0], "add_task", title.clone(), &key),
            call(&servers, names[1], "add_task", title.clone(), &key),
            call(&servers, names[2], "add_task", title.clone(), &key),
        );
        assert!(!one.is_error, "{one:?}");
        assert_eq!(one, two);
        assert_eq!(two, three);
    }
    let listed = call(&servers, "one", "list_tasks", json!({}), "l").await;
    assert_eq!(listed.content["tasks"].as_array().unwrap().len(), 10);
    servers.shutdown().await;
}
