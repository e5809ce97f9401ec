//! Signals from people: answers and cancellations. Each is checked before it is accepted, and accepted once.

use std::time::Duration;

use convoke_model::{Answerer, TaskState, UserId};
use convoke_store::{NewSignal, SignalKind, SignalReceipt, Store, Viewer};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::engine::{Engine, read_snapshot};
use crate::error::{EngineError, UNUSABLE, UnusableAnswer};
use crate::event::{Event, QuestionAnswer};
use crate::program::Program;
use crate::snapshot::{Question, QuestionKind, Snapshot};

/// Cancels a task through the store alone, so the app need not be readable. Returns when the signal is in the task's
/// inbox; the worker that runs or next claims the task ends it. Canceling again has no effect. A task that ended
/// otherwise is an error (`task.ended`).
pub async fn cancel(
    store: &dyn Store,
    viewer: &Viewer,
    task: Uuid,
    reason: Option<&str>,
) -> Result<(), EngineError> {
    let signal = NewSignal {
        task,
        kind: SignalKind::Cancel,
        payload: json!({ "reason": reason }),
        key: "cancel".into(),
    };
    let ended = || {
        let message = format!("task {task} has ended already");
        Err(EngineError::refused("task.ended", message))
    };
    match store.signal(viewer, signal).await? {
        SignalReceipt::Accepted => Ok(()),
        // The first signal may have been too late.
        SignalReceipt::Duplicate => match store.task(viewer, task).await? {
            Some(record) if record.status == TaskState::Canceled => Ok(()),
            Some(record) if record.status.is_final() => ended(),
            _ => Ok(()),
        },
        SignalReceipt::Ended => ended(),
        SignalReceipt::Unknown => Err(EngineError::UnknownTask(task)),
    }
}

impl<P: Program> Engine<P> {
    /// Cancels a task, as [`cancel`] does.
    pub async fn cancel(
        &self,
        viewer: &Viewer,
        task: Uuid,
        reason: Option<&str>,
    ) -> Result<(), EngineError> {
        cancel(&**self.store(), viewer, task, reason).await
    }

    /// Answers a question of a task; without an id, its only one. Exactly one answer to a question is accepted; later
    /// ones get an error that says what happened. It is the program itself that answers: nobody is asked whether they may.
    pub async fn answer(
        &self,
        viewer: &Viewer,
        task: Uuid,
        question: Option<Uuid>,
        answer: QuestionAnswer,
    ) -> Result<(), EngineError> {
        self.take_answer(viewer, None, task, question, answer).await
    }

    /// Answers a question of a task like [`answer`](Self::answer), as somebody who may do so (else `answer.not_allowed`).
    pub async fn answer_as(
        &self,
        viewer: &Viewer,
        answerer: Answerer,
        task: Uuid,
        question: Option<Uuid>,
        answer: QuestionAnswer,
    ) -> Result<(), EngineError> {
        let by = Some(answerer);
        self.take_answer(viewer, by, task, question, answer).await
    }

    async fn take_answer(
        &self,
        viewer: &Viewer,
        by: Option<Answerer>,
        task: Uuid,
        question: Option<Uuid>,
        answer: QuestionAnswer,
    ) -> Result<(), EngineError> {
        let (record, entry) = self
            .store()
            .newest(viewer, task)
            .await?
            .ok_or(EngineError::UnknownTask(task))?;
        let snapshot: Snapshot<P::State, P::Request> = read_snapshot(task, &entry.state)?;
        let open = match (question, snapshot.questions.as_slice()) {
            (None, [only]) => only,
            (None, []) => {
                let status = record.status;
                let last = self.what_happened(viewer, task, None).await?;
                let last = last
                    .map(|(_, last)| format!("; {last}"))
                    .unwrap_or_default();
                let message = format!("task {task} asks nothing; it is {status}{last}");
                return Err(EngineError::refused("question.none", message));
            }
            (None, several) => return Err(several_open(several)),
            (Some(id), open) => match open.iter().find(|question| question.id == id) {
                Some(open) => open,
                None => return Err(self.not_open(viewer, task, id).await?),
            },
        };
        let now = self.store().now().await?;
        if open.expires_at <= now {
            let message = format!("nobody answered until {}", open.expires_at);
            return Err(EngineError::refused(EXPIRED, message));
        }
        if answer == QuestionAnswer::Expired {
            let message = "only time lets a question expire; approve, reject or modify";
            return Err(EngineError::refused(UNUSABLE, message));
        }
        if let Some(by) = by {
            self.check_allowed(&snapshot, open, by, UserId(record.owner))?;
        }
        self.check_pause(&answer)?;
        self.check_usable(&snapshot, open, &answer).await?;
        // A question about the same call that is asked again, as after a second crash, is a new one.
        let key = format!("answer:{}:{}", open.id, open.seq);
        let signal = NewSignal {
            task,
            kind: SignalKind::Answer,
            payload: json!({ "question": open.id, "answer": answer, "by": by }),
            key,
        };
        match self.store().signal(viewer, signal).await? {
            SignalReceipt::Accepted => Ok(()),
            SignalReceipt::Unknown => Err(EngineError::UnknownTask(task)),
            SignalReceipt::Duplicate | SignalReceipt::Ended => {
                Err(self.not_open(viewer, task, open.id).await?)
            }
        }
    }

