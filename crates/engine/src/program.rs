//! The `Program` port: a pure function from a task's state and an event to the next step.

use std::time::Duration;

use convoke_model::{Answer, Approvers, Channel, Message, Stage};
use convoke_store::TaskRecord;
use convoke_telemetry::TraceContext;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::{Builder, Uuid};

use crate::call::Call;
use crate::error::UnusableAnswer;
use crate::event::Event;
use crate::messages::Messages;

/// The immutable facts of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The task.
    pub id: Uuid,
    /// The user whose task it is, from the verified token.
    pub owner: Uuid,
    /// The conversation it belongs to.
    pub conversation: Option<Uuid>,
    /// The channel of the request.
    pub channel: Channel,
    /// The parent task, if it is a child.
    pub parent: Option<Uuid>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// The original deadline. A resume may extend it, see [`View::deadline`].
    pub deadline: Timestamp,
    /// The span that the task continues: its caller's or its parent's. A task that begins a trace has its own here.
    pub trace: TraceContext,
}

impl Facts {
    /// The task's own span.
    pub fn span(&self) -> TraceContext {
        self.trace.at(self.id)
    }
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
            deadline: record.deadline,
            // A task of an earlier version has no trace in its row.
            trace: record
                .trace
                .as_deref()
                .and_then(TraceContext::parse)
                .unwrap_or_else(|| TraceContext::begin(record.id)),
        }
    }
}

/// A task as a program sees it at an event.
#[derive(Debug)]
pub struct View<'a, R> {
    /// The immutable facts.
    pub facts: &'a Facts,
    /// The messages so far.
    pub messages: &'a Messages,
    /// The time of the event, the only clock of a program.
    pub at: Timestamp,
    /// The current deadline. Later than in the facts if a resume extended it.
    pub deadline: Timestamp,
    /// The call that returned with this event, as requested.
    pub returned: Option<&'a Call<R>>,
    /// The sequence of the event's entry.
    pub seq: u64,
}

impl<R> View<'_, R> {
    /// The effect id of the step's call with this index.
    pub fn call_id(&self, index: usize) -> Uuid {
        effect_id(self.facts.id, self.seq, index)
    }
}

/// The id of a call, derived from the task, the entry and the call's position. The position is hashed into the random
/// half of the task's id, so ids of different tasks stay as far apart as the tasks' own.
pub(crate) fn effect_id(task: Uuid, seq: u64, index: usize) -> Uuid {
    let (high, low) = task.as_u64_pair();
    let place = (seq << 16) ^ index as u64;
    let id = Uuid::from_u64_pair(high, low ^ spread(place));
    Builder::from_custom_bytes(id.into_bytes()).into_uuid()
}

/// Mixes the bits of a number with the finaliser of `SplitMix64`. Keeps the top bits, which hold the variant of a UUID.
fn spread(place: u64) -> u64 {
    const VARIANT_BITS: u64 = 2;
    let half = (64 - VARIANT_BITS) / 2;
    let mask = (1_u64 << (64 - VARIANT_BITS)) - 1;
    let mut mixed = place & mask;
    for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> half)).wrapping_mul(factor) & mask;
    }
    mixed ^ (mixed >> half)
}

/// A call that a program requests. The machine assigns its id.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCall<R> {
    /// A label for people.
    pub label: String,
    /// The request for the executor.
    pub request: R,
    /// The approval question, if a person must approve the call.
    pub approval: Option<String>,
}

/// A message that a step adds.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedMessage {
    /// The message.
    pub message: Message,
    /// Whether it is to or from the user, and so part of the conversation.
    pub in_conversation: bool,
}

/// The next step of a task.
#[derive(Debug, Clone)]
pub struct Step<R> {
    /// The new stage, if it changes.
    pub stage: Option<Stage>,
    /// Messages to add.
    pub messages: Vec<AddedMessage>,
    /// Calls to make.
    pub calls: Vec<NewCall<R>>,
    /// The ending, if the task ends. Open calls are abandoned.
    pub end: Option<Ending>,
}

