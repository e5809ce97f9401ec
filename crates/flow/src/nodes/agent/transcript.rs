//! A thought: what a model is shown of the conversation and the task, and what it says to it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{CallContext, Failure};
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

use super::thought_stream::ThoughtStream;
use super::{Phase, patterns};
use crate::calls::is_default;

/// What a model said, as it stands in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Thought {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<ThoughtCall>,
    pub(crate) usage: Usage,
    pub(crate) model: String,
    /// Older messages that did not fit into the model's window.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) cut: usize,
}

/// A tool that a model wants called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ThoughtCall {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// The arguments, or the text that the model wrote instead.
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
    /// What a model says to a question that offers it no tools.
    pub(crate) async fn of(client: &ModelClient, chat: ChatRequest<'_>) -> Result<Self, Failure> {
        let reply = complete(client, chat, None).await;
        let reply = reply.map_err(|error| unanswered(&error))?;
        Ok(Self {
            text: reply.text,
            calls: Vec::new(),
            usage: reply.usage,
            model: reply.model,
            cut: 0,
        })
    }
}

/// Asks a model; one that knows no structured output is asked in words, because whatever schema it is to fit is in the
/// instruction too: it is merely more likely to get it wrong.
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

/// A model's failure as that of a call.
fn unanswered(error: &LlmError) -> Failure {
    let failure = Failure::no_effect(error.code(), error.to_string());
    if error.is_transient() {
        failure.transient()
    } else {
        failure
    }
}

/// What a thought is made from.
pub(crate) struct ThoughtContext<'a> {
    pub(crate) agent: &'a AgentFields,
    pub(crate) offer: &'a ModelSetup,
    pub(crate) phase: Phase,
    /// What was said in the conversation before the task.
    pub(crate) history: &'a [Message],
    /// How much of the conversation is older still and was left out.
    pub(crate) older: usize,
    pub(crate) call_context: &'a CallContext,
    /// Whether what the model says may be heard before the app has looked at it.
    pub(crate) may_be_live: bool,
    pub(crate) time_left: Duration,
}

/// Asks the model.
pub(crate) async fn think(
    client: &ModelClient,
    thinking: &ThoughtContext<'_>,
) -> Result<Thought, Failure> {
    let by_schema = thinking.agent.tool_mode == ToolMode::Schema;
    let outcome = ask(client, thinking, by_schema).await;
    let outcome = match outcome {
        // An endpoint that knows no tools is asked in the other way, where the agent leaves it open.
        Err(error)
            if !by_schema && lacks_tools(&error) && thinking.agent.tool_mode == ToolMode::Auto =>
        {
            Box::pin(ask(client, thinking, true)).await
        }
        outcome => outcome,
    };
    outcome.map_err(|error| unanswered(&error))
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

async fn ask(
    client: &ModelClient,
    thinking: &ThoughtContext<'_>,
    by_schema: bool,
) -> Result<Thought, LlmError> {
    let specs: &[ToolSpec] = match thinking.phase {
        Phase::Think => &thinking.offer.specs,
        Phase::Plan | Phase::Conclude | Phase::Critique => &[],
    };
    // A model that knows no tool calls is shown none, also where it may make none.
    let in_words = by_schema;
    let by_schema = by_schema && !specs.is_empty();
    let system = system(thinking, specs, by_schema);
    let (messages, cut) = shown(thinking, &system, in_words);
    let schema = if by_schema {
        Some(call_or_reply(specs))
    } else {
        output_schema(thinking, specs)
    };
    let names = Names(&thinking.offer.tools);
    let mut request = ChatRequest {
        models: &thinking.offer.models,
        system: &system,
        messages: &messages,
        tools: if by_schema { &[] } else { specs },
        tool_names: &names,
        temperature: thinking.agent.temperature,
        max_output_tokens: None,
        output: schema
            .as_ref()
            .map_or(Output::Text, |schema| Output::JsonSchema {
                name: "step",
                schema,
            }),
        stream: false,
        time_left: thinking.time_left,
    };
    let may_be_call = thinking.agent.tool_mode == ToolMode::Auto && !specs.is_empty();
    let thought_stream =
        listener(thinking, schema.is_some()).map(|live| ThoughtStream::new(live, may_be_call));
    let passed_on = |delta: Delta<'_>| {
        if let Some(thought_stream) = &thought_stream {
            thought_stream.take(delta);
        }
    };
    let live: Live<'_> = thought_stream
        .as_ref()
        .map(|_| &passed_on as &(dyn Fn(Delta<'_>) + Send + Sync));
    request.stream = live.is_some();
    let reply = complete(client, request, live).await?;
    let mut calls: Vec<ThoughtCall> = reply
        .tool_calls
        .into_iter()
        .map(ThoughtCall::from)
        .collect();
    let mut text = reply.text;
    if by_schema {
        (text, calls) = read_step(&text);
    } else if calls.is_empty() && thinking.agent.tool_mode == ToolMode::Auto {
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
        cut: cut + thinking.older,
    })
}

/// What an agent's model is offered, and which model that is. Made once for many thoughts.
#[derive(Debug)]
pub(crate) struct ModelSetup {
    tools: Vec<OfferedTool>,
    /// The same tools as the model is told of them.
    specs: Vec<ToolSpec>,
    /// The model to ask, then those to fall back to.
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

/// Who hears the thought as it is made: it must be meant for the user, and not be looked at once more
/// before.
fn listener<'a>(
    thinking: &ThoughtContext<'a>,
    by_schema: bool,
) -> Option<&'a convoke_engine::Live> {
    let is_answer = matches!(thinking.phase, Phase::Think | Phase::Conclude);
    let goes_on = |pattern| thinking.agent.patterns.contains(pattern);
    let is_last = ![Pattern::Reflection, Pattern::PlanExecute]
        .iter()
        .any(goes_on);
    let live = thinking.call_context.live.as_ref();
    live.filter(|_| {
        thinking.may_be_live
            && is_answer
            && is_last
            && !by_schema
            && thinking.agent.output_schema.is_none()
    })
}

/// A tool as it is offered to a model.
#[derive(Debug, Clone)]
pub(crate) struct OfferedTool {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) spec: ToolSpec,
}

