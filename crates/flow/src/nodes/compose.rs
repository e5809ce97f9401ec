//! Compose: what the user reads, from the app's templates, with nothing in it that no tool confirmed.

use convoke_engine::{Ending, Said, Step};
use convoke_model::{Answer, AnswerFields, Message, MessageFields, Reliance, Role, Stage};
use serde_json::{Map, Value, json};

use super::agent;
use crate::calls::Request;
use crate::memory::Memory;
use crate::ports::ToolReply;
use crate::turn::Turn;

/// The key of an answer's metadata under which a part of a request says what it asks.
pub(crate) const ASKS: &str = "asks";

/// Said when even the app's own failure message cannot be.
const LAST_WORDS: &str = "Sorry, something went wrong. Please try again.";

/// Ends the task with a reply.
pub(crate) fn say(
    turn: &mut Turn<'_>,
    template: &str,
    context: Value,
    intent: &str,
    memory: Memory,
) -> Step<Request> {
    let context = match context {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let text = match turn.assistant.templates.text(template, &context) {
        Ok(text) if !text.is_empty() => text,
        Ok(_) => return broken(turn, "a reply's template gave nothing"),
        Err(error) => return broken(turn, &error),
    };
    speak(turn, text, intent, memory)
}

/// Ends the task with a text as it is.
pub(crate) fn speak(
    turn: &mut Turn<'_>,
    text: String,
    intent: &str,
    memory: Memory,
) -> Step<Request> {
    match answer(turn, text, intent, memory, false) {
        Some((answer, message)) => Step {
            stage: Some(Stage::Composing),
            messages: vec![spoken(message)],
            end: Some(Ending::Completed(Box::new(answer))),
            ..Step::default()
        },
        None => broken(turn, "the reply breaks a rule"),
    }
}

/// Ends the task because a budget is used up, before anything more is spent.
pub(crate) fn out_of_budget(turn: &mut Turn<'_>, what: &str) -> Step<Request> {
    let template = &turn.assistant.app.config.messages.failure;
    fail(
        turn,
        template,
        &format!("budget.{what}: the task's budget of {what} is used up"),
        true,
    )
}

/// Ends the task with what a tool said against it. The tool was reached and nothing was changed.
pub(crate) fn tool_refused(
    turn: &mut Turn<'_>,
    template: Option<&str>,
    reply: &ToolReply,
) -> Step<Request> {
    let error = reply
        .content
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or(&reply.text);
    let mut context = turn.state.slots.clone();
    context.insert("error".into(), json!(error));
    context.insert(
        "code".into(),
        reply.content.get("code").cloned().unwrap_or_default(),
    );
    let template = template.unwrap_or(&turn.assistant.app.config.messages.tool_failure);
    let memory = Memory {
        shown: turn.state.shown.clone(),
        asks: None,
    };
    let intent = turn.intent();
    say(turn, template, context.into(), &intent, memory)
}

/// Ends the task because something broke: the app's own words for the user, the cause for the
/// operator.
pub(crate) fn broken(turn: &mut Turn<'_>, cause: &str) -> Step<Request> {
    let template = &turn.assistant.app.config.messages.failure;
    fail(turn, template, cause, false)
}

/// Ends the task with words of the app's own, because nothing of it could be done.
pub(crate) fn failed_with(turn: &mut Turn<'_>, template: &str, cause: &str) -> Step<Request> {
    fail(turn, template, cause, false)
}

/// Ends the task because its time is over.
pub(crate) fn too_late(turn: &mut Turn<'_>) -> Step<Request> {
    let template = &turn.assistant.app.config.messages.deadline;
    fail(turn, template, "the task's time was over", true)
}

fn fail(turn: &mut Turn<'_>, template: &str, cause: &str, partial: bool) -> Step<Request> {
    let text = turn
        .assistant
        .templates
        .text(template, &Map::new())
        .unwrap_or_default();
    let text = if text.is_empty() {
        LAST_WORDS.to_owned()
    } else {
        text
    };
    let composed = answer(turn, text, "failed", Memory::default(), partial);
    let Some((answer, message)) = composed else {
        return Step::default();
    };
    Step {
        messages: vec![spoken(message)],
        end: Some(Ending::Failed {
            message: Box::new(answer),
            cause: cause.to_owned(),
        }),
        ..Step::default()
    }
}

/// A message that the user sees.
fn spoken(message: Message) -> Said {
    Said {
        message,
        spoken: true,
    }
}

fn answer(
    turn: &mut Turn<'_>,
    text: String,
    intent: &str,
    memory: Memory,
    partial: bool,
) -> Option<(Answer, Message)> {
    let state = &mut *turn.state;
    let mut metadata = Map::new();
    metadata.insert("intent".into(), json!(intent));
    if let Some(target) = &state.target {
        metadata.insert("agent".into(), json!(target.agent));
    }
    if !state.slots.is_empty() {
        metadata.insert("slots".into(), json!(state.slots));
    }
    if let Some(decision) = &state.decision {
        metadata.insert("confidence".into(), json!(decision.confidence()));
        metadata.insert("decided_by".into(), json!(decision.decided_by));
    }
    if state.history_cut > 0 {
        metadata.insert("history_cut".into(), json!(state.history_cut));
    }
    // Whoever asked for this part speaks with the user, and passes the question on.
    if let (Some(_), Some(asks)) = (turn.view.facts.parent, &memory.asks) {
        metadata.insert(ASKS.into(), json!(asks));
    }
    if let Some(output) = state.output.take() {
        metadata.insert("output".into(), output);
    }
    if let Some(run) = state.run.take() {
        metadata.insert("agent".into(), json!(run.agent));
        metadata.insert("spent".into(), json!(run.spent));
        state.tool_calls.extend(agent::calls_of(turn.view.messages));
    }
    if let Some(walk) = state.walk.take() {
        metadata.insert("workflow".into(), json!(walk.workflow));
        metadata.insert("spent".into(), json!(walk.spent));
    }
    let total = turn
        .view
        .at
        .duration_since(turn.view.facts.created_at)
        .as_millis();
    let answer = Answer::new(AnswerFields {
        tool_calls: std::mem::take(&mut state.tool_calls),
        confidence: if partial {
            Reliance::Low
        } else {
            Reliance::High
        },
        partial,
        total_ms: u64::try_from(total).unwrap_or(0),
        metadata,
        ..AnswerFields::of(text.clone())
    })
    .ok()?;
    let mut said = MessageFields::said(Role::Assistant, text, turn.view.at);
    said.agent = state.target.as_ref().map(|target| target.agent.clone());
    memory.leave(&mut said.metadata);
    Some((answer, Message::new(said).ok()?))
}
