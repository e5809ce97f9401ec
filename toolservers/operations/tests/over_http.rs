//! The tools over streamable HTTP with the real client.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

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
        };
        let reply = self.servers.call(request).await.unwrap();
        if !reply.is_error {
            self.assert_fits(tool, &reply.content).await;
        }
        reply
    }

    /// Checks a result against the tool's output schema.
    async fn assert_fits(&self, tool: &str, content: &Value) {
        let tools = self.servers.tools("operations").await.unwrap();
        let result = tools.iter().find(|result| result.name == tool).unwrap();
        let schema = result.output_schema.as_deref().unwrap();
        assert_eq!(schema["additionalProperties"], false, "{schema}");
        let fits = jsonschema::validate(schema, content);
        assert!(fits.is_ok(), "{tool}: {fits:?}");
    }

    async fn result(&self, tool: &str, arguments: Value) -> Value {
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
async fn a_bad_release_is_found_and_rolled_back() {
    let operations = operations().await;
    let request = json!({"text": "Checkout is slow, please look!"});
    let found = operations.result("find_service", request).await;
    assert_eq!(found["service"], "checkout");
    assert_eq!(found["services"].as_array().unwrap().len(), 4);

    let checkout = json!({"service": "checkout"});
    let status = operations.result("service_status", checkout.clone()).await;
    assert_eq!(status["state"], "degraded");
    let recent = operations
        .result("recent_deployments", checkout.clone())
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

    let status = operations.result("service_status", checkout.clone()).await;
    assert_eq!(
        (&status["state"], &status["version"]),
        (&json!("healthy"), &json!("2.4.0"))
    );
    let change = operations.result("find_change", json!({"key": "k"})).await;
    assert_eq!(
        change,
        json!({"found": true, "change": done.content["change"]})
    );
    let changes = operations.result("list_changes", checkout).await;
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
        .result("find_change", json!({"key": "roll_back"}))
        .await;
    assert_eq!(none, json!({"found": false, "change": null}));
    operations.servers.shutdown().await;
}

#[tokio::test]
async fn the_machine_reports_what_it_can_measure() {
    let operations = operations().await;
    let health = operations.result("host_health", json!({})).await;
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
async fn the_annotations_of_the_tools_are_correct() {
    let operations = operations().await;
    let tools = operations.servers.tools("operations").await.unwrap();
    let annotations: Vec<_> = tools
        .iter()
        .map(|tool| {
            assert!(tool.output_schema.is_some(), "{tool:?}");
            let result = tool.annotations;
            assert_eq!(result.open_world, Some(false));
            (
                tool.name.as_str(),
                result.read_only,
                result.destructive,
                result.idempotent,
            )
        })
        .collect();
    let read_only_annotations = |name| (name, Some(true), None, None);
    let acting_annotations = |name| (name, Some(false), Some(true), Some(false));
    assert_eq!(
        annotations,
        [
            read_only_annotations("find_service"),
            read_only_annotations("service_status"),
            read_only_annotations("recent_deployments"),
            read_only_annotations("host_health"),
            read_only_annotations("find_change"),
            read_only_annotations("list_changes"),
            acting_annotations("restart_service"),
            acting_annotations("roll_back"),
        ]
    );
    operations.servers.shutdown().await;
}
