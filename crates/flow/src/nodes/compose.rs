//! Compose: renders replies from the app's templates. A reply claims only what a tool confirmed.

use convoke_engine::{AddedMessage, Ending, Failure, Step};
use convoke_model::{
    AgentResult, Answer, AnswerFields, DecisionFields, ErrorType, FailureCode, FailureKind,
    Message, MessageFields, Reliance, Role, Stage, Target, ToolCallStatus, split_cause,
};
use convoke_tools::ToolReply;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{agent, aggregate, dispatch, graph, inquire};
use crate::assistant::{Node, Progress};
use crate::calls::Request;
use crate::memory::Memory;
use crate::request_history::RequestHistory;
use crate::turn::Turn;

/// Metadata key of a child's answer for its memory.
pub(crate) const MEMORY: &str = "memory";

/// Metadata key of a child's answer: it failed for a transient reason before anything was changed.
pub(crate) const TRANSIENT: &str = "passing";

/// Metadata key of an answer for what kind of error stopped the request.
const ERROR_TYPE: &str = "error_type";

/// Metadata key of an answer for the error of its template.
const REPLY_FAILED: &str = "reply_failed";

/// Metadata key of an answer for why the items that it shows cannot be referred to.
pub(crate) const SHOWS_FAILED: &str = "shows_failed";

/// Metadata key of a child's answer for the error that its tool reported, in the operator's words.
pub(crate) const AGENT_ERROR: &str = "agent_error";

/// Metadata key of an answer for what each agent did.
const AGENT_RESULTS: &str = "agent_results";

/// Metadata key of an answer in a conversation that was idle, for the seconds since its last message.
const IDLE_SECONDS: &str = "conversation_idle_seconds";

/// Metadata key of a child's answer: it certainly changed nothing.
pub(crate) const CHANGED_NOTHING: &str = "changed_nothing";

/// The failure message if the app's own cannot be rendered.
const DEFAULT_FAILURE: &str = "Sorry, something went wrong. Please try again.";

/// A reply to the user.
pub(crate) struct ComposedReply {
    pub(crate) text: String,
    pub(crate) intent: String,
    pub(crate) memory: Memory,
    /// Its sources.
    pub(crate) sources: Vec<String>,
    /// Suggested follow-up questions.
    pub(crate) suggestions: Vec<String>,
    /// What it does not take into account.
    pub(crate) warnings: Vec<String>,
    /// Its reliability.
    pub(crate) confidence: Reliance,
    /// Whether it is incomplete.
    pub(crate) partial: bool,
    /// Why the request was not carried out, in the operator's words.
    pub(crate) error: Option<String>,
    /// Further metadata of the answer.
    pub(crate) metadata: Map<String, Value>,
}

impl ComposedReply {
    /// A complete reply with this text.
    pub(crate) fn of(text: String, intent: &str, memory: Memory) -> Self {
        Self {
            text,
            intent: intent.to_owned(),
            memory,
            sources: Vec::new(),
            suggestions: Vec::new(),
            warnings: Vec::new(),
            confidence: Reliance::High,
            partial: false,
            error: None,
            metadata: Map::new(),
        }
    }
}

/// Ends the task with a reply.
pub(crate) fn reply_from_template(
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
    match render(turn, template, &context) {
        Ok(text) => end_with_reply(turn, ComposedReply::of(text, intent, memory)),
        Err(cause) => fail(turn, &cause),
    }
}

/// Ends the task with a reply to a completed tool call. If its template fails, the user still reads that it was done; a
/// failure message would make them repeat it. `unread` is why the items that the reply shows cannot be referred to.
pub(crate) fn reply_done(
    turn: &mut Turn<'_>,
    template: &str,
    context: &Map<String, Value>,
    intent: &str,
    memory: Memory,
    unread: Option<String>,
) -> Step<Request> {
    match render(turn, template, context) {
        Ok(text) => {
            let mut reply = ComposedReply::of(text, intent, memory);
            if let Some(cause) = unread {
                let task = turn.view.facts.id;
                tracing::warn!(%task, cause, "the items that a reply shows cannot be read");
                reply.metadata.insert(SHOWS_FAILED.into(), json!(cause));
            }
            end_with_reply(turn, reply)
        }
        Err(cause) => done_without_template(turn, intent, memory, &cause),
    }
}

