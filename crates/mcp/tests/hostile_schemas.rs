//! Tool servers whose schemas are made to exhaust the checker.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[path = "support/large.rs"]
mod large;
mod support;

use convoke_mcp::{McpError, Options, ToolReply, ToolServers};
use convoke_testkit::peak_memory;
use large::LargeServer;
use serde_json::{Map, Value, json};
use support::{call, options, server};

/// Memory of a process that makes ordinary calls, plus the cached results of one check.
const BOUND: u64 = 96 * 1024 * 1024;

/// Calls a tool with this schema and returns the number of calls that arrived.
async fn called(schema: Value, deep: Value) -> (Result<ToolReply, McpError>, usize) {
    called_within(options(), schema, deep).await
}

async fn called_within(
    options: Options,
    schema: Value,
    deep: Value,
) -> (Result<ToolReply, McpError>, usize) {
    let large = LargeServer::with_schema(schema).await;
    let url = format!("http://{}/mcp", large.address);
    let servers = ToolServers::new(vec![server("s", json!({"http": {"url": url}}))], options);
    let outcome = call(&servers, "s", "text", json!({"size": 1, "deep": deep})).await;
    servers.shutdown().await;
    (outcome, large.calls())
}

fn bounded<F: Future<Output = ()>>(test: &str, scenario: impl FnOnce() -> F) {
    let peak = peak_memory(test, || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(scenario());
    });
    assert!(peak.is_none_or(|peak| peak < BOUND), "{peak:?}");
}

#[test]
fn definitions_that_double_at_every_level_are_checked() {
    let name = "definitions_that_double_at_every_level_are_checked";
    bounded(name, || async {
        let mut definitions = Map::new();
        for level in 0..25 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
        }
        definitions.insert("d25".into(), json!({"type": "integer"}));
        let schema = json!({
            "type": "object", "$defs": definitions, "properties": {"deep": {"$ref": "#/$defs/d0"}},
        });
        let (outcome, calls) = called(schema.clone(), json!(1)).await;
        assert_eq!((outcome.unwrap().text.as_str(), calls), ("x", 1));
        let (outcome, calls) = called(schema, json!("one")).await;
        assert_eq!(
            (outcome.unwrap_err().code(), calls),
            ("mcp.bad_arguments", 0)
        );
    });
}

#[test]
fn arguments_that_every_alternative_inspects_are_checked() {
    let name = "arguments_that_every_alternative_inspects_are_checked";
    bounded(name, || async {
        let list = json!({"type": "array", "items": {"$ref": "#/$defs/n"}});
        let schema = json!({
            "type": "object",
            "$defs": {"n": {"anyOf": [list, list, {"type": "integer"}]}},
            "properties": {"deep": {"$ref": "#/$defs/n"}},
        });
        let deep = |innermost| (0..20).fold(innermost, |value: Value, _| json!([value]));
        let (outcome, calls) = called(schema.clone(), deep(json!(1))).await;
        assert_eq!((outcome.unwrap().text.as_str(), calls), ("x", 1));
        let (outcome, calls) = called(schema, deep(json!("one"))).await;
        assert_eq!(
            (outcome.unwrap_err().code(), calls),
            ("mcp.bad_arguments", 0)
        );
    });
}

#[test]
fn a_schema_beyond_the_limits_is_rejected_without_a_call() {
    let name = "a_schema_beyond_the_limits_is_rejected_without_a_call";
    bounded(name, || async {
        let mut narrow = options();
        narrow.schema.schemas = 1_000;
        let properties: Map<String, Value> = (0..1_000)
            .map(|number| (format!("p{number}"), json!({"type": "integer"})))
            .collect();
        let wide = json!({"type": "object", "properties": properties});
        let (outcome, calls) = called_within(narrow, wide, json!(1)).await;
        let error = outcome.unwrap_err();
        assert_eq!(
            (error.code(), calls),
            ("tool.schema_too_complex", 0),
            "{error}"
        );
        assert!(error.had_no_effect() && !error.is_transient());
        let circle = json!({"type": "object", "allOf": [{"$ref": "#"}]});
        let (outcome, calls) = called(circle, json!(1)).await;
        let error = outcome.unwrap_err();
        assert_eq!(
            (error.code(), calls),
            ("tool.arguments_too_complex", 0),
            "{error}"
        );
        assert!(error.had_no_effect() && !error.is_transient());
    });
}
