//! Dispatch: runs the requests of a message that holds several, each as a sub-task, in parallel or in sequence. Each has
//! its own time limit, retries and error; a failed one does not affect the others.

use convoke_engine::{NewCall, Step};
use convoke_model::{
    AgentFields, DecidedBy, Decision, DecisionFields, Name, Order, Stage, ToolCall, ToolCallFields,
};
use convoke_tools::ToolReply;
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

/// One of several requests, and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubRequest {
    said: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    goal: Option<RequestTarget>,
    /// Whether it starts only after the one before it has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    waits: bool,
    /// The topic of the request before it, if it refers to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<Topic>,
    /// Number of attempts.
    #[serde(default, skip_serializing_if = "is_default")]
    attempts: u32,
    #[serde(rename = "came", default, skip_serializing_if = "Option::is_none")]
    result: Option<SubTaskResult>,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SubTaskResult {
    text: String,
    #[serde(default, skip_serializing_if = "is_default")]
    failed: bool,
    /// Whether it is incomplete.
    #[serde(default, skip_serializing_if = "is_default")]
    partial: bool,
    /// The tools that it called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<String>,
    /// Memory for the next turn.
    #[serde(default, skip_serializing_if = "is_default")]
    memory: Memory,
}

/// Records the decision and starts the parts.
pub(crate) fn start(turn: &mut Turn<'_>, parts: Vec<Part>) -> Step<Request> {
    turn.state.decision = decision(turn.said(), &parts);
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
            said: part.said,
            goal: Some(part.target),
            topic,
            attempts: 0,
            result: None,
        });
    }
    turn.state.dispatched = dispatched;
    Step {
        stage: Some(Stage::Extracting),
        calls: next(turn),
        ..Step::default()
    }
}

/// Starts every part that can start now.
fn next(turn: &mut Turn<'_>) -> Vec<NewCall<Request>> {
    let parts = &turn.state.dispatched;
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
    let part = turn.state.dispatched.get_mut(index)?;
    part.attempts += 1;
    let (goal, said, topic) = (part.goal.clone()?, part.said.clone(), part.topic.clone());
    let sub_task = SubTask {
        index,
        ..sub_task(turn, goal, said, topic, delay_ms)
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
    goal: RequestTarget,
    said: String,
    topic: Option<Topic>,
    delay_ms: u64,
) -> SubTask {
    let config = &turn.assistant.app.config;
    let facts = turn.view.facts;
    let earlier = facts.conversation.map(|conversation| ConversationExcerpt {
        conversation,
        before: facts.id,
        messages: 2 * config.dispatch.context_turns as usize,
    });
    let name = goal.agent().unwrap_or(goal.name()).clone();
    let agent = agent_of(turn.assistant, &name);
    let time = match agent {
        Some(agent) => turn.assistant.app.agent_time_ms(agent),
        None => u64::from(config.limits.tool_seconds) * 1_000,
    };
    let thinks = agent.is_some_and(|agent| agent.llm_config.is_some());
    let addressee = match &goal {
        RequestTarget::Agent { .. } if thinks => Addressee::Agent(name),
        _ => Addressee::Request(name),
    };
    let now = turn.since_accepted_ms(turn.view.at);
    SubTask {
        until_ms: Some(now + delay_ms + time),
        delay_ms,
        deciding: DecisionContext {
            goal: Some(goal),
            topic,
            ..DecisionContext::default()
        },
        earlier,
        ..SubTask::at_node(addressee, said, Map::new())
    }
}

/// A decision for several targets, in the order of the message.
pub(crate) fn decision(said: &str, parts: &[Part]) -> Option<Decision> {
    let mut targets: Vec<convoke_model::Target> = Vec::new();
    for part in parts {
        let mut target = part.target.target(part.confidence);
        // A target is listed once, even if two parts are for it.
        if targets
            .iter()
            .all(|known| (&known.name, &known.agent) != (&target.name, &target.agent))
        {
            target.request = Some(part.said.clone());
            targets.push(target);
        }
    }
    let reasoning = format!("{} requests in one message", parts.len());
    let fields = DecisionFields::of(said, targets, reasoning, DecidedBy::Local);
    Decision::new(fields).ok()
}

/// Records the result of a part, and answers once all have one.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let Some(CallRequest::Child(sub_task)) = turn.view.returned.map(|call| &call.request.0) else {
        return compose::broken(turn, "the outcome belongs to no request");
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
    if let Some(part) = turn.state.dispatched.get_mut(index) {
        part.result = Some(result);
    }
    let calls = next(turn);
    let is_open = turn
        .state
        .dispatched
        .iter()
        .any(|part| part.result.is_none());
    aggregate::go_on(turn, calls, is_open, gather)
}

