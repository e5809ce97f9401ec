//! From entries to events. Each entry's events follow from the entry and the state before it alone, so that they are the same
//! wherever a follower begins.

use std::sync::Arc;

use convoke_engine::{Call, Event, EventCursor, Outcome, Question, QuestionKind};
use convoke_model::{Answer, Name, Stage, TaskState};
use convoke_store::Entry;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::{DecisionCandidate, TaskEvent, TaskEventKind};
use crate::calls::{CallReply, CallRequest, Reply, Request};
use crate::interpret::Meaning;
use crate::nodes::decide::DecisionReply;

/// What is read of the state after an entry. The rest of it may be large.
#[derive(Debug, Default, Deserialize)]
struct StateBefore {
    #[serde(default)]
    status: Option<TaskState>,
    #[serde(default)]
    stage: Option<Stage>,
    #[serde(default = "Vec::new")]
    open: Vec<Arc<Call<Request>>>,
    #[serde(default)]
    questions: Vec<Question>,
    #[serde(default)]
    answer: Option<Answer>,
    #[serde(default)]
    error: Option<String>,
}

impl StateBefore {
    /// The state that an entry led to. Of one that this version cannot read, nothing is known.
    fn of(entry: &Entry) -> Self {
        entry.state.read().unwrap_or_default()
    }

    fn call(&self, id: Uuid) -> Option<&Call<Request>> {
        self.open
            .iter()
            .find(|call| call.id == id)
            .map(|call| &**call)
    }

    fn asks(&self, question: &Question) -> bool {
        let mut open = self.questions.iter();
        open.any(|open| (open.id, open.seq) == (question.id, question.seq))
    }

    /// The open calls that have begun: they wait neither for leave nor for a timer.
    fn begun(&self) -> impl Iterator<Item = &Call<Request>> {
        let waits = |call: &Call<Request>| {
            let mut open = self.questions.iter();
            call.due_at.is_some()
                || open.any(|open| open.id == call.id && open.about == QuestionKind::Approval)
        };
        let calls = self.open.iter().map(|call| &**call);
        calls.filter(move |call| !waits(call))
    }
}

/// Makes events of a task's entries, which it takes in order.
#[derive(Debug, Default)]
pub struct EventProjection {
    before: StateBefore,
}

impl EventProjection {
    /// A projection that goes on after an entry; from the start without one.
    pub fn after(entry: Option<&Entry>) -> Self {
        Self {
            before: entry.map(StateBefore::of).unwrap_or_default(),
        }
    }

    /// Calls that may be saying something after the entries so far.
    pub(super) fn open_calls(&self) -> Vec<Uuid> {
        self.before.begun().map(|call| call.id).collect()
    }

    /// What happened in an entry.
    pub fn project(&mut self, entry: &Entry) -> Vec<TaskEvent> {
        let after = StateBefore::of(entry);
        let mut kinds = Vec::new();
        // What another version wrote is known by the state that it led to.
        if let Ok(event) = Event::<Reply>::deserialize(&entry.event) {
            self.of_event(event, &mut kinds);
        }
        self.of_states(&after, &mut kinds);
        self.before = after;
        let events = kinds.into_iter().zip(1..);
        events
            .map(|(kind, number)| TaskEvent {
                cursor: EventCursor::within(entry.seq, number),
                at: entry.at,
                kind,
            })
            .collect()
    }

    /// What the entry says.
    fn of_event(&self, event: Event<Reply>, kinds: &mut Vec<TaskEventKind>) {
        match event {
            Event::Submitted { .. } => kinds.push(TaskEventKind::Accepted),
            Event::Forked { from, at, .. } => kinds.push(TaskEventKind::Forked {
                from,
                at: EventCursor::after(at),
            }),
            Event::Resumed { .. } => {
                let calls: Vec<Uuid> = self.open_calls();
                if !calls.is_empty() {
                    kinds.push(TaskEventKind::Reset { calls });
                }
            }
            Event::Returned {
                call,
                outcome,
                duration_ms,
                ..
            } => {
                if let Some(call) = self.before.call(call) {
                    returned(call, outcome, duration_ms, kinds);
                }
            }
            Event::Answered { question, answer } => {
                kinds.push(TaskEventKind::QuestionAnswered { question, answer });
            }
            Event::Started { .. }
            | Event::OutcomeUnknown { .. }
            | Event::Verified { .. }
            | Event::PutBack { .. }
            | Event::Signalled { .. }
            | Event::Canceled { .. }
            | Event::DeadlineReached
            | Event::Poisoned { .. }
            | Event::SetAside { .. } => {}
        }
    }

