//! A request to a model.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::{BlobHash, LlmConfig, Message, ToolCall};
use convoke_telemetry::TraceContext;
use serde_json::{Value, json};

/// One request. Everything is borrowed, and the body is written directly from it.
#[derive(Clone, Copy)]
pub struct ChatRequest<'a> {
    /// The model to ask, followed by fallbacks in order.
    pub models: &'a [LlmConfig],
    /// The system prompt; empty for none.
    pub system: &'a str,
    /// The conversation.
    pub messages: &'a [Message],
    /// The contents of the images that the messages carry, for models that understand images.
    pub images: &'a [ImageContent],
    /// The tools on offer.
    pub tools: &'a [ToolSpec],
    /// Names the calls in `messages` for the model.
    pub tool_names: &'a dyn ToolNames,
    /// Sampling temperature.
    pub temperature: f64,
    /// Limit of output tokens.
    pub max_output_tokens: Option<u32>,
    /// The format of the answer.
    pub output: Output<'a>,
    /// Whether to stream the answer.
    pub stream: bool,
    /// Time limit of all attempts together.
    pub time_left: Duration,
    /// How often the caller has postponed the request, if it waits for busy models itself. Pauses beyond
    /// [`Options::hold_pauses`](crate::Options::hold_pauses) are then left to it, as
    /// [`LlmError::retry_in`](crate::LlmError::retry_in).
    pub postponed: Option<u32>,
    /// The span that asks, if it belongs to a trace. The model's server is told.
    pub trace: Option<TraceContext>,
    /// Whether the request has a span and metrics of its own.
    pub measured: bool,
}

/// An image, under the name by which messages carry it.
#[derive(Clone)]
pub struct ImageContent {
    /// Its name.
    pub blob: BlobHash,
    /// All of it.
    pub content: Arc<[u8]>,
}

impl fmt::Debug for ImageContent {
    /// Hides the image, which may be private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageContent")
            .field("blob", &self.blob)
            .field("bytes", &self.content.len())
            .finish()
    }
}

impl<'a> ChatRequest<'a> {
    /// A plain-text request without tools, with 30 seconds to answer.
    pub fn new(models: &'a [LlmConfig], messages: &'a [Message]) -> Self {
        Self {
            models,
            system: "",
            messages,
            images: &[],
            tools: &[],
            tool_names: &JoinedNames,
            temperature: 0.7,
            max_output_tokens: None,
            output: Output::Text,
            stream: false,
            time_left: Duration::from_secs(30),
            postponed: None,
            trace: None,
            measured: true,
        }
    }
}

impl fmt::Debug for ChatRequest<'_> {
    /// Hides the conversation, which may be private.
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

/// The format of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub enum Output<'a> {
    /// Plain text.
    #[default]
    Text,
    /// JSON that matches a schema. A server without this feature fails with
    /// [`Unsupported`](crate::LlmProblem::Unsupported), and the caller may ask in the prompt instead.
    JsonSchema {
        /// Name of the schema: letters, digits, `_` and `-`.
        name: &'a str,
        schema: &'a Value,
    },
}

/// A tool as offered to a model. Serialized once; clones share it.
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
    /// A tool with this name (letters, digits, `_` and `-`, at most 64 characters) and a JSON Schema of
    /// its arguments.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: impl Into<Arc<Value>>,
    ) -> Self {
        let (name, description, parameters) = (name.into(), description.into(), parameters.into());
        // Several servers reject a function without an object schema, although the format allows it.
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

    pub fn name(&self) -> &str {
        &self.0.name
    }

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

/// Names past calls for the model, as the [`ToolSpec`] that was offered.
pub trait ToolNames: Sync {
    /// The name on the wire.
    fn wire_name<'c>(&'c self, call: &'c ToolCall) -> Cow<'c, str>;
}

/// Uses a closure as [`ToolNames`]. Returns its argument; it only helps the compiler infer that the name
/// may borrow from the call.
pub fn tool_names<F>(names: F) -> F
where
    F: for<'c> Fn(&'c ToolCall) -> Cow<'c, str> + Sync,
{
    names
}

/// `server__tool`, because the format does not allow a dot in a name.
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
