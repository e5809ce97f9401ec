//! What the flow needs from outside, as traits that other crates implement.

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::Failure;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The code by which a port says that a server could not be reached, so that it is worth trying again.
pub const NOT_REACHED: &str = "tool.not_reached";

/// The code of a call whose arguments cannot be held against the tool's schema within the limits. It was not made.
pub const ARGUMENTS_TOO_COMPLEX: &str = "tool.arguments_too_complex";

/// The code of a call of a tool whose schema exceeds the limits. It was not made.
pub const SCHEMA_TOO_COMPLEX: &str = "tool.schema_too_complex";

/// The code of a call whose result is larger than allowed. It was made, and its result is lost.
pub const RESULT_TOO_LARGE: &str = "tool.result_too_large";

/// What a tool server says of one of its tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDescription {
    /// The server that has it.
    pub server: String,
    /// Its name there.
    pub tool: String,
    /// It changes nothing.
    pub read_only: bool,
    /// Called again with the same arguments, it changes nothing more.
    pub idempotent: bool,
    /// What it does, in the server's words.
    pub description: String,
    /// The JSON Schema of its arguments, without those that the engine puts in itself.
    pub parameters: Arc<Value>,
}

/// What a tool is given. It is passed around more often than looked at.
pub type Arguments = Arc<Map<String, Value>>;

/// A call on its way out.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// What the decision or the model says.
    pub arguments: Arguments,
    /// What the engine adds: the user's id and the like. It overrides the former.
    pub injected: Map<String, Value>,
    /// For whom, and as part of what.
    pub caller: Caller,
    /// The effect id.
    pub idempotency_key: String,
    /// How long it may take.
    pub timeout: Duration,
}

/// For whom a tool is called. It comes from the verified token, and no model can say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caller {
    /// The user.
    pub user: Uuid,
    /// The conversation, if the task is part of one.
    pub conversation: Option<Uuid>,
    /// The task.
    pub task: Uuid,
}

impl Caller {
    /// A user's task outside any conversation.
    pub const fn new(user: Uuid, task: Uuid) -> Self {
        Self {
            user,
            conversation: None,
            task,
        }
    }

    /// The same as part of a conversation.
    #[must_use]
    pub const fn within(mut self, conversation: Uuid) -> Self {
        self.conversation = Some(conversation);
        self
    }
}

/// What a tool said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    /// The server that was called.
    pub server: String,
    /// The tool that was called.
    pub tool: String,
    /// The structured result.
    pub content: Value,
    /// The same for people.
    pub text: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// Whether the call is known to have changed nothing, because the tool only reads. A port leaves it
    /// unset; whoever knows the tool sets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed_nothing: bool,
}

impl ToolReply {
    /// What a tool gave, in both forms.
    pub(crate) fn of(server: &str, tool: &str, content: Value) -> Self {
        Self {
            server: server.to_owned(),
            tool: tool.to_owned(),
            text: match &content {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
            content,
            is_error: false,
            changed_nothing: false,
        }
    }
}

/// The tools of an app.
pub trait Tools: Send + Sync + 'static {
    /// What is known of a tool, given as `tool` or `server.tool`.
    fn describe<'a>(
        &'a self,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Arc<ToolDescription>, Failure>>;

    /// Calls a tool. A failure says whether the call can have had an effect.
    fn call<'a>(&'a self, request: &'a ToolRequest) -> BoxFuture<'a, Result<ToolReply, Failure>>;
}
