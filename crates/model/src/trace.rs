//! The trace of a task: what happened, step by step.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::name::Name;
use crate::redaction::Redaction;
use crate::sub_agent_session::SubAgentSessionInfo;
use crate::tool_call::{ToolCall, ToolCallStatus};
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated trace.
pub type Trace = Valid<TraceFields>;

/// Everything that happened to one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Trace")]
pub struct TraceFields {
    /// The task.
    pub task_id: Uuid,
    /// The distributed trace that it belongs to, as W3C trace context writes it: 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The steps, in order.
    #[serde(default)]
    pub steps: Vec<StepRecord>,
    /// The sub-agents it started, by session.
    #[serde(default)]
    pub sub_agent_sessions: BTreeMap<Uuid, SubAgentSessionInfo>,
    /// When the trace began.
    pub created_at: Timestamp,
    /// When something was last added.
    pub updated_at: Timestamp,
}

/// A validated step.
pub type StepRecord = Valid<StepRecordFields>;

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StepRecord")]
pub struct StepRecordFields {
    /// Name of the step.
    pub step_name: String,
    /// What happened, in a sentence.
    #[serde(default)]
    pub message: String,
    /// When it began.
    pub timestamp: Timestamp,
    /// Status of the step.
    pub status: StepStatus,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Input of the step.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub input_data: Map<String, Value>,
    /// Output of the step.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub output_data: Map<String, Value>,
    /// Tool calls made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Model calls made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub llm_calls: Vec<LlmCall>,
    /// Duration in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Status of a step.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Succeeded.
    Info,
    /// Succeeded with a warning.
    Warning,
    /// Failed.
    Error,
}

/// A validated model call.
pub type LlmCall = Valid<LlmCallFields>;

/// One model call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LlmCall")]
pub struct LlmCallFields {
    /// The model.
    pub model: String,
    /// When it was asked.
    pub started_at: Timestamp,
    /// Duration in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// Input tokens.
    #[serde(default)]
    pub input_tokens: u64,
    /// Output tokens.
    #[serde(default)]
    pub output_tokens: u64,
    /// Whether it succeeded.
    pub success: bool,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl StepRecordFields {
    /// Whether the step succeeded.
    pub fn success(&self) -> bool {
        self.status != StepStatus::Error
    }
}

impl Valid<StepRecordFields> {
    /// The step without personal data and secrets.
    pub fn redacted(self, redaction: &Redaction) -> Result<Self, Invalid> {
        let tool_calls = self.tool_calls.iter().cloned();
        let tool_calls = tool_calls.map(|call| redacted_call(call, redaction));
        let tool_calls = tool_calls.collect::<Result<Vec<_>, _>>()?;
        self.with(|step| {
            step.message = redaction.text(&step.message);
            step.error = step.error.as_deref().map(|error| redaction.text(error));
            step.input_data = redaction.map(&step.input_data);
            step.output_data = redaction.map(&step.output_data);
            step.tool_calls = tool_calls;
        })
    }
}

fn redacted_call(call: ToolCall, redaction: &Redaction) -> Result<ToolCall, Invalid> {
    call.with(|call| {
        call.arguments = redaction.map(&call.arguments);
        call.result = call.result.as_ref().map(|result| redaction.value(result));
        call.error = call.error.as_deref().map(|error| redaction.text(error));
        let mismatch = call.schema_mismatch.as_deref();
        call.schema_mismatch = mismatch.map(|mismatch| redaction.text(mismatch));
    })
}

impl Valid<TraceFields> {
    /// A trace without steps.
    pub fn begin(task_id: Uuid, at: Timestamp) -> Result<Self, Invalid> {
        Self::new(TraceFields {
            task_id,
            trace_id: None,
            steps: Vec::new(),
            sub_agent_sessions: BTreeMap::new(),
            created_at: at,
            updated_at: at,
        })
    }

    /// The same as part of a distributed trace.
    pub fn within(self, trace_id: String) -> Result<Self, Invalid> {
        self.with(|trace| trace.trace_id = Some(trace_id))
    }

    /// Adds a step.
    pub fn record(
        self,
        step: StepRecord,
        redaction: &Redaction,
        at: Timestamp,
    ) -> Result<Self, Invalid> {
        let step = step.redacted(redaction)?;
        self.with(|trace| {
            trace.steps.push(step);
            trace.updated_at = trace.updated_at.max(at);
        })
    }

    /// Adds or replaces a sub-agent's session.
    pub fn follow(self, session: SubAgentSessionInfo, at: Timestamp) -> Result<Self, Invalid> {
        self.with(|trace| {
            trace.sub_agent_sessions.insert(session.session_id, session);
            trace.updated_at = trace.updated_at.max(at);
        })
    }
}

fn error_rules(failed: bool, error: Option<&String>, code: &'static str, report: &mut Report) {
    report.require(
        failed == error.is_some_and(|why| !why.trim().is_empty()),
        "error",
        code,
        "error must be set exactly when something failed",
    );
}

impl Rules for LlmCallFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.model.trim().is_empty(),
            "model",
            "llm_call.model_empty",
            "model is empty; say which model was asked",
        );
        error_rules(!self.success, self.error.as_ref(), "llm_call.error", report);
    }
}

impl Rules for StepRecordFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.step_name.trim().is_empty(),
            "step_name",
            "step.name_empty",
            "step_name is empty; say which step it was",
        );
        error_rules(!self.success(), self.error.as_ref(), "step.error", report);
        report.require(
            self.tool_calls
                .iter()
                .all(|call| call.status != ToolCallStatus::Pending),
            "tool_calls",
            "step.tool_call_pending",
            "a step records calls that were started, not pending ones",
        );
    }
}

impl Rules for TraceFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.created_at <= self.updated_at,
            "updated_at",
            "trace.times",
            "a trace cannot be updated before it is created",
        );
        report.within("sub_agent_sessions", |report| {
            for (key, session) in &self.sub_agent_sessions {
                report.require(
                    *key == session.session_id,
                    key,
                    "trace.session_key",
                    "a session must be listed under its own id",
                );
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recorded_steps_are_redacted_unless_the_app_disables_it() {
        let at = Timestamp::UNIX_EPOCH;
        let step: StepRecord = serde_json::from_value(json!({
            "step_name": "act",
            "message": "wrote to ann@example.org",
            "timestamp": at,
            "status": "info",
            "input_data": { "phone": "+49 170 1234567" },
            "tool_calls": [{
                "id": Uuid::nil(), "server": "mail", "tool": "send", "status": "completed",
                "arguments": { "to": "ann@example.org" }, "result": { "sent_to": "ann@example.org" },
            }],
        }))
        .unwrap();
        let trace = |redaction: &Redaction| {
            let trace = Trace::begin(Uuid::nil(), at).unwrap();
            serde_json::to_string(&trace.record(step.clone(), redaction, at).unwrap()).unwrap()
        };
        let removed = trace(&Redaction::default());
        assert!(
            !removed.contains("ann@") && !removed.contains("1234567"),
            "{removed}"
        );
        assert!(trace(&Redaction::nothing()).contains("ann@example.org"));
    }
}
