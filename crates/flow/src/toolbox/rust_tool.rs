//! A tool written in Rust: name, schema, effect and handler.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Invalid, Name};
use convoke_schema::{CheckError, Schema, SchemaError};
use futures::FutureExt;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::approval::ApprovalRule;
use super::limits::{ExceededLimit, ToolLimits};
use convoke_tools::checking;
use convoke_tools::{Caller, FailureCode, ToolDescription};

/// Default server of Rust tools.
pub const DEFAULT_SERVER: &str = "rust";

/// The longest tool name that all model APIs accept, in bytes.
const MAX_TOOL_NAME_LENGTH: usize = 64;

/// The effect of a call. It determines what happens if the outcome is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolEffect {
    /// No effect: it may be repeated at any time.
    ReadOnly,
    /// An effect that a repetition with the same key and arguments does not add to.
    Idempotent,
    /// An effect on each call: it is never repeated silently.
    #[default]
    Once,
}

/// Context of a call, besides its arguments.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolContext {
    /// The user and the task of the call. Neither a model nor an argument can change it.
    pub caller: Caller,
    /// The effect id: the same for every repetition of the call.
    pub idempotency_key: String,
    /// Values that the engine sets and the model cannot, such as the user's id.
    pub injected: Map<String, Value>,
    /// Time limit. The future is dropped when it is over.
    pub timeout: Duration,
}

impl ToolContext {
    /// A context without injected values, for calling a handler without a runtime.
    pub fn new(caller: Caller, idempotency_key: impl Into<String>, timeout: Duration) -> Self {
        Self {
            caller,
            idempotency_key: idempotency_key.into(),
            injected: Map::new(),
            timeout,
        }
    }
}

/// An error of a tool. The model sees it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// Stable and greppable.
    pub code: String,
    /// What is wrong and what to do about it, in one sentence.
    pub message: String,
}

impl ToolError {
    /// An error with a code of the tool's own.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }
}

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self::new(FailureCode::ToolFailed, message)
    }
}

impl From<&str> for ToolError {
    fn from(message: &str) -> Self {
        Self::new(FailureCode::ToolFailed, message)
    }
}

/// The outcome of a handler.
pub(super) enum HandlerOutcome {
    Done(Value),
    Failed(ToolError),
    /// The result exceeds a limit.
    TooLarge(ExceededLimit),
    /// The arguments fit the schema but not the type.
    Refused(String),
}

pub(super) type Handler = Arc<
    dyn Fn(ToolContext, Map<String, Value>, ToolLimits) -> BoxFuture<'static, HandlerOutcome>
        + Send
        + Sync,
>;

/// A tool written in Rust. It is checked when it is added to a [`Toolbox`](super::Toolbox).
#[derive(Clone)]
pub struct RustTool {
    server: String,
    name: String,
    description: String,
    schema: Value,
    effect: ToolEffect,
    approval: ApprovalRule,
    handler: Handler,
}

impl RustTool {
    /// A tool whose arguments are a struct, from which the schema is derived.
    ///
    /// The default [`effect`](Self::effect) is [`ToolEffect::Once`]: a call is never repeated without a person's
    /// approval.
    pub fn new<A, R, F, W>(
        name: impl Into<String>,
        description: impl Into<String>,
        handler: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + 'static,
        F: Fn(ToolContext, A) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
            settings.inline_subschemas = true;
        });
        let mut schema = settings
            .into_generator()
            .into_root_schema_for::<A>()
            .to_value();
        if let Some(schema) = schema.as_object_mut() {
            // The name of a Rust type is useless to a model.
            schema.shift_remove("title");
        }
        Self::with_schema(name, description, schema, handler)
    }

    /// A tool whose arguments are described by a JSON Schema of an object.
    pub fn with_schema<A, R, F, W>(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: Value,
        handler: F,
    ) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        R: Serialize + 'static,
        F: Fn(ToolContext, A) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |context, arguments, limits| {
            match serde_json::from_value::<A>(Value::Object(arguments)) {
                Ok(arguments) => handler(context, arguments)
                    .map(move |outcome| ran(outcome, &limits))
                    .boxed(),
                Err(error) => {
                    std::future::ready(HandlerOutcome::Refused(error.to_string())).boxed()
                }
            }
        });
        Self {
            server: DEFAULT_SERVER.to_owned(),
            name: name.into(),
            description: description.into(),
            schema,
            effect: ToolEffect::default(),
            approval: ApprovalRule::Never,
            handler,
        }
    }

    /// Sets the server. The default is `rust`.
    #[must_use]
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.server = server.into();
        self
    }

    /// The server.
    pub fn server_name(&self) -> &str {
        &self.server
    }

    /// The approval rule, with the server and the name of the tool.
    pub(super) fn approval_rule(&self) -> (&str, &str, &ApprovalRule) {
        (&self.server, &self.name, &self.approval)
    }

    /// Sets the effect of a call.
    #[must_use]
    pub fn effect(mut self, effect: ToolEffect) -> Self {
        self.effect = effect;
        self
    }

    /// Declares that a call changes nothing.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.effect(ToolEffect::ReadOnly)
    }

    /// Declares that a repeated call changes nothing more.
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.effect(ToolEffect::Idempotent)
    }

    /// Requires a person's approval before each call of an agent, a skill or a workflow. The task waits for the answer,
    /// as with `approval: required` in an app.
    #[must_use]
    pub fn approval_required(mut self) -> Self {
        self.approval = ApprovalRule::Always;
        self
    }

    /// Requires a person's approval for arguments that the rule accepts. The rule runs before the arguments are checked
    /// against the schema. It must be deterministic, because a resumed task evaluates it again. A rule that panics
    /// counts as `true`.
    #[must_use]
    pub fn approval_required_if(
        mut self,
        rule: impl Fn(&Map<String, Value>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.approval = ApprovalRule::If(Arc::new(rule));
        self
    }
}

