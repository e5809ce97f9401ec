//! Builds the prompt of a thought from the conversation and the task, and parses the model's reply.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{CallContext, Failure, Messages};
use convoke_llm::{
    ChatReply, ChatRequest, Delta, Feature, Live, LlmError, LlmProblem, ModelCall, ModelClient,
    Output, ToolNames, ToolSpec, Usage,
};
use convoke_llm::{bare_calls, estimate_tokens, extract_json};
use convoke_model::{AgentFields, LlmConfig, Message, Pattern, Role, ToolCall, ToolMode};
use convoke_store::text_of;
use convoke_tools::ToolDescription;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::attachments::Attachments;
use super::thought_stream::ThoughtStream;
use super::{Phase, patterns};
use crate::calls::is_default;
use crate::effort;

/// A model's reply, as journaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Thought {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<ThoughtCall>,
    pub(crate) usage: Usage,
    pub(crate) model: String,
    /// Number of older messages that did not fit into the model's context window.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) cut: usize,
    /// Seconds since the last message of the conversation, if it was idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) idle_seconds: Option<u64>,
}

/// A tool call that a model requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ThoughtCall {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// The arguments, or the raw text if they are not a JSON object.
    pub(crate) arguments: Result<Map<String, Value>, String>,
}

impl From<ModelCall> for ThoughtCall {
    fn from(call: ModelCall) -> Self {
        Self {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        }
    }
}

impl Thought {
    /// Sends a prompt without tools.
    pub(crate) async fn of(client: &ModelClient, chat: ChatRequest<'_>) -> Result<Self, Failure> {
        let reply = complete(client, chat, None).await;
        let reply = reply.map_err(|error| call_failure(&error))?;
        Ok(Self {
            text: reply.text,
            calls: Vec::new(),
            usage: reply.usage,
            model: reply.model,
            cut: 0,
            idle_seconds: None,
        })
    }
}

/// Sends a prompt. If the endpoint does not support structured output, sends it again as plain text: the schema is in
/// the instruction as well.
async fn complete(
    client: &ModelClient,
    mut chat: ChatRequest<'_>,
    live: Live<'_>,
) -> Result<ChatReply, LlmError> {
    match client.complete(&chat, live).await {
        Err(error)
            if matches!(
                &error.problem,
                LlmProblem::Unsupported {
                    feature: Feature::StructuredOutput,
                    ..
                }
            ) =>
        {
            chat.output = Output::Text;
            Box::pin(client.complete(&chat, None)).await
        }
        outcome => outcome,
    }
}

/// Converts a model's error to the failure of a call.
fn call_failure(error: &LlmError) -> Failure {
    let mut failure = Failure::no_effect(error.code(), error.to_string());
    failure.transient = error.is_transient();
    failure.retry_in = error.retry_in;
    failure
}

/// The input of a thought.
pub(crate) struct ThoughtContext<'a> {
    pub(crate) agent: &'a AgentFields,
    pub(crate) setup: &'a ModelSetup,
    pub(crate) phase: Phase,
    /// Messages of the conversation before the task.
    pub(crate) history: &'a [Message],
    /// Number of still older messages that were not loaded.
    pub(crate) older: usize,
    /// What the user attached to the request.
    pub(crate) attachments: &'a Attachments,
    pub(crate) call_context: &'a CallContext,
    /// Whether text may be streamed before the app has checked the answer.
    pub(crate) may_be_live: bool,
    pub(crate) time_left: Duration,
}

/// Requests a thought from the model.
pub(crate) async fn think(
    client: &ModelClient,
    context: &ThoughtContext<'_>,
) -> Result<Thought, Failure> {
    let by_schema = context.agent.tool_mode == ToolMode::Schema;
    let outcome = ask_in_turn(client, context, by_schema).await;
    let outcome = match outcome {
        // In mode `auto`, an endpoint without tool support is asked again with tools described in the schema.
        Err(error)
            if !by_schema && lacks_tools(&error) && context.agent.tool_mode == ToolMode::Auto =>
        {
            Box::pin(ask_in_turn(client, context, true)).await
        }
        outcome => outcome,
    };
    outcome.map_err(|error| call_failure(&error))
}

fn lacks_tools(error: &LlmError) -> bool {
    matches!(
        &error.problem,
        LlmProblem::Unsupported {
            feature: Feature::Tools,
            ..
        }
    )
}

