//! What one agent's run came to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::valid::{Invalid, Report, Rules, Valid};

/// An agent's result whose rules hold.
pub type AgentResult = Valid<AgentResultFields>;

/// What one run came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AgentResult")]
pub struct AgentResultFields {
    /// Who ran.
    pub agent: Name,
    /// What it said.
    #[serde(default)]
    pub content: String,
    /// Whether it did what it was asked.
    pub success: bool,
    /// Why it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Milliseconds that it took.
    #[serde(default)]
    pub execution_time_ms: u64,
}

impl Valid<AgentResultFields> {
    /// The agent did what it was asked.
    pub fn success(
        agent: Name,
        content: impl Into<String>,
        execution_time_ms: u64,
    ) -> Result<Self, Invalid> {
        let content = content.into();
        Self::new(AgentResultFields {
            agent,
            content,
            success: true,
            error_message: None,
            execution_time_ms,
        })
    }

    /// The agent could not.
    pub fn failure(
        agent: Name,
        error: impl Into<String>,
        execution_time_ms: u64,
    ) -> Result<Self, Invalid> {
        Self::new(AgentResultFields {
            agent,
            content: String::new(),
            success: false,
            error_message: Some(error.into()),
            execution_time_ms,
        })
    }
}

impl Rules for AgentResultFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.success
                || self
                    .error_message
                    .as_ref()
                    .is_some_and(|why| !why.trim().is_empty()),
            "error_message",
            "agent_result.error_missing",
            "a run that failed has an error_message that says why",
        );
        report.require(
            !self.success || self.error_message.is_none(),
            "error_message",
            "agent_result.error_unfounded",
            "a run that succeeded has no error_message",
        );
    }
}
