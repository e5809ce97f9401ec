//! Dispatch: runs the requests of a message that holds several, each as a sub-task, in parallel or in sequence. Each has
//! its own time limit, retries and error; a failed one does not affect the others.

use convoke_engine::{NewCall, Step};
use convoke_model::{
    AgentFields, AgentResult, DecidedBy, Decision, DecisionFields, Name, Order, Reliance, Stage,
    ToolCall, ToolCallFields,
};
use convoke_tools::ToolReply;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::agent::sub_agents::{Addressee, SubTask};
use super::aggregate::{self, Aggregation};
use super::compose;
use crate::assistant::{Assistant, Node};
use crate::calls::{CallRequest, DecisionContext, Request, ReturnedCall, is_default};
use crate::input::ConversationExcerpt;
use crate::memory::{Memory, RequestTarget, Topic};
use crate::split::Part;
use crate::turn::Turn;
use crate::undone::{TIME_OVER, in_user_words};

/// One of several requests, and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubRequest {
    #[serde(rename = "said")]
    request: String,
    #[serde(rename = "goal", default, skip_serializing_if = "Option::is_none")]
    target: Option<RequestTarget>,
    /// Whether it starts only after the one before it has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    waits: bool,
    /// The topic of the request before it, if it refers to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<Topic>,
    /// Number of attempts.
    #[serde(default, skip_serializing_if = "is_default")]
    attempts: u32,
    /// When its last attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    #[serde(rename = "came", default, skip_serializing_if = "Option::is_none")]
    result: Option<SubTaskResult>,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubTaskResult {
    /// What the user reads of it.
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "is_default")]
    failed: bool,
    /// Why it failed, or what its tool reported, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether it failed for a transient reason.
    #[serde(default, skip_serializing_if = "is_default")]
    passing: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    took_ms: u64,
    /// Whether it is incomplete.
    #[serde(default, skip_serializing_if = "is_default")]
    partial: bool,
    /// The tools that it called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggestions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    confidence: Reliance,
    /// Memory for the next turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) memory: Memory,
}

/// Records the decision and starts the parts.
pub(crate) fn start(turn: &mut Turn<'_>, parts: Vec<Part>) -> Step<Request> {
    turn.state.decision = decision(turn.message(), &parts);
    begin(turn, parts)
}

/// Starts the parts of a decision that is recorded already.
pub(crate) fn begin(turn: &mut Turn<'_>, parts: Vec<Part>) -> Step<Request> {
    turn.state.node = Node::Dispatch;
    let in_order = turn.assistant.app.config.dispatch.order == Order::Sequential;
    let mut before: Option<Topic> = None;
    let mut dispatched = Vec::with_capacity(parts.len());
    for part in parts {
        let topic = before.take().filter(|_| part.follows);
        before = part.target.agent().map(|agent| {
            let mut slots = topic
                .as_ref()
                .map(|topic| topic.slots.clone())
                .unwrap_or_default();
            slots.extend(part.slots.clone());
            Topic {
                agent: agent.clone(),
                slots,
            }
        });
        dispatched.push(SubRequest {
            waits: !dispatched.is_empty() && (in_order || part.follows),
            request: part.request,
            target: Some(part.target),
            topic,
            attempts: 0,
            started_at: None,
            result: None,
        });
    }
    turn.state.sub_requests = dispatched;
    Step {
        stage: Some(Stage::Extracting),
        calls: next(turn),
        ..Step::default()
    }
}

/// Starts every part that can start now.
fn next(turn: &mut Turn<'_>) -> Vec<NewCall<Request>> {
    let parts = &turn.state.sub_requests;
    let ready: Vec<usize> = (0..parts.len())
        .filter(|index| {
            let part = &parts[*index];
            let is_free =
                !part.waits || parts[..*index].iter().all(|before| before.result.is_some());
            part.attempts == 0 && part.result.is_none() && is_free
        })
        .collect();
    ready
        .into_iter()
        .filter_map(|index| call(turn, index, 0))
        .collect()
}

/// Makes an attempt at a part.
fn call(turn: &mut Turn<'_>, index: usize, delay_ms: u64) -> Option<NewCall<Request>> {
    let at = turn.view.at;
    let part = turn.state.sub_requests.get_mut(index)?;
    part.attempts += 1;
    part.started_at = Some(at);
    let (target, request, topic) = (
        part.target.clone()?,
        part.request.clone(),
        part.topic.clone(),
    );
    let sub_task = SubTask {
        index,
        ..sub_task(turn, target, request, topic, delay_ms)
    };
    Some(NewCall {
        label: sub_task.addressee.name().to_string(),
        request: Request(CallRequest::Child(Box::new(sub_task))),
        approval: None,
    })
}

