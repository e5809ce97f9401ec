//! What a person says to a task: checked before it is taken, and taken once.

use convoke_model::TaskState;
use convoke_store::{NewSignal, SignalKind, SignalReceipt, Store, Viewer};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::engine::{Engine, read_snapshot};
use crate::error::EngineError;
use crate::event::{Event, QuestionAnswer};
use crate::program::Program;
use crate::snapshot::{Question, QuestionKind, Snapshot};

/// Cancels a task over its store alone, so that it needs no app that can be read. Returns once that is in
/// the task's inbox; the worker that has the task, or claims it next, ends it. A second time changes nothing,
/// and neither does its reason. A task that ended otherwise is refused (`task.ended`).
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
        // The first one may have come too late.
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

    /// Answers a question of a task; without an id, its only one. Of several answers to one question
    /// exactly one is taken; whoever comes later is told what happened.
    pub async fn answer(
        &self,
        viewer: &Viewer,
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
            return Err(EngineError::refused("answer.unusable", message));
        }
        self.check_usable(&snapshot, open, &answer)?;
        // A question that is asked again about the same call, as after a second crash, is another one.
        let key = format!("answer:{}:{}", open.id, open.seq);
        let signal = NewSignal {
            task,
            kind: SignalKind::Answer,
            payload: json!({ "question": open.id, "answer": answer }),
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

    /// A person may change what a call is given, or give what came of it, but not into something that
    /// it cannot be.
    fn check_usable(
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
        let usable = match open.about {
            QuestionKind::Approval => self.0.program.modified(&call.request, value.clone()).err(),
            QuestionKind::OutcomeUnknown => {
                self.0.program.given(&call.request, value.clone()).err()
            }
        };
        match usable {
            None => Ok(()),
            Some(reason) => Err(EngineError::refused("answer.unusable", reason)),
        }
    }

    /// Why a question cannot be answered any more, or never could.
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

    /// What became of a question, or of the last one there was, as a code and in words: from the journal, or from
    /// an answer that waits to be taken in.
    async fn what_happened(
        &self,
        viewer: &Viewer,
        task: Uuid,
        question: Option<Uuid>,
    ) -> Result<Option<(&'static str, String)>, EngineError> {
        let Some(loaded) = self.store().load(viewer, task, 1).await? else {
            return Ok(None);
        };
        let is_meant = |id: Uuid| question.is_none_or(|wanted| wanted == id);
        let waiting = loaded.signals.iter().rev().find_map(|signal| {
            let (id, answer) = crate::task_driver::answer_of(signal)?;
            is_meant(id).then(|| told(id, &answer, signal.at))
        });
        if waiting.is_some() {
            return Ok(waiting);
        }
        for entry in loaded.entries.iter().rev() {
            let event = serde_json::from_value::<Event<Value>>(entry.event.clone());
            if let Ok(Event::Answered { question, answer }) = event
                && is_meant(question)
            {
                return Ok(Some(told(question, &answer, entry.at)));
            }
        }
        Ok(question
            .filter(|_| loaded.record.status.is_final())
            .filter(|id| was_asked(&loaded.entries, *id))
            .map(|_| {
                let status = loaded.record.status;
                let closed = format!("the task is {status}, and its questions are closed");
                (ANSWERED, closed)
            }))
    }
}

fn was_asked(entries: &[convoke_store::Entry], question: Uuid) -> bool {
    let id = question.to_string();
    let asks = |entry: &convoke_store::Entry| {
        let state = entry.state.value();
        let questions = state["questions"].as_array();
        let mut questions = questions.into_iter().flatten();
        questions.any(|question| question["id"] == *id)
    };
    entries.iter().any(asks)
}

/// The code of an answer that comes second.
const ANSWERED: &str = "question.answered";

/// The code of an answer that comes too late.
const EXPIRED: &str = "question.expired";

fn told(question: Uuid, answer: &QuestionAnswer, at: jiff::Timestamp) -> (&'static str, String) {
    let message = match answer {
        QuestionAnswer::Expired => {
            let happened = format!("nobody answered question {question} until {at}");
            return (EXPIRED, happened);
        }
        QuestionAnswer::Approve { message } | QuestionAnswer::Reject { message } => {
            message.as_deref()
        }
        QuestionAnswer::Modify { .. } => None,
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
