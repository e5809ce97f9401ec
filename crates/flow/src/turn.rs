//! The context of one step of an assistant's task.

use convoke_engine::View;
use convoke_model::Decision;
use jiff::Timestamp;

use crate::assistant::{Assistant, Progress};
use crate::calls::Request;
use crate::request_history::RequestHistory;

/// The assistant, the engine's view, and the state, as nodes use them.
pub(crate) struct Turn<'a> {
    pub(crate) assistant: &'a Assistant,
    pub(crate) view: View<'a, Request>,
    pub(crate) state: &'a mut Progress,
}

impl<'a> Turn<'a> {
    /// The user's message.
    pub(crate) fn message(&self) -> &'a str {
        self.view
            .messages
            .first()
            .map_or("", |message| message.content.as_str())
    }

    /// Whether the history came with the request, so that the task belongs to no stored conversation.
    pub(crate) fn carries_history(&self) -> bool {
        RequestHistory::is_in(self.view.messages.first())
    }

    /// Milliseconds from the task's acceptance to `at`. Excludes idle time before a resume, by which the deadline was
    /// extended.
    pub(crate) fn since_accepted_ms(&self, at: Timestamp) -> u64 {
        let facts = self.view.facts;
        let idle = self.view.deadline.duration_since(facts.deadline);
        let since = at.duration_since(facts.created_at).checked_sub(idle);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
    }

    /// What the request asks for, as far as it is known: a skill, a workflow, an agent or a domain. `unknown` before it is.
    pub(crate) fn known_intent(&self) -> String {
        let state = &*self.state;
        let decided = state
            .decision
            .as_ref()
            .map(|decision| &decision.targets[..]);
        let name = match (&state.target, &state.walk, &state.run, decided) {
            (Some(target), ..) => &target.skill,
            (_, Some(walk), ..) => &walk.workflow,
            (_, _, Some(run), _) => &run.agent,
            (.., Some([only])) => &only.name,
            (.., Some([_, _, ..])) => return "several".to_owned(),
            _ => return "unknown".to_owned(),
        };
        name.to_string()
    }

    /// Whether it was found out what the request asks for. A model that answers by itself has found it out once it calls a
    /// tool.
    pub(crate) fn is_understood(&self) -> bool {
        let state = &*self.state;
        let decided = |decision: &Decision| !decision.ambiguous && !decision.targets.is_empty();
        state.target.is_some()
            || state.walk.is_some()
            || state.decision.as_ref().is_some_and(decided)
            || self
                .view
                .messages
                .iter()
                .any(|message| !message.tool_calls.is_empty())
    }

    /// The name of the chosen skill. Empty if there is none.
    pub(crate) fn intent(&self) -> String {
        self.state
            .target
            .as_ref()
            .map_or(String::new(), |target| target.skill.to_string())
    }
}