    /// Checks that somebody may answer a question about a request of this user.
    fn check_allowed(
        &self,
        snapshot: &Snapshot<P::State, P::Request>,
        open: &Question,
        by: Answerer,
        requester: UserId,
    ) -> Result<(), EngineError> {
        let mut calls = snapshot.open.iter();
        let Some(call) = calls.find(|call| call.id == open.id) else {
            return Ok(());
        };
        let program = &self.0.program;
        let approvers = program.approvers(&snapshot.program, &call.request);
        let allowed = approvers.check(by, requester);
        allowed.map_err(|why| EngineError::refused("answer.not_allowed", why))
    }

    /// Checks a snooze: at most the time that a person has to answer.
    fn check_pause(&self, answer: &QuestionAnswer) -> Result<(), EngineError> {
        let QuestionAnswer::Snooze { pause_ms } = answer else {
            return Ok(());
        };
        let longest = self.0.program.approval_time();
        let pause = Duration::from_millis(*pause_ms);
        if pause.is_zero() || pause > longest {
            let message =
                format!("a question can be put off by up to {longest:?}, not by {pause:?}");
            return Err(EngineError::refused(UNUSABLE, message));
        }
        Ok(())
    }

    /// Checks a changed value: the program must accept it as arguments or as the result of the call.
    async fn check_usable(
        &self,
        snapshot: &Snapshot<P::State, P::Request>,
        open: &Question,
        answer: &QuestionAnswer,
    ) -> Result<(), EngineError> {
        let QuestionAnswer::Modify { value } = answer else {
            return Ok(());
        };
        let Some(call) = snapshot.open.iter().find(|call| call.id == open.id) else {
            return Ok(());
        };
        let program = &self.0.program;
        match open.about {
            QuestionKind::Approval => {
                let modified = program.modified(&snapshot.program, &call.request, value.clone())?;
                if let Some(check) = &self.0.change_check {
                    check.check(&modified).await?;
                }
            }
            QuestionKind::OutcomeUnknown => {
                let reply = program.manual_reply(&call.request, value.clone());
                reply.map_err(UnusableAnswer::from)?;
            }
        }
        Ok(())
    }

    /// The error for a question that is not open.
    async fn not_open(
        &self,
        viewer: &Viewer,
        task: Uuid,
        question: Uuid,
    ) -> Result<EngineError, EngineError> {
        if let Some((code, happened)) = self.what_happened(viewer, task, Some(question)).await? {
            return Ok(EngineError::refused(code, happened));
        }
        let message = format!("task {task} asks no question {question}");
        Ok(EngineError::refused("question.not_found", message))
    }

    /// How a question, or the last one, was closed, as code and text. Reads the journal and unconsumed signals.
    async fn what_happened(
        &self,
        viewer: &Viewer,
        task: Uuid,
        question: Option<Uuid>,
    ) -> Result<Option<(&'static str, String)>, EngineError> {
        let Some(loaded) = self.store().load(viewer, task, 1).await? else {
            return Ok(None);
        };
        let is_meant = |id: Uuid| question.is_none_or(|meant| meant == id);
        let waiting = loaded.signals.iter().rev().find_map(|signal| {
            let (id, answer, _) = crate::task_driver::answer_of(signal)?;
            is_meant(id).then(|| describe_answer(id, &answer, signal.at))
        });
        if waiting.is_some() {
            return Ok(waiting);
        }
        for entry in loaded.entries.iter().rev() {
            let event = serde_json::from_value::<Event<Value>>(entry.event.clone());
            if let Ok(Event::Answered {
                question, answer, ..
            }) = event
                && is_meant(question)
            {
                return Ok(Some(describe_answer(question, &answer, entry.at)));
            }
        }
        Ok(question
            .filter(|_| loaded.record.status.is_final())
            .filter(|id| had_question(&loaded.entries, *id))
            .map(|_| {
                let status = loaded.record.status;
                let closed = format!("the task is {status}, and its questions are closed");
                (ANSWERED, closed)
            }))
    }
}

fn had_question(entries: &[convoke_store::Entry], question: Uuid) -> bool {
    let id = question.to_string();
    let has_question = |entry: &convoke_store::Entry| {
        let state = entry.state.value();
        let questions = state["questions"].as_array();
        let mut questions = questions.into_iter().flatten();
        questions.any(|question| question["id"] == *id)
    };
    entries.iter().any(has_question)
}

/// Error code of a second answer.
const ANSWERED: &str = "question.answered";

/// Error code of an answer after the question expired.
const EXPIRED: &str = "question.expired";

fn describe_answer(
    question: Uuid,
    answer: &QuestionAnswer,
    at: jiff::Timestamp,
) -> (&'static str, String) {
    let message = match answer {
        QuestionAnswer::Expired => {
            let happened = format!("nobody answered question {question} until {at}");
            return (EXPIRED, happened);
        }
        QuestionAnswer::Approve { message } | QuestionAnswer::Reject { message } => {
            message.as_deref()
        }
        QuestionAnswer::Modify { .. } | QuestionAnswer::Snooze { .. } => None,
    };
    let message = message.map(|message| format!(" (\u{201c}{message}\u{201d})"));
    let happened = format!(
        "question {question} was answered with {}{} at {at}",
        answer.action(),
        message.unwrap_or_default()
    );
    (ANSWERED, happened)
}

fn several_open(open: &[Question]) -> EngineError {
    let listed = open
        .iter()
        .map(|open| format!("{} {}", open.id, open.prompt));
    let listed: Vec<_> = listed.collect();
    let message = format!(
        "there are several questions; name one with --question:\n{}",
        listed.join("\n")
    );
    EngineError::refused("question.several", message)
}
