//! What a model is asked.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::{LlmConfig, Message, ToolCall};
use convoke_telemetry::TraceContext;
use serde_json::{Value, json};

/// One question to a model. Everything is borrowed: the body is written straight from it.
#[derive(Clone, Copy)]
pub struct ChatRequest<'a> {
    /// The model to ask, then those to fall back to, in order.
    pub models: &'a [LlmConfig],
    /// The instruction that comes first; empty for none.
    pub system: &'a str,
    /// What was said so far.
    pub messages: &'a [Message],
    /// What the model may call.
    pub tools: &'a [ToolSpec],
    /// How the calls in `messages` are named to the model.
    pub tool_names: &'a dyn ToolNames,
    /// How freely the model samples.
    pub temperature: f64,
    /// The most that it may say.
    pub max_output_tokens: Option<u32>,
    /// What form the answer has.
    pub output: Output<'a>,
    /// Whether the answer is to come in pieces as it is made.
    pub stream: bool,
    /// How long all attempts together may take.
    pub time_left: Duration,
    /// The span that asks, if it belongs to a trace. The model's server is told.
    pub trace: Option<TraceContext>,
}

impl<'a> ChatRequest<'a> {
    /// A question in plain text, with no tools, and half a minute to answer it.
    pub fn new(models: &'a [LlmConfig], messages: &'a [Message]) -> Self {
        Self {
            models,
            system: "",
            messages,
            tools: &[],
            tool_names: &JoinedNames,
            temperature: 0.7,
            max_output_tokens: None,
            output: Output::Text,
            stream: false,
            time_left: Duration::from_secs(30),
            trace: None,
        }
    }
}

impl fmt::Debug for ChatRequest<'_> {
    /// Leaves out what was said, which is the user's own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatRequest")
            .field("models", &self.models)
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .field("stream", &self.stream)
            .field("time_left", &self.time_left)
            .finish_non_exhaustive()
    }
}

/// What form an answer has.
#[derive(Debug, Clone, Copy, Default)]
pub enum Output<'a> {
    /// Whatever the model says.
    #[default]
    Text,
    /// JSON that fits a schema. A server that cannot do this answers with
    /// [`Unsupported`](crate::LlmProblem::Unsupported), and the caller may ask for it in words.
    JsonSchema {
        /// What the schema is called: letters, digits, `_` and `-`.
        name: &'a str,
        /// The JSON Schema.
        schema: &'a Value,
    },
}

/// A tool as a model sees it. Its form on the wire is made once, and clones share it.
#[derive(Debug, Clone)]
pub struct ToolSpec(Arc<Spec>);

#[derive(Debug)]
struct Spec {
    name: String,
    description: String,
    parameters: Arc<Value>,
    wire: String,
}

impl ToolSpec {
    /// A tool of this name (letters, digits, `_` and `-`, at most 64) that takes what the JSON
    /// Schema `parameters` says.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: impl Into<Arc<Value>>,
    ) -> Self {
        let (name, description, parameters) = (name.into(), description.into(), parameters.into());
        // Several servers refuse a function without an object schema, though the format allows it.
        let shown = if parameters.is_object() {
            Cow::Borrowed(&*parameters)
        } else {
            Cow::Owned(json!({"type": "object", "properties": {}}))
        };
        let wire = json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": shown},
        })
        .to_string();
        Self(Arc::new(Spec {
            name,
            description,
            parameters,
            wire,
        }))
    }

    /// What the model calls it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is for.
    pub fn description(&self) -> &str {
        &self.0.description
    }

    /// The JSON Schema of its arguments.
    pub fn parameters(&self) -> &Arc<Value> {
        &self.0.parameters
    }

    pub(crate) fn wire(&self) -> &str {
        &self.0.wire
    }
}

/// How a call that was made is named to the model: as the [`ToolSpec`] that it was offered as.
pub trait ToolNames: Sync {
    /// The name on the wire.
    fn wire_name<'c>(&'c self, call: &'c ToolCall) -> Cow<'c, str>;
}

/// A closure as [`ToolNames`]. It gives back what it gets: only the compiler needs it, to see that the
/// name may borrow from the call.
pub fn tool_names<F>(names: F) -> F
where
    F: for<'c> Fn(&'c ToolCall) -> Cow<'c, str> + Sync,
{
    names
}

/// `server__tool`, because the format allows no dot in a name.
#[derive(Debug, Clone, Copy, Default)]
pub struct JoinedNames;

impl ToolNames for JoinedNames {
    fn wire_name<'c>(&'c self, call: &'c ToolCall) -> Cow<'c, str> {
        Cow::Owned(format!("{}__{}", call.server, call.tool))
    }
}

impl<F> ToolNames for F
where
    F: for<'c> Fn(&'c ToolCall) -> Cow<'c, str> + Sync,
{
    fn wire_name<'c>(&'c self, call: &'c ToolCall) -> Cow<'c, str> {
        self(call)
    }
}
