//! The result of one agent's run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated agent's result.
pub type AgentResult = Valid<AgentResultFields>;

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AgentResult")]
pub struct AgentResultFields {
    /// The agent.
    pub agent: Name,
    /// Its answer.
    #[serde(default)]
    pub content: String,
    /// Whether the run succeeded.
    pub success: bool,
    /// Why it failed, in the operator's words; null if it succeeded.
    #[serde(default)]
    pub error_message: Option<String>,
    /// Duration in milliseconds.
    #[serde(default)]
    pub execution_time_ms: u64,
}

impl Valid<AgentResultFields> {
    /// A run that succeeded.
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

    /// A run that failed.
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
