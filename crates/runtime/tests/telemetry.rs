//! What a whole run tells of itself: its trace, which models and tools are told too, its spans and its metrics.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use convoke::{AgentFields, IncomingRequest, Runtime, RustTool, ToolError, local_user};
use convoke_store::Viewer;
use convoke_telemetry::TraceContext;
use convoke_testkit::{RecordedMetrics, Reply, ScriptedModel};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry};

const CALLERS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// What was asked, which no span and no metric may repeat.
const QUESTION: &str = "What is 2 plus 40, for Ada?";

/// Remembers the spans of the process.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

struct Span {
    id: Id,
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Span {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        self.fields.insert(field.name(), value);
    }
}

impl Spans {
    fn of(&self, name: &str) -> Vec<BTreeMap<&'static str, String>> {
        let spans = self.0.lock().unwrap();
        let of = spans.iter().filter(|span| span.name == name);
        of.map(|span| span.fields.clone()).collect()
    }
}

impl<S: Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut span = Span {
            id: id.clone(),
            name: attributes.metadata().name(),
            fields: BTreeMap::new(),
        };
        attributes.record(&mut span);
        self.0.lock().unwrap().push(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        // Ids are used again; the newest span of an id is the one that is open.
        let open = spans.iter_mut().rev().find(|span| span.id == *id);
        values.record(open.unwrap());
    }
}

/// Metrics that a run without trouble does not have. The engine's tests make them.
const TROUBLE: [&str; 6] = [
    "convoke.claims",
    "convoke.leases.lost",
    "convoke.queue.backlog",
    "convoke.store.outages",
    "convoke.tasks.dropped",
    "convoke.tasks.refused",
];

#[tokio::test]
async fn a_run_tells_its_trace_its_spans_and_its_metrics() {
    let recorded = RecordedMetrics::install().unwrap();
    let spans = Spans::default();
    let ours = filter_fn(|metadata| metadata.target().starts_with("convoke"));
    registry().with(spans.clone().with_filter(ours)).init();
    let model = ScriptedModel::start([
        Reply::status(503),
        Reply::tool_calls([("add", json!({ "a": 2, "b": 40 }))]),
        Reply::text("42, Ada."),
    ]);
    let model = model.await.unwrap();
    let agent: AgentFields = serde_json::from_value(json!({
        "name": "clerk",
        "role": "Answers.",
        "system_prompt": "You are a clerk.",
        "tools": ["rust.add"],
        "llm_config": {
            "endpoint": model.endpoint(), "model": "scripted", "prices": { "input": 1.0, "output": 2.0 },
        },
    }))
    .unwrap();
    let told = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&told);
    let add = RustTool::new("add", "Adds.", move |context, add: Add| {
        *noted.lock().unwrap() = context.caller.trace;
        async move { Ok::<_, ToolError>(add.a + add.b) }
    });
    let data = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder()
        .agent(agent)
        .tool(add.read_only())
        .data(data.path())
        .build();
    let runtime = runtime.await.unwrap();
    let incoming = IncomingRequest::new(local_user(), QUESTION).trace(CALLERS.to_owned());
    let ended = runtime.ask(incoming).await.unwrap();
    assert_eq!(ended.answer.unwrap().text, "42, Ada.");
    let task = ended.facts.id;
    let record = runtime.store().task(&Viewer::System, task).await.unwrap();
    assert_eq!(record.unwrap().trace.as_deref(), Some(CALLERS));
    runtime.shutdown().await.unwrap();

    // The trace goes out with every request.
    let caller = TraceContext::parse(CALLERS).unwrap();
    let asked = model.requests();
    let asked: Vec<_> = asked
        .iter()
        .map(|asked| asked.headers["traceparent"].to_str().unwrap().to_owned())
        .collect();
    let chats = spans.of("chat");
    let parts = |of: &BTreeMap<&str, String>| format!("00-{}-{}-01", of["trace_id"], of["span_id"]);
    assert_eq!(
        asked,
        [parts(&chats[0]), parts(&chats[0]), parts(&chats[1])]
    );
    let tools = spans.of("execute_tool");
    assert_eq!(told.lock().unwrap().unwrap().to_string(), parts(&tools[0]));

    // Every span is below the one that caused it.
    let (steps, tasks) = (spans.of("step"), spans.of("invoke_agent"));
    assert_eq!((tasks.len(), tools.len(), chats.len()), (1, 1, 2));
    let (task_span, trace) = (&tasks[0], caller.trace_id().to_string());
    assert_eq!(task_span["parent_span_id"], caller.span_id().to_string());
    assert_eq!(task_span["span_id"], caller.at(task).span_id().to_string());
    assert_eq!(task_span["otel.name"], "invoke_agent clerk");
    assert_eq!(task_span["convoke.task.state"], "completed");
    for step in &steps {
        assert_eq!(step["parent_span_id"], task_span["span_id"]);
    }
    for below in tools.iter().chain(&chats) {
        let is_parent = |step: &&BTreeMap<&str, String>| step["span_id"] == below["parent_span_id"];
        assert!(steps.iter().any(|step| is_parent(&step)), "{below:?}");
        assert_eq!(below["trace_id"], trace);
    }
    assert_eq!(tools[0]["otel.name"], "execute_tool rust.add");
    let told = |name: &str| chats[0].get(name).map(String::as_str);
    assert_eq!(told("otel.name"), Some("chat scripted"));
    assert_eq!(told("gen_ai.operation.name"), Some("chat"));
    assert_eq!(told("gen_ai.request.model"), Some("scripted"));
    assert_eq!(told("gen_ai.response.finish_reasons"), Some("tool_calls"));
    assert_eq!(told("convoke.attempts"), Some("2"));
    assert!(told("gen_ai.usage.input_tokens").is_some());
    assert_described_without_words(&spans);
    assert_measured(&recorded);
}

