//! The pure state machine: state and event lead to the next state and the calls to make. No clock, no ids, no I/O: all
//! of them come with the event.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Message, TaskState};
use convoke_store::NewMessage;
use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::call::{Call, Failure, FailureKind, Outcome};
use crate::event::{Event, QuestionAnswer};
use crate::messages::Messages;
use crate::program::{Ending, Facts, NewCall, Program, Step, View, effect_id};
use crate::snapshot::{Question, QuestionKind, Rest, Snapshot};

/// A task as the machine sees it.
pub struct Machine<P: Program> {
    program: Arc<P>,
    facts: Arc<Facts>,
    snapshot: Snapshot<P::State, P::Request>,
    messages: Messages,
    seq: u64,
}

/// The result of an event.
#[derive(Debug)]
pub struct Transition<R> {
    /// Added messages.
    pub messages: Vec<NewMessage>,
    /// Calls to make now.
    pub perform: Vec<Arc<Call<R>>>,
}

impl<R> Default for Transition<R> {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            perform: Vec::new(),
        }
    }
}

impl<P: Program> Machine<P> {
    /// A new task.
    pub fn new(program: Arc<P>, facts: Facts) -> Self {
        Self {
            program,
            facts: Arc::new(facts),
            snapshot: Snapshot::default(),
            messages: Messages::default(),
            seq: 0,
        }
    }

    /// Restores a task from its newest entry.
    pub fn restore(
        program: Arc<P>,
        facts: Facts,
        snapshot: Snapshot<P::State, P::Request>,
        messages: Vec<Message>,
        seq: u64,
    ) -> Self {
        Self {
            program,
            facts: Arc::new(facts),
            snapshot,
            messages: messages.into_iter().collect(),
            seq,
        }
    }

    /// The immutable facts.
    pub fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    /// The current state.
    pub fn snapshot(&self) -> &Snapshot<P::State, P::Request> {
        &self.snapshot
    }

    /// The current deadline.
    pub fn deadline(&self) -> Timestamp {
        self.snapshot.deadline.unwrap_or(self.facts.deadline)
    }

    /// Converts the machine to its state.
    pub fn into_snapshot(self) -> Snapshot<P::State, P::Request> {
        self.snapshot
    }

    /// The messages so far.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The sequence of the newest entry.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Sets the initial messages.
    pub fn begin_with(&mut self, messages: impl IntoIterator<Item = Message>) {
        self.messages.extend(messages);
    }

    /// Applies an event. Obsolete events, such as the outcome of an abandoned call, change only the sequence.
    pub fn apply(&mut self, event: Event<P::Reply>, at: Timestamp) -> Transition<P::Request> {
        self.seq += 1;
        match event {
            Event::Submitted { .. } | Event::Signalled { .. } => self.ask_program(event, None, at),
            Event::DeadlineReached => {
                let transition = self.ask_program(event, None, at);
                let cause = "the task's time was over".into();
                self.snapshot.stop(TaskState::Failed, cause);
                Transition {
                    perform: Vec::new(),
                    ..transition
                }
            }
            Event::Started { call } => {
                self.mark_started(call);
                Transition::default()
            }
            // An ended task is only claimed to record its end.
            Event::Resumed { .. } if self.snapshot.status.is_final() => Transition::default(),
            Event::Resumed { deadline } => {
                self.snapshot.deadline = Some(deadline);
                self.settle();
                Transition::default()
            }
            Event::Returned { call, .. } => {
                let Some(closed) = self.close(call) else {
                    return Transition::default();
                };
                self.ask_program(event, Some(&closed), at)
            }
            Event::Postponed { call, pause_ms, .. } => {
                self.postpone(call, pause_ms, at);
                Transition::default()
            }
            Event::OutcomeUnknown {
                call,
                expires_at,
                cause,
            } => {
                self.ask_person(call, expires_at, cause);
                Transition::default()
            }
            // The first entry of a forked task holds the original's state.
            Event::Verified { .. } | Event::Forked { .. } | Event::PutBack { .. } => {
                Transition::default()
            }
            Event::Reminded { question } => {
                self.remind(question);
                Transition::default()
            }
            Event::Answered {
                question, answer, ..
            } => self.take_answer(question, answer, at),
            Event::Canceled { reason } => {
                let cause = reason.unwrap_or_else(|| "called off".into());
                self.snapshot.stop(TaskState::Canceled, cause);
                Transition::default()
            }
            Event::Poisoned { .. } | Event::SetAside { .. } => {
                if let Some(cause) = event.set_aside_cause() {
                    self.snapshot.stop(TaskState::Failed, cause);
                }
                Transition::default()
            }
        }
    }

