//! What happens to a task, as one type for everybody who follows it: a pure projection of the journal, and a stream that
//! joins it with live text.

mod projection;
mod stream;

use convoke_engine::{EventCursor, Failure, LiveText, Question, QuestionAnswer};
use convoke_model::{Answer, Name, Stage, TaskState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub use projection::EventProjection;
pub use stream::{Following, follow, follow_stored};

/// Something that happened to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskEvent {
    /// The place right after it.
    pub cursor: EventCursor,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub kind: TaskEventKind,
}

/// What happened to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskEventKind {
    /// The task was accepted.
    Accepted,
    /// The task began at a point of another one.
    Forked {
        /// The other task.
        from: Uuid,
        /// The place in it.
        at: EventCursor,
    },
    /// The task stands elsewhere.
    StateChanged {
        /// Its public state.
        state: TaskState,
    },
    /// The task is at another step of its way.
    StageChanged {
        /// The step.
        stage: Stage,
    },
    /// It was decided what the user means.
    Decided {
        /// The decision's call.
        call: Uuid,
        /// What the message was taken to be, such as `act`, `several`, `inquire`, `unclear` or `unknown`.
        meaning: String,
        /// What was chosen, or may be meant, the likeliest first.
        candidates: Vec<DecisionCandidate>,
    },
    /// A model begins to think. What it says meanwhile is live text of this call.
    ThoughtBegun {
        /// The call.
        call: Uuid,
        /// The agent that thinks, if it is one.
        agent: Option<Name>,
    },
    /// A model has said something. It replaces all live text of the call.
    Text {
        /// The call.
        call: Uuid,
        /// All that it said.
        text: String,
    },
    /// A thought has come to nothing. All live text of the call counts no more.
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
        /// What it is given, without what the engine adds.
        arguments: Value,
    },
    /// A tool has answered, or its call failed.
    ToolCallEnded {
        /// The call.
        call: Uuid,
        /// The tool.
        tool: String,
        /// What it gave. It may say that it failed.
        result: Option<Value>,
        /// Why there is no result.
        failure: Option<Failure>,
        /// How long it took.
        duration_ms: u64,
    },
    /// A part of the work was handed to another agent, or to a workflow.
    SubTaskBegun {
        /// The call.
        call: Uuid,
        /// Who does it.
        name: Name,
    },
    /// A part of the work has come back.
    SubTaskEnded {
        /// The call.
        call: Uuid,
        /// The task that it was, if it is known.
        task: Option<Uuid>,
        /// What came of it, in words.
        text: String,
        /// Why nothing came of it.
        failure: Option<Failure>,
    },
    /// A call waits for a timer.
    TimerSet {
        /// The call.
        call: Uuid,
        /// When it is due.
        due_at: Timestamp,
    },
    /// A person is asked something.
    QuestionAsked {
        /// The question.
        question: Question,
    },
    /// A question was answered, or nobody answered in time.
    QuestionAnswered {
        /// The question's id.
        question: Uuid,
        /// The answer.
        answer: QuestionAnswer,
    },
    /// A worker took the task up again. All live text of these calls counts no more.
    Reset {
        /// The calls.
        calls: Vec<Uuid>,
    },
    /// There is an answer.
    Answer {
        /// The answer.
        answer: Answer,
    },
    /// The task has ended. Nothing comes after it.
    Ended {
        /// How.
        state: TaskState,
        /// What went wrong, for an operator.
        error: Option<String>,
    },
}

/// What a message may mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionCandidate {
    /// A skill, an agent or a domain.
    pub name: String,
    /// How sure the decision is of it, from 0 to 1, where that is known.
    pub confidence: Option<f64>,
}

/// What a follower gets: events, which have cursors, and between them live text, which has none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TaskUpdate {
    /// An event of the journal.
    Event(TaskEvent),
    /// Live text, or what takes some back.
    Live(LiveText),
}

/// What is known of a task from a part of its stream: the events, and the live text that still counts. Joining the parts of
/// a stream that was cut anywhere gives the same as the uncut stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FollowedTask {
    /// All events so far.
    pub events: Vec<TaskEvent>,
    /// Text of calls that have no outcome yet.
    pub live: std::collections::BTreeMap<Uuid, String>,
}

impl FollowedTask {
    /// Takes in the next update of a stream.
    pub fn apply(&mut self, update: TaskUpdate) {
        match update {
            TaskUpdate::Live(LiveText::Text {
                call, offset, text, ..
            }) => {
                let said = self.live.entry(call).or_default();
                said.truncate(offset);
                said.push_str(&text);
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