/// Renders a reply, or returns the reason.
fn render(turn: &Turn<'_>, template: &str, context: &Map<String, Value>) -> Result<String, String> {
    match turn.assistant.templates.text(template, context) {
        Ok(text) if !text.is_empty() => Ok(text),
        Ok(_) => {
            Err(FailureCode::ReplyEmpty.because("the template of a reply rendered to nothing"))
        }
        Err(cause) => Err(FailureCode::ReplyTemplate.because(cause)),
    }
}

/// Ends the task with a list of completed tools, because the template of the reply failed. The cause is in the answer's
/// metadata and in the log.
pub(crate) fn done_without_template(
    turn: &mut Turn<'_>,
    intent: &str,
    memory: Memory,
    cause: &str,
) -> Step<Request> {
    tracing::warn!(task = %turn.view.facts.id, cause, "the template of a reply failed");
    let text = list_completed(turn, &turn.assistant.app.config.messages.done);
    let mut reply = ComposedReply::of(text, intent, memory);
    reply.metadata.insert(REPLY_FAILED.into(), json!(cause));
    end_with_reply(turn, reply)
}

/// Ends the task after a failure in a workflow. If tools had effects before, the reply lists them. `changed_nothing` is
/// whether the failure certainly had none itself.
pub(crate) fn workflow_failure(
    turn: &mut Turn<'_>,
    cause: &str,
    changed_nothing: bool,
) -> Step<Request> {
    if completed_tools(turn).is_empty() {
        let is = |code: FailureCode| {
            let rest = cause.strip_prefix(code.as_str());
            rest.is_some_and(|rest| rest.starts_with(':'))
        };
        let template = failure_template(turn, changed_nothing, is);
        return fail_with(turn, template, cause, false);
    }
    let text = list_completed(turn, &turn.assistant.app.config.messages.unfinished);
    fail_with_text(turn, text, cause, true)
}

/// Whether any tool completed an effect.
pub(crate) fn has_completed_tools(turn: &Turn<'_>) -> bool {
    !completed_tools(turn).is_empty()
}

/// Lists the completed tools, with the app's template or, if that fails, without.
fn list_completed(turn: &Turn<'_>, template: &str) -> String {
    let tools = completed_tools(turn);
    let context = Map::from_iter([("tools".to_owned(), json!(tools))]);
    match turn.assistant.templates.text(template, &context) {
        Ok(text) if !text.is_empty() => text,
        _ => format!("Done: {}.", tools.join(", ")),
    }
}

