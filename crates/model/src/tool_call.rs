//! One call of a tool, from the wish to the outcome.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::catalogue::Catalogue;
use crate::name::Name;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A tool call whose rules hold.
pub type ToolCall = Valid<ToolCallFields>;

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ToolCall")]
pub struct ToolCallFields {
    /// Identifies the call, and is the idempotency key that its server gets.
    pub id: Uuid,
    /// The id that a model gave the call, to answer the model with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_call_id: Option<String>,
    /// The server that has the tool.
    pub server: Name,
    /// The tool, by the server's name for it.
    pub tool: String,
    /// The data domain that the call asks, if it asks one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Name>,
    /// What the tool is given.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// How far the call has come.
    #[serde(default, skip_serializing_if = "ToolCallStatus::is_pending")]
    pub status: ToolCallStatus,
    /// What the tool gave back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
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

/// How far a tool call has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// Waiting to be made.
    #[default]
    Pending,
    /// Made; the tool works.
    InProgress,
    /// The tool gave a result.
    Completed,
    /// The tool, or the way to it, failed.
    Failed,
    /// The tool took longer than it may.
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

    /// Whether the call waits to be made, which need not be said.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde asks with a reference"
    )]
    fn is_pending(&self) -> bool {
        *self == Self::Pending
    }

    /// Whether nothing follows.
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
    /// A call that waits to be made.
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
            error: None,
            started_at: None,
            completed_at: None,
            duration_ms: None,
        })
    }

    /// The call is being made.
    pub fn start(self, at: Timestamp) -> Result<Self, Invalid> {
        self.moved(ToolCallStatus::InProgress, |call| {
            call.started_at = Some(at);
        })
    }

    /// The tool gave a result. A tool that gives nothing has an empty object as its result, because
    /// JSON's `null` could not be told from a result that is missing.
    pub fn complete(self, result: Value, at: Timestamp) -> Result<Self, Invalid> {
        self.moved(ToolCallStatus::Completed, |call| {
            call.result = Some(if result.is_null() {
                Value::Object(Map::new())
            } else {
                result
            });
            call.end(at);
        })
    }

    /// The call failed.
    pub fn fail(self, error: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        self.moved(ToolCallStatus::Failed, |call| {
            call.error = Some(error.into());
            call.end(at);
        })
    }

    /// The call took longer than it may.
    pub fn time_out(self, error: impl Into<String>, at: Timestamp) -> Result<Self, Invalid> {
        self.moved(ToolCallStatus::Timeout, |call| {
            call.error = Some(error.into());
            call.end(at);
        })
    }

    fn moved(
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

    /// Whether its tool and its domain are registered.
    pub fn check_against(&self, catalogue: &Catalogue) -> Result<(), Invalid> {
        let mut report = Report::default();
        let tool = self.qualified_tool();
        report.require(
            catalogue.tools.contains(&tool),
            "tool",
            "tool_call.tool_unknown",
            format_args!("no server offers `{tool}`"),
        );
        if let Some(domain) = &self.domain {
            report.require(
                catalogue.domains.contains(domain),
                "domain",
                "tool_call.domain_unknown",
                format_args!("there is no domain `{domain}`"),
            );
        }
        report.finish()
    }
}

impl ToolCallFields {
    /// The tool with its server, as `server.tool`.
    pub fn qualified_tool(&self) -> String {
        format!("{}.{}", self.server, self.tool)
    }

    /// What an answer cites when it uses the result: `domain.server`, or `server.tool` where no
    /// domain was asked.
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
