//! A call of a tool, for whom it is made, and the reply.

use std::sync::Arc;
use std::time::Duration;

use convoke_telemetry::TraceContext;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The arguments of a call, by name. Shared, because a call is copied more often than its arguments are read.
pub type Arguments = Arc<Map<String, Value>>;

/// A call of a tool.
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
    /// The span of the call, if it belongs to a trace.
    pub trace: Option<TraceContext>,
}

impl Caller {
    /// A user's task outside any conversation.
    pub const fn new(user: Uuid, task: Uuid) -> Self {
        Self {
            user,
            conversation: None,
            task,
            trace: None,
        }
    }

    /// The same as part of a conversation.
    #[must_use]
    pub const fn within(mut self, conversation: Uuid) -> Self {
        self.conversation = Some(conversation);
        self
    }

    /// The same as part of a trace.
    #[must_use]
    pub const fn traced(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
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
    /// How the result does not fit the output schema that the tool declares. The call took place all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_mismatch: Option<String>,
    /// Whether the call is known to have changed nothing, because the tool only reads. A port leaves it
    /// unset; whoever knows the tool sets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed_nothing: bool,
}

impl ToolReply {
    /// A successful reply with this result; the text is the result as people read it.
    pub fn of(server: &str, tool: &str, content: Value) -> Self {
        Self {
            server: server.to_owned(),
            tool: tool.to_owned(),
            text: match &content {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
            content,
            is_error: false,
            schema_mismatch: None,
            changed_nothing: false,
        }
    }
}