/// The tools that completed, without duplicates.
fn completed_tools(turn: &Turn<'_>) -> Vec<String> {
    let of_skill = turn.state.tool_calls.items().iter();
    let of_skill = of_skill
        // A workflow has its own list.
        .filter(|_| turn.state.walk.is_none())
        .filter(|call| call.status == ToolCallStatus::Completed)
        .map(|call| call.qualified_tool());
    let of_walk = turn.state.walk.iter().flat_map(|walk| walk.done.clone());
    let mut tools: Vec<String> = Vec::new();
    for tool in of_skill.chain(of_walk) {
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    tools
}

/// Ends the task with this reply.
pub(crate) fn end_with_reply(turn: &mut Turn<'_>, reply: ComposedReply) -> Step<Request> {
    match answer(turn, reply) {
        Some((answer, message)) => Step {
            stage: Some(Stage::Composing),
            messages: vec![conversation_message(message)],
            end: Some(Ending::Completed(Box::new(answer))),
            ..Step::default()
        },
        None => fail(turn, "the reply breaks a rule"),
    }
}

/// Ends the task because a budget is exhausted.
pub(crate) fn budget_exhausted(turn: &mut Turn<'_>, what: &str) -> Step<Request> {
    let template = &turn.assistant.app.config.messages.failure;
    fail_with(
        turn,
        template,
        &format!("budget.{what}: the task's budget of {what} is used up"),
        true,
    )
}

/// Ends the task with a tool's own error. The tool was reached and changed nothing.
pub(crate) fn tool_error(
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
    let reported = Some(match context["code"].as_str() {
        Some(code) => format!("{code}: {error}"),
        None => error.to_owned(),
    });
    let error_type = error_type_of(&reply.content);
    refused(turn, template, &context, (error_type, reported), memory)
}

/// Ends the task with a reply that says why what the skill should do was refused.
pub(crate) fn reply_refused(
    turn: &mut Turn<'_>,
    template: &str,
    context: &Map<String, Value>,
    error_type: ErrorType,
    memory: Memory,
) -> Step<Request> {
    refused(turn, template, context, (error_type, None), memory)
}

/// Ends the task with a refusal: its type, and the tool's own error in the operator's words.
fn refused(
    turn: &mut Turn<'_>,
    template: &str,
    context: &Map<String, Value>,
    (error_type, reported): (ErrorType, Option<String>),
    memory: Memory,
) -> Step<Request> {
    match render(turn, template, context) {
        Ok(text) => {
            let mut reply = ComposedReply::of(text, &turn.intent(), memory);
            reply.metadata.insert(ERROR_TYPE.into(), json!(error_type));
            reply.error = reported;
            end_with_reply(turn, reply)
        }
        Err(cause) => fail(turn, &cause),
    }
}

/// What kind of error a tool reports: as it says itself, else by its code.
fn error_type_of(content: &Value) -> ErrorType {
    let own = content.get(ERROR_TYPE).map(ErrorType::deserialize);
    own.and_then(Result::ok).unwrap_or_else(|| {
        let code = content.get("code").and_then(Value::as_str);
        ErrorType::of(code.unwrap_or_default(), true)
    })
}

/// Ends the task because a call failed.
pub(crate) fn call_failure(turn: &mut Turn<'_>, failure: &Failure) -> Step<Request> {
    // The parent may retry if nothing was changed yet.
    turn.state.transient = failure.transient && turn.state.changed_nothing();
    let changed_nothing = failure.kind == FailureKind::NoEffect;
    let template = failure_template(turn, changed_nothing, |code| failure.is(code));
    fail_with(turn, template, &failure.cause(), false)
}

/// The app's message for a failure: that a person decided against the call or did not answer, if nothing was changed, and
/// that something went wrong otherwise.
fn failure_template<'a>(
    turn: &Turn<'a>,
    changed_nothing: bool,
    is: impl Fn(FailureCode) -> bool,
) -> &'a str {
    let messages = &turn.assistant.app.config.messages;
    if changed_nothing && is(FailureCode::CallUnanswered) {
        &messages.expired
    } else if changed_nothing && is(FailureCode::CallRejected) {
        &messages.rejected
    } else {
        &messages.failure
    }
}

/// Ends the task because its answer did not pass the app's own check.
pub(crate) fn check_failure(turn: &mut Turn<'_>, cause: &str) -> Step<Request> {
    let template = &turn.assistant.app.config.messages.check_failed;
    fail_with(turn, template, cause, false)
}

/// Ends the task after a failure: the app's message for the user, the cause for the operator.
pub(crate) fn fail(turn: &mut Turn<'_>, cause: &str) -> Step<Request> {
    let template = &turn.assistant.app.config.messages.failure;
    fail_with(turn, template, cause, false)
}

/// Ends the task as failed, with this template and what is to be said after it.
pub(crate) fn fail_with_template(
    turn: &mut Turn<'_>,
    template: &str,
    more: Option<&str>,
    cause: &str,
) -> Step<Request> {
    let text = failure_text(turn, template);
    let text = more.map_or(text.clone(), |more| format!("{text} {more}"));
    fail_with_text(turn, text, cause, false)
}