#[tokio::test]
async fn an_agent_without_telemetry_has_no_spans_and_no_metrics_of_its_own() {
    let recorded = RecordedMetrics::install().unwrap();
    let spans = Spans::default();
    let ours = filter_fn(|metadata| metadata.target().starts_with("convoke"));
    registry().with(spans.clone().with_filter(ours)).init();
    let of_agent = || {
        let metrics = [
            "gen_ai.client.operation.duration",
            "gen_ai.client.token.usage",
        ];
        let measured = metrics.map(|name| recorded.of(name).len());
        let calls = recorded.labels_of("convoke.call.duration");
        let asked = calls.iter().filter(|labels| labels[0] == "model").count();
        (spans.of("chat").len(), measured, asked)
    };
    for (enable_telemetry, expected) in [(false, (0, [0, 0], 0)), (true, (1, [1, 2], 1))] {
        let model = ScriptedModel::start([Reply::text("Hello.")]).await.unwrap();
        let agent: AgentFields = serde_json::from_value(json!({
            "name": "clerk",
            "role": "Answers.",
            "system_prompt": "You are a clerk.",
            "llm_config": { "endpoint": model.endpoint(), "model": "scripted" },
            "limits": { "enable_telemetry": enable_telemetry },
        }))
        .unwrap();
        let data = tempfile::tempdir().unwrap();
        let runtime = Runtime::builder().agent(agent).data(data.path()).build();
        let runtime = runtime.await.unwrap();
        assert_eq!(runtime.run(QUESTION).await.unwrap().text, "Hello.");
        runtime.shutdown().await.unwrap();
        assert_eq!(of_agent(), expected, "{enable_telemetry}");
        // The trace goes on all the same.
        assert!(model.requests()[0].headers.contains_key("traceparent"));
    }
}

/// The page has every attribute, and none of them has a word of what was said.
fn assert_described_without_words(spans: &Spans) {
    let page = include_str!("../../../docs/telemetry.md");
    for span in spans.0.lock().unwrap().iter() {
        assert!(
            page.contains(&format!("| `{}` |", span.name)),
            "{}",
            span.name
        );
        for (name, value) in &span.fields {
            assert!(page.contains(&format!("`{name}`")), "{name}");
            assert!(!value.contains("Ada"), "{name}: {value}");
        }
    }
}

/// Every metric of a run without trouble is there, with its labels.
fn assert_measured(recorded: &RecordedMetrics) {
    let known = convoke_telemetry::metrics::ALL.iter();
    // Those of the HTTP service are recorded by it.
    let known = known.filter(|metric| !metric.name.starts_with("http.server."));
    let usual = known.filter(|metric| !TROUBLE.contains(&metric.name));
    for metric in usual {
        let values = recorded.of(metric.name);
        assert!(!values.is_empty(), "{}", metric.name);
        for value in values {
            assert_eq!(value.labels.len(), metric.labels.len(), "{}", metric.name);
            assert!(value.labels.iter().all(|label| !label.contains("Ada")));
        }
    }
    let of = |name| recorded.labels_of(name).into_iter().collect::<Vec<_>>();
    assert_eq!(of("convoke.tasks.accepted"), [["clerk", "terminal"]]);
    assert_eq!(of("convoke.tasks.ended"), [["clerk", "completed"]]);
    assert_eq!(of("convoke.tool.duration"), [["rust.add", "ok"]]);
    assert_eq!(of("convoke.retries"), [["model"]]);
    assert_eq!(recorded.of("gen_ai.client.token.usage").len(), 4);
    assert!(recorded.sum_of("convoke.model.cost") > 0.0);
}
