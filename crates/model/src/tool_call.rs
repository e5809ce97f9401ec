//! One tool call, from request to outcome.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::name::Name;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated tool call.
pub type ToolCall = Valid<ToolCallFields>;

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ToolCall")]
pub struct ToolCallFields {
    /// The call's id, which is also the idempotency key sent to the server.
    pub id: Uuid,
    /// The id that the model gave the call, for the model's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_call_id: Option<String>,
    /// The server.
    pub server: Name,
    /// The tool, by the server's name for it.
    pub tool: String,
    /// The data domain that the call queries, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Name>,
    /// The arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The status of the call.
    #[serde(default, skip_serializing_if = "ToolCallStatus::is_pending")]
    pub status: ToolCallStatus,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// How the result does not fit the output schema that the tool declares. The call took place all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_mismatch: Option<String>,
    /// Why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the tool was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the call ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Milliseconds from start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The status of a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// Not started.
    #[default]
    Pending,
    /// Started.
    InProgress,
    /// Ended with a result.
    Completed,
    /// Failed, in the tool or on the way to it.
    Failed,
    /// Exceeded its time limit.
    Timeout,
}

impl ToolCallStatus {
    /// Whether `next` may follow directly.
    pub fn can_become(self, next: Self) -> bool {
        match self {
            Self::Pending => next == Self::InProgress,
            Self::InProgress => next.is_final(),
            Self::Completed | Self::Failed | Self::Timeout => false,
        }
    }

    /// Whether the call has not started; the default, which is not serialized.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_pending(&self) -> bool {
        *self == Self::Pending
    }

    /// Whether no other status can follow.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Timeout)
    }
}

impl fmt::Display for ToolCallStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
        })
    }
}

impl Valid<ToolCallFields> {
    /// A call that has not started.
    pub fn pending(
        id: Uuid,
        server: Name,
        tool: impl Into<String>,
        arguments: Map<String, Value>,
    ) -> Result<Self, Invalid> {
        Self::new(ToolCallFields {
            id,
            model_call_id: None,
            server,
            tool: tool.into(),
            domain: None,
            arguments,
            status: ToolCallStatus::Pending,
            result: None,
            schema_mismatch: None,
            error: None,
            started_at: None,
            completed_at: None,
            duration_ms: None,
        })
    }

    /// Marks the call as started.
    pub fn start(self, at: Timestamp) -> Result<Self, Invalid> {
        self.transition(ToolCallStatus::InProgress, |call| {
            call.started_at = Some(at);
        })
    }

    /// Ends the call with a result. `null` becomes an empty object, because `null` in JSON would read as
    /// no result.
    pub fn complete(self, result: Value, at: Timestamp) -> Result<Self, Invalid> {
        self.transition(ToolCallStatus::Completed, |call| {
            call.result = Some(if result.is_null() {
                Value::Object(Map::new())
            } else {
                result
            });
            call.end(at);
        })
    }

    /// Ends the call with an error.
    pub fn fail(self, error: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        self.transition(ToolCallStatus::Failed, |call| {
            call.error = Some(error.into());
            call.end(at);
        })
    }

    /// Ends the call because it exceeded its time limit.
    pub fn time_out(self, error: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        self.transition(ToolCallStatus::Timeout, |call| {
            call.error = Some(error.into());
            call.end(at);
        })
    }

    fn transition(
        self,
        next: ToolCallStatus,
        change: impl FnOnce(&mut ToolCallFields),
    ) -> Result<Self, Invalid> {
        if !self.status.can_become(next) {
            return Err(Invalid::one(
                "tool_call.move",
                format!("a tool call that is {} cannot become {next}", self.status),
            ));
        }
        self.with(|call| {
            call.status = next;
            change(call);
        })
    }
}

impl ToolCallFields {
    /// The tool with its server, as `server.tool`.
    pub fn qualified_tool(&self) -> String {
        format!("{}.{}", self.server, self.tool)
    }

    /// The source an answer cites for the result: `domain.server`, or `server.tool` without a domain.
    pub fn source(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{domain}.{}", self.server),
            None => self.qualified_tool(),
        }
    }

    fn end(&mut self, at: Timestamp) {
        self.completed_at = Some(at);
        self.duration_ms = self.measured_ms();
    }

    fn measured_ms(&self) -> Option<u64> {
        let span = self.completed_at?.duration_since(self.started_at?);
        u64::try_from(span.as_millis()).ok()
    }
}

impl Rules for ToolCallFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.tool.trim().is_empty(),
            "tool",
            "tool_call.tool_empty",
            "tool is empty; name the tool to call",
        );
        report.require(
            self.result.is_none() || self.error.is_none(),
            "error",
            "tool_call.result_and_error",
            "a call has a result or an error, not both",
        );
        let status = self.status;
        if status == ToolCallStatus::Completed {
            report.require(
                self.result.as_ref().is_some_and(|result| !result.is_null()),
                "result",
                "tool_call.result_missing",
                "a completed call has a result; write {} for a tool that gives nothing",
            );
        } else {
            report.require(
                self.result.is_none(),
                "result",
                "tool_call.result_early",
                format_args!("a call that is {status} has no result"),
            );
        }
        report.require(
            self.schema_mismatch.is_none() || status == ToolCallStatus::Completed,
            "schema_mismatch",
            "tool_call.mismatch_unfounded",
            format_args!("a call that is {status} has no result that could fit a schema or not"),
        );
        if matches!(status, ToolCallStatus::Failed | ToolCallStatus::Timeout) {
            report.require(
                self.error
                    .as_ref()
                    .is_some_and(|error| !error.trim().is_empty()),
                "error",
                "tool_call.error_missing",
                format_args!("a call that is {status} has an error that says why"),
            );
        } else {
            report.require(
                self.error.is_none(),
                "error",
                "tool_call.error_unfounded",
                format_args!("a call that is {status} has no error"),
            );
        }
        self.time_rules(report);
    }
}

impl ToolCallFields {
    fn time_rules(&self, report: &mut Report) {
        let status = self.status;
        report.require(
            self.started_at.is_none() || status != ToolCallStatus::Pending,
            "started_at",
            "tool_call.started_early",
            "a pending call has not started",
        );
        report.require(
            self.started_at.is_some() || status != ToolCallStatus::InProgress,
            "started_at",
            "tool_call.started_missing",
            "a call in progress has the time of its start",
        );
        report.require(
            (self.completed_at.is_none() && self.duration_ms.is_none()) || status.is_final(),
            "completed_at",
            "tool_call.completed_early",
            format_args!("a call that is {status} has not ended"),
        );
        if let (Some(started), Some(completed)) = (self.started_at, self.completed_at) {
            report.require(
                started <= completed,
                "completed_at",
                "tool_call.times",
                "a call cannot end before it starts",
            );
            report.require(
                started > completed || self.duration_ms == self.measured_ms(),
                "duration_ms",
                "tool_call.duration",
                "duration_ms must be completed_at less started_at",
            );
        }
    }
}