/// The answer at the deadline, from the results so far. `None` without any.
pub(crate) fn at_deadline(turn: &mut Turn<'_>) -> Option<Step<Request>> {
    let done = |part: &SubRequest| part.result.as_ref().is_some_and(|result| !result.failed);
    if !turn.state.dispatched.iter().any(done) {
        return None;
    }
    let gathered = gather(turn);
    Some(aggregate::compose(turn, gathered, None))
}

/// The delay before a part is retried. `None` unless it failed for a transient reason, changed nothing, and has attempts
/// left.
fn may_try_again(turn: &Turn<'_>, index: usize, reply: &ToolReply) -> Option<u64> {
    let part = turn.state.dispatched.get(index)?;
    retry_delay(turn.assistant, part.goal.as_ref()?, part.attempts, reply)
}

/// The delay before a target is retried after so many attempts.
pub(crate) fn retry_delay(
    assistant: &Assistant,
    goal: &RequestTarget,
    attempts: u32,
    reply: &ToolReply,
) -> Option<u64> {
    let limits = &agent_of(assistant, goal.agent()?)?.limits;
    let passing = reply.is_error && reply.content[compose::PASSING] == Value::Bool(true);
    (passing && attempts <= limits.max_retries).then_some(limits.retry_delay_ms)
}

fn agent_of<'a>(assistant: &'a Assistant, name: &Name) -> Option<&'a AgentFields> {
    assistant.app.agent(name.as_str()).map(|agent| &**agent)
}

/// Collects the results of all parts in the order of the message.
fn gather(turn: &mut Turn<'_>) -> Aggregation {
    let parts = std::mem::take(&mut turn.state.dispatched);
    let mut gathered = Aggregation::of("several");
    let mut undone = Vec::new();
    for part in parts {
        let name = part.goal.as_ref().map(|goal| goal.name().to_string());
        let Some(result) = part.result else {
            gathered.miss(name.unwrap_or_default(), "its time limit passed".to_owned());
            undone.push(part.said);
            continue;
        };
        turn.state.tool_calls.extend(result.calls);
        gathered.remember(result.memory);
        if result.failed {
            gathered.miss(name.unwrap_or_default(), result.text);
            undone.push(part.said);
            continue;
        }
        gathered.partial |= result.partial;
        gathered.sources.extend(result.sources);
        gathered.suggestions.extend(result.suggestions);
        gathered.done.push(result.text);
    }
    if !undone.is_empty() {
        let quoted: Vec<String> = undone.iter().map(|said| format!("“{said}”")).collect();
        gathered.lacks = Some(format!("I could not do this: {}.", quoted.join(", ")));
    }
    gathered
}

impl SubTaskResult {
    fn of(reply: ToolReply) -> Self {
        let texts = |key: &str| Vec::<String>::deserialize(&reply.content[key]).unwrap_or_default();
        Self {
            failed: reply.is_error,
            partial: reply.content["partial"] == Value::Bool(true),
            calls: calls_of(&reply.content),
            sources: texts("sources"),
            suggestions: texts("suggestions"),
            memory: Memory::deserialize(&reply.content["memory"]).unwrap_or_default(),
            text: reply.text,
        }
    }

    fn failed(text: String) -> Self {
        Self {
            text,
            failed: true,
            partial: false,
            calls: Vec::new(),
            sources: Vec::new(),
            suggestions: Vec::new(),
            memory: Memory::default(),
        }
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
