//! Compose: what the user reads, from the app's templates, with nothing in it that no tool confirmed.

use convoke_engine::{Ending, Step, View};
use convoke_model::{Answer, AnswerFields, Message, MessageFields, Role, Stage};
use convoke_store::NewMessage;
use serde_json::{Map, Value, json};

use crate::assistant::{Assistant, Progress};
use crate::memory::Memory;
use crate::ports::ToolReply;

/// Ends the task with a reply.
pub(crate) fn say(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    template: &str,
    context: Value,
    intent: &str,
    memory: Memory,
) -> Step {
    let context = match context {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let text = match assistant.templates.text(template, &context) {
        Ok(text) if !text.is_empty() => text,
        Ok(_) => return broken(assistant, view, state, "a reply's template gave nothing"),
        Err(error) => return broken(assistant, view, state, &error),
    };
    match answer(view, state, text, intent, memory) {
        Some((answer, message)) => Step {
            stage: Some(Stage::Composing),
            messages: vec![NewMessage {
                message,
                spoken: true,
            }],
            end: Some(Ending::Completed(Box::new(answer))),
            ..Step::default()
        },
        None => broken(assistant, view, state, "the reply breaks a rule"),
    }
}

/// Ends the task with what a tool said against it. The tool was reached and nothing was changed.
pub(crate) fn tool_refused(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    template: Option<&str>,
    reply: &ToolReply,
) -> Step {
    let error = reply
        .content
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or(&reply.text);
    let mut context = state.slots.clone();
    context.insert("error".into(), json!(error));
    context.insert(
        "code".into(),
        reply.content.get("code").cloned().unwrap_or_default(),
    );
    let template = template
        .unwrap_or(&assistant.app.config.messages.tool_failure)
        .to_owned();
    let intent = state
        .target
        .as_ref()
        .map_or("", |target| target.skill.as_str())
        .to_owned();
    let memory = Memory {
        shown: state.shown.clone(),
        asks: None,
    };
    say(
        assistant,
        view,
        state,
        &template,
        context.into(),
        &intent,
        memory,
    )
}

/// Ends the task without what was asked for: a message for the user, a cause for the operator.
pub(crate) fn fail(
    assistant: &Assistant,
    view: View<'_>,
    state: &mut Progress,
    template: &str,
    cause: &str,
) -> Step {
    let text = assistant
        .templates
        .text(template, &Map::new())
        .unwrap_or_default();
    let text = if text.is_empty() {
        LAST_WORDS.to_owned()
    } else {
        text
    };
    let composed = answer(view, state, text, "failed", Memory::default());
    let Some((answer, message)) = composed else {
        return Step::default();
    };
    Step {
        messages: vec![NewMessage {
            message,
            spoken: true,
        }],
        end: Some(Ending::Failed {
            message: Box::new(answer),
            cause: cause.to_owned(),
        }),
        ..Step::default()
    }
}

/// Said when even the app's own failure message cannot be.
const LAST_WORDS: &str = "Sorry, something went wrong. Please try again.";

fn broken(assistant: &Assistant, view: View<'_>, state: &mut Progress, cause: &str) -> Step {
    let text = assistant.app.config.messages.failure.clone();
    fail(assistant, view, state, &text, cause)
}

fn answer(
    view: View<'_>,
    state: &mut Progress,
    text: String,
    intent: &str,
    memory: Memory,
) -> Option<(Answer, Message)> {
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
    let total = view.at.duration_since(view.facts.created_at).as_millis();
    let answer = Answer::new(AnswerFields {
        tool_calls: std::mem::take(&mut state.tool_calls),
        total_ms: u64::try_from(total).unwrap_or(0),
        metadata,
        ..AnswerFields::of(text.clone())
    })
    .ok()?;
    let mut said = MessageFields::said(Role::Assistant, text, view.at);
    said.agent = state.target.as_ref().map(|target| target.agent.clone());
    memory.leave(&mut said.metadata);
    Some((answer, Message::new(said).ok()?))
}
