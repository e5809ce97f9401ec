//! What the next message can refer to after a workflow: what its parts told the user, the questions that they asked, and
//! whether a route node found nobody.

use convoke_model::{Name, ToolCall};
use convoke_tools::ToolReply;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::definition::WorkflowGraph;
use super::walk::Walk;
use crate::calls::is_default;
use crate::memory::PendingQuestion;
use crate::nodes::act;
use crate::nodes::compose::{ComposedReply, SHOWS_FAILED};
use crate::nodes::dispatch::SubTaskResult;
use crate::nodes::route::INTENT_DISMISSED;
use crate::turn::Turn;

/// How a route node was left that chose no target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unrouted {
    /// The intent of an answer that says so.
    pub(super) intent: String,
    /// Calls of the workflow up to then. Further calls make the answer one of the workflow.
    #[serde(default, skip_serializing_if = "is_default")]
    steps: u32,
    /// The question whose answer the next message may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    question: Option<PendingQuestion>,
}

/// Records that a route node chose no target.
pub(super) fn note_unrouted(turn: &mut Turn<'_>, intent: &str, question: Option<PendingQuestion>) {
    if let Some(walk) = turn.state.walk.as_mut() {
        walk.unrouted = Some(Box::new(Unrouted {
            intent: intent.to_owned(),
            steps: walk.steps,
            question,
        }));
    }
}

/// Records what a child task told, and returns the tool calls that it made.
pub(super) fn note_part(turn: &mut Turn<'_>, reply: &ToolReply) -> Vec<ToolCall> {
    let mut part = SubTaskResult::of(reply.clone());
    let calls = std::mem::take(&mut part.calls);
    if reply.is_error {
        return calls;
    }
    // The text that the nodes of the workflow see, which may be shorter.
    part.text.clone_from(&reply.text);
    if let Some(walk) = turn.state.walk.as_mut() {
        walk.told.push(part);
    }
    calls
}

impl Walk {
    /// The route node that chose no target, unless the workflow made further calls since.
    fn unrouted(&self) -> Option<&Unrouted> {
        let unrouted = self.unrouted.as_deref();
        unrouted.filter(|unrouted| unrouted.steps == self.steps)
    }

    /// Whether the message declines a question, and no edge of the route node is for that.
    pub(super) fn is_dismissed(&self) -> bool {
        self.unrouted()
            .is_some_and(|unrouted| unrouted.intent == INTENT_DISMISSED)
    }
}

/// The reply of a workflow that ended with this text and this state. What a part has shown or asked counts only if the
/// text has the part's own: nobody can refer to what was not said. What the part was about counts either way.
pub(super) fn reply(
    turn: &Turn<'_>,
    workflow: &WorkflowGraph,
    text: String,
    state: &Value,
) -> ComposedReply {
    let (memory, unread) = act::memory_of_workflow(turn, state);
    let mut reply = ComposedReply::of(text, &intent(turn, &workflow.name), memory);
    if let Some(cause) = unread {
        let task = turn.view.facts.id;
        tracing::warn!(%task, cause, "the items that a workflow shows cannot be read");
        reply.metadata.insert(SHOWS_FAILED.into(), json!(cause));
    }
    let Some(walk) = turn.state.walk.as_deref() else {
        return reply;
    };
    let mut said = Vec::new();
    for part in walk.told.items() {
        let own = part.text.trim();
        match reply.text.find(own).filter(|_| !own.is_empty()) {
            Some(place) => said.push((place, part)),
            None => reply.memory.add(part.memory.unsaid()),
        }
    }
    said.sort_by_key(|(place, _)| *place);
    for (_, part) in said {
        reply.memory.add(part.memory.clone());
        reply.sources.extend(part.sources.iter().cloned());
        reply.suggestions.extend(part.suggestions.iter().cloned());
        reply.warnings.extend(part.warnings.iter().cloned());
    }
    if let Some(question) = walk
        .unrouted()
        .and_then(|unrouted| unrouted.question.as_ref())
    {
        reply.memory.question = Some(question.clone());
    }
    reply
}

/// The intent of a workflow's answer: the skill that started it, the outcome of a route node that found nobody, or the
/// workflow.
pub(super) fn intent(turn: &Turn<'_>, workflow: &Name) -> String {
    if turn.state.target.is_some() {
        return turn.intent();
    }
    let walk = turn.state.walk.as_deref();
    let unrouted = walk.and_then(Walk::unrouted);
    unrouted.map_or_else(|| workflow.to_string(), |unrouted| unrouted.intent.clone())
}
