//! A unit of work: its owner, progress and result.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::answer::Answer;
use crate::decision::Decision;
use crate::message::Message;
use crate::name::Name;
use crate::task_state::{Stage, TaskState};
use crate::user::UserId;
use crate::valid::{Report, Rules, Valid};

/// Days that a task is kept by default.
pub const DEFAULT_RETENTION_DAYS: u32 = 7;

/// A validated task.
pub type Task = Valid<TaskFields>;

/// One task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Task")]
pub struct TaskFields {
    /// Identifies the task.
    pub id: Uuid,
    /// The conversation. A child task has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Uuid>,
    /// The owner. No other user can see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<UserId>,
    /// The task's description: the request.
    #[schemars(length(min = 1))]
    pub description: String,
    /// State and stage.
    pub status: TaskStatus,
    /// The agent that works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_agent: Option<Name>,
    /// The parent task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<Uuid>,
    /// The messages, oldest first.
    #[serde(default, deserialize_with = "crate::reading::null_as_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// How the request was understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The answer, also of a task that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// The result: the answer's text, if the task succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The error, if the task has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Words that the retention policy selects tasks by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Days to keep it after its end; the retention policy decides if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u32>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When work on it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// State and stage of a task. A bare state, such as `"working"`, can be read too.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TaskStatus {
    /// The public state.
    pub state: TaskState,
    /// The stage of a working task, or the stage at which it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The message for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// When it entered this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

impl From<TaskState> for TaskStatus {
    fn from(state: TaskState) -> Self {
        Self {
            state,
            stage: None,
            message: None,
            timestamp: None,
        }
    }
}

/// The object form of a status, for deserializing.
#[derive(Deserialize)]
struct WrittenStatus {
    state: TaskState,
    #[serde(default)]
    stage: Option<Stage>,
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for TaskStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm;

        impl<'de> Visitor<'de> for EitherForm {
            type Value = TaskStatus;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a state, or an object with a state")
            }

            fn visit_str<E: serde::de::Error>(self, state: &str) -> Result<TaskStatus, E> {
                TaskState::deserialize(state.into_deserializer()).map(TaskStatus::from)
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<TaskStatus, M::Error> {
                let written = WrittenStatus::deserialize(MapAccessDeserializer::new(map))?;
                let WrittenStatus {
                    state,
                    stage,
                    message,
                    timestamp,
                } = written;
                Ok(TaskStatus {
                    state,
                    stage,
                    message,
                    timestamp,
                })
            }
        }

        deserializer.deserialize_any(EitherForm)
    }
}

impl Rules for TaskFields {
    fn rules(&self, report: &mut Report) {
        let state = self.status.state;
        report.require(
            !self.description.trim().is_empty(),
            "description",
            "task.description_empty",
            "description is empty; say what is to be done",
        );
        report.require(
            self.parent_task_id != Some(self.id),
            "parent_task_id",
            "task.parent_self",
            "a task cannot be its own parent",
        );
        report.require(
            self.result.is_none() || self.error.is_none(),
            "error",
            "task.result_and_error",
            "a task has a result or an error, not both",
        );
        report.require(
            self.result.is_none() || matches!(state, TaskState::Completed | TaskState::Unknown),
            "result",
            "task.result_early",
            format_args!("a task that is {state} has no result"),
        );
        report.require(
            self.error.is_none()
                || (state.is_final() && state != TaskState::Completed)
                || state == TaskState::Unknown,
            "error",
            "task.error_unfounded",
            format_args!("a task that is {state} has no error"),
        );
        report.require(
            state != TaskState::Failed
                || self
                    .error
                    .as_ref()
                    .is_some_and(|error| !error.trim().is_empty()),
            "error",
            "task.error_missing",
            "a failed task has an error that says why",
        );
        report.require(
            self.retention_days != Some(0),
            "retention_days",
            "task.retention_zero",
            "retention_days must be at least 1",
        );
        self.time_rules(report);
    }
}

impl TaskFields {
    fn time_rules(&self, report: &mut Report) {
        let state = self.status.state;
        report.require(
            self.started_at
                .is_none_or(|started| self.created_at <= started),
            "started_at",
            "task.started_before_created",
            "a task cannot start before it is created",
        );
        let started = self.started_at.unwrap_or(self.created_at);
        report.require(
            self.completed_at
                .is_none_or(|completed| started <= completed),
            "completed_at",
            "task.completed_before_started",
            "a task cannot end before it starts",
        );
        report.require(
            self.completed_at.is_some() == state.is_final() || state == TaskState::Unknown,
            "completed_at",
            "task.completed_at",
            "a task has completed_at exactly when it has ended",
        );
        report.require(
            self.started_at.is_none() || state != TaskState::Submitted,
            "started_at",
            "task.started_early",
            "a submitted task has not started",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_read_in_its_short_and_its_long_form() {
        let read = |status| serde_json::from_value::<TaskStatus>(status);
        assert_eq!(read(json!("running")).unwrap().state, TaskState::Working);
        let long =
            json!({ "state": "completed", "message": { "role": "assistant", "content": "done" } });
        assert_eq!(read(long).unwrap().message.unwrap().content, "done");
        let wrong = read(json!({ "state": "gone" })).unwrap_err().to_string();
        assert!(wrong.contains("unknown variant `gone`"), "{wrong}");
    }
}