/// Asks the agent's models in order. A model with a smaller window than those before it gets a prompt of its own, cut to
/// that window.
async fn ask_in_turn(
    client: &ModelClient,
    context: &ThoughtContext<'_>,
    by_schema: bool,
) -> Result<Thought, LlmError> {
    let mut left = context.setup.models.as_slice();
    let mut before: Option<LlmError> = None;
    loop {
        let window = left.first().map_or(0, |model| model.context_tokens);
        let fits = |model: &&LlmConfig| model.context_tokens >= window;
        let (now, smaller) = left.split_at(left.iter().take_while(fits).count());
        let error = match ask(client, context, now, !smaller.is_empty(), by_schema).await {
            Ok(thought) => return Ok(thought),
            Err(error) => error,
        };
        let goes_on = !smaller.is_empty() && error.problem.is_for_the_next_model();
        // What may pass is worth another attempt, whatever the others say.
        let error = match before.take() {
            Some(passing) if passing.is_transient() && !error.is_transient() => passing,
            _ => error,
        };
        if !goes_on {
            return Err(error);
        }
        before = Some(error);
        left = smaller;
    }
}

async fn ask(
    client: &ModelClient,
    context: &ThoughtContext<'_>,
    models: &[LlmConfig],
    others_follow: bool,
    by_schema: bool,
) -> Result<Thought, LlmError> {
    let specs: &[ToolSpec] = match context.phase {
        Phase::Think => &context.setup.specs,
        Phase::Plan | Phase::Conclude | Phase::Critique => &[],
    };
    // A model without tool support must not see tool calls in the history either.
    let in_words = by_schema;
    let by_schema = by_schema && !specs.is_empty();
    let system = system(context, specs, by_schema);
    let window = models
        .first()
        .map_or(u64::MAX, |model| model.context_tokens.into());
    let (messages, cut) = prompt_messages(context, &system, window, in_words);
    let schema = if by_schema {
        Some(call_or_reply(specs))
    } else {
        output_schema(context, specs)
    };
    let names = Names(&context.setup.tools);
    let mut request = ChatRequest {
        models,
        system: &system,
        messages: &messages,
        images: &context.attachments.images,
        tools: if by_schema { &[] } else { specs },
        tool_names: &names,
        temperature: context.agent.temperature,
        max_output_tokens: None,
        output: schema
            .as_ref()
            .map_or(Output::Text, |schema| Output::JsonSchema {
                name: "step",
                schema,
            }),
        stream: false,
        time_left: context.time_left,
        postponed: Some(context.call_context.postponed),
        trace: Some(context.call_context.trace),
        measured: context.agent.limits.enable_telemetry,
    };
    let may_be_call = context.agent.tool_mode == ToolMode::Auto && !specs.is_empty();
    let thought_stream =
        listener(context, schema.is_some()).map(|live| ThoughtStream::new(live, may_be_call));
    let forward = |delta: Delta<'_>| {
        if let Some(thought_stream) = &thought_stream {
            thought_stream.take(delta);
        }
    };
    let live: Live<'_> = thought_stream
        .as_ref()
        .map(|_| &forward as &(dyn Fn(Delta<'_>) + Send + Sync));
    request.stream = live.is_some();
    let reply = complete(client, request, live).await;
    if let (Err(_), Some(thought_stream), true) = (&reply, &thought_stream, others_follow) {
        thought_stream.take(Delta::Reset);
    }
    let reply = reply?;
    let mut calls: Vec<ThoughtCall> = reply
        .tool_calls
        .into_iter()
        .map(ThoughtCall::from)
        .collect();
    let mut text = reply.text;
    if by_schema {
        (text, calls) = read_step(&text);
    } else if calls.is_empty() && context.agent.tool_mode == ToolMode::Auto {
        calls = bare_calls(&text, specs)
            .into_iter()
            .map(ThoughtCall::from)
            .collect();
        if !calls.is_empty() {
            text.clear();
        }
    }
    calls.retain(|call| !call.name.trim().is_empty());
    Ok(Thought {
        text,
        calls,
        usage: reply.usage,
        model: reply.model,
        cut: cut + context.older,
        idle_seconds: None,
    })
}

/// The tools and models of an agent. Built once and shared by many thoughts.
#[derive(Debug)]
pub(crate) struct ModelSetup {
    tools: Vec<OfferedTool>,
    /// The same tools as sent to the model.
    specs: Vec<ToolSpec>,
    /// The primary model first, then the fallback models.
    models: Vec<LlmConfig>,
}

impl ModelSetup {
    pub(crate) fn new(agent: &AgentFields, tools: impl Iterator<Item = OfferedTool>) -> Self {
        let tools: Vec<_> = tools.collect();
        Self {
            specs: tools.iter().map(|tool| tool.spec.clone()).collect(),
            tools,
            models: agent.models().cloned().collect(),
        }
    }
}

/// The listener for live text, if the thought is the final answer as text and no later phase may change it.
fn listener<'a>(context: &ThoughtContext<'a>, by_schema: bool) -> Option<&'a convoke_engine::Live> {
    let is_answer = matches!(context.phase, Phase::Think | Phase::Conclude);
    let goes_on = |pattern| context.agent.patterns.contains(pattern);
    let is_last = ![Pattern::Reflection, Pattern::PlanExecute]
        .iter()
        .any(goes_on);
    let live = context.call_context.live.as_ref();
    live.filter(|_| {
        context.may_be_live
            && is_answer
            && is_last
            && !by_schema
            && context.agent.output_schema.is_none()
    })
}