    /// Creates a forked task from the messages, the state and the open calls of another, with no call started. Returns
    /// the reason if that is not possible.
    pub fn fork(
        program: Arc<P>,
        facts: Facts,
        origin: Snapshot<P::State, P::Request>,
        messages: Vec<Message>,
        set: &Map<String, Value>,
    ) -> Result<Self, String> {
        let question = |call: &Call<P::Request>| {
            let question = origin.questions.iter().find(|open| open.id == call.id);
            question.map(|question| question.prompt.clone())
        };
        let open = origin.open.iter().map(|call| NewCall {
            label: call.label.clone(),
            request: call.request.clone(),
            approval: question(call),
        });
        let open = open.collect();
        let at = facts.created_at;
        let snapshot = Snapshot {
            status: TaskState::Submitted,
            deadline: None,
            open: Vec::new(),
            questions: Vec::new(),
            answer: None,
            error: None,
            ..origin
        };
        let mut machine = Self::restore(program, facts, snapshot, messages, 1);
        let deadline = machine.deadline();
        let view = View {
            facts: &machine.facts,
            deadline,
            messages: &machine.messages,
            at,
            returned: None,
            seq: machine.seq,
        };
        let state = &mut machine.snapshot.program;
        let step = Step {
            calls: machine.program.fork(view, state, open, set)?,
            ..Step::default()
        };
        machine.take_step(step, true, at);
        Ok(machine)
    }

    /// Marks calls as not started, because the worker releases the task.
    pub fn put_down(&mut self, calls: &[Arc<Call<P::Request>>]) {
        for call in &mut self.snapshot.open {
            if calls.iter().any(|other| other.id == call.id) {
                Arc::make_mut(call).started = false;
            }
        }
    }

    fn ask_program(
        &mut self,
        event: Event<P::Reply>,
        returned: Option<&Call<P::Request>>,
        at: Timestamp,
    ) -> Transition<P::Request> {
        if self.snapshot.status.is_final() {
            return Transition::default();
        }
        let first = matches!(event, Event::Submitted { .. });
        let deadline = self.deadline();
        let view = View {
            facts: &self.facts,
            deadline,
            messages: &self.messages,
            at,
            returned,
            seq: self.seq,
        };
        let step = self.program.step(view, &mut self.snapshot.program, event);
        self.take_step(step, first, at)
    }