/// Whether a text is one of the app's messages for a failure, which say nothing of the request itself.
pub(crate) fn is_general_failure(turn: &Turn<'_>, text: &str) -> bool {
    let messages = &turn.assistant.app.config.messages;
    let general = [
        &messages.failure,
        &messages.deadline,
        &messages.rejected,
        &messages.expired,
    ];
    general
        .into_iter()
        .any(|template| text == failure_text(turn, template))
}

/// Ends the task at its deadline, with the results so far if there are any.
pub(crate) fn at_deadline(turn: &mut Turn<'_>) -> Step<Request> {
    let arrived = match turn.state.node {
        Node::Dispatch => dispatch::at_deadline(turn),
        Node::Inquire => inquire::at_deadline(turn),
        Node::Aggregate => aggregate::at_deadline(turn),
        _ => None,
    };
    arrived.unwrap_or_else(|| deadline_failure(turn))
}

fn deadline_failure(turn: &mut Turn<'_>) -> Step<Request> {
    let template = &turn.assistant.app.config.messages.deadline;
    let cause = FailureCode::TaskDeadline.because("the task's time was over");
    fail_with(turn, template, &cause, true)
}

fn fail_with(turn: &mut Turn<'_>, template: &str, cause: &str, partial: bool) -> Step<Request> {
    let text = failure_text(turn, template);
    fail_with_text(turn, text, cause, partial)
}

fn failure_text(turn: &Turn<'_>, template: &str) -> String {
    let text = turn.assistant.templates.text(template, &Map::new());
    let text = text.ok().filter(|text| !text.is_empty());
    text.unwrap_or_else(|| DEFAULT_FAILURE.to_owned())
}

fn fail_with_text(turn: &mut Turn<'_>, text: String, cause: &str, partial: bool) -> Step<Request> {
    let reply = ComposedReply {
        // A failure message has no sources.
        confidence: Reliance::Low,
        partial,
        metadata: Map::from_iter([(ERROR_TYPE.to_owned(), json!(error_type(turn, cause)))]),
        error: Some(cause.to_owned()),
        ..ComposedReply::of(text, &turn.known_intent(), Memory::default())
    };
    let Some((answer, message)) = answer(turn, reply) else {
        return Step::default();
    };
    Step {
        messages: vec![conversation_message(message)],
        end: Some(Ending::Failed {
            message: Box::new(answer),
            cause: cause.to_owned(),
        }),
        ..Step::default()
    }
}

/// What kind of error a cause is, for who asked: by its code, and by whether it was known what to do.
fn error_type(turn: &Turn<'_>, cause: &str) -> ErrorType {
    let code = split_cause(cause).map_or("", |(code, _)| code);
    ErrorType::of(code, turn.is_understood())
}

/// A message that is part of the conversation.
fn conversation_message(message: Message) -> AddedMessage {
    AddedMessage {
        message,
        in_conversation: true,
    }
}

