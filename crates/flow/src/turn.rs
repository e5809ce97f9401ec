//! One step of an assistant's task: where it stands, what is known, and what has just come back.

use convoke_engine::{Outcome, View};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::assistant::{Assistant, Progress};

/// What every node works on.
pub(crate) struct Turn<'a> {
    pub(crate) assistant: &'a Assistant,
    pub(crate) view: View<'a>,
    pub(crate) state: &'a mut Progress,
}

impl<'a> Turn<'a> {
    /// What the user said.
    pub(crate) fn said(&self) -> &'a str {
        self.view
            .messages
            .first()
            .map_or("", |message| message.content.as_str())
    }

    /// The skill that the user is taken to want, by name.
    pub(crate) fn intent(&self) -> String {
        self.state
            .target
            .as_ref()
            .map_or(String::new(), |target| target.skill.to_string())
    }
}

/// A call that has just come back.
pub(crate) struct Returned<'a> {
    pub(crate) call: Uuid,
    pub(crate) outcome: &'a Outcome,
    pub(crate) started_at: Timestamp,
}

impl Returned<'_> {
    /// Whether the call failed for a reason that may pass.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(failure) if failure.transient)
    }

    /// What the call gave, or why it gave nothing, for the operator.
    pub(crate) fn value<T: DeserializeOwned>(&self) -> Result<T, String> {
        match self.outcome {
            Outcome::Done(value) => T::deserialize(value).map_err(|error| error.to_string()),
            Outcome::Failed(failure) => Err(format!("{}: {}", failure.code, failure.message)),
        }
    }
}