/// The sub-task for a target, with the target's own time limit and an excerpt of the conversation.
pub(crate) fn sub_task(
    turn: &Turn<'_>,
    target: RequestTarget,
    request: String,
    topic: Option<Topic>,
    delay_ms: u64,
) -> SubTask {
    let config = &turn.assistant.app.config;
    let name = target.agent().unwrap_or(target.name()).clone();
    let agent = agent_of(turn.assistant, &name);
    let time = match agent {
        Some(agent) => turn.assistant.app.agent_time_ms(agent),
        None => u64::from(config.limits.tool_seconds) * 1_000,
    };
    let has_model = agent.is_some_and(|agent| agent.llm_config.is_some());
    let addressee = match &target {
        RequestTarget::Agent { .. } if has_model => Addressee::Agent(name),
        _ => Addressee::Request(name),
    };
    let now = turn.since_accepted_ms(turn.view.at);
    SubTask {
        until_ms: Some(now + delay_ms + time),
        delay_ms,
        decision_context: DecisionContext {
            target: Some(target),
            topic,
            ..DecisionContext::default()
        },
        earlier: excerpt(turn),
        ..SubTask::at_node(addressee, request, Map::new())
    }
}

/// What a child may read of the conversation: the last turns before the task, or what the task itself may read.
pub(crate) fn excerpt(turn: &Turn<'_>) -> Option<ConversationExcerpt> {
    let facts = turn.view.facts;
    if facts.conversation.is_none() && !turn.carries_history() {
        return turn.state.earlier;
    }
    let turns = turn.assistant.app.config.dispatch.context_turns;
    Some(ConversationExcerpt {
        conversation: facts.conversation,
        before: facts.id,
        messages: 2 * turns as usize,
    })
}

/// A decision for several targets, in the order of the message.
pub(crate) fn decision(request: &str, parts: &[Part]) -> Option<Decision> {
    let mut targets: Vec<convoke_model::Target> = Vec::new();
    for part in parts {
        let target = part.decided("");
        // A target is listed once, even if two parts are for it.
        if targets
            .iter()
            .all(|known| (&known.name, &known.agent) != (&target.name, &target.agent))
        {
            targets.push(target);
        }
    }
    let reasoning = format!("{} requests in one message", parts.len());
    let fields = DecisionFields::of(request, targets, reasoning, DecidedBy::Local);
    Decision::new(fields).ok()
}

/// Records the result of a part, and answers once all have one.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let Some(CallRequest::Child(sub_task)) = turn.view.returned.map(|call| &call.request.0) else {
        return compose::fail(turn, "the outcome belongs to no request");
    };
    let index = sub_task.index;
    let result = match returned.tool() {
        Ok(reply) => {
            if let Some(delay) = may_try_again(turn, index, &reply) {
                let calls = call(turn, index, delay).into_iter().collect();
                return Step {
                    calls,
                    ..Step::default()
                };
            }
            turn.state.spent.add_child(&reply);
            SubTaskResult::of(reply)
        }
        Err(failure) => SubTaskResult::failed(failure.cause()),
    };
    let at = turn.view.at;
    if let Some(part) = turn.state.sub_requests.get_mut(index) {
        let took_ms = part.took_ms(at);
        part.result = Some(SubTaskResult { took_ms, ..result });
    }
    let calls = next(turn);
    let is_open = turn
        .state
        .sub_requests
        .iter()
        .any(|part| part.result.is_none());
    aggregate::go_on(turn, calls, is_open, gather)
}

/// The answer at the deadline, from the results so far. `None` without any.
pub(crate) fn at_deadline(turn: &mut Turn<'_>) -> Option<Step<Request>> {
    let done = |part: &SubRequest| part.result.as_ref().is_some_and(|result| !result.failed);
    if !turn.state.sub_requests.iter().any(done) {
        return None;
    }
    let gathered = gather(turn);
    Some(aggregate::compose(turn, gathered, None))
}

/// The delay before a part is retried. `None` unless it failed for a transient reason, changed nothing, and has attempts
/// left.
fn may_try_again(turn: &Turn<'_>, index: usize, reply: &ToolReply) -> Option<u64> {
    let part = turn.state.sub_requests.get(index)?;
    retry_delay(turn.assistant, part.target.as_ref()?, part.attempts, reply)
}

/// The delay before a target is retried after so many attempts.
pub(crate) fn retry_delay(
    assistant: &Assistant,
    target: &RequestTarget,
    attempts: u32,
    reply: &ToolReply,
) -> Option<u64> {
    let limits = &agent_of(assistant, target.agent()?)?.limits;
    let passing = reply.is_error && reply.content[compose::TRANSIENT] == Value::Bool(true);
    (passing && attempts <= limits.max_retries).then_some(limits.retry_delay_ms)
}

