//! `convoke tasks answer` and `cancel`: signals to a task.

use std::sync::Arc;

use convoke::local_user;
use convoke_app::Limits;
use convoke_engine::QuestionAnswer;
use convoke_flow::check_answer;
use convoke_model::{Answerer, UserId, UserRole};
use convoke_store::{Store, Viewer};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{fork, not_found};
use crate::cli::{AnswerAction, AnswerArgs};
use crate::commands::speaker::parse_id;
use crate::exit::{Exit, UsageError};
use crate::{output, start};

pub(super) async fn answer(
    store: Arc<dyn Store>,
    task: Uuid,
    args: &AnswerArgs,
    json: bool,
) -> anyhow::Result<Exit> {
    let answer = answered(args)?;
    check_answer(&answer)?;
    let question = (args.question.as_deref())
        .map(|text| parse_id("question", text))
        .transpose()?;
    let (record, _) = store
        .newest(&Viewer::System, task)
        .await?
        .ok_or_else(|| not_found(task))?;
    let user = match &args.user {
        Some(text) => UserId::parse(text)?,
        None => local_user(),
    };
    let role = UserRole::from(args.role);
    let viewer = match role {
        UserRole::User => Viewer::user(user.uuid(), &record.app),
        UserRole::Operator | UserRole::Admin => Viewer::operator(&record.app),
    };
    let (engine, servers) = start::answering_engine_of(store, &record, &args.store).await?;
    let answered = engine
        .answer_as(&viewer, Answerer { user, role }, task, question, answer)
        .await;
    servers.shutdown().await;
    answered?;
    noted(task, "goes on", json);
    Ok(Exit::Done)
}

/// The answer for the task. `--set` changes the state of a workflow; with `modify` alone, the message is the new value.
fn answered(args: &AnswerArgs) -> Result<QuestionAnswer, UsageError> {
    let message = args.message.clone();
    match args.action {
        AnswerAction::Snooze => match args.pause {
            Some(pause) => Ok(QuestionAnswer::snooze(pause)),
            None => Err(UsageError::new(
                "answer.pause_missing",
                "snooze needs how long: --for 2h",
            )),
        },
        _ if args.pause.is_some() => Err(UsageError::new(
            "answer.pause_unasked",
            "--for puts a question off; use snooze",
        )),
        AnswerAction::Approve | AnswerAction::Reject if !args.set.is_empty() => {
            Err(UsageError::new(
                "answer.changes_unasked",
                "--set changes something; use modify",
            ))
        }
        AnswerAction::Approve => Ok(QuestionAnswer::Approve { message }),
        AnswerAction::Reject => Ok(QuestionAnswer::Reject { message }),
        AnswerAction::Modify if !args.set.is_empty() => {
            let mut value = json!({ "state_updates": fork::fields(&args.set)? });
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
    noted(task, "is canceled", json);
    Ok(Exit::Done)
}

fn noted(task: Uuid, what_comes: &str, json: bool) {
    if json {
        output::json_line(&json!({ "task": task, "accepted": true }));
    } else {
        output::line(format!(
            "Noted. The task {what_comes} when its app runs: `convoke resume APP`."
        ));
    }
}
