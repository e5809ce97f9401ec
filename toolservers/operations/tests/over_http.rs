//! The rules of every tool, over streamable HTTP and the real client.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on ends here"
)]

use std::net::{Ipv4Addr, SocketAddr};

use convoke_mcp::{Options, ToolReply, ToolRequest, ToolServers};
use convoke_operations::{OperationsServer, Store};
use convoke_serving::{HttpServer, MCP_PATH, Sources};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

struct Operations {
    servers: ToolServers,
    _folder: TempDir,
    _running: JoinSet<()>,
}

async fn operations() -> Operations {
    let folder = tempfile::tempdir().unwrap();
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let handler = OperationsServer::new(Store::open(folder.path(), Sources::real()).unwrap());
    let server = HttpServer::bind(handler, anywhere).await.unwrap();
    let url = format!("http://{}{MCP_PATH}", server.local_addr());
    let mut running = JoinSet::new();
    running.spawn(async move { server.run().await.unwrap() });
    let config = json!({"name": "operations", "transport": {"http": {"url": url}}});
    let servers = ToolServers::new(
        vec![serde_json::from_value(config).unwrap()],
        Options::default(),
    );
    Operations {
        servers,
        _folder: folder,
        _running: running,
    }
}

impl Operations {
    async fn call(&self, tool: &str, arguments: Value, key: &str) -> ToolReply {
        let request = ToolRequest {
            server: "operations".to_owned(),
            tool: tool.to_owned(),
            arguments: serde_json::from_value(arguments).unwrap(),
            injected: Map::new(),
            idempotency_key: key.to_owned(),
            timeout: None,
            trace: None,
        };
        let reply = self.servers.call(request).await.unwrap();
        if !reply.is_error {
            self.assert_fits(tool, &reply.content).await;
        }
        reply
    }

    /// Every result is what the tool's own schema says.
    async fn assert_fits(&self, tool: &str, content: &Value) {
        let tools = self.servers.tools("operations").await.unwrap();
        let told = tools.iter().find(|told| told.name == tool).unwrap();
        let schema = told.output_schema.as_deref().unwrap();
        assert_eq!(schema["additionalProperties"], false, "{schema}");
        let fits = jsonschema::validate(schema, content);
        assert!(fits.is_ok(), "{tool}: {fits:?}");
    }

    async fn told(&self, tool: &str, arguments: Value) -> Value {
        let reply = self.call(tool, arguments, "looks").await;
        assert!(!reply.is_error, "{reply:?}");
        reply.content
    }
}

fn refused(reply: &ToolReply, code: &str) {
    assert!(reply.is_error, "{reply:?}");
    assert_eq!(reply.content["code"], code, "{reply:?}");
    assert_eq!(reply.content["message"], reply.text.as_str());
    assert!(reply.text.ends_with('.'), "{reply:?}");
}

#[tokio::test]
async fn a_bad_release_is_found_rolled_back_and_seen_to_be_well() {
    let operations = operations().await;
    let request = json!({"text": "Checkout is slow, please look!"});
    let found = operations.told("find_service", request).await;
    assert_eq!(found["service"], "checkout");
    assert_eq!(found["services"].as_array().unwrap().len(), 4);

    let checkout = json!({"service": "checkout"});
    let status = operations.told("service_status", checkout.clone()).await;
    assert_eq!(status["state"], "degraded");
    let recent = operations
        .told("recent_deployments", checkout.clone())
        .await;
    let bad = &recent["deployments"][0];
    assert_eq!(
        (&bad["version"], &bad["previous"]),
        (&json!("2.4.1"), &json!("2.4.0"))
    );

    let back =
        json!({"service": "checkout", "to_version": "2.4.0", "reason": "errors since 2.4.1"});
    let done = operations.call("roll_back", back.clone(), "k").await;
    assert!(!done.is_error, "{done:?}");
    assert_eq!(operations.call("roll_back", back.clone(), "k").await, done);
    assert_eq!(done.content["deployment"]["version"], "2.4.0");

    let status = operations.told("service_status", checkout.clone()).await;
    assert_eq!(
        (&status["state"], &status["version"]),
        (&json!("healthy"), &json!("2.4.0"))
    );
    let change = operations.told("find_change", json!({"key": "k"})).await;
    assert_eq!(
        change,
        json!({"found": true, "change": done.content["change"]})
    );
    let changes = operations.told("list_changes", checkout).await;
    assert_eq!(changes, json!({"changes": [done.content["change"]]}));
    let again = operations.call("roll_back", back, "another key").await;
    refused(&again, "operations.version_current");
    operations.servers.shutdown().await;
}

#[tokio::test]
async fn refusals_have_a_code_and_a_sentence() {
    let operations = operations().await;
    for (tool, arguments, code) in [
        (
            "service_status",
            json!({"service": "billing"}),
            "operations.service_not_found",
        ),
        (
            "restart_service",
            json!({"service": "search", "reason": "   "}),
            "operations.reason",
        ),
        (
            "roll_back",
            json!({"service": "search", "to_version": "9.9.9", "reason": "x"}),
            "operations.version_unknown",
        ),
    ] {
        refused(&operations.call(tool, arguments, tool).await, code);
    }
    let none = operations
        .told("find_change", json!({"key": "roll_back"}))
        .await;
    assert_eq!(none, json!({"found": false, "change": null}));
    operations.servers.shutdown().await;
}

#[tokio::test]
async fn the_machine_tells_what_it_can() {
    let operations = operations().await;
    let health = operations.told("host_health", json!({})).await;
    let facts = [
        "load_1",
        "load_5",
        "memory_used_percent",
        "disk_used_percent",
    ];
    for fact in facts {
        assert!(
            health[fact].is_number() || health[fact].is_null(),
            "{health}"
        );
    }
    assert_eq!(health.as_object().unwrap().len(), facts.len());
    operations.servers.shutdown().await;
}

#[tokio::test]
async fn the_tools_say_truly_what_they_do() {
    let operations = operations().await;
    let tools = operations.servers.tools("operations").await.unwrap();
    let said: Vec<_> = tools
        .iter()
        .map(|tool| {
            assert!(tool.output_schema.is_some(), "{tool:?}");
            let told = tool.annotations;
            assert_eq!(told.open_world, Some(false));
            (
                tool.name.as_str(),
                told.read_only,
                told.destructive,
                told.idempotent,
            )
        })
        .collect();
    let looks = |name| (name, Some(true), None, None);
    let acts = |name| (name, Some(false), Some(true), Some(false));
    assert_eq!(
        said,
        [
            looks("find_service"),
            looks("service_status"),
            looks("recent_deployments"),
            looks("host_health"),
            looks("find_change"),
            looks("list_changes"),
            acts("restart_service"),
            acts("roll_back"),
        ]
    );
    operations.servers.shutdown().await;
}
