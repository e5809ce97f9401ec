//! Tests of the toolbox.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_model::SystemClock;
use convoke_tools::{Caller, FailureCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use uuid::Uuid;

use super::*;

/// Fake servers that have `tools`, as `desk.NAME` or by bare name, or fail with one code.
#[derive(Default)]
struct Servers {
    tools: Vec<&'static str>,
    failure: Option<&'static str>,
    called: Mutex<Vec<ToolRequest>>,
}

impl Tools for Servers {
    fn describe<'a>(
        &'a self,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Arc<ToolDescription>, Failure>> {
        let bare = tool.strip_prefix("desk.").unwrap_or(tool);
        let outcome = match self.failure {
            Some(code) => Err(Failure::no_effect(code, "no luck, desk.add, bank.add")),
            None if self.tools.contains(&bare) => Ok(ToolDescription {
                server: "desk".into(),
                tool: bare.into(),
                read_only: false,
                idempotent: false,
                description: String::new(),
                parameters: Arc::new(json!({})),
                output_schema: None,
            }),
            None => Err(Failure::no_effect(
                "desk.unknown_tool",
                format!("no `{tool}`"),
            )),
        };
        std::future::ready(outcome.map(Arc::new)).boxed()
    }

    fn call<'a>(&'a self, request: &'a ToolRequest) -> BoxFuture<'a, Result<ToolReply, Failure>> {
        self.called.lock().unwrap().push(request.clone());
        std::future::ready(Err(Failure::no_effect("desk.closed", "closed"))).boxed()
    }
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first.
    a: i64,
    b: i64,
}

fn add() -> RustTool {
    RustTool::new("add", "Adds.", |_, add: Add| async move {
        Ok::<_, ToolError>(json!({ "sum": add.a + add.b }))
    })
}

fn toolbox_over(servers: Servers, tools: impl IntoIterator<Item = RustTool>) -> Toolbox {
    let mut toolbox = Toolbox::new(Arc::new(servers), Arc::new(SystemClock)).unwrap();
    for tool in tools {
        toolbox.add(tool).unwrap();
    }
    toolbox
}

fn toolbox_with(tool: RustTool) -> Toolbox {
    toolbox_over(Servers::default(), [tool])
}

const CALLER: Caller = Caller::new(Uuid::from_u128(7), Uuid::from_u128(8));

fn request(tool: &str, arguments: Value) -> ToolRequest {
    let (server, tool) = tool.split_once('.').unwrap();
    ToolRequest {
        server: server.into(),
        tool: tool.into(),
        arguments: serde_json::from_value(arguments).unwrap(),
        injected: Map::new(),
        caller: CALLER,
        idempotency_key: "key".into(),
        timeout: Duration::from_secs(30),
    }
}

async fn refused(toolbox: &Toolbox, tool: &str, arguments: Value) -> Failure {
    toolbox.call(&request(tool, arguments)).await.unwrap_err()
}

