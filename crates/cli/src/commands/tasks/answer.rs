//! `convoke tasks answer` and `cancel`: what a person says to a task.

use std::sync::Arc;

use convoke_app::Limits;
use convoke_engine::QuestionAnswer;
use convoke_flow::check_answer;
use convoke_store::{Store, Viewer};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{fork, not_found};
use crate::cli::{AnswerAction, StoreArgs};
use crate::commands::speaker::parse_id;
use crate::exit::{Exit, UsageError};
use crate::{output, start};

/// What was said on the command line.
pub(super) struct AnswerArgs<'a> {
    pub(super) action: AnswerAction,
    pub(super) question: Option<&'a str>,
    pub(super) message: Option<&'a str>,
    /// Each as `field=value`.
    pub(super) set: &'a [String],
}

pub(super) async fn answer(
    store: Arc<dyn Store>,
    task: Uuid,
    said: &AnswerArgs<'_>,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Exit> {
    let answer = answered(said)?;
    check_answer(&answer)?;
    let question = said
        .question
        .map(|text| parse_id("question", text))
        .transpose()?;
    let (record, _) = store
        .newest(&Viewer::System, task)
        .await?
        .ok_or_else(|| not_found(task))?;
    let engine = start::engine_of(store, &record, None, args, json).await?;
    engine
        .answer(&Viewer::System, task, question, answer)
        .await?;
    noted(task, json);
    Ok(Exit::Done)
}

/// What to tell the task. What is set goes into the state of a workflow; with `modify` alone, the message
/// is the value to go on with.
fn answered(said: &AnswerArgs<'_>) -> Result<QuestionAnswer, UsageError> {
    let message = said.message.map(str::to_owned);
    match said.action {
        AnswerAction::Approve | AnswerAction::Reject if !said.set.is_empty() => {
            Err(UsageError::new(
                "answer.changes_unasked",
                "--set changes something; use modify",
            ))
        }
        AnswerAction::Approve => Ok(QuestionAnswer::Approve { message }),
        AnswerAction::Reject => Ok(QuestionAnswer::Reject { message }),
        AnswerAction::Modify if !said.set.is_empty() => {
            let mut value = json!({ "state_updates": fork::fields(said.set)? });
            if let Some(message) = message {
                value["message"] = message.into();
            }
            Ok(QuestionAnswer::Modify { value })
        }
        AnswerAction::Modify => {
            let text = message.ok_or_else(|| {
                let message = "modify needs what to change: --set field=value, or the value to go on \
                               with: --message '{…}'";
                UsageError::new("answer.value_missing", message)
            })?;
            let value: Value = serde_json::from_str(&text).map_err(|error| {
                UsageError::new("answer.not_json", format!("--message is not JSON: {error}"))
            })?;
            Ok(QuestionAnswer::Modify { value })
        }
    }
}

pub(super) async fn cancel(
    store: &dyn Store,
    task: Uuid,
    reason: Option<&str>,
    json: bool,
) -> anyhow::Result<Exit> {
    let most = Limits::default().message_characters as usize;
    if reason.is_some_and(|reason| reason.chars().count() > most) {
        let message = format!("the reason has more than {most} characters");
        return Err(UsageError::new("cancel.reason_long", message).into());
    }
    convoke_engine::cancel(store, &Viewer::System, task, reason).await?;
    noted(task, json);
    Ok(Exit::Done)
}

fn noted(task: Uuid, json: bool) {
    if json {
        output::json_line(&json!({ "task": task, "accepted": true }));
    } else {
        output::line("Noted. The task goes on when its app runs: `convoke resume APP`.");
    }
}