/// A tool in a model's prompt.
#[derive(Debug, Clone)]
pub(crate) struct OfferedTool {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) spec: ToolSpec,
}

impl OfferedTool {
    /// Tools for a prompt: by name, prefixed with the server if several servers have a tool of that name.
    pub(crate) fn of(facts: &[Arc<ToolDescription>]) -> impl Iterator<Item = Self> {
        let named = |tool: &str| facts.iter().filter(|other| other.tool == tool).count();
        facts.iter().map(move |tool| {
            let name = if named(&tool.tool) == 1 {
                tool.tool.clone()
            } else {
                format!("{}__{}", tool.server, tool.tool)
            };
            let parameters = Arc::clone(&tool.parameters);
            Self {
                server: tool.server.clone(),
                tool: tool.tool.clone(),
                spec: ToolSpec::new(name, tool.description.clone(), parameters),
            }
        })
    }
}

/// The names of earlier calls in the prompt.
struct Names<'a>(&'a [OfferedTool]);

impl ToolNames for Names<'_> {
    fn wire_name<'c>(&'c self, call: &'c ToolCall) -> Cow<'c, str> {
        let offered = self
            .0
            .iter()
            .filter(|known| known.tool == call.tool)
            .find(|known| {
                call.server == *known.server || call.server == super::tools::UNNAMED_SERVER
            });
        match offered {
            Some(known) => Cow::Borrowed(known.spec.name()),
            None => wire_safe(&call.tool),
        }
    }
}

/// Limit of a tool name's length, in characters.
const NAME_LENGTH: usize = 64;

/// Replaces characters that endpoints reject in tool names. A model may have written such a name, and one of them would
/// fail the whole request.
fn wire_safe(name: &str) -> Cow<'_, str> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.len() <= NAME_LENGTH && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let letters = name.chars().take(NAME_LENGTH);
    Cow::Owned(
        letters
            .map(|letter| if fits(letter) { letter } else { '_' })
            .collect(),
    )
}

/// The system prompt: the agent's own, then instructions for tool calls and structured output.
fn system<'a>(context: &ThoughtContext<'a>, specs: &[ToolSpec], by_schema: bool) -> Cow<'a, str> {
    let prompt = context.agent.system_prompt.trim();
    if !by_schema && context.agent.output_schema.is_none() {
        return Cow::Borrowed(prompt);
    }
    let mut system = prompt.to_owned();
    if by_schema {
        system.push_str("\n\nYou can call these tools:\n");
        for spec in specs {
            let line = format!(
                "- {}: {} Arguments: {}\n",
                spec.name(),
                spec.description(),
                spec.parameters()
            );
            system.push_str(&line);
        }
        system.push_str(
            "Reply with JSON only: either {\"tool\": \"name\", \"arguments\": {…}} to call one, or \
             {\"reply\": \"…\"} to answer the user.",
        );
    }
    if let Some(schema) = &context.agent.output_schema {
        system.push_str("\n\nYour final answer is JSON that fits this schema, and nothing else: ");
        system.push_str(&schema.to_string());
    }
    Cow::Owned(system)
}

/// The schema for structured output, if no tools are offered.
fn output_schema(context: &ThoughtContext<'_>, specs: &[ToolSpec]) -> Option<Value> {
    match context.phase {
        Phase::Think | Phase::Conclude if specs.is_empty() => context.agent.output_schema.clone(),
        _ => None,
    }
}

/// The schema of a step: a call of one of the tools, or a reply.
fn call_or_reply(specs: &[ToolSpec]) -> Value {
    let mut choices: Vec<Value> = specs
        .iter()
        .map(|spec| {
            json!({
                "type": "object",
                "properties": { "tool": { "const": spec.name() }, "arguments": **spec.parameters() },
                "required": ["tool", "arguments"],
                "additionalProperties": false,
            })
        })
        .collect();
    choices.push(json!({
        "type": "object",
        "properties": { "reply": { "type": "string" } },
        "required": ["reply"],
        "additionalProperties": false,
    }));
    json!({ "anyOf": choices })
}

