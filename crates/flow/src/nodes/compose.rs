//! Compose: what the user reads, from the app's templates, with nothing in it that no tool confirmed.

use convoke_engine::{AddedMessage, Ending, Failure, Step};
use convoke_model::{
    Answer, AnswerFields, DecisionFields, FailureCode, Message, MessageFields, Reliance, Role,
    Stage, ToolCallStatus,
};
use convoke_tools::ToolReply;
use serde_json::{Map, Value, json};

use super::{agent, aggregate, dispatch, inquire};
use crate::assistant::Node;
use crate::calls::Request;
use crate::memory::Memory;
use crate::turn::Turn;

/// The key of an answer's metadata under which a part of a message says what it leaves behind for the next turn.
pub(crate) const MEMORY: &str = "memory";

/// The key of an answer's metadata under which a part of a message says that it failed for a passing reason, and before
/// anything was changed.
pub(crate) const PASSING: &str = "passing";

/// The key of an answer's metadata under which it stands why a reply to what was done could not be put into words.
const REPLY_FAILED: &str = "reply_failed";

/// The key of an answer's metadata under which a child says that it certainly changed nothing.
pub(crate) const CHANGED_NOTHING: &str = "changed_nothing";

/// Said when even the app's own failure message cannot be.
const LAST_WORDS: &str = "Sorry, something went wrong. Please try again.";

/// What the user is told, and what it rests on.
pub(crate) struct ComposedReply {
    pub(crate) text: String,
    pub(crate) intent: String,
    pub(crate) memory: Memory,
    /// What it rests on.
    pub(crate) sources: Vec<String>,
    /// What the user may want to ask next.
    pub(crate) suggestions: Vec<String>,
    /// How far it can be relied on.
    pub(crate) confidence: Reliance,
    /// Whether something is missing.
    pub(crate) partial: bool,
    /// More to keep with it.
    pub(crate) metadata: Map<String, Value>,
}

impl ComposedReply {
    /// A text that lacks nothing.
    pub(crate) fn of(text: String, intent: &str, memory: Memory) -> Self {
        Self {
            text,
            intent: intent.to_owned(),
            memory,
            sources: Vec::new(),
            suggestions: Vec::new(),
            confidence: Reliance::High,
            partial: false,
            metadata: Map::new(),
        }
    }
}

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
    match words(turn, template, &context) {
        Ok(text) => speak(turn, ComposedReply::of(text, intent, memory)),
        Err(cause) => broken(turn, &cause),
    }
}

/// Ends the task with a reply to what a tool has done. Where there are no words for it, the user still reads that it was
/// done: whoever is told to try again does it twice.
pub(crate) fn say_done(
    turn: &mut Turn<'_>,
    template: &str,
    context: &Map<String, Value>,
    intent: &str,
    memory: Memory,
) -> Step<Request> {
    match words(turn, template, context) {
        Ok(text) => speak(turn, ComposedReply::of(text, intent, memory)),
        Err(cause) => without_words(turn, intent, memory, &cause),
    }
}

/// The text of a reply, or why there is none.
fn words(turn: &Turn<'_>, template: &str, context: &Map<String, Value>) -> Result<String, String> {
    match turn.assistant.templates.text(template, context) {
        Ok(text) if !text.is_empty() => Ok(text),
        Ok(_) => {
            Err(FailureCode::ReplyEmpty.because("the template of a reply rendered to nothing"))
        }
        Err(cause) => Err(FailureCode::ReplyTemplate.because(cause)),
    }
}

/// Ends the task with what tools have done, because the reply to it could not be put into words. Why is kept with the
/// answer and in the log.
pub(crate) fn without_words(
    turn: &mut Turn<'_>,
    intent: &str,
    memory: Memory,
    cause: &str,
) -> Step<Request> {
    tracing::warn!(task = %turn.view.facts.id, cause, "the template of a reply failed");
    let text = what_was_done(turn, &turn.assistant.app.config.messages.done);
    let mut told = ComposedReply::of(text, intent, memory);
    told.metadata.insert(REPLY_FAILED.into(), json!(cause));
    speak(turn, told)
}

/// Ends the task because something broke on the way through a workflow. Where something was done before, the user reads
/// that.
pub(crate) fn stopped(turn: &mut Turn<'_>, cause: &str) -> Step<Request> {
    if tools_that_did(turn).is_empty() {
        return broken(turn, cause);
    }
    let text = what_was_done(turn, &turn.assistant.app.config.messages.unfinished);
    fail_saying(turn, text, cause, true)
}

/// Whether tools have done something for the task.
pub(crate) fn is_something_done(turn: &Turn<'_>) -> bool {
    !tools_that_did(turn).is_empty()
}

/// What tools have done, in the app's words, or in plain ones where those fail, too.
fn what_was_done(turn: &Turn<'_>, template: &str) -> String {
    let tools = tools_that_did(turn);
    let context = Map::from_iter([("tools".to_owned(), json!(tools))]);
    match turn.assistant.templates.text(template, &context) {
        Ok(text) if !text.is_empty() => text,
        _ => format!("Done: {}.", tools.join(", ")),
    }
}

