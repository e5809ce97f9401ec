//! A task's journal as a stream: what happened from a place on, in order, each once, until the task has ended.

use std::collections::VecDeque;
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use convoke_model::{Answer, TaskState};
use convoke_store::{Entry, Hint, Scope, Viewer};
use futures::Stream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::call::{Failure, Outcome};
use crate::engine::{Engine, OUTAGE_PAUSE};
use crate::error::EngineError;
use crate::event::{Event, QuestionAnswer};
use crate::program::Program;
use crate::snapshot::Question;

/// A place in a task's journal: right after a step. Following from there gives what comes later.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EventCursor(u64);

impl EventCursor {
    /// Before the first step.
    pub const START: Self = Self(0);

    /// Right after a step; steps are numbered from 1.
    pub const fn after(step: u64) -> Self {
        Self(step)
    }

    /// The number of the step before this place, and 0 at the start.
    pub const fn step(self) -> u64 {
        self.0
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EventCursor {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

/// A step of a task, as whoever follows it sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskEvent {
    /// The place right after it.
    pub cursor: EventCursor,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub change: TaskChange,
    /// Where the task stands after it.
    pub state: TaskState,
    /// What people are asked after it.
    pub questions: Vec<Question>,
    /// The answer, once there is one.
    pub answer: Option<Answer>,
    /// What went wrong, where the task has ended without a full answer.
    pub error: Option<String>,
}

/// What happened to a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskChange {
    /// It was accepted.
    Submitted,
    /// It was begun at a point of another.
    Forked {
        /// The other task.
        from: Uuid,
        /// The place in it.
        at: EventCursor,
    },
    /// A worker took it up again.
    Resumed,
    /// A call has an outcome.
    Returned {
        /// The call.
        call: Uuid,
        /// What it was, for people.
        label: String,
        /// Why it did not work, if it did not.
        failure: Option<Failure>,
    },
    /// A call may have taken effect, and a person is asked.
    OutcomeUnknown {
        /// The call.
        call: Uuid,
    },
    /// Somebody answered a question, or nobody did in time.
    Answered {
        /// The question.
        question: Uuid,
        /// What was said.
        answer: QuestionAnswer,
    },
    /// It was canceled.
    Canceled {
        /// Why, if anybody said so.
        reason: Option<String>,
    },
    /// Its time was over.
    DeadlineReached,
    /// Nobody can work on it, so it was ended.
    SetAside {
        /// What is wrong with it.
        cause: String,
    },
    /// Something that only matters to the engine, or that this version does not know.
    Other {
        /// What the journal calls it.
        kind: String,
    },
}

impl TaskChange {
    fn of(kind: &str, event: Event<Value>) -> Self {
        match event {
            Event::Submitted { .. } => Self::Submitted,
            Event::Forked { from, at, .. } => Self::Forked {
                from,
                at: EventCursor(at),
            },
            Event::Resumed { .. } => Self::Resumed,
            Event::Returned {
                call,
                label,
                outcome,
                ..
            } => Self::Returned {
                call,
                label,
                failure: match outcome {
                    Outcome::Done(_) => None,
                    Outcome::Failed(failure) => Some(failure),
                },
            },
            Event::OutcomeUnknown { call, .. } => Self::OutcomeUnknown { call },
            Event::Answered { question, answer } => Self::Answered { question, answer },
            Event::Canceled { reason } => Self::Canceled { reason },
            Event::DeadlineReached => Self::DeadlineReached,
            Event::Poisoned { .. } | Event::SetAside { .. } => Self::SetAside {
                cause: event.set_aside_cause().unwrap_or_default(),
            },
            Event::Started { .. }
            | Event::Verified { .. }
            | Event::PutBack { .. }
            | Event::Signalled { .. } => Self::Other { kind: kind.into() },
        }
    }
}

impl<P: Program> Engine<P> {
    /// What happened to a task after a place in its journal, and what happens from now on. The stream ends
    /// once the task has ended and all was given. It ends with an error where the task is not there (any
    /// more), its journal cannot be read, or the engine is closed; whoever follows again from the last
    /// cursor misses nothing.
    pub fn follow(
        &self,
        viewer: &Viewer,
        task: Uuid,
        after: EventCursor,
    ) -> impl Stream<Item = Result<TaskEvent, EngineError>> + Send + use<P> {
        let follower = Follower {
            hint: self.store().watch(Scope::Task(task)),
            engine: self.clone(),
            viewer: viewer.clone(),
            task,
            next: after.0.saturating_add(1),
            backoff: Backoff::new(FIRST_PAUSE, OUTAGE_PAUSE),
            read: VecDeque::new(),
            over: false,
        };
        futures::stream::unfold(follower, async |mut follower| {
            let event = follower.next().await?;
            Some((event, follower))
        })
    }
}

/// Steps that are read from the store at a time, which bounds what a slow reader holds.
const READ_AT_ONCE: u64 = 64;

/// The pause after the first look that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

struct Follower<P: Program> {
    engine: Engine<P>,
    viewer: Viewer,
    task: Uuid,
    hint: Hint,
    /// The step to give next.
    next: u64,
    backoff: Backoff,
    /// Steps that were read and not given yet.
    read: VecDeque<Entry>,
    over: bool,
}

/// What a look at the store found.
enum Lookup {
    Steps,
    /// Nothing new yet.
    Nothing,
    /// Nothing new ever.
    End,
}

impl<P: Program> Follower<P> {
    async fn next(&mut self) -> Option<Result<TaskEvent, EngineError>> {
        if self.over {
            return None;
        }
        loop {
            if let Some(entry) = self.read.pop_front() {
                self.next = entry.seq + 1;
                let event = self.event_of(entry);
                self.over = event.is_err();
                return Some(event);
            }
            // Asked before the look, so that what was written until then is given.
            let closed = self.engine.is_closed();
            let error = match self.look().await {
                Ok(Lookup::Steps) => continue,
                Ok(Lookup::Nothing) if !closed => {
                    self.engine.until_hint(&mut self.hint).await;
                    continue;
                }
                Ok(Lookup::Nothing) => Some(self.engine.0.closing.error()),
                Ok(Lookup::End) => None,
                Err(EngineError::Store(error)) if error.is_outage() && !closed => {
                    self.backoff.pause().await;
                    continue;
                }
                Err(error) => Some(error),
            };
            self.over = true;
            return error.map(Err);
        }
    }

