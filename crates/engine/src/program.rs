//! What a program is: a pure function from where a task stands and what happened to what comes next.

use std::time::Duration;

use convoke_model::{Answer, Channel, Message, Stage};
use convoke_store::{NewMessage, TaskRecord};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::call::Call;
use crate::event::Event;

/// What never changes about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The task.
    pub id: Uuid,
    /// The user whose task it is, from the verified token.
    pub owner: Uuid,
    /// The conversation it belongs to.
    pub conversation: Option<Uuid>,
    /// Where the request came in.
    pub channel: Channel,
    /// The task that started it.
    pub parent: Option<Uuid>,
    /// When it was accepted.
    pub created_at: Timestamp,
}

impl From<&TaskRecord> for Facts {
    fn from(record: &TaskRecord) -> Self {
        Self {
            id: record.id,
            owner: record.owner,
            conversation: record.conversation,
            channel: record.channel,
            parent: record.parent,
            created_at: record.created_at,
        }
    }
}

/// Where a task stands when something happens to it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// What never changes.
    pub facts: &'a Facts,
    /// The messages so far.
    pub messages: &'a [Message],
    /// When the event happened. A program knows no other clock.
    pub at: Timestamp,
    /// The call that has just returned, as it was made.
    pub returned: Option<&'a Call>,
    /// The number of the entry that the event becomes.
    pub seq: u64,
}

impl View<'_> {
    /// The effect id that the step's call of this index will have.
    pub fn call_id(&self, index: usize) -> Uuid {
        effect_id(self.facts.id, self.seq, index)
    }
}

/// The id of a call: the same task, entry and position always give the same one.
pub(crate) fn effect_id(task: Uuid, seq: u64, index: usize) -> Uuid {
    Uuid::new_v5(&task, format!("{seq}/{index}").as_bytes())
}

/// A call that a program wants made. The machine gives it its id.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCall {
    /// What kind of call it is, for the executor.
    pub kind: &'static str,
    /// What it is, for people.
    pub label: String,
    /// What the executor needs to know.
    pub request: Value,
    /// What to ask a person before it is made, if anybody must agree.
    pub approval: Option<String>,
}

/// What comes next.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// The finer step that the task is at now.
    pub stage: Option<Stage>,
    /// Messages to add.
    pub messages: Vec<NewMessage>,
    /// Calls to make.
    pub calls: Vec<NewCall>,
    /// How it ends, if it does. Calls that are still open are given up.
    pub end: Option<Ending>,
}

/// How a task ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// With an answer.
    Completed(Box<Answer>),
    /// Without one: with a message that the user can read and a cause that an operator can find.
    Failed {
        /// For the user.
        message: Box<Answer>,
        /// For the operator.
        cause: String,
    },
}

/// Says what a task does. Pure: the same state and event always give the same step.
pub trait Program: Send + Sync + 'static {
    /// All that the program knows of a task besides its messages. It is written with every entry, so
    /// it must stay small.
    type State: Clone + Default + Serialize + DeserializeOwned + Send + Sync;

    /// How long a person has to agree to a call.
    fn approval_time(&self) -> Duration {
        Duration::from_hours(24)
    }

    /// What comes next. Called with `Submitted` first, then with every `Returned`, `Signalled` and
    /// `DeadlineReached`; the last must end the task.
    fn step(&self, view: View<'_>, state: &mut Self::State, event: &Event) -> Step;
}