    fn take_step(
        &mut self,
        step: Step<P::Request>,
        first: bool,
        at: Timestamp,
    ) -> Transition<P::Request> {
        if let Some(stage) = step.stage {
            self.snapshot.enter(stage);
        }
        let messages = step
            .messages
            .iter()
            .map(|added| NewMessage::new(&added.message, added.in_conversation))
            .collect();
        let added = step.messages.into_iter().map(|added| added.message);
        self.messages.extend(added);
        if let Some(end) = step.end {
            let (status, answer, error) = match end {
                Ending::Completed(answer) => (TaskState::Completed, answer, None),
                Ending::Failed { message, cause } => (TaskState::Failed, message, Some(cause)),
            };
            self.snapshot.answer = Some(*answer);
            self.snapshot.finish(status, error);
            return Transition {
                messages,
                perform: Vec::new(),
            };
        }
        let mut perform = Vec::with_capacity(step.calls.len());
        for (index, new) in step.calls.into_iter().enumerate() {
            let id = effect_id(self.facts.id, self.seq, index);
            let asks = new.approval.is_some();
            let due_at = if asks {
                None
            } else {
                self.due_at(&new.request, at)
            };
            let call = Arc::new(Call {
                id,
                label: new.label,
                request: new.request,
                // The first calls of a submitted task start with its first claim.
                started: !first && !asks && due_at.is_none(),
                due_at,
                postponed: 0,
            });
            if let Some(prompt) = new.approval {
                let expires_at = at
                    .checked_add(self.program.approval_time())
                    .unwrap_or(Timestamp::MAX);
                self.snapshot.questions.push(Question {
                    id,
                    seq: self.seq,
                    about: QuestionKind::Approval,
                    prompt,
                    expires_at,
                    snoozed_until: None,
                });
            } else if due_at.is_none() {
                perform.push(Arc::clone(&call));
            }
            self.snapshot.open.push(call);
        }
        if !first {
            self.settle();
        }
        if self.snapshot.open.is_empty() && self.snapshot.questions.is_empty() {
            self.snapshot.stop(
                TaskState::Failed,
                "the program neither ended nor asked for anything".into(),
            );
        }
        Transition { messages, perform }
    }

    /// The due time of a delayed call.
    fn due_at(&self, request: &P::Request, at: Timestamp) -> Option<Timestamp> {
        let delay = self.program.delay(request);
        (!delay.is_zero()).then(|| at.checked_add(delay).unwrap_or(Timestamp::MAX))
    }

    /// A task with an open question and only waiting calls is input-required.
    fn settle(&mut self) {
        let next = match self.snapshot.rest() {
            Some(Rest::Until { asks: true, .. }) => TaskState::InputRequired,
            _ => TaskState::Working,
        };
        self.snapshot.move_to(next);
    }

    fn mark_started(&mut self, id: Uuid) {
        if let Some(call) = self.snapshot.open.iter_mut().find(|call| call.id == id) {
            let call = Arc::make_mut(call);
            call.started = true;
            call.due_at = None;
        }
        self.settle();
    }

    fn postpone(&mut self, id: Uuid, pause_ms: u64, at: Timestamp) {
        if let Some(call) = self.snapshot.open.iter_mut().find(|call| call.id == id) {
            let call = Arc::make_mut(call);
            let due_at = at.checked_add(Duration::from_millis(pause_ms));
            call.started = false;
            call.due_at = Some(due_at.unwrap_or(Timestamp::MAX));
            call.postponed = call.postponed.saturating_add(1);
        }
        self.settle();
    }

    fn close(&mut self, id: Uuid) -> Option<Arc<Call<P::Request>>> {
        let index = self.snapshot.open.iter().position(|call| call.id == id)?;
        self.snapshot.questions.retain(|question| question.id != id);
        Some(self.snapshot.open.remove(index))
    }

    fn ask_person(&mut self, id: Uuid, expires_at: Timestamp, cause: Option<String>) {
        if let Some(call) = self.snapshot.open.iter().find(|call| call.id == id) {
            let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            let prompt = format!(
                "The call to {} was interrupted and may or may not have taken effect{cause}. \
                 Approve to make it again, reject to go on without it, or modify to give its \
                 result.",
                call.label
            );
            self.snapshot.questions.push(Question {
                id,
                seq: self.seq,
                about: QuestionKind::OutcomeUnknown,
                prompt,
                expires_at,
                snoozed_until: None,
            });
        }
        self.settle();
    }

    fn remind(&mut self, id: Uuid) {
        let mut questions = self.snapshot.questions.iter_mut();
        if let Some(question) = questions.find(|question| question.id == id) {
            question.snoozed_until = None;
            question.seq = self.seq;
        }
    }

