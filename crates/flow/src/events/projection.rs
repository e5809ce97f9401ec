//! Projects entries to events. The events of an entry depend only on the entry and the state before it, so they do not
//! depend on where a follower starts.

use std::sync::Arc;

use convoke_engine::{Call, Event, EventCursor, Outcome, Question, QuestionAnswer, QuestionKind};
use convoke_model::{Answer, Name, Stage, TaskState};
use convoke_store::Entry;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::{DecisionCandidate, TaskEvent, TaskEventKind};
use crate::calls::{CallReply, CallRequest, Reply, Request};
use crate::interpret::Meaning;
use crate::nodes::decide::DecisionReply;

/// The fields of an entry's state that the projection reads. The rest may be large.
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
    /// The state after an entry. Empty if this version cannot read it.
    fn of(entry: &Entry) -> Self {
        entry.state.read().unwrap_or_default()
    }

    fn call(&self, id: Uuid) -> Option<&Call<Request>> {
        self.open
            .iter()
            .find(|call| call.id == id)
            .map(|call| &**call)
    }

    fn has_question(&self, question: &Question) -> bool {
        let mut open = self.questions.iter();
        open.any(|open| (open.id, open.seq) == (question.id, question.seq))
    }

    /// The open calls that have started: those that wait neither for an approval nor for a timer.
    fn started_calls(&self) -> impl Iterator<Item = &Call<Request>> {
        let waits = |call: &Call<Request>| {
            let mut open = self.questions.iter();
            call.due_at.is_some()
                || open.any(|open| open.id == call.id && open.about == QuestionKind::Approval)
        };
        let calls = self.open.iter().map(|call| &**call);
        calls.filter(move |call| !waits(call))
    }
}

/// Converts the entries of a task, in order, to events.
#[derive(Debug, Default)]
pub struct EventProjection {
    before: StateBefore,
}

impl EventProjection {
    /// A projection that continues after an entry, or starts at the first one.
    pub fn after(entry: Option<&Entry>) -> Self {
        Self {
            before: entry.map(StateBefore::of).unwrap_or_default(),
        }
    }

    /// Calls that may have live text after the entries so far.
    pub(super) fn open_calls(&self) -> Vec<Uuid> {
        self.before.started_calls().map(|call| call.id).collect()
    }

    /// The events of an entry.
    pub fn project(&mut self, entry: &Entry) -> Vec<TaskEvent> {
        let after = StateBefore::of(entry);
        let mut kinds = Vec::new();
        // An event of another version may be unreadable; the state after it still yields events.
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

    /// Events that follow from the entry's own event.
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
            Event::Postponed { call, .. } => kinds.push(TaskEventKind::Reset { calls: vec![call] }),
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
            Event::Answered {
                question, answer, ..
            } => {
                // A question that is put off stays open. The state says until when.
                if !matches!(answer, QuestionAnswer::Snooze { .. }) {
                    kinds.push(TaskEventKind::QuestionAnswered { question, answer });
                }
            }
            Event::Started { .. }
            | Event::Reminded { .. }
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

    /// Events that follow from the difference between the states before and after.
    fn of_states(&self, after: &StateBefore, kinds: &mut Vec<TaskEventKind>) {
        let before = &self.before;
        let is_new = |id: Uuid| !before.started_calls().any(|call| call.id == id);
        kinds.extend(
            after
                .started_calls()
                .filter(|call| is_new(call.id))
                .filter_map(call_started),
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
        let questions = after.questions.iter();
        for question in questions.filter(|question| !before.has_question(question)) {
            kinds.push(match question.snoozed_until {
                Some(until) => TaskEventKind::QuestionSnoozed {
                    question: question.id,
                    until,
                },
                None => TaskEventKind::QuestionAsked {
                    question: question.clone(),
                },
            });
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

/// The event of a started call.
fn call_started(call: &Call<Request>) -> Option<TaskEventKind> {
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
        CallRequest::Decide(_)
        | CallRequest::Workflow(_)
        | CallRequest::Person { .. }
        | CallRequest::At(_) => return None,
    })
}

/// The events of a returned call.
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
            let questions = inquiry.questions.iter();
            let domains =
                questions.map(|question| candidate(&question.domain, Some(question.confidence)));
            ("inquire", domains.collect())
        }
        Meaning::Unclear { candidates } => {
            let targets = candidates.iter();
            (
                "unclear",
                targets
                    .map(|possible| candidate(possible.target.name(), Some(possible.confidence)))
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