impl OfferedTool {
    /// Tools as a model sees them: by their own names, or with their server's where two servers have
    /// one of the same name.
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

/// The names under which calls that were made are shown again.
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
            None => allowed(&call.tool),
        }
    }
}

/// The longest name that the format allows.
const NAME_LENGTH: usize = 64;

/// A name that a model made up, in the letters that the format allows: endpoints refuse a whole
/// request for one that they do not, though the model wrote it itself.
fn allowed(name: &str) -> Cow<'_, str> {
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

/// The instruction: the agent's own, then what its way of calling tools and answering asks for.
fn system<'a>(thinking: &ThoughtContext<'a>, specs: &[ToolSpec], by_schema: bool) -> Cow<'a, str> {
    let prompt = thinking.agent.system_prompt.trim();
    if !by_schema && thinking.agent.output_schema.is_none() {
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
    if let Some(schema) = &thinking.agent.output_schema {
        system.push_str("\n\nYour final answer is JSON that fits this schema, and nothing else: ");
        system.push_str(&schema.to_string());
    }
    Cow::Owned(system)
}

/// Structured output where nothing else is asked for.
fn output_schema(thinking: &ThoughtContext<'_>, specs: &[ToolSpec]) -> Option<Value> {
    match thinking.phase {
        Phase::Think | Phase::Conclude if specs.is_empty() => thinking.agent.output_schema.clone(),
        _ => None,
    }
}

/// One of the tools' calls, or a reply.
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

/// Reads what a model wrote by that schema. Text that is neither is a reply.
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

/// What the model is shown: the conversation, the task, and what this thought is for; the oldest parts
/// left out where all of it would not fit.
fn shown<'a>(
    thinking: &'a ThoughtContext<'_>,
    system: &str,
    in_words: bool,
) -> (Cow<'a, [Message]>, usize) {
    let task: &[Message] = &thinking.call_context.messages;
    let instruction = match thinking.phase {
        Phase::Think => None,
        Phase::Plan => Some(patterns::PLAN),
        Phase::Conclude => Some(patterns::CONCLUDE),
        Phase::Critique => Some(patterns::CRITIQUE),
    };
    let window = thinking
        .offer
        .models
        .first()
        .map_or(u64::MAX, |config| u64::from(config.context_tokens));
    // A conversation begins with what its user said, or some endpoints refuse it.
    let unasked = thinking
        .history
        .iter()
        .take_while(|message| message.role != Role::User)
        .count();
    let history = &thinking.history[unasked..];
    let size = |messages: &[Message]| messages.iter().map(tokens).sum::<u64>();
    let fits = size(task) + size(history) + estimate_tokens(system) + ANSWER_TOKENS <= window;
    if fits && history.is_empty() && instruction.is_none() && !in_words {
        return (Cow::Borrowed(task), unasked);
    }
    let mut messages: Vec<Message> = history.iter().chain(task).cloned().collect();
    let mut cut = unasked;
    if !fits {
        let spare = window.saturating_sub(estimate_tokens(system) + ANSWER_TOKENS);
        cut += cut_to(&mut messages, history.len(), spare);
    }
    if in_words {
        messages = messages.iter().filter_map(in_plain_words).collect();
    }
    if let Some(text) = instruction {
        messages.extend(Message::user(text, thinking.call_context.facts.created_at));
    }
    (Cow::Owned(messages), cut)
}

/// Tokens kept free for the answer.
const ANSWER_TOKENS: u64 = 1_024;

fn tokens(message: &Message) -> u64 {
    let calls: u64 = message
        .tool_calls
        .iter()
        .map(|call| estimate_tokens(&text_of(&call.arguments)))
        .sum();
    estimate_tokens(&message.content) + calls + 4
}

/// Leaves out the oldest turns until the rest fits: of the conversation first, then of the task, but
/// never the request itself (the first message after the conversation) nor half of a call and its
/// results.
fn cut_to(messages: &mut Vec<Message>, history: usize, spare: u64) -> usize {
    let mut history = history;
    let mut cut = 0;
    while messages.iter().map(tokens).sum::<u64>() > spare {
        if history > 0 {
            let answered = messages
                .iter()
                .take(history)
                .skip(1)
                .take_while(|message| message.role != Role::User)
                .count();
            messages.drain(..=answered);
            history -= answered + 1;
            cut += answered + 1;
            continue;
        }
        // Behind the request: an assistant's message with all the results that answer it.
        let end = messages
            .iter()
            .skip(2)
            .position(|message| message.role != Role::Tool);
        match end {
            Some(end) if messages.len() > end + 3 => {
                messages.drain(1..end + 2);
                cut += end + 1;
            }
            _ => return cut,
        }
    }
    cut
}

/// A message for a model that knows no tool calls: what it called and what came of it, as text.
fn in_plain_words(message: &Message) -> Option<Message> {
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