    /// A second answer, an answer to an unknown question, and an invalid answer have no effect.
    fn take_answer(
        &mut self,
        id: Uuid,
        answer: QuestionAnswer,
        at: Timestamp,
    ) -> Transition<P::Request> {
        let question_index = self
            .snapshot
            .questions
            .iter()
            .position(|open| open.id == id);
        let call_index = self.snapshot.open.iter().position(|call| call.id == id);
        let (Some(question_index), Some(call_index)) = (question_index, call_index) else {
            return Transition::default();
        };
        let about = self.snapshot.questions[question_index].about;
        let request = &self.snapshot.open[call_index].request;
        let outcome = match (answer, about) {
            (QuestionAnswer::Approve { message }, _) => {
                let approved = message.map(|message| self.program.approved(request, &message));
                return self.go_ahead(question_index, call_index, approved, at);
            }
            (QuestionAnswer::Snooze { pause_ms }, _) => {
                let question = &mut self.snapshot.questions[question_index];
                question.snooze(at, Duration::from_millis(pause_ms));
                // A snoozed question takes another answer.
                question.seq = self.seq;
                return Transition::default();
            }
            (QuestionAnswer::Modify { value }, QuestionKind::Approval) => {
                return match self
                    .program
                    .modified(&self.snapshot.program, request, value)
                {
                    Ok(request) => self.go_ahead(question_index, call_index, Some(request), at),
                    Err(_) => Transition::default(),
                };
            }
            (QuestionAnswer::Modify { value }, QuestionKind::OutcomeUnknown) => {
                match self.program.manual_reply(request, value) {
                    Ok(reply) => Outcome::Done(reply),
                    Err(_) => return Transition::default(),
                }
            }
            (QuestionAnswer::Reject { message }, about) => {
                let message = message.unwrap_or_else(|| "a person decided against it".into());
                Outcome::Failed(not_made("call.rejected", message, about))
            }
            (QuestionAnswer::Expired, about) => Outcome::Failed(not_made(
                "call.unanswered",
                "nobody said in time whether to make the call".into(),
                about,
            )),
        };
        self.snapshot.questions.remove(question_index);
        let call = self.snapshot.open.remove(call_index);
        let returned = Event::Returned {
            call: id,
            label: call.label.clone(),
            outcome,
            started_at: None,
            duration_ms: 0,
        };
        self.ask_program(returned, Some(&call), at)
    }

    /// Starts an approved call, in the same entry as the approval.
    fn go_ahead(
        &mut self,
        question_index: usize,
        call_index: usize,
        modified: Option<P::Request>,
        at: Timestamp,
    ) -> Transition<P::Request> {
        let about = self.snapshot.questions.remove(question_index).about;
        let request = modified.as_ref();
        let due_at = match about {
            QuestionKind::Approval => self.due_at(
                request.unwrap_or(&self.snapshot.open[call_index].request),
                at,
            ),
            QuestionKind::OutcomeUnknown => None,
        };
        let call = Arc::make_mut(&mut self.snapshot.open[call_index]);
        call.started = due_at.is_none();
        call.due_at = due_at;
        if let Some(request) = modified {
            call.request = request;
        }
        let perform = match due_at {
            None => vec![Arc::clone(&self.snapshot.open[call_index])],
            Some(_) => Vec::new(),
        };
        self.settle();
        Transition {
            messages: Vec::new(),
            perform,
        }
    }
}

/// The failure of a call that a person rejected. If it had started, it may have taken effect.
fn not_made(code: &str, message: String, about: QuestionKind) -> Failure {
    Failure {
        code: code.into(),
        message,
        kind: match about {
            QuestionKind::Approval => FailureKind::NoEffect,
            QuestionKind::OutcomeUnknown => FailureKind::Unknown,
        },
        transient: false,
        retry_in: None,
    }
}