impl<R> Default for Step<R> {
    fn default() -> Self {
        Self {
            stage: None,
            messages: Vec::new(),
            calls: Vec::new(),
            end: None,
        }
    }
}

/// How a task ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// With an answer.
    Completed(Box<Answer>),
    /// As failed, with a message for the user and a cause for the operator.
    Failed {
        /// For the user.
        message: Box<Answer>,
        /// For the operator.
        cause: String,
    },
}

/// Decides what a task does. Pure: the same state and event always lead to the same step.
pub trait Program: Send + Sync + 'static {
    /// The program's state of a task, besides its messages. Written with every entry, so it must stay small.
    type State: Clone + Default + Serialize + DeserializeOwned + Send + Sync;

    /// The request of a call. Written with every entry from the one that makes the call until it returns.
    type Request: Clone + Serialize + DeserializeOwned + Send + Sync;

    /// The reply of a call. Written once.
    type Reply: Serialize + DeserializeOwned + Send;

    /// How long an approval question stays open.
    fn approval_time(&self) -> Duration {
        Duration::from_hours(24)
    }

    /// The delay of a call after its step. It is a journaled timer: it survives the process, and uses neither a permit
    /// nor the task's time.
    fn delay(&self, _request: &Self::Request) -> Duration {
        Duration::ZERO
    }

    /// Who may answer a question about this call.
    fn approvers(&self, _state: &Self::State, _request: &Self::Request) -> Approvers {
        Approvers::default()
    }

    /// The request with a person's changes, or why the changes are invalid.
    fn modified(
        &self,
        state: &Self::State,
        request: &Self::Request,
        value: Value,
    ) -> Result<Self::Request, UnusableAnswer>;

    /// The request with the comment of the person who approved it.
    fn approved(&self, request: &Self::Request, _message: &str) -> Self::Request {
        request.clone()
    }

    /// The open calls of a forked task: those of the original, rebuilt if the changed state affects them.
    fn fork(
        &self,
        _view: View<'_, Self::Request>,
        _state: &mut Self::State,
        open: Vec<NewCall<Self::Request>>,
        set: &Map<String, Value>,
    ) -> Result<Vec<NewCall<Self::Request>>, String> {
        if set.is_empty() {
            Ok(open)
        } else {
            Err("nothing of its state can be changed".into())
        }
    }

    /// A reply that a person enters for a call whose outcome is unknown, or why it is invalid.
    fn manual_reply(&self, request: &Self::Request, value: Value) -> Result<Self::Reply, String>;

    /// The next step of a task. Called with `Submission` first, then with every `Returned`, `SignalReceipt` and
    /// `DeadlineReached`; the last must end the task.
    fn step(
        &self,
        view: View<'_, Self::Request>,
        state: &mut Self::State,
        event: Event<Self::Reply>,
    ) -> Step<Self::Request>;
}

/// Checks what a person changed against what a pure program cannot know, such as what the receiver of a call accepts.
pub trait ChangeCheck<P: Program>: Send + Sync + 'static {
    /// Checks a request as [`Program::modified`] gives it. Changes nothing.
    fn check<'a>(&'a self, request: &'a P::Request) -> BoxFuture<'a, Result<(), UnusableAnswer>>;
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_call_of_every_task_has_an_id_of_its_own() {
        let mut seen = HashSet::new();
        for task in 0..20_u128 {
            // Ids that differ in one bit only are the hardest to keep apart.
            let task = Uuid::from_u128((0x7 << 76) | (0b10 << 62) | task);
            assert!(seen.insert(task));
            for seq in 1..200 {
                for index in 0..8 {
                    assert!(
                        seen.insert(effect_id(task, seq, index)),
                        "{task} {seq} {index}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_same_place_always_has_the_same_id() {
        let task = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001);
        let id = effect_id(task, 3, 1);
        assert_eq!(id, effect_id(task, 3, 1));
        assert_eq!(id.get_version_num(), 8);
    }
}
