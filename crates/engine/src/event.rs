//! What can happen to a task. Every event is an entry of the journal.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::call::Outcome;

/// Something that happened to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event<T> {
    /// The task was accepted.
    Submitted {
        /// What the program works on.
        input: Value,
    },
    /// A worker is about to make a call that was put down before it was begun.
    Started {
        /// The call.
        call: Uuid,
    },
    /// A worker took the task up again after another had held it.
    Resumed {
        /// The task's time begins anew, since nobody worked on it in between.
        deadline: Timestamp,
    },
    /// A call has an outcome.
    Returned {
        /// The call.
        call: Uuid,
        /// What it was, for people who read the journal.
        label: String,
        /// What came of it.
        outcome: Outcome<T>,
        /// When it was begun. Journals of older versions do not say; the entry's own time is its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Timestamp>,
        /// How long it took until the entry.
        duration_ms: u64,
    },
    /// A call may or may not have taken effect and must not be made again unasked.
    OutcomeUnknown {
        /// The call.
        call: Uuid,
        /// When nobody waits for an answer any more.
        expires_at: Timestamp,
        /// Why it is not known. Journals of older versions do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// A tool was asked whether a call that may have taken effect did.
    Verified {
        /// The call.
        call: Uuid,
        /// Whether it did; nothing, if that could not be told.
        took_effect: Option<bool>,
    },
    /// The task was begun at a point of another.
    Forked {
        /// The other task.
        from: Uuid,
        /// The entry after which it was begun.
        at: u64,
        /// What was changed of the state.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        set: Map<String, Value>,
    },
    /// Somebody answered a question, or nobody did in time.
    Answered {
        /// The question.
        question: Uuid,
        /// What they said.
        answer: QuestionAnswer,
    },
    /// A worker gave the task back untouched.
    PutBack {
        /// Why it could not work on it.
        why: String,
    },
    /// A signal that is no answer came in.
    Signalled {
        /// What it is.
        kind: String,
        /// What it says.
        payload: Value,
    },
    /// The task was called off.
    Canceled {
        /// Why, if anybody said so.
        reason: Option<String>,
    },
    /// The task's time is over.
    DeadlineReached,
    /// The task was claimed again and again without progress.
    Poisoned {
        /// How often.
        claims: u32,
    },
    /// The task cannot be worked on by anybody: its state or its app cannot be read.
    SetAside {
        /// What is wrong with it.
        cause: String,
    },
}

/// What somebody said to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum QuestionAnswer {
    /// Go ahead.
    Approve {
        /// What else to mind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Do not.
    Reject {
        /// Why.
        #[serde(default)]
        message: Option<String>,
    },
    /// Go on with this instead.
    Modify {
        /// What to go on with.
        value: Value,
    },
    /// Nobody answered in time.
    Expired,
}

impl QuestionAnswer {
    /// Go ahead.
    pub fn approve() -> Self {
        Self::Approve { message: None }
    }

    /// Do not.
    pub fn reject() -> Self {
        Self::Reject { message: None }
    }

    /// Go on with this instead.
    pub fn modify(value: impl Into<Value>) -> Self {
        Self::Modify {
            value: value.into(),
        }
    }

    /// The same with a word to whoever asked. A changed value speaks for itself and takes none.
    #[must_use]
    pub fn saying(self, text: impl Into<String>) -> Self {
        let message = Some(text.into());
        match self {
            Self::Approve { .. } => Self::Approve { message },
            Self::Reject { .. } => Self::Reject { message },
            other => other,
        }
    }

    /// What was said, in a word.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Approve { .. } => "approve",
            Self::Reject { .. } => "reject",
            Self::Modify { .. } => "modify",
            Self::Expired => "expired",
        }
    }
}

impl<T> Event<T> {
    /// What happened, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Submitted { .. } => "submitted",
            Self::Started { .. } => "started",
            Self::Resumed { .. } => "resumed",
            Self::Returned { .. } => "returned",
            Self::OutcomeUnknown { .. } => "outcome_unknown",
            Self::Verified { .. } => "verified",
            Self::Forked { .. } => "forked",
            Self::PutBack { .. } => "put_back",
            Self::Answered { .. } => "answered",
            Self::Signalled { .. } => "signalled",
            Self::Canceled { .. } => "canceled",
            Self::DeadlineReached => "deadline_reached",
            Self::Poisoned { .. } => "poisoned",
            Self::SetAside { .. } => "set_aside",
        }
    }

    /// Whether the task has come any further. Being picked up, or found stuck, is no progress.
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

    /// Why the task is ended without its program, if it is.
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