/// Parses a step. Text that is neither a call nor a reply object is a reply.
fn read_step(text: &str) -> (String, Vec<ThoughtCall>) {
    let Some(step) = extract_json(text) else {
        return (text.to_owned(), Vec::new());
    };
    if let Some(name) = step
        .get("tool")
        .or_else(|| step.get("name"))
        .and_then(Value::as_str)
    {
        let arguments = match step.get("arguments") {
            Some(Value::Object(fields)) => Ok(fields.clone()),
            None => Ok(Map::new()),
            Some(other) => Err(other.to_string()),
        };
        return (
            String::new(),
            vec![ThoughtCall {
                id: None,
                name: name.to_owned(),
                arguments,
            }],
        );
    }
    match step.get("reply").and_then(Value::as_str) {
        Some(reply) => (reply.to_owned(), Vec::new()),
        None => (text.to_owned(), Vec::new()),
    }
}

/// The messages of the prompt: the conversation, the task, and the instruction of the phase. Drops the oldest messages
/// if they do not fit into the context window, and returns how many.
fn prompt_messages<'a>(
    context: &'a ThoughtContext<'_>,
    system: &str,
    window: u64,
    in_words: bool,
) -> (Cow<'a, [Message]>, usize) {
    let task = &context.call_context.messages;
    let instruction = match context.phase {
        Phase::Think => None,
        Phase::Plan => Some(patterns::PLAN),
        Phase::Conclude => Some(patterns::CONCLUDE),
        Phase::Critique => Some(patterns::CRITIQUE),
    };
    // Some endpoints reject a conversation that does not start with a user message.
    let leading = context
        .history
        .iter()
        .take_while(|message| message.role != Role::User)
        .count();
    let history = &context.history[leading..];
    let attachments = context.attachments;
    let size = |message: &Message| tokens(&attachments.write_out(message));
    let spare = window.saturating_sub(estimate_tokens(system) + ANSWER_TOKENS);
    let newest = PromptCut::of(task, history, spare, size);
    if newest == PromptCut::default()
        && history.is_empty()
        && instruction.is_none()
        && !in_words
        && !task.iter().any(Attachments::is_written_out)
    {
        return (task.as_slice(), leading);
    }
    let kept = task.len().saturating_sub(1 + newest.cut_of_task);
    let mut shown_task: Vec<_> = task.iter().rev().take(kept).collect();
    // The request always stays.
    shown_task.extend(task.first());
    let shown_history = history[newest.cut_of_history..].iter();
    let mut messages: Vec<Message> = shown_history
        .chain(shown_task.into_iter().rev())
        .inspect(|_| effort::count(1))
        .map(|message| attachments.write_out(message).into_owned())
        .collect();
    let cut = leading + newest.cut_of_history + newest.cut_of_task;
    if in_words {
        messages = messages.iter().filter_map(as_text).collect();
    }
    if let Some(text) = instruction {
        messages.extend(Message::user(text, context.call_context.facts.created_at));
    }
    (Cow::Owned(messages), cut)
}

/// Tokens reserved for the answer.
const ANSWER_TOKENS: u64 = 1_024;

pub(super) fn tokens(message: &Message) -> u64 {
    let calls: u64 = message
        .tool_calls
        .iter()
        .map(|call| estimate_tokens(&text_of(&call.arguments)))
        .sum();
    estimate_tokens(&message.content) + calls + 4
}

/// How many of the oldest messages are left out so that the rest fits: of the conversation first, then of the task. The
/// request itself (the task's first message) stays, and a call is never separated from its results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PromptCut {
    cut_of_history: usize,
    /// Of the messages after the request.
    cut_of_task: usize,
}

impl PromptCut {
    /// Measures the conversation, and of the task only the messages that fit.
    pub(super) fn of(
        task: &Messages,
        history: &[Message],
        spare: u64,
        size: impl Fn(&Message) -> u64,
    ) -> Self {
        let request = task.first().map_or(0, &size);
        let after = task.len().saturating_sub(1);
        let mut used = request;
        // The oldest message that is shown, as the number of messages before it.
        let mut cut_of_task = None;
        for (number, message) in task.iter().rev().take(after).enumerate() {
            let before = after - 1 - number;
            used += size(message);
            effort::count(1);
            if used > spare && cut_of_task.is_some() {
                break;
            }
            // A call and its results stay together, and the newest two messages stay.
            if before == 0 && used <= spare {
                cut_of_task = Some(0);
            } else if before > 0 && number > 0 && message.role != Role::Tool {
                cut_of_task = Some(before);
            }
        }
        let cut_of_task = cut_of_task.unwrap_or(0);
        if used > spare {
            return Self {
                cut_of_history: history.len(),
                cut_of_task,
            };
        }
        Self {
            cut_of_history: oldest_turns(history, spare - used, size),
            cut_of_task: 0,
        }
    }
}