#[tokio::test]
async fn a_tool_is_described_and_called() {
    let toolbox = toolbox_with(add());
    for name in ["add", "rust.add"] {
        let facts = toolbox.describe(name).await.unwrap();
        assert_eq!(
            (facts.server.as_str(), facts.tool.as_str()),
            ("rust", "add")
        );
        assert!(!facts.read_only && !facts.idempotent);
        assert_eq!(facts.description, "Adds.");
        assert_eq!(
            *facts.parameters,
            json!({
                "type": "object",
                "properties": {
                    "a": { "type": "integer", "format": "int64", "description": "The first." },
                    "b": { "type": "integer", "format": "int64" },
                },
                "required": ["a", "b"],
            })
        );
    }
    let reply = toolbox
        .call(&request("rust.add", json!({ "a": 2, "b": 3 })))
        .await
        .unwrap();
    assert_eq!(reply.content, json!({ "sum": 5 }));
    assert_eq!(
        (reply.text.as_str(), reply.is_error),
        (r#"{"sum":5}"#, false)
    );
}

#[tokio::test]
async fn describing_shares_the_schema() {
    let toolbox = toolbox_with(add());
    let first = toolbox.describe("rust.add").await.unwrap();
    let second = toolbox.describe("rust.add").await.unwrap();
    assert!(Arc::ptr_eq(&first.parameters, &second.parameters));
}

#[tokio::test]
async fn effects_are_as_declared() {
    let toolbox = toolbox_over(
        Servers::default(),
        [add().read_only(), add().idempotent().server("my-tools")],
    );
    assert!(toolbox.describe("rust.add").await.unwrap().read_only);
    let facts = toolbox.describe("my-tools.add").await.unwrap();
    assert_eq!(
        (facts.server.as_str(), facts.idempotent),
        ("my_tools", true)
    );
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_with_every_complaint() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let toolbox = toolbox_with(RustTool::new("add", "Adds.", move |_, add: Add| {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok::<_, ToolError>(add.a + add.b))
    }));
    let failure = refused(&toolbox, "rust.add", json!({ "a": "two" })).await;
    assert_eq!(
        (failure.code.as_str(), failure.kind),
        ("tool.arguments", FailureKind::NoEffect)
    );
    assert!(
        failure.message.contains("/a: \"two\" is not of type"),
        "{}",
        failure.message
    );
    assert!(
        failure.message.contains("\"b\" is a required property"),
        "{}",
        failure.message
    );
    // 2^63 is an integer to JSON Schema and no i64.
    let too_large = json!({ "a": 9_223_372_036_854_775_808_u64, "b": 0 });
    let failure = refused(&toolbox, "rust.add", too_large).await;
    assert_eq!(
        (failure.code.as_str(), failure.kind),
        ("tool.arguments", FailureKind::NoEffect)
    );
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_handler_that_errs_gives_an_error_reply() {
    let toolbox = toolbox_with(RustTool::new("add", "Adds.", |_, _: Add| async {
        Err::<(), _>(ToolError::new("sums.closed", "No sums today."))
    }));
    let reply = toolbox
        .call(&request("rust.add", json!({ "a": 1, "b": 1 })))
        .await
        .unwrap();
    assert!(reply.is_error);
    assert_eq!(
        reply.content,
        json!({ "code": "sums.closed", "message": "No sums today." })
    );
    assert_eq!(reply.text, "No sums today.");
}

#[tokio::test]
async fn a_handler_that_panics_leaves_the_outcome_unknown_and_the_task_alive() {
    let in_future = RustTool::new("late", "", |_, _: Map<String, Value>| async {
        tokio::task::yield_now().await;
        assert!(std::hint::black_box(false), "no {}", "sums");
        Ok::<_, ToolError>(())
    });
    let at_once = RustTool::new("early", "", |_, _: Map<String, Value>| {
        assert!(std::hint::black_box(false), "no sums");
        std::future::ready(Ok::<_, ToolError>(()))
    });
    let toolbox = toolbox_over(Servers::default(), [in_future, at_once]);
    for tool in ["rust.late", "rust.early"] {
        let failure = refused(&toolbox, tool, json!({})).await;
        assert_eq!(
            (failure.code.as_str(), failure.kind),
            ("tool.panicked", FailureKind::Unknown)
        );
        assert!(failure.message.contains("no sums"), "{}", failure.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_leaves_the_outcome_unknown_unless_it_only_reads() {
    let slow = || {
        RustTool::new("slow", "", |_, _: Map<String, Value>| {
            std::future::pending::<Result<(), ToolError>>()
        })
    };
    let tools = [
        slow(),
        slow().server("reader").read_only(),
        slow().server("same").idempotent(),
    ];
    let toolbox = toolbox_over(Servers::default(), tools);
    for (tool, kind) in [
        ("rust.slow", FailureKind::Unknown),
        ("same.slow", FailureKind::Unknown),
        ("reader.slow", FailureKind::NoEffect),
    ] {
        let failure = refused(&toolbox, tool, json!({})).await;
        assert_eq!(
            (failure.code.as_str(), failure.kind),
            ("tool.timeout", kind),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn a_handler_gets_injected_values_that_arguments_cannot_override() {
    let toolbox = toolbox_with(RustTool::new(
        "who",
        "",
        |context, arguments: Map<String, Value>| async move {
            Ok::<_, ToolError>(json!({
                "key": context.idempotency_key,
                "injected": context.injected,
                "given": arguments,
                "seconds": context.timeout.as_secs(),
            }))
        },
    ));
    let mut request = request("rust.who", json!({ "user_id": "mallory", "n": 1 }));
    request.injected.insert("user_id".into(), json!("alice"));
    let reply = toolbox.call(&request).await.unwrap();
    let expected = json!({
        "key": "key", "injected": { "user_id": "alice" }, "given": { "n": 1 }, "seconds": 30,
    });
    assert_eq!(reply.content, expected);
}

#[tokio::test]
async fn a_bare_name_that_means_several_tools_is_refused_with_their_names() {
    let servers = || Servers {
        tools: vec!["add"],
        ..Servers::default()
    };
    for (toolbox, names) in [
        (toolbox_over(servers(), [add()]), "rust.add, desk.add"),
        (
            toolbox_over(Servers::default(), [add(), add().server("sums")]),
            "rust.add, sums.add",
        ),
        (
            toolbox_over(
                Servers {
                    failure: Some("mcp.ambiguous_tool"),
                    ..Servers::default()
                },
                [add()],
            ),
            "desk.add, bank.add",
        ),
    ] {
        let failure = toolbox.describe("add").await.unwrap_err();
        assert_eq!(
            (failure.code.as_str(), failure.kind),
            ("tool.ambiguous_tool", FailureKind::NoEffect)
        );
        assert!(failure.message.contains(names), "{}", failure.message);
        assert_eq!(toolbox.describe("rust.add").await.unwrap().server, "rust");
    }
}

#[tokio::test]
async fn an_unreachable_server_does_not_hide_a_rust_tool() {
    let toolbox = toolbox_over(
        Servers {
            failure: Some(FailureCode::ToolNotReached.as_str()),
            ..Servers::default()
        },
        [add()],
    );
    assert_eq!(toolbox.describe("add").await.unwrap().server, "rust");
    let failure = toolbox.describe("desk.pay").await.unwrap_err();
    assert!(failure.is(FailureCode::ToolNotReached), "{failure:?}");
}

#[tokio::test]
async fn other_tools_are_forwarded_to_the_servers() {
    let servers = Arc::new(Servers {
        tools: vec!["pay"],
        ..Servers::default()
    });
    let toolbox = Toolbox::new(servers.clone(), Arc::new(SystemClock)).unwrap();
    assert_eq!(toolbox.describe("pay").await.unwrap().server, "desk");
    assert_eq!(toolbox.describe("desk.pay").await.unwrap().server, "desk");
    let sent = request("desk.pay", json!({ "n": 1 }));
    assert_eq!(toolbox.call(&sent).await.unwrap_err().code, "desk.closed");
    assert_eq!(*servers.called.lock().unwrap(), [sent]);
}

#[tokio::test]
async fn an_unknown_tool_of_a_rust_server_is_reported_with_the_known_ones() {
    let toolbox = toolbox_with(add());
    let failure = toolbox.describe("rust.subtract").await.unwrap_err();
    assert_eq!(failure.code, "tool.unknown_tool");
    assert!(failure.message.contains("rust.add"), "{}", failure.message);
    let failure = refused(&toolbox, "builtin.shout", json!({})).await;
    assert_eq!(
        (failure.code.as_str(), failure.kind),
        ("tool.unknown_tool", FailureKind::NoEffect)
    );
    assert!(
        failure.message.contains("builtin.calculate"),
        "{}",
        failure.message
    );
}

#[test]
fn invalid_tools_are_rejected() {
    let mut toolbox = toolbox_with(add());
    let mut code = |tool: RustTool| toolbox.add(tool).unwrap_err().problems[0].code;
    let schema = |schema| {
        RustTool::with_schema("odd", "", schema, |_, _: Map<String, Value>| async {
            Ok::<_, ToolError>(())
        })
    };
    assert_eq!(code(add()), "tool.twice");
    assert_eq!(code(add().server("builtin")), "tool.server_reserved");
    assert_eq!(code(add().server("Rust Tools")), "name.pattern");
    assert_eq!(code(schema(json!({ "type": "string" }))), "tool.schema");
    assert_eq!(
        code(schema(json!({ "type": "object", "properties": 7 }))),
        "tool.schema"
    );
    for name in ["", "a.b", "ä", "a b", &"a".repeat(65)] {
        let odd = RustTool::new(name, "", |_, _: Add| async { Ok::<_, ToolError>(()) });
        assert_eq!(code(odd), "tool.name", "{name}");
    }
}

#[tokio::test]
async fn the_built_in_tools_are_always_there() {
    let toolbox = toolbox_over(Servers::default(), []);
    let content = |tool: &str, arguments| {
        let request = request(tool, arguments);
        let toolbox = &toolbox;
        async move { toolbox.call(&request).await.unwrap() }
    };
    let sum = content("builtin.calculate", json!({ "expression": "0.1 + 0.2" })).await;
    assert_eq!(sum.content, json!({ "result": 0.3 }));
    let zero = content("builtin.calculate", json!({ "expression": "1 / 0" })).await;
    assert!(zero.is_error);
    assert_eq!(
        zero.content,
        json!({ "code": "calculate.division_by_zero", "message": "at 3: division by zero" })
    );
    let time = content("builtin.current_time", json!({ "timezone": "Asia/Tokyo" })).await;
    assert!(
        time.content["time"].as_str().unwrap().ends_with("+09:00"),
        "{}",
        time.text
    );
    let none = content("builtin.current_time", json!({ "timezone": null })).await;
    assert_eq!(none.content["timezone"], "UTC");
    let long = json!({ "expression": "1".repeat(10_240) });
    assert_eq!(
        refused(&toolbox, "builtin.calculate", long).await.code,
        "tool.arguments"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_takes_its_time_and_has_a_limit() {
    let toolbox = toolbox_over(Servers::default(), []);
    let before = tokio::time::Instant::now();
    let mut waiting = request("builtin.wait", json!({ "seconds": MAX_WAIT_SECONDS }));
    waiting.timeout = Duration::from_secs(u64::from(MAX_WAIT_SECONDS) + 1);
    toolbox.call(&waiting).await.unwrap();
    assert_eq!(before.elapsed().as_secs(), u64::from(MAX_WAIT_SECONDS));
    for seconds in [
        json!(MAX_WAIT_SECONDS + 1),
        json!(-1),
        json!("soon"),
        json!(1e300),
    ] {
        let failure = refused(&toolbox, "builtin.wait", json!({ "seconds": seconds })).await;
        assert_eq!(failure.code, "tool.arguments", "{seconds}");
    }
    assert!(toolbox.describe("wait").await.unwrap().read_only);
}

#[tokio::test]
async fn a_result_above_the_limits_is_an_error_and_not_copied() {
    let limits = ToolLimits {
        result_bytes: 1_000,
        result_values: 100,
        ..ToolLimits::default()
    };
    let servers = Arc::new(Servers::default());
    let mut toolbox = Toolbox::within(servers, Arc::new(SystemClock), limits).unwrap();
    let text = |_, size: Map<String, Value>| async move {
        let size = usize::try_from(size["size"].as_u64().unwrap_or_default()).unwrap_or_default();
        Ok::<_, ToolError>("x".repeat(size))
    };
    let list = |_, size: Map<String, Value>| async move {
        let size = usize::try_from(size["size"].as_u64().unwrap_or_default()).unwrap_or_default();
        Ok::<_, ToolError>(vec![0; size])
    };
    toolbox.add(RustTool::new("text", "", text)).unwrap();
    toolbox.add(RustTool::new("list", "", list)).unwrap();
    for (tool, fits, exceeds) in [("rust.text", 998, 999), ("rust.list", 99, 100)] {
        let reply = toolbox.call(&request(tool, json!({ "size": fits }))).await;
        assert!(!reply.unwrap().is_error, "{tool}");
        let failure = refused(&toolbox, tool, json!({ "size": exceeds })).await;
        // The tool has run: what it did stays done, and it is not run again.
        assert_eq!(
            (failure.code.as_str(), failure.kind, failure.transient),
            ("tool.result_too_large", FailureKind::Answered, false),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn arguments_that_take_too_long_to_check_never_reach_the_handler() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let tool = RustTool::with_schema(
        "sum",
        "",
        json!({"type": "object", "properties": {"list": {"items": {"type": "integer"}}}}),
        move |_, _: Map<String, Value>| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok::<_, ToolError>(()))
        },
    );
    let toolbox = toolbox_with(tool);
    let list = |count: usize| json!({ "list": vec![1; count] });
    let reply = toolbox.call(&request("rust.sum", list(50_000))).await;
    assert!(!reply.unwrap().is_error);
    let failure = refused(&toolbox, "rust.sum", list(500_000)).await;
    assert_eq!(
        (failure.code.as_str(), failure.kind),
        ("tool.arguments_too_complex", FailureKind::NoEffect)
    );
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn a_tool_whose_schema_is_too_complex_is_not_added() {
    let properties: Map<String, Value> = (0..30_000)
        .map(|number| (format!("p{number}"), json!({})))
        .collect();
    let schema = json!({"type": "object", "properties": properties});
    let tool = RustTool::with_schema("wide", "", schema, |_, _: Map<String, Value>| {
        std::future::ready(Ok::<_, ToolError>(()))
    });
    let mut toolbox = toolbox_over(Servers::default(), []);
    let invalid = toolbox.add(tool).unwrap_err();
    assert_eq!(invalid.problems[0].code, "tool.schema_too_complex");
}
