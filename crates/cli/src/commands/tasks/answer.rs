//! `convoke tasks answer` and `cancel`: what a person says to a task.

use convoke_engine::{Answered, Question};
use convoke_model::Ids;
use convoke_store::{NewSignal, Signalled, Store};
use serde_json::{Value, json};
use uuid::Uuid;

use super::not_found;
use crate::cli::AnswerAction;
use crate::commands::speaker::parse_id;
use crate::exit::{Exit, UsageError};
use crate::output;

/// What was said on the command line.
pub(super) struct Said<'a> {
    pub(super) action: AnswerAction,
    pub(super) question: Option<&'a str>,
    pub(super) message: Option<&'a str>,
}

pub(super) async fn answer(
    store: &dyn Store,
    ids: &dyn Ids,
    task: Uuid,
    said: &Said<'_>,
    json: bool,
) -> anyhow::Result<Exit> {
    let loaded = store.load(task, 1).await?.ok_or_else(|| not_found(task))?;
    let state = loaded
        .entries
        .last()
        .map(|entry| entry.state.clone())
        .unwrap_or_default();
    let open: Vec<Question> = state
        .get("questions")
        .map(|questions| serde_json::from_value(questions.clone()))
        .transpose()?
        .unwrap_or_default();
    let wanted = said
        .question
        .map(|text| parse_id("question", text))
        .transpose()?;
    let question = match (wanted, open.as_slice()) {
        (_, []) => {
            let message = format!("task {task} asks nothing; it is {}", loaded.record.status);
            return Err(UsageError::new("question.none", message).into());
        }
        (None, [only]) => only.id,
        (None, several) => {
            let listed: Vec<_> = several
                .iter()
                .map(|open| format!("{} {}", open.id, open.prompt))
                .collect();
            let message = format!(
                "there are several questions; name one with --question:\n{}",
                listed.join("\n")
            );
            return Err(UsageError::new("question.several", message).into());
        }
        (Some(id), _) if open.iter().any(|question| question.id == id) => id,
        (Some(id), _) => {
            let message = format!("task {task} asks no question {id}");
            return Err(UsageError::new("question.not_found", message).into());
        }
    };
    let answer = match (said.action, said.message) {
        (AnswerAction::Approve, _) => Answered::Approve,
        (AnswerAction::Reject, message) => Answered::Reject {
            message: message.map(str::to_owned),
        },
        (AnswerAction::Modify, Some(text)) => {
            let value: Value = serde_json::from_str(text).map_err(|error| {
                UsageError::new("answer.not_json", format!("--message is not JSON: {error}"))
            })?;
            Answered::Modify { value }
        }
        (AnswerAction::Modify, None) => {
            let message = "modify needs the value to go on with: --message '{…}'";
            return Err(UsageError::new("answer.value_missing", message).into());
        }
    };
    let signal = NewSignal {
        task,
        kind: "answer".into(),
        payload: json!({ "question": question, "answer": answer }),
        key: ids.next().to_string(),
    };
    told(store.signal(signal).await?, task, json)
}

pub(super) async fn cancel(
    store: &dyn Store,
    task: Uuid,
    reason: Option<&str>,
    json: bool,
) -> anyhow::Result<Exit> {
    let signal = NewSignal {
        task,
        kind: "cancel".into(),
        payload: json!({ "reason": reason }),
        key: "cancel".into(),
    };
    told(store.signal(signal).await?, task, json)
}

fn told(signalled: Signalled, task: Uuid, json: bool) -> anyhow::Result<Exit> {
    match signalled {
        Signalled::Accepted | Signalled::Duplicate => {
            if json {
                output::json_line(&json!({ "task": task, "accepted": true }));
            } else {
                output::line("Noted. The task goes on when its app runs: `convoke resume APP`.");
            }
            Ok(Exit::Done)
        }
        Signalled::Ended => {
            Err(UsageError::new("task.ended", format!("task {task} has ended already")).into())
        }
        Signalled::Unknown => Err(not_found(task).into()),
    }
}
