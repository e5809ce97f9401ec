//! The session of a sub-agent, as a trace tells of it. The session itself is the child task: its messages are its own,
//! and its result is what the parent sees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::name::Name;

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// The agent is at work.
    Running,
    /// It succeeded.
    Completed,
    /// It failed.
    Failed,
}

/// What a trace records of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubAgentSessionInfo {
    /// The session.
    pub session_id: Uuid,
    /// Who was started.
    pub agent: Name,
    /// Number of messages.
    pub message_count: usize,
    /// The state of the session.
    pub status: SessionStatus,
}
