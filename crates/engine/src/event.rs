//! Events of a task. Each is an entry of the journal.

use std::time::Duration;

use convoke_model::Answerer;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::call::Outcome;

/// An event of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event<T> {
    /// The task was accepted.
    Submitted {
        /// The input for the program.
        input: Value,
    },
    /// A worker is about to make a call that was journaled earlier.
    Started {
        /// The call.
        call: Uuid,
    },
    /// A worker resumed the task after another one, or its children no longer wait for people.
    Resumed {
        /// The new deadline: the time limit starts again, because no worker ran the task in between, or goes on where it
        /// stood still.
        deadline: Timestamp,
    },
    /// A call has an outcome.
    Returned {
        /// The call.
        call: Uuid,
        /// Its label, for people who read the journal.
        label: String,
        /// Its outcome.
        outcome: Outcome<T>,
        /// When it started. Absent in journals of older versions. The entry's time is its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Timestamp>,
        /// Its duration until the entry.
        duration_ms: u64,
    },
    /// A call had no effect and is repeated after a pause.
    Postponed {
        /// The call.
        call: Uuid,
        /// The pause, in milliseconds, from the time of the entry.
        pause_ms: u64,
        /// Why the call failed.
        cause: String,
    },
    /// A call may have taken effect, and must not be repeated without a person's decision.
    OutcomeUnknown {
        /// The call.
        call: Uuid,
        /// When the question expires.
        expires_at: Timestamp,
        /// Why the outcome is unknown. Absent in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// A tool verified whether a call took effect.
    Verified {
        /// The call.
        call: Uuid,
        /// Whether it did. `None` if the tool could not tell.
        took_effect: Option<bool>,
    },
    /// The task was forked from another one.
    Forked {
        /// The other task.
        from: Uuid,
        /// The entry after which it was forked.
        at: u64,
        /// Changes of the state.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        set: Map<String, Value>,
    },
    /// A question was answered, or expired.
    Answered {
        /// The question.
        question: Uuid,
        /// The answer.
        answer: QuestionAnswer,
        /// Who gave it. Absent if nobody did, and in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Answerer>,
    },
    /// A question that was snoozed is asked again.
    Reminded {
        /// The question.
        question: Uuid,
    },
    /// A worker released the task unchanged.
    PutBack {
        /// Why it could not run it.
        why: String,
    },
    /// A signal other than an answer arrived.
    Signalled {
        /// Its kind.
        kind: String,
        /// Its payload.
        payload: Value,
    },
    /// The task was canceled.
    Canceled {
        /// The reason, if one was given.
        reason: Option<String>,
    },
    /// The task's deadline passed.
    DeadlineReached,
    /// The task was claimed again and again without progress.
    Poisoned {
        /// The number of claims.
        claims: u32,
    },
    /// No worker can run the task: its state or its app cannot be read.
    SetAside {
        /// The cause.
        cause: String,
    },
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum QuestionAnswer {
    /// Make the call.
    Approve {
        /// A comment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Do not make the call.
    Reject {
        /// Why.
        #[serde(default)]
        message: Option<String>,
    },
    /// Continue with this value instead.
    Modify {
        /// The new arguments, or the result of the call.
        value: Value,
    },
    /// Ask again after a pause. The question stays open, and its expiry moves by the pause.
    Snooze {
        /// The pause, in milliseconds.
        pause_ms: u64,
    },
    /// The question expired without an answer.
    Expired,
}

impl QuestionAnswer {
    /// Make the call.
    pub fn approve() -> Self {
        Self::Approve { message: None }
    }

    /// Do not make the call.
    pub fn reject() -> Self {
        Self::Reject { message: None }
    }

    /// Continue with this value instead.
    pub fn modify(value: impl Into<Value>) -> Self {
        Self::Modify {
            value: value.into(),
        }
    }

    /// Ask again after a pause.
    pub fn snooze(pause: Duration) -> Self {
        Self::Snooze {
            pause_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Adds a comment. Has no effect on a changed value.
    #[must_use]
    pub fn saying(self, text: impl Into<String>) -> Self {
        let message = Some(text.into());
        match self {
            Self::Approve { .. } => Self::Approve { message },
            Self::Reject { .. } => Self::Reject { message },
            other => other,
        }
    }

    /// The name of the answer.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Approve { .. } => "approve",
            Self::Reject { .. } => "reject",
            Self::Modify { .. } => "modify",
            Self::Snooze { .. } => "snooze",
            Self::Expired => "expired",
        }
    }
}

impl<T> Event<T> {
    /// The name of the event.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Submitted { .. } => "submitted",
            Self::Started { .. } => "started",
            Self::Resumed { .. } => "resumed",
            Self::Returned { .. } => "returned",
            Self::Postponed { .. } => "postponed",
            Self::OutcomeUnknown { .. } => "outcome_unknown",
            Self::Verified { .. } => "verified",
            Self::Forked { .. } => "forked",
            Self::Reminded { .. } => "reminded",
            Self::PutBack { .. } => "put_back",
            Self::Answered { .. } => "answered",
            Self::Signalled { .. } => "signalled",
            Self::Canceled { .. } => "canceled",
            Self::DeadlineReached => "deadline_reached",
            Self::Poisoned { .. } => "poisoned",
            Self::SetAside { .. } => "set_aside",
        }
    }

    /// Whether the event is progress. Resuming or releasing the task is not.
    pub fn is_progress(&self) -> bool {
        !matches!(
            self,
            Self::Resumed { .. }
                | Self::Started { .. }
                | Self::Verified { .. }
                | Self::PutBack { .. }
                | Self::Poisoned { .. }
                | Self::SetAside { .. }
        )
    }

    /// The cause, if the event ends the task without its program.
    pub(crate) fn set_aside_cause(&self) -> Option<String> {
        match self {
            Self::Poisoned { claims } => Some(format!(
                "set aside as poisoned: claimed {claims} times without progress"
            )),
            Self::SetAside { cause } => Some(format!("set aside: {cause}")),
            _ => None,
        }
    }
}
