//! The tools over streamable HTTP with the real client.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::net::{Ipv4Addr, SocketAddr};

use convoke_mcp::{Options, ToolReply, ToolRequest, ToolServers};
use convoke_todo::{HttpServer, MCP_PATH};
use futures::future::join_all;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const ANNA: &str = "123e4567-e89b-42d3-a456-426614174000";
const BEN: &str = "223e4567-e89b-42d3-a456-426614174000";

struct Todo {
    servers: ToolServers,
    addr: SocketAddr,
    _folder: TempDir,
    _running: JoinSet<()>,
}

async fn todo() -> Todo {
    let folder = tempfile::tempdir().unwrap();
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = HttpServer::bind(&folder.path().join("todo.db"), anywhere)
        .await
        .unwrap();
    let addr = server.local_addr();
    let mut running = JoinSet::new();
    running.spawn(async move { server.run().await.unwrap() });
    let url = format!("http://{addr}{MCP_PATH}");
    let config = json!({"name": "todo", "transport": {"http": {"url": url}}});
    let servers = ToolServers::new(
        vec![serde_json::from_value(config).unwrap()],
        Options::default(),
    );
    Todo {
        servers,
        addr,
        _folder: folder,
        _running: running,
    }
}

impl Todo {
    /// A call as the engine makes it, with the user id injected.
    async fn call_with_key(
        &self,
        user: &str,
        tool: &str,
        arguments: Value,
        key: &str,
    ) -> ToolReply {
        let request = ToolRequest {
            server: "todo".to_owned(),
            tool: tool.to_owned(),
            arguments: serde_json::from_value(arguments).unwrap(),
            injected: Map::from_iter([("user_id".to_owned(), Value::from(user))]),
            idempotency_key: key.to_owned(),
            timeout: None,
        };
        self.servers.call(request).await.unwrap()
    }

    async fn call(&self, user: &str, tool: &str, arguments: Value) -> ToolReply {
        let key = format!("{user} {tool} {arguments}");
        self.call_with_key(user, tool, arguments, &key).await
    }