    async fn look(&mut self) -> Result<Lookup, EngineError> {
        let unknown = EngineError::UnknownTask(self.task);
        let store = self.engine.store();
        let Some(record) = store.task(&self.viewer, self.task).await? else {
            return Err(unknown);
        };
        if record.seq < self.next {
            let ended = record.status.is_final();
            return Ok(if ended { Lookup::End } else { Lookup::Nothing });
        }
        let last = record.seq.min(self.next.saturating_add(READ_AT_ONCE - 1));
        let entries = store
            .entries(&self.viewer, self.task, self.next..=last)
            .await?;
        if entries.is_empty() {
            return Err(unknown);
        }
        self.read = entries.into();
        Ok(Lookup::Steps)
    }

    fn event_of(&self, entry: Entry) -> Result<TaskEvent, EngineError> {
        let standing: StateSummary = crate::engine::read_state(self.task, &entry.state)?;
        let change = match serde_json::from_value(entry.event) {
            Ok(event) => TaskChange::of(&entry.kind, event),
            Err(_) => TaskChange::Other { kind: entry.kind },
        };
        Ok(TaskEvent {
            cursor: EventCursor(entry.seq),
            at: entry.at,
            change,
            state: standing.status,
            questions: standing.questions,
            answer: standing.answer,
            error: standing.error,
        })
    }
}

/// What is told of the state after a step.
#[derive(Deserialize)]
struct StateSummary {
    status: TaskState,
    #[serde(default)]
    questions: Vec<Question>,
    #[serde(default)]
    answer: Option<Answer>,
    #[serde(default)]
    error: Option<String>,
}
