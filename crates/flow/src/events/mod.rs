//! Task events for followers: a pure projection of the journal, and a stream that joins it with live text.

mod projection;
mod stream;

use convoke_engine::{EventCursor, Failure, LiveText, Question, QuestionAnswer};
use convoke_model::{Answer, Name, Stage, TaskState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub use projection::EventProjection;
pub use stream::{TaskEventStream, follow, follow_stored};

/// An event of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskEvent {
    /// The cursor right after it.
    pub cursor: EventCursor,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub kind: TaskEventKind,
}

/// The kinds of task events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskEventKind {
    /// The task was accepted.
    Accepted,
    /// The task was forked from another one.
    Forked {
        /// The other task.
        from: Uuid,
        /// The position of the fork in it.
        at: EventCursor,
    },
    /// The task's state changed.
    StateChanged {
        /// Its public state.
        state: TaskState,
    },
    /// The task's stage changed.
    StageChanged {
        /// The step.
        stage: Stage,
    },
    /// The user's message was interpreted.
    Decided {
        /// The decision's call.
        call: Uuid,
        /// The interpretation: `act`, `several`, `inquire`, `unclear` or `unknown`, among others.
        meaning: String,
        /// The chosen or possible targets, most likely first.
        candidates: Vec<DecisionCandidate>,
    },
    /// A model starts a thought. Its live text has the id of this call.
    ThoughtBegun {
        /// The call.
        call: Uuid,
        /// The agent, unless it is a router.
        agent: Option<Name>,
    },
    /// The final text of a thought. It replaces all live text of the call.
    Text {
        /// The call.
        call: Uuid,
        /// The complete text.
        text: String,
    },
    /// A thought failed. Discard all live text of the call.
    ThoughtFailed {
        /// The call.
        call: Uuid,
        /// Why.
        failure: Failure,
    },
    /// A tool is being called.
    ToolCallBegun {
        /// The call.
        call: Uuid,
        /// The tool.
        tool: String,
        /// Its arguments, without values that the engine injects.
        arguments: Value,
    },
    /// A tool has answered, or its call failed.
    ToolCallEnded {
        /// The call.
        call: Uuid,
        /// The tool.
        tool: String,
        /// Its result, which may be an error of the tool.
        result: Option<Value>,
        /// Why there is no result.
        failure: Option<Failure>,
        /// How long it took.
        duration_ms: u64,
    },
    /// A sub-task was started.
    SubTaskBegun {
        /// The call.
        call: Uuid,
        /// The agent or workflow.
        name: Name,
    },
    /// A sub-task has ended.
    SubTaskEnded {
        /// The call.
        call: Uuid,
        /// The id of the child task, if known.
        task: Option<Uuid>,
        /// Its answer.
        text: String,
        /// Why there is no answer.
        failure: Option<Failure>,
    },
    /// A call waits for a timer.
    TimerSet {
        /// The call.
        call: Uuid,
        /// When it is due.
        due_at: Timestamp,
    },
    /// The task asks a person.
    QuestionAsked {
        /// The question.
        question: Question,
    },
    /// A question was put off. It can be answered at any time, and is asked again at this one.
    QuestionSnoozed {
        /// The question's id.
        question: Uuid,
        /// When it is asked again.
        until: Timestamp,
    },
    /// A question was answered, or it expired.
    QuestionAnswered {
        /// The question's id.
        question: Uuid,
        /// The answer.
        answer: QuestionAnswer,
    },
    /// A worker resumed the task. Discard all live text of these calls.
    Reset {
        /// The calls.
        calls: Vec<Uuid>,
    },
    /// The task has an answer.
    Answer {
        /// The answer.
        answer: Answer,
    },
    /// The task has ended. This is the last event.
    Ended {
        /// How.
        state: TaskState,
        /// What went wrong, for an operator.
        error: Option<String>,
    },
}

/// A possible target of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionCandidate {
    /// A skill, an agent or a domain.
    pub name: String,
    /// Confidence from 0 to 1, if known.
    pub confidence: Option<f64>,
}

/// An item of a follower's stream: an event, which has a cursor, or live text, which has none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TaskUpdate {
    /// An event of the journal.
    Event(TaskEvent),
    /// Live text, or a reset of it.
    Live(LiveText),
}

/// The state of a follower: all events, and the live text that is still valid. A stream that was interrupted and
/// continued from its cursor leads to the same state as an uninterrupted one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FollowedTask {
    /// All events so far.
    pub events: Vec<TaskEvent>,
    /// Live text of calls without an outcome.
    pub live: std::collections::BTreeMap<Uuid, String>,
}

impl FollowedTask {
    /// Applies the next update of a stream.
    pub fn apply(&mut self, update: TaskUpdate) {
        match update {
            TaskUpdate::Live(LiveText::Text {
                call, offset, text, ..
            }) => {
                let live_text = self.live.entry(call).or_default();
                live_text.truncate(offset);
                live_text.push_str(&text);
            }
            TaskUpdate::Live(LiveText::Reset { call }) => {
                self.live.remove(&call);
            }
            TaskUpdate::Event(event) => {
                match &event.kind {
                    TaskEventKind::Text { call, .. }
                    | TaskEventKind::ThoughtFailed { call, .. } => {
                        self.live.remove(call);
                    }
                    TaskEventKind::Reset { calls } => {
                        self.live.retain(|call, _| !calls.contains(call));
                    }
                    TaskEventKind::Ended { .. } => self.live.clear(),
                    _ => {}
                }
                self.events.push(event);
            }
        }
    }
}