/// The tools that confirmed what they did, each once.
fn tools_that_did(turn: &Turn<'_>) -> Vec<String> {
    let of_skill = turn.state.tool_calls.iter();
    let of_skill = of_skill
        .filter(|call| call.status == ToolCallStatus::Completed)
        .map(|call| format!("{}.{}", call.server, call.tool));
    let of_walk = turn.state.walk.iter().flat_map(|walk| walk.done.clone());
    let mut tools: Vec<String> = Vec::new();
    for tool in of_skill.chain(of_walk) {
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    tools
}

/// Ends the task with what is told.
pub(crate) fn speak(turn: &mut Turn<'_>, told: ComposedReply) -> Step<Request> {
    match answer(turn, told) {
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
    let memory = Memory::showing(turn.state.shown.clone());
    let intent = turn.intent();
    say(turn, template, context.into(), &intent, memory)
}

/// Ends the task because a call failed.
pub(crate) fn call_failed(turn: &mut Turn<'_>, failure: &Failure) -> Step<Request> {
    // Whoever asked for this part may try once more, if nothing was done yet.
    turn.state.passing = failure.transient && turn.state.changed_nothing();
    broken(turn, &failure.cause())
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

/// Ends the task because its time is over: with what has arrived, if anything has.
pub(crate) fn too_late(turn: &mut Turn<'_>) -> Step<Request> {
    let arrived = match turn.state.node {
        Node::Dispatch => dispatch::at_deadline(turn),
        Node::Inquire => inquire::at_deadline(turn),
        Node::Aggregate => aggregate::at_deadline(turn),
        _ => None,
    };
    arrived.unwrap_or_else(|| nothing_in_time(turn))
}

fn nothing_in_time(turn: &mut Turn<'_>) -> Step<Request> {
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
    fail_saying(turn, text, cause, partial)
}

fn fail_saying(turn: &mut Turn<'_>, text: String, cause: &str, partial: bool) -> Step<Request> {
    let told = ComposedReply {
        // Whatever is said instead of an answer rests on nothing.
        confidence: Reliance::Low,
        partial,
        ..ComposedReply::of(text, "failed", Memory::default())
    };
    let Some((answer, message)) = answer(turn, told) else {
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
fn spoken(message: Message) -> AddedMessage {
    AddedMessage {
        message,
        spoken: true,
    }
}

fn answer(turn: &mut Turn<'_>, told: ComposedReply) -> Option<(Answer, Message)> {
    let state = &mut *turn.state;
    let mut metadata = told.metadata;
    metadata.insert("intent".into(), json!(told.intent));
    if let Some(target) = &state.target {
        metadata.insert("agent".into(), json!(target.agent));
    }
    if !state.slots.is_empty() {
        metadata.insert("slots".into(), json!(state.slots));
    }
    if let Some(decision) = &state.decision {
        metadata.insert("confidence".into(), json!(decision.confidence()));
        metadata.insert("decided_by".into(), json!(decision.decided_by));
        metadata.insert("routing".into(), routing(decision));
    }
    if state.history_cut > 0 {
        metadata.insert("history_cut".into(), json!(state.history_cut));
    }
    // Whoever asked for this part speaks with the user, and passes on what it asks and is about.
    if turn.view.facts.parent.is_some() {
        if told.memory != Memory::default() {
            metadata.insert(MEMORY.into(), json!(told.memory));
        }
        if state.passing {
            metadata.insert(PASSING.into(), json!(true));
        }
        if state.changed_nothing() {
            metadata.insert(CHANGED_NOTHING.into(), json!(true));
        }
    }
    if let Some(output) = state.output.take() {
        metadata.insert("output".into(), output);
    }
    let mut spent = std::mem::take(&mut state.spent);
    let thought =
        state.run.is_some() || state.walk.is_some() || spent != agent::BudgetUse::default();
    if let Some(run) = state.run.take() {
        metadata.insert("agent".into(), json!(run.agent));
        spent.add_all(&run.spent);
        state.tool_calls.extend(agent::calls_of(turn.view.messages));
    }
    if let Some(walk) = state.walk.take() {
        metadata.insert("workflow".into(), json!(walk.workflow));
        spent.add_all(&walk.spent);
    }
    if thought {
        metadata.insert("spent".into(), json!(spent));
    }
    let total = turn
        .view
        .at
        .duration_since(turn.view.facts.created_at)
        .as_millis();
    let answer = Answer::new(AnswerFields {
        sources: told.sources,
        tool_calls: std::mem::take(&mut state.tool_calls),
        suggestions: told.suggestions,
        confidence: told.confidence,
        partial: told.partial,
        total_ms: u64::try_from(total).unwrap_or(0),
        metadata,
        ..AnswerFields::of(told.text.clone())
    })
    .ok()?;
    let mut said = MessageFields::draft(Role::Assistant, told.text, turn.view.at);
    said.agent = state.target.as_ref().map(|target| target.agent.clone());
    told.memory.leave(&mut said.metadata);
    Some((answer, Message::new(said).ok()?))
}

/// What an answer tells of how it was decided who gives it.
pub(crate) fn routing(decision: &DecisionFields) -> Value {
    let targets = decision.targets.iter().map(|target| {
        let mut told = json!({
            "name": target.name, "kind": target.kind, "confidence": target.confidence,
        });
        if let Some(agent) = &target.agent {
            told["agent"] = json!(agent);
        }
        if let Some(request) = &target.request {
            told["request"] = json!(request);
        }
        told
    });
    let mut routing = json!({
        "targets": targets.collect::<Vec<_>>(), "reasoning": decision.reasoning, "decided_by": decision.decided_by,
    });
    if decision.ambiguous {
        routing["ambiguous"] = json!(true);
    }
    if !decision.dropped.is_empty() {
        routing["dropped"] = json!(decision.dropped);
    }
    routing
}