fn answer(turn: &mut Turn<'_>, reply: ComposedReply) -> Option<(Answer, Message)> {
    let carries_history = turn.carries_history();
    let state = &mut *turn.state;
    let mut reply = reply;
    let mut metadata = std::mem::take(&mut reply.metadata);
    metadata.insert("intent".into(), json!(reply.intent));
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
    let cut = RequestHistory::of(turn.view.messages.first()).map_or(0, |history| history.older);
    let cut = cut.max(state.history_cut);
    if cut > 0 {
        metadata.insert("history_cut".into(), json!(cut));
    }
    if let Some(seconds) = state.idle_seconds {
        metadata.insert(IDLE_SECONDS.into(), json!(seconds));
    }
    let is_child = turn.view.facts.parent.is_some();
    // A parent replies to the user, and needs the memory of its parts; so does a sender that keeps the history itself.
    if (is_child || carries_history) && reply.memory != Memory::default() {
        metadata.insert(MEMORY.into(), json!(reply.memory));
    }
    let total = turn
        .view
        .at
        .duration_since(turn.view.facts.created_at)
        .as_millis();
    let total = u64::try_from(total).unwrap_or(0);
    if is_child {
        state.agent_results.clear();
        if let Some(error) = &reply.error {
            metadata.insert(AGENT_ERROR.into(), json!(error));
        }
        if state.transient {
            metadata.insert(TRANSIENT.into(), json!(true));
        }
        if state.changed_nothing() {
            metadata.insert(CHANGED_NOTHING.into(), json!(true));
        }
    } else {
        let mut results = agent_results(state, &reply, total);
        if let Some(walk) = &state.walk {
            results.extend(graph::agent_results(turn.assistant, walk));
        }
        if !results.is_empty() {
            metadata.insert(AGENT_RESULTS.into(), json!(results));
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
        // The attempts in whose place fallback tools were called.
        let attempts = std::mem::take(&mut state.tool_calls).into_items();
        let calls = agent::calls_of(turn.view.messages.iter(), attempts);
        state.tool_calls.extend(calls);
    }
    if let Some(walk) = state.walk.take() {
        metadata.insert("workflow".into(), json!(walk.workflow));
        spent.add_all(&walk.spent);
    }
    if thought {
        metadata.insert("spent".into(), json!(spent));
    }
    let answer = Answer::new(AnswerFields {
        sources: reply.sources,
        tool_calls: std::mem::take(&mut state.tool_calls).into_items(),
        suggestions: reply.suggestions,
        confidence: reply.confidence,
        warnings: reply.warnings,
        partial_results: reply.partial,
        total_execution_time_ms: total,
        metadata,
        ..AnswerFields::of(reply.text.clone())
    })
    .ok()?;
    let mut message_fields = MessageFields::draft(Role::Assistant, reply.text, turn.view.at);
    message_fields.agent = state.target.as_ref().map(|target| target.agent.clone());
    if !reply.memory.domains.is_empty() {
        let domains = json!(reply.memory.domains);
        message_fields.metadata.insert("domains".into(), domains);
    }
    message_fields
        .metadata
        .insert("execution_time_ms".into(), json!(total));
    reply.memory.write_to(&mut message_fields.metadata);
    Some((answer, Message::new(message_fields).ok()?))
}

/// What each agent did: the parts of the request, or the one agent that it went to.
fn agent_results(state: &mut Progress, reply: &ComposedReply, took_ms: u64) -> Vec<AgentResult> {
    let results = std::mem::take(&mut state.agent_results);
    if !results.is_empty() {
        return results;
    }
    let ran = state.run.as_ref().map(|run| &run.agent);
    let agent = ran.or(state.target.as_ref().map(|target| &target.agent));
    let result = agent.cloned().and_then(|agent| match &reply.error {
        Some(error) => AgentResult::failure(agent, error, took_ms).ok(),
        None => AgentResult::success(agent, &reply.text, took_ms).ok(),
    });
    result.into_iter().collect()
}

/// A target of a decision as metadata.
pub(crate) fn target_value(target: &Target) -> Value {
    let mut value = json!({
        "name": target.name, "kind": target.kind, "confidence": target.confidence,
        "parameters": target.parameters,
    });
    if let Some(agent) = &target.agent {
        value["agent"] = json!(agent);
    }
    if let Some(request) = &target.request {
        value["request"] = json!(request);
    }
    value
}

/// The routing decision as metadata of an answer.
pub(crate) fn routing(decision: &DecisionFields) -> Value {
    let targets = decision.targets.iter().map(target_value);
    let mut routing = json!({
        "asked": decision.asked, "targets": targets.collect::<Vec<_>>(), "reasoning": decision.reasoning,
        "confidence": decision.confidence(), "ambiguous": decision.ambiguous,
        "clarification_needed": decision.clarifies(), "decided_by": decision.decided_by,
        "dropped": decision.dropped,
    });
    if let Some(question) = &decision.clarifying_question {
        routing["clarifying_question"] = json!(question);
    }
    routing
}