impl std::fmt::Debug for RustTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RustTool")
            .field("server", &self.server)
            .field("name", &self.name)
            .field("effect", &self.effect)
            .field("approval", &self.approval)
            .finish_non_exhaustive()
    }
}

/// Converts a handler's result. The limits are checked before the result is copied.
fn ran<R: Serialize>(outcome: Result<R, ToolError>, limits: &ToolLimits) -> HandlerOutcome {
    let result = match outcome {
        Ok(result) => result,
        Err(error) => return HandlerOutcome::Failed(error),
    };
    if let Err(excess) = limits.allow(&result) {
        return HandlerOutcome::TooLarge(excess);
    }
    match serde_json::to_value(result) {
        Ok(value) => HandlerOutcome::Done(value),
        Err(error) => HandlerOutcome::Failed(ToolError::new(
            FailureCode::ToolUnwritable,
            format!("the result cannot be written as JSON: {error}"),
        )),
    }
}

/// A checked tool, with its compiled schema.
pub(super) struct CheckedTool {
    pub(super) server: String,
    pub(super) name: String,
    facts: Arc<ToolDescription>,
    schema: Arc<Schema>,
    pub(super) effect: ToolEffect,
    pub(super) handler: Handler,
}

impl CheckedTool {
    pub(super) fn new(tool: RustTool, limits: &ToolLimits) -> Result<Self, Invalid> {
        let server = Name::new(&tool.server)?;
        let fits = |next: char| next.is_ascii_alphanumeric() || next == '_' || next == '-';
        if tool.name.is_empty()
            || tool.name.len() > MAX_TOOL_NAME_LENGTH
            || !tool.name.chars().all(fits)
        {
            let message = format!(
                "`{}` is no name of a tool; use letters, digits, `_` and `-`, at most \
                 {MAX_TOOL_NAME_LENGTH}",
                tool.name
            );
            return Err(Invalid::one("tool.name", message));
        }
        let place = format!("{server}.{}", tool.name);
        if tool.schema.get("type").and_then(Value::as_str) != Some("object") {
            let message = format!("the arguments of `{place}` must be an object, by name");
            return Err(Invalid::one("tool.schema", message));
        }
        let schema = Schema::compile_within(&tool.schema, limits.schema).map_err(|error| {
            let message = format!("the schema of `{place}` cannot be used: {error}");
            let code = match error {
                SchemaError::TooComplex(_) => FailureCode::ToolSchemaTooComplex.as_str(),
                SchemaError::Invalid(_) | SchemaError::Unsupported(_) => "tool.schema",
            };
            Invalid::one(code, message)
        })?;
        let facts = ToolDescription {
            server: server.to_string(),
            tool: tool.name.clone(),
            read_only: tool.effect == ToolEffect::ReadOnly,
            idempotent: tool.effect == ToolEffect::Idempotent,
            description: tool.description,
            parameters: Arc::new(tool.schema),
            output_schema: None,
        };
        Ok(Self {
            server: server.into(),
            name: tool.name,
            facts: Arc::new(facts),
            schema: Arc::new(schema),
            effect: tool.effect,
            handler: tool.handler,
        })
    }

    pub(super) fn full_name(&self) -> String {
        format!("{}.{}", self.server, self.name)
    }

    pub(super) fn facts(&self) -> Arc<ToolDescription> {
        Arc::clone(&self.facts)
    }

    /// The arguments, if they fit the schema; otherwise a code and the reason.
    pub(super) async fn check(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, (FailureCode, String)> {
        let name = self.full_name();
        match checking::check(Arc::clone(&self.schema), Value::Object(arguments)).await {
            Ok(Value::Object(arguments)) => Ok(arguments),
            // An object stays an object.
            Ok(_) => Ok(Map::new()),
            Err(error @ CheckError::Violations(_)) => {
                let message = format!("the arguments of `{name}` do not fit: {error}");
                Err((FailureCode::ToolArguments, message))
            }
            Err(error @ CheckError::TooComplex(_)) => {
                let message = format!("the arguments of `{name}` are too complex: {error}");
                Err((FailureCode::ToolArgumentsTooComplex, message))
            }
        }
    }
}
