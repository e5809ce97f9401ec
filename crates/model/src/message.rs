//! One message of a conversation. Messages never change.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::name::Name;
use crate::part::{MAX_PARTS, Part};
use crate::tool_call::ToolCall;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated message.
pub type Message = Valid<MessageFields>;

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Message")]
pub struct MessageFields {
    /// The author's role.
    pub role: Role,
    /// The text. Only a message that carries parts, or an assistant message that calls tools, may be empty.
    #[serde(default)]
    pub content: String,
    /// Tool calls of an assistant message.
    #[serde(default, deserialize_with = "crate::reading::null_as_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The agent that wrote an assistant message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// When it was written. Absent in history from clients that do not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Files, images and data besides the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub parts: Vec<Part>,
    /// Other data.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// An agent.
    Assistant,
    /// A tool that answers an assistant's call.
    Tool,
    /// The app.
    System,
}

impl Valid<MessageFields> {
    /// A user's message.
    pub fn user(text: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        Self::new(MessageFields::draft(Role::User, text, at))
    }

    /// An assistant's message.
    pub fn assistant(text: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        Self::new(MessageFields::draft(Role::Assistant, text, at))
    }

    /// An assistant's message that calls tools; the text may be empty.
    pub fn calling(
        text: impl Into<String>,
        tool_calls: Vec<ToolCall>,
        at: Timestamp,
    ) -> Result<Self, Invalid> {
        Self::new(MessageFields {
            tool_calls,
            ..MessageFields::draft(Role::Assistant, text, at)
        })
    }

    /// An instruction from the app.
    pub fn system(text: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        Self::new(MessageFields::draft(Role::System, text, at))
    }

    /// A tool's answer to the call with this id.
    pub fn tool(
        call: impl Into<String>,
        text: impl Into<String>,
        at: Timestamp,
    ) -> Result<Self, Invalid> {
        let draft = MessageFields::draft(Role::Tool, text, at);
        Self::new(MessageFields {
            tool_call_id: Some(call.into()),
            ..draft
        })
    }
}

impl MessageFields {
    /// A draft of a plain message.
    pub fn draft(role: Role, text: impl Into<String>, at: Timestamp) -> Self {
        Self {
            role,
            content: text.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            agent: None,
            timestamp: Some(at),
            parts: Vec::new(),
            metadata: Map::new(),
        }
    }
}

impl Rules for MessageFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.content.trim().is_empty()
                || !self.tool_calls.is_empty()
                || !self.parts.is_empty(),
            "content",
            "message.content_empty",
            "content is empty; only a message that calls tools or carries parts may be empty",
        );
        report.require(
            self.parts.len() <= MAX_PARTS,
            "parts",
            "message.too_many_parts",
            format_args!("a message carries at most {MAX_PARTS} parts"),
        );
        if !self.parts.is_empty() {
            report.within("parts", |report| {
                for (index, part) in self.parts.iter().enumerate() {
                    report.within(index, |report| part.rules(report));
                }
            });
        }
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
