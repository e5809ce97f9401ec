//! What a program is: a pure function from where a task stands and what happened to what comes next.

use std::time::Duration;

use convoke_model::{Answer, Channel, Message, Stage};
use convoke_store::TaskRecord;
use convoke_telemetry::TraceContext;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::{Builder, Uuid};

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
    /// When its time is over, unless that was begun anew.
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

/// Where a task stands when something happens to it.
#[derive(Debug)]
pub struct View<'a, R> {
    /// What never changes.
    pub facts: &'a Facts,
    /// The messages so far.
    pub messages: &'a [Message],
    /// When the event happened. A program knows no other clock.
    pub at: Timestamp,
    /// When the task's time is over. It is later than its facts say where that was begun anew.
    pub deadline: Timestamp,
    /// The call that has just returned, as it was made.
    pub returned: Option<&'a Call<R>>,
    /// The number of the entry that the event becomes.
    pub seq: u64,
}

impl<R> View<'_, R> {
    /// The effect id that the step's call of this index will have.
    pub fn call_id(&self, index: usize) -> Uuid {
        effect_id(self.facts.id, self.seq, index)
    }
}

/// The id of a call: the same task, entry and position always give the same one, and no other call has
/// it. The place is spread over the half of the task's id that is random, so that the ids of two tasks
/// are as far apart as the tasks' own.
pub(crate) fn effect_id(task: Uuid, seq: u64, index: usize) -> Uuid {
    let (high, low) = task.as_u64_pair();
    let place = (seq << 16) ^ index as u64;
    let id = Uuid::from_u64_pair(high, low ^ spread(place));
    Builder::from_custom_bytes(id.into_bytes()).into_uuid()
}

/// Gives every number another that looks like chance: the finaliser of `SplitMix64`. The top bits, where
/// a UUID has its variant, are left alone.
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

/// A call that a program wants made. The machine gives it its id.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCall<R> {
    /// What it is, for people.
    pub label: String,
    /// What the executor needs to know.
    pub request: R,
    /// What to ask a person before it is made, if anybody must agree.
    pub approval: Option<String>,
}

/// A message that a step adds.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedMessage {
    /// The message.
    pub message: Message,
    /// Whether it was said to or by the user, and so belongs to the conversation.
    pub spoken: bool,
}

/// What comes next.
#[derive(Debug, Clone)]
pub struct Step<R> {
    /// The finer step that the task is at now.
    pub stage: Option<Stage>,
    /// Messages to add.
    pub messages: Vec<AddedMessage>,
    /// Calls to make.
    pub calls: Vec<NewCall<R>>,
    /// How it ends, if it does. Calls that are still open are given up.
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

    /// What a call asks for. It is written with the entry that makes it and with every one until it
    /// returns.
    type Request: Clone + Serialize + DeserializeOwned + Send + Sync;

    /// What a call gives. It is written once.
    type Reply: Serialize + DeserializeOwned + Send;

    /// How long a person has to agree to a call.
    fn approval_time(&self) -> Duration {
        Duration::from_hours(24)
    }

    /// How long after the step that asks for it a call is made. The wait is a timer: it is journaled, outlives the
    /// process, and costs neither a permit nor the task's time.
    fn delay(&self, _request: &Self::Request) -> Duration {
        Duration::ZERO
    }

    /// The request that a person makes of one that they were asked about, or why it cannot be made.
    fn modified(&self, request: &Self::Request, value: Value) -> Result<Self::Request, String>;

    /// The request that a person has agreed to, with what they said to it.
    fn approved(&self, request: &Self::Request, _message: &str) -> Self::Request {
        request.clone()
    }

    /// The calls of a task that begins where another stood: those that were open there, unless what
    /// was changed of the state makes them others.
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

    /// The reply that a person gives in the place of a call whose outcome is unknown, or why it is none.
    fn given(&self, request: &Self::Request, value: Value) -> Result<Self::Reply, String>;

    /// What comes next. Called with `Submission` first, then with every `Returned`, `SignalReceipt` and
    /// `DeadlineReached`; the last must end the task.
    fn step(
        &self,
        view: View<'_, Self::Request>,
        state: &mut Self::State,
        event: Event<Self::Reply>,
    ) -> Step<Self::Request>;
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
