//! The state that the steps of a running task share.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::Message;
use crate::name::Name;

/// The shared state of a running task after one of its steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// The messages so far, oldest first. A later step adds messages and removes none.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// The next action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<String>,
    /// The agent at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_agent: Option<Name>,
    /// The key that selects the edge at a condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Calls without an outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_operations: Vec<Value>,
    /// When work on the task began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Other data shared by steps.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}