fn agent_of<'a>(assistant: &'a Assistant, name: &Name) -> Option<&'a AgentFields> {
    assistant.app.agent(name.as_str()).map(|agent| &**agent)
}

/// Collects the results of all parts in the order of the message.
fn gather(turn: &mut Turn<'_>) -> Aggregation {
    let parts = std::mem::take(&mut turn.state.sub_requests);
    let mut gathered = Aggregation::of("several");
    let mut undone = Vec::new();
    for mut part in parts {
        let at = turn.view.at;
        let result = part.result.take();
        let result = result.unwrap_or_else(|| SubTaskResult {
            took_ms: part.took_ms(at),
            ..SubTaskResult::failed(TIME_OVER.to_owned())
        });
        gathered.results.extend(part.agent_result(&result));
        if result.failed {
            let name = part.target.as_ref().map(|target| target.name().to_string());
            let why = result.cause().to_owned();
            gathered.miss(name.unwrap_or_default(), why);
            let why = part.why_undone(turn, &result);
            undone.push(format!("“{}” ({why})", part.request));
        } else {
            gathered.partial |= result.partial;
            gathered.confidence = gathered.confidence.min(result.confidence);
            gathered.sources.extend(result.sources);
            gathered.suggestions.extend(result.suggestions);
            gathered.warnings.extend(result.warnings);
            gathered.done.push(result.text);
        }
        turn.state.tool_calls.extend(result.calls);
        gathered.memory.add(result.memory);
    }
    if !undone.is_empty() {
        gathered.lacks = Some(format!("I could not do this: {}.", undone.join(", ")));
    }
    gathered
}

impl SubRequest {
    /// Who carries it out.
    fn agent(&self) -> Option<&Name> {
        let target = self.target.as_ref()?;
        Some(target.agent().unwrap_or(target.name()))
    }

    fn took_ms(&self, at: Timestamp) -> u64 {
        let took = self.started_at.map(|started| at.duration_since(started));
        took.map_or(0, |took| u64::try_from(took.as_millis()).unwrap_or(0))
    }

    /// The record of what its agent did.
    fn agent_result(&self, result: &SubTaskResult) -> Option<AgentResult> {
        let agent = self.agent()?.clone();
        let recorded = if result.failed || result.error.is_some() {
            AgentResult::failure(agent, result.cause(), result.took_ms)
        } else {
            AgentResult::success(agent, &result.text, result.took_ms)
        };
        recorded.ok()
    }

    /// Why it was not done, in the user's words: those of the app, unless they say only that something failed.
    fn why_undone(&self, turn: &Turn<'_>, result: &SubTaskResult) -> String {
        let said = result.text.trim().trim_end_matches('.');
        if !said.is_empty() && !compose::is_general_failure(turn, &result.text) {
            return said.to_owned();
        }
        let who = self.agent().map_or("", Name::as_str);
        in_user_words(who, result.cause(), result.passing)
    }
}

impl SubTaskResult {
    pub(crate) fn of(reply: ToolReply) -> Self {
        let content = &reply.content;
        let texts = |key: &str| Vec::<String>::deserialize(&content[key]).unwrap_or_default();
        let text = |key: &str| content[key].as_str().map(str::to_owned);
        Self {
            failed: reply.is_error,
            error: text("error"),
            passing: content[compose::TRANSIENT] == Value::Bool(true),
            took_ms: 0,
            partial: content["partial"] == Value::Bool(true),
            calls: calls_of(content),
            sources: texts("sources"),
            suggestions: texts("suggestions"),
            warnings: texts("warnings"),
            confidence: Reliance::deserialize(&content["confidence"]).unwrap_or_default(),
            memory: Memory::deserialize(&content["memory"]).unwrap_or_default(),
            text: text("said").unwrap_or(reply.text),
        }
    }

    /// A part without an answer of its own.
    fn failed(cause: String) -> Self {
        Self {
            text: String::new(),
            failed: true,
            error: Some(cause),
            passing: false,
            took_ms: 0,
            partial: false,
            calls: Vec::new(),
            sources: Vec::new(),
            suggestions: Vec::new(),
            warnings: Vec::new(),
            confidence: Reliance::default(),
            memory: Memory::default(),
        }
    }

    /// Why it failed, in the operator's words.
    fn cause(&self) -> &str {
        self.error.as_deref().unwrap_or(&self.text)
    }
}

/// The tools that a part called.
fn calls_of(content: &Value) -> Vec<ToolCall> {
    let calls = content["tool_calls"].as_array().into_iter().flatten();
    calls
        .filter_map(|call| ToolCallFields::deserialize(call).ok())
        .filter_map(|call| ToolCall::new(call).ok())
        .collect()
}