/// How many messages of a conversation are left out so that the rest fits.
fn oldest_turns(history: &[Message], spare: u64, size: impl Fn(&Message) -> u64) -> usize {
    let mut total = history.iter().map(&size).sum::<u64>();
    let mut cut = 0;
    while total > spare && cut < history.len() {
        let answers = history[cut + 1..].iter();
        let answers = answers.take_while(|message| message.role != Role::User);
        let turn = 1 + answers.count();
        total -= history[cut..cut + turn].iter().map(&size).sum::<u64>();
        cut += turn;
    }
    cut
}

/// Renders tool calls and results as text, for a model without tool support.
fn as_text(message: &Message) -> Option<Message> {
    let at = message.timestamp.unwrap_or_default();
    match message.role {
        Role::Assistant if !message.tool_calls.is_empty() => {
            let calls: Vec<String> = message
                .tool_calls
                .iter()
                .map(|call| json!({ "tool": call.tool, "arguments": call.arguments }).to_string())
                .collect();
            Message::assistant(calls.join("\n"), at).ok()
        }
        Role::Tool => Message::user(format!("The tool's result: {}", message.content), at).ok(),
        _ => Some(message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use convoke_model::MessageFields;
    use jiff::Timestamp;

    use super::*;

    /// A request, and thoughts that each called a tool.
    fn task(thoughts: usize) -> Messages {
        let at = Timestamp::UNIX_EPOCH;
        let request = Message::user("Go.", at).unwrap();
        let thought = |number: usize| {
            let calling = Message::assistant(format!("thought {number}"), at).unwrap();
            let mut fields = MessageFields::draft(Role::Tool, format!("result {number}"), at);
            fields.tool_call_id = Some(number.to_string());
            [calling, Message::new(fields).unwrap()]
        };
        let thoughts = (0..thoughts).flat_map(thought);
        std::iter::once(request).chain(thoughts).collect()
    }

    /// The reference: leaves out one turn after the other.
    fn one_after_the_other(task: &[Message], history: &[Message], spare: u64) -> PromptCut {
        let size = |messages: &[Message]| messages.iter().map(tokens).sum::<u64>();
        let mut newest = PromptCut::default();
        let rest = |newest: PromptCut| {
            let shown = size(&history[newest.cut_of_history..]) + size(&task[..1]);
            shown + size(&task[1 + newest.cut_of_task..])
        };
        while rest(newest) > spare {
            let is_turn = |message: &Message| message.role == Role::User;
            if newest.cut_of_history < history.len() {
                let behind = &history[newest.cut_of_history + 1..];
                let next = behind.iter().position(is_turn).unwrap_or(behind.len());
                newest.cut_of_history += 1 + next;
                continue;
            }
            let behind = task.get(newest.cut_of_task + 2..).unwrap_or_default();
            let next = behind.iter().position(|message| message.role != Role::Tool);
            match next {
                Some(next) if behind.len() >= next + 2 => newest.cut_of_task += 1 + next,
                _ => return newest,
            }
        }
        newest
    }

    #[test]
    fn what_fits_is_what_is_left_if_one_turn_after_the_other_is_left_out() {
        let at = Timestamp::UNIX_EPOCH;
        let history: Vec<_> = (0..6)
            .map(|number| match number % 3 {
                0 => Message::user("And this?", at).unwrap(),
                _ => Message::assistant("That.", at).unwrap(),
            })
            .collect();
        for thoughts in 0..6 {
            let task = task(thoughts);
            for spare in 0..150 {
                let newest = PromptCut::of(&task, &history, spare, tokens);
                let expected = one_after_the_other(&task.as_slice(), &history, spare);
                assert_eq!(newest, expected, "{thoughts} thoughts, {spare} tokens");
            }
        }
    }

    #[test]
    fn of_a_long_task_only_what_fits_is_looked_at() {
        let work = |thoughts| {
            let task = task(thoughts);
            effort::of(|| {
                let newest = PromptCut::of(&task, &[], 1_000, tokens);
                assert!(newest.cut_of_task > thoughts);
            })
        };
        let (once, twice) = (work(1_000), work(2_000));
        assert_eq!(once, twice);
        assert!(once < 500, "{once}");
    }
}
