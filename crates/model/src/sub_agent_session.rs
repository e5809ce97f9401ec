//! The session of a sub-agent: its own conversation, of which the parent sees a summary.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::message::Message;
use crate::name::Name;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated sub-agent's session.
pub type SubAgentSession = Valid<SubAgentSessionFields>;

/// One session. It starts without messages, so it never contains its parent's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SubAgentSession")]
pub struct SubAgentSessionFields {
    /// The session's id, which is the child task's id.
    pub session_id: Uuid,
    /// The parent task.
    pub parent_task_id: Uuid,
    /// The sub-agent.
    pub agent_name: Name,
    /// Its task.
    pub task_description: String,
    /// Its messages.
    #[serde(default)]
    pub message_history: Vec<Message>,
    /// The summary for the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The state of the session.
    pub status: SessionStatus,
    /// When it began.
    pub created_at: Timestamp,
}

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

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        })
    }
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

impl Valid<SubAgentSessionFields> {
    /// Starts a session with an empty history.
    pub fn begin(
        session_id: Uuid,
        parent_task_id: Uuid,
        agent_name: Name,
        task_description: impl Into<String>,
        at: Timestamp,
    ) -> Result<Self, Invalid> {
        Self::new(SubAgentSessionFields {
            session_id,
            parent_task_id,
            agent_name,
            task_description: task_description.into(),
            message_history: Vec::new(),
            summary: None,
            status: SessionStatus::Running,
            created_at: at,
        })
    }

    /// Adds a message.
    pub fn say(self, message: Message) -> Result<Self, Invalid> {
        self.running()?
            .with(|session| session.message_history.push(message))
    }

    /// Ends the session successfully.
    pub fn complete(self, summary: impl Into<String>) -> Result<Self, Invalid> {
        self.ended(SessionStatus::Completed, summary.into())
    }

    /// Ends the session with the reason why it failed.
    pub fn fail(self, summary: impl Into<String>) -> Result<Self, Invalid> {
        self.ended(SessionStatus::Failed, summary.into())
    }

    fn ended(self, status: SessionStatus, summary: String) -> Result<Self, Invalid> {
        self.running()?.with(|session| {
            session.status = status;
            session.summary = Some(summary);
        })
    }

    fn running(self) -> Result<Self, Invalid> {
        if self.status == SessionStatus::Running {
            Ok(self)
        } else {
            Err(Invalid::one(
                "session.move",
                format!(
                    "a session that is {} has ended and cannot change",
                    self.status
                ),
            ))
        }
    }

    /// What a trace records of it.
    pub fn info(&self) -> SubAgentSessionInfo {
        SubAgentSessionInfo {
            session_id: self.session_id,
            agent: self.agent_name.clone(),
            message_count: self.message_history.len(),
            status: self.status,
        }
    }
}

impl Rules for SubAgentSessionFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.task_description.trim().is_empty(),
            "task_description",
            "session.description_empty",
            "task_description is empty; say what the agent is to do",
        );
        report.require(
            self.status != SessionStatus::Completed
                || self
                    .summary
                    .as_ref()
                    .is_some_and(|summary| !summary.trim().is_empty()),
            "summary",
            "session.summary_missing",
            "a completed session has a summary for its parent",
        );
        report.require(
            self.status != SessionStatus::Running || self.summary.is_none(),
            "summary",
            "session.summary_early",
            "a running session has no summary yet",
        );
        report.require(
            self.session_id != self.parent_task_id,
            "parent_task_id",
            "session.parent_self",
            "a session cannot be its own parent",
        );
    }
}
