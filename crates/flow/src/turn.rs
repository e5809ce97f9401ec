//! One step of an assistant's task: where it stands, what is known, and what has just come back.

use convoke_engine::View;
use jiff::Timestamp;

use crate::assistant::{Assistant, Progress};
use crate::calls::Request;

/// What every node works on.
pub(crate) struct Turn<'a> {
    pub(crate) assistant: &'a Assistant,
    pub(crate) view: View<'a, Request>,
    pub(crate) state: &'a mut Progress,
}

impl<'a> Turn<'a> {
    /// The user's message.
    pub(crate) fn said(&self) -> &'a str {
        self.view
            .messages
            .first()
            .map_or("", |message| message.content.as_str())
    }

    /// Milliseconds of the task's time from when it was accepted to then. Time in which nobody worked on it, because it
    /// had to be taken up again, is not the task's.
    pub(crate) fn since_accepted_ms(&self, at: Timestamp) -> u64 {
        let facts = self.view.facts;
        let idle = self.view.deadline.duration_since(facts.deadline);
        let since = at.duration_since(facts.created_at).checked_sub(idle);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
    }

    /// The skill that the user is taken to want, by name.
    pub(crate) fn intent(&self) -> String {
        self.state
            .target
            .as_ref()
            .map_or(String::new(), |target| target.skill.to_string())
    }
}