    async fn titles(&self, user: &str, status: &str) -> Vec<String> {
        let reply = self
            .call(user, "list_tasks", json!({"status": status}))
            .await;
        let tasks = reply.content["tasks"].as_array().unwrap();
        tasks
            .iter()
            .map(|task| task["title"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn refused(reply: &ToolReply, code: &str) {
    assert!(reply.is_error, "{reply:?}");
    assert_eq!(reply.content["code"], code, "{reply:?}");
    assert_eq!(reply.content["message"], reply.text.as_str());
    assert!(reply.text.ends_with('.'), "{reply:?}");
}

#[tokio::test]
async fn a_task_is_added_listed_renamed_completed_and_deleted() {
    let todo = todo().await;
    let added = todo
        .call(ANNA, "add_task", json!({"title": "  buy milk "}))
        .await;
    assert!(!added.is_error, "{added:?}");
    assert_eq!(added.content["title"], "buy milk");
    assert_eq!(added.content["is_completed"], false);
    assert!(added.content["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(added.content.get("completed_at"), None);
    assert_eq!(
        serde_json::from_str::<Value>(&added.text).unwrap(),
        added.content
    );
    let id = &added.content["id"];

    let renamed = todo
        .call(
            ANNA,
            "update_task",
            json!({"task_id": id, "title": "buy oat milk"}),
        )
        .await;
    assert_eq!(renamed.content["title"], "buy oat milk");
    assert_eq!(todo.titles(ANNA, "pending").await, ["buy oat milk"]);

    let completed = todo
        .call(ANNA, "complete_task", json!({"task_id": id}))
        .await;
    assert_eq!(completed.content["is_completed"], true);
    assert!(completed.content["completed_at"].is_string());
    assert!(todo.titles(ANNA, "pending").await.is_empty());
    assert_eq!(todo.titles(ANNA, "completed").await, ["buy oat milk"]);

    let deleted = todo.call(ANNA, "delete_task", json!({"task_id": id})).await;
    assert_eq!(deleted.content["title"], "buy oat milk");
    assert!(todo.titles(ANNA, "all").await.is_empty());
    todo.servers.shutdown().await;
}

#[tokio::test]
async fn refusals_have_a_code_and_a_sentence() {
    let todo = todo().await;
    let blank = todo.call(ANNA, "add_task", json!({"title": "   "})).await;
    refused(&blank, "todo.title");
    refused(
        &todo.call("anna", "add_task", json!({"title": "x"})).await,
        "todo.user_id",
    );
    refused(
        &todo.call("anna", "list_tasks", json!({})).await,
        "todo.user_id",
    );
    let vague = todo
        .call(ANNA, "complete_task", json!({"task_id": "the first one"}))
        .await;
    refused(&vague, "todo.task_id");
    let missing = todo
        .call(ANNA, "delete_task", json!({"task_id": BEN}))
        .await;
    refused(&missing, "todo.task_not_found");
    todo.servers.shutdown().await;
}

#[tokio::test]
async fn one_user_never_sees_or_touches_anothers_tasks() {
    let todo = todo().await;
    let id = todo
        .call(ANNA, "add_task", json!({"title": "private"}))
        .await
        .content["id"]
        .clone();
    for (tool, arguments) in [
        ("complete_task", json!({"task_id": id, "user_id": ANNA})),
        ("delete_task", json!({"task_id": id})),
        ("update_task", json!({"task_id": id, "title": "x"})),
    ] {
        refused(
            &todo.call(BEN, tool, arguments).await,
            "todo.task_not_found",
        );
    }
    assert!(todo.titles(BEN, "all").await.is_empty());
    assert_eq!(todo.titles(ANNA, "pending").await, ["private"]);
    todo.servers.shutdown().await;
}

#[tokio::test]
async fn a_call_repeated_with_its_key_has_one_effect() {
    let todo = todo().await;
    let title = json!({"title": "once"});
    let calls = (0..20).map(|_| todo.call_with_key(ANNA, "add_task", title.clone(), "k"));
    let replies = join_all(calls).await;
    assert!(
        replies.iter().all(|reply| *reply == replies[0]),
        "{replies:?}"
    );
    assert_eq!(todo.titles(ANNA, "all").await, ["once"]);
    let other = todo
        .call_with_key(ANNA, "add_task", json!({"title": "twice"}), "k")
        .await;
    refused(&other, "todo.idempotency_key_reused");
    todo.servers.shutdown().await;
}

#[tokio::test]
async fn the_annotations_of_the_tools_are_correct() {
    let todo = todo().await;
    let tools = todo.servers.tools("todo").await.unwrap();
    let annotations: Vec<_> = tools
        .iter()
        .map(|tool| {
            assert!(
                tool.takes("user_id") && tool.output_schema.is_some(),
                "{tool:?}"
            );
            assert_eq!(tool.annotations.open_world, Some(false));
            let described = tool.annotations;
            (
                tool.name.as_str(),
                described.read_only,
                described.destructive,
                described.idempotent,
            )
        })
        .collect();
    assert_eq!(
        annotations,
        [
            ("add_task", Some(false), Some(false), Some(false)),
            ("list_tasks", Some(true), None, None),
            ("complete_task", Some(false), Some(false), Some(true)),
            ("delete_task", Some(false), Some(true), Some(true)),
            ("update_task", Some(false), Some(true), Some(true)),
        ]
    );
    todo.servers.shutdown().await;
}

async fn status_of(addr: SocketAddr, headers: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request = format!(
        "POST {MCP_PATH} HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Accept: application/json, text/event-stream\r\n{headers}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn browser_pages_and_foreign_host_names_are_rejected() {
    let todo = todo().await;
    let here = format!("Host: {}", todo.addr);
    assert_eq!(status_of(todo.addr, &here).await, "200");
    assert_eq!(status_of(todo.addr, "Host: rebound.example").await, "403");
    let page = format!("{here}\r\nOrigin: http://localhost:3000");
    assert_eq!(status_of(todo.addr, &page).await, "403");
    todo.servers.shutdown().await;
}
