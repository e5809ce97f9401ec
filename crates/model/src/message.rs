//! What was said, by whom. A message never changes once it is made.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::name::Name;
use crate::tool_call::ToolCall;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A message whose rules hold.
pub type Message = Valid<MessageFields>;

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Message")]
pub struct MessageFields {
    /// Who speaks.
    pub role: Role,
    /// What is said. Only an assistant that calls tools may say nothing.
    #[serde(default)]
    pub content: String,
    /// The tools that the assistant calls.
    #[serde(default, deserialize_with = "crate::reading::null_as_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The agent that speaks as the assistant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// When it was said. History that a client brings along may not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Anything else worth keeping with it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person who asks.
    User,
    /// An agent.
    Assistant,
    /// A tool that answers an assistant's call.
    Tool,
    /// The app itself.
    System,
}

impl Valid<MessageFields> {
    /// The user says something.
    pub fn user(text: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        Self::new(MessageFields::said(Role::User, text, at))
    }

    /// An assistant says something.
    pub fn assistant(text: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        Self::new(MessageFields::said(Role::Assistant, text, at))
    }

    /// An assistant calls tools, saying something or nothing.
    pub fn calling(
        text: impl Into<String>,
        tool_calls: Vec<ToolCall>,
        at: Timestamp,
    ) -> Result<Self, Invalid> {
        Self::new(MessageFields {
            tool_calls,
            ..MessageFields::said(Role::Assistant, text, at)
        })
    }

    /// The app itself instructs.
    pub fn system(text: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        Self::new(MessageFields::said(Role::System, text, at))
    }

    /// A tool answers the call with this id.
    pub fn tool(
        call: impl Into<String>,
        text: impl Into<String>,
        at: Timestamp,
    ) -> Result<Self, Invalid> {
        let said = MessageFields::said(Role::Tool, text, at);
        Self::new(MessageFields {
            tool_call_id: Some(call.into()),
            ..said
        })
    }
}

impl MessageFields {
    /// A draft of a plain message.
    pub fn said(role: Role, text: impl Into<String>, at: Timestamp) -> Self {
        Self {
            role,
            content: text.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            agent: None,
            timestamp: Some(at),
            metadata: Map::new(),
        }
    }
}

impl Rules for MessageFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.content.trim().is_empty() || !self.tool_calls.is_empty(),
            "content",
            "message.content_empty",
            "content is empty; only a message that calls tools may say nothing",
        );
        report.require(
            self.tool_calls.is_empty() || self.role == Role::Assistant,
            "tool_calls",
            "message.tool_calls_role",
            "only an assistant's message calls tools",
        );
        report.require(
            self.tool_call_id.is_none() || self.role == Role::Tool,
            "tool_call_id",
            "message.tool_call_id_role",
            "only a tool's message answers a call",
        );
        report.require(
            self.agent.is_none() || self.role == Role::Assistant,
            "agent",
            "message.agent_role",
            "only an assistant's message comes from an agent",
        );
    }
}
