//! `convoke tasks follow`: prints the events of a task until it ends.

use std::sync::Arc;

use convoke_engine::EventCursor;
use convoke_flow::{TaskEvent, TaskEventKind, TaskUpdate, follow_stored};
use convoke_store::{Store, Viewer};
use serde_json::Value;
use uuid::Uuid;

use crate::exit::{Exit, UsageError};
use crate::output;

/// Limit of a text in a line, in characters.
const SHOWN: usize = 100;

pub(super) async fn follow(
    store: Arc<dyn Store>,
    task: Uuid,
    after: Option<&str>,
    json: bool,
) -> anyhow::Result<Exit> {
    let after = match after {
        Some(text) => text
            .parse()
            .map_err(|error: convoke_engine::InvalidCursor| {
                UsageError::new(error.code(), error.to_string())
            })?,
        None => EventCursor::START,
    };
    let mut following = follow_stored(store, &Viewer::System, task, after).await?;
    loop {
        let update = tokio::select! {
            update = following.next() => update,
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        match update {
            None => return Ok(Exit::Done),
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(TaskUpdate::Live(_))) => {}
            Some(Ok(TaskUpdate::Event(event))) if json => output::json_line(&event),
            Some(Ok(TaskUpdate::Event(event))) => output::line(line(&event)),
        }
    }
}

fn line(event: &TaskEvent) -> String {
    let time = event.at.strftime("%H:%M:%S%.3f");
    let what = described(&event.kind);
    let what = match &event.kind {
        TaskEventKind::QuestionAsked { .. } => output::short_revealed(&what, SHOWN),
        _ => output::short(&what, SHOWN),
    };
    format!("{:>7}  {time}  {what}", event.cursor.to_string())
}

/// An event as text.
fn described(kind: &TaskEventKind) -> String {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match kind {
        TaskEventKind::Accepted => "accepted".into(),
        TaskEventKind::Forked { from, at } => format!("forked from {from} after {at}"),
        TaskEventKind::StateChanged { state } => format!("state: {state}"),
        TaskEventKind::StageChanged { stage } => format!("stage: {}", word(stage)),
        TaskEventKind::Decided {
            meaning,
            candidates,
            ..
        } => {
            let candidates = candidates
                .iter()
                .map(|candidate| match candidate.confidence {
                    Some(confidence) => format!("{} ({confidence:.2})", candidate.name),
                    None => candidate.name.clone(),
                });
            let candidates: Vec<_> = candidates.collect();
            format!("decided: {meaning} {}", candidates.join(", "))
        }
        TaskEventKind::ThoughtBegun { agent, .. } => match agent {
            Some(agent) => format!("{agent} thinks"),
            None => "a model is asked".into(),
        },
        TaskEventKind::Text { text, .. } => format!("said: {}", one_line(text)),
        TaskEventKind::ThoughtFailed { failure, .. } => format!("failed: {}", failure.cause()),
        TaskEventKind::ToolCallBegun {
            tool, arguments, ..
        } => format!("calls {tool} {arguments}"),
        TaskEventKind::ToolCallEnded {
            tool,
            result,
            failure,
            duration_ms,
            ..
        } => match (result, failure) {
            (_, Some(failure)) => format!("{tool} failed: {}", failure.cause()),
            (result, None) => {
                let result = result.as_ref().unwrap_or(&Value::Null);
                format!("{tool} answered in {duration_ms} ms: {result}")
            }
        },
        TaskEventKind::SubTaskBegun { name, .. } => format!("hands a part to {name}"),
        TaskEventKind::SubTaskEnded { text, failure, .. } => match failure {
            Some(failure) => format!("the part failed: {}", failure.cause()),
            None => format!("the part came back: {}", one_line(text)),
        },
        TaskEventKind::TimerSet { due_at, .. } => format!("waits until {due_at}"),
        TaskEventKind::QuestionAsked { question } => {
            format!("asks: {}", one_line(&question.prompt))
        }
        TaskEventKind::QuestionSnoozed { until, .. } => format!("put off until {until}"),
        TaskEventKind::QuestionAnswered { answer, .. } => format!("answered: {}", answer.action()),
        TaskEventKind::Reset { calls } => format!("resumed, {} calls begin again", calls.len()),
        TaskEventKind::Answer { answer } => format!("answer: {}", one_line(&answer.text)),
        TaskEventKind::Ended { state, error } => match error {
            Some(error) => format!("ended: {state}, {}", one_line(error)),
            None => format!("ended: {state}"),
        },
        _ => "something that this version has no words for".into(),
    }
}

fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}