    /// What the state after the entry has that the one before it had not.
    fn of_states(&self, after: &StateBefore, kinds: &mut Vec<TaskEventKind>) {
        let before = &self.before;
        let is_new = |id: Uuid| !before.begun().any(|call| call.id == id);
        kinds.extend(
            after
                .begun()
                .filter(|call| is_new(call.id))
                .filter_map(begun),
        );
        for call in &after.open {
            let known = before.call(call.id).and_then(|call| call.due_at);
            if let Some(due_at) = call.due_at.filter(|due| known != Some(*due)) {
                let call = call.id;
                kinds.push(TaskEventKind::TimerSet { call, due_at });
            }
        }
        if let Some(stage) = after.stage.filter(|stage| before.stage != Some(*stage)) {
            kinds.push(TaskEventKind::StageChanged { stage });
        }
        let state = after.status.filter(|state| before.status != Some(*state));
        if let Some(state) = state {
            kinds.push(TaskEventKind::StateChanged { state });
        }
        let asked = after.questions.iter();
        for question in asked.filter(|question| !before.asks(question)) {
            let question = question.clone();
            kinds.push(TaskEventKind::QuestionAsked { question });
        }
        if let Some(state) = state.filter(|state| state.is_final()) {
            if let Some(answer) = after.answer.clone() {
                kinds.push(TaskEventKind::Answer { answer });
            }
            let error = after.error.clone();
            kinds.push(TaskEventKind::Ended { state, error });
        }
    }
}

/// A call begins.
fn begun(call: &Call<Request>) -> Option<TaskEventKind> {
    let id = call.id;
    Some(match call.request.0.innermost() {
        CallRequest::Model(thought) => TaskEventKind::ThoughtBegun {
            call: id,
            agent: Some(thought.agent.clone()),
        },
        CallRequest::Route(_) | CallRequest::Synthesise(_) => TaskEventKind::ThoughtBegun {
            call: id,
            agent: None,
        },
        CallRequest::Tool(tool_call) => TaskEventKind::ToolCallBegun {
            call: id,
            tool: tool_call.tool.clone(),
            arguments: Value::Object((*tool_call.arguments).clone()),
        },
        CallRequest::Child(sub_task) => TaskEventKind::SubTaskBegun {
            call: id,
            name: sub_task.addressee.name().clone(),
        },
        CallRequest::Decide(_) | CallRequest::Person { .. } | CallRequest::At(_) => return None,
    })
}

/// A call has an outcome.
fn returned(
    call: &Call<Request>,
    outcome: Outcome<Reply>,
    duration_ms: u64,
    kinds: &mut Vec<TaskEventKind>,
) {
    let id = call.id;
    let (reply, failure) = match outcome {
        Outcome::Done(Reply(reply)) => (Some(reply), None),
        Outcome::Failed(failure) => (None, Some(failure)),
    };
    kinds.push(match (call.request.0.innermost(), reply, failure) {
        (CallRequest::Tool(tool_call), reply, failure) => TaskEventKind::ToolCallEnded {
            call: id,
            tool: tool_call.tool.clone(),
            result: match reply {
                Some(CallReply::Tool(reply)) => Some(reply.content),
                _ => None,
            },
            failure,
            duration_ms,
        },
        (CallRequest::Child(_), reply, failure) => {
            let (text, task) = match reply {
                Some(CallReply::Tool(reply)) => {
                    let task = reply.content["task"].as_str();
                    let task = task.and_then(|task| task.parse().ok());
                    (reply.text, task)
                }
                _ => (String::new(), None),
            };
            TaskEventKind::SubTaskEnded {
                call: id,
                task,
                text,
                failure,
            }
        }
        (_, Some(CallReply::Thought(thought)), _) => TaskEventKind::Text {
            call: id,
            text: thought.text,
        },
        (_, Some(CallReply::Decided(decided)), _) => decided_event(id, &decided),
        (
            CallRequest::Model(_) | CallRequest::Route(_) | CallRequest::Synthesise(_),
            _,
            Some(failure),
        ) => TaskEventKind::ThoughtFailed { call: id, failure },
        _ => return,
    });
}

fn decided_event(call: Uuid, decided: &DecisionReply) -> TaskEventKind {
    let candidate = |name: &Name, confidence| DecisionCandidate {
        name: name.to_string(),
        confidence,
    };
    let (meaning, candidates) = match &decided.meaning {
        Meaning::Act(action) => {
            let targets = action.decision.targets.iter();
            let targets =
                targets.map(|target| candidate(&target.name, Some(target.confidence.value())));
            ("act", targets.collect())
        }
        Meaning::Several { parts } => {
            let parts = parts.iter();
            let targets = parts.map(|part| candidate(part.target.name(), Some(part.confidence)));
            ("several", targets.collect())
        }
        Meaning::Inquire(inquiry) => {
            let asked = inquiry.questions.iter();
            let domains = asked.map(|asked| candidate(&asked.domain, Some(asked.confidence)));
            ("inquire", domains.collect())
        }
        Meaning::Unclear { candidates } => {
            let targets = candidates.iter();
            (
                "unclear",
                targets
                    .map(|target| candidate(target.name(), None))
                    .collect(),
            )
        }
        Meaning::Unknown => ("unknown", Vec::new()),
        Meaning::Dismissed => ("dismissed", Vec::new()),
    };
    TaskEventKind::Decided {
        call,
        meaning: meaning.to_owned(),
        candidates,
    }
}
