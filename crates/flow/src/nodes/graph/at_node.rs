//! Builds the calls of a node, one or one for each item of a list, and evaluates nodes that make no call.

use std::borrow::Cow;
use std::sync::Arc;

use convoke_app::TemplateContext;
use convoke_engine::NewCall;
use convoke_model::{FailureCode, Name, Node as Place, NodeKind, Order};
use serde_json::{Map, Value, json};

use super::conditions;
use super::context::WalkContext;
use super::definition::WorkflowGraph;
use super::walk::RunningNode;
use super::{Fault, give_up, is_true, routing, started, take_value};
use crate::approval_question::approval_question;
use crate::calls::{CallRequest, DecisionContext, NodeAction, Request, ToolCallRequest};
use crate::nodes::agent::sub_agents::{Addressee, PatternOverride, SubTask};
use crate::nodes::dispatch;
use crate::turn::Turn;

/// Ends a walk that exceeds its limit of calls; `on_error` does not apply.
const TOO_MANY: FailureCode = FailureCode::WorkflowMaxIterations;

/// Starts a node and returns its calls.
pub(super) fn enter(
    turn: &mut Turn<'_>,
    workflow: &WorkflowGraph,
    name: &Name,
) -> Vec<NewCall<Request>> {
    let Some(place) = workflow.nodes.get(name) else {
        return Vec::new();
    };
    if let Some(walk) = turn.state.walk.as_mut() {
        walk.enter(name);
    }
    let calls = begin(turn, workflow, place, name);
    let Err(cause) = calls else {
        return started(turn, workflow, name, calls);
    };
    if let Some(running) = running(turn, name) {
        // If one call cannot be built, none is made.
        running.open = 0;
    }
    if cause.starts_with(TOO_MANY.as_str()) {
        return started(turn, workflow, name, Err(cause));
    }
    let fault = Fault::without_call(cause);
    give_up(turn, workflow, place, name, None, &fault)
}

fn begin(
    turn: &mut Turn<'_>,
    workflow: &WorkflowGraph,
    place: &Place,
    name: &Name,
) -> Result<Vec<NewCall<Request>>, String> {
    if place.kind.is_immediate() {
        let value = immediate_value(turn, workflow, place);
        let seen = value.as_ref().map_err(String::as_str);
        conditions::note_node(turn, name, place, seen);
        let value = value?;
        take_value(turn, workflow, place, name, None, value);
        return Ok(Vec::new());
    }
    if place.kind == NodeKind::Dispatch {
        let targets = routing::targets(turn, workflow, place);
        let order = place
            .order
            .unwrap_or(turn.assistant.app.config.dispatch.order);
        let at_once = match order {
            Order::Parallel => targets.len(),
            Order::Sequential => 1,
        };
        return begin_items(turn, workflow, place, name, targets, at_once);
    }
    let Some(map) = &place.map else {
        return Ok(vec![call(turn, workflow, place, name, None)?]);
    };
    let templates = &turn.assistant.templates;
    let Value::Array(items) = templates
        .expression(&map.over, &WalkContext::of(turn))
        .map_err(template_failed)?
    else {
        let why = format!("`{}` is no list", map.over);
        return Err(FailureCode::WorkflowMap.because(why));
    };
    let (number, most) = (items.len(), map.max_items);
    if number > most as usize {
        let why = format!("the list has {number} items, and the limit is {most}");
        return Err(FailureCode::WorkflowMap.because(why));
    }
    begin_items(turn, workflow, place, name, items, map.parallel as usize)
}

/// Starts the first items of a list.
fn begin_items(
    turn: &mut Turn<'_>,
    workflow: &WorkflowGraph,
    place: &Place,
    name: &Name,
    items: Vec<Value>,
    at_once: usize,
) -> Result<Vec<NewCall<Request>>, String> {
    if items.is_empty() {
        take_value(turn, workflow, place, name, None, json!([]));
        return Ok(Vec::new());
    }
    let at_once = items.len().min(at_once);
    if let Some(running) = running(turn, name) {
        running.items = items.into_iter().collect();
        running.started = at_once;
    }
    (0..at_once)
        .map(|item| call(turn, workflow, place, name, Some(item)))
        .collect()
}

/// Progress of a list after a result of one of its items.
pub(super) enum ListProgress {
    /// All results, in the order of the items.
    All(Value),
    /// Other items are still running.
    Waiting,
    /// This item starts next.
    Next(usize),
}

/// Stores the result of an item.
pub(super) fn collect(turn: &mut Turn<'_>, name: &Name, item: usize, value: Value) -> ListProgress {
    let Some(running) = running(turn, name) else {
        return ListProgress::Waiting;
    };
    running.results.insert(item, value);
    let items = running.items.items().len();
    if running.results.len() == items {
        let results = std::mem::take(&mut running.results);
        return ListProgress::All(results.into_sorted_values().collect());
    }
    if running.started == items {
        return ListProgress::Waiting;
    }
    running.started += 1;
    ListProgress::Next(running.started - 1)
}

/// Builds the call of a node, or of an item of its list.
pub(super) fn call(
    turn: &mut Turn<'_>,
    workflow: &WorkflowGraph,
    place: &Place,
    name: &Name,
    item: Option<usize>,
) -> Result<NewCall<Request>, String> {
    let mut failures = 0;
    let mut of_item = None;
    if let Some(running) = running(turn, name) {
        failures = running
            .failures
            .get(&item.unwrap_or(0))
            .copied()
            .unwrap_or(0);
        of_item = item.and_then(|item| running.items.items().get(item).cloned());
    }
    if let Some(walk) = turn.state.walk.as_mut() {
        walk.steps += 1;
        if walk.steps > workflow.max_iterations {
            let most = workflow.max_iterations;
            return Err(TOO_MANY.because(format!("the limit is {most} calls")));
        }
    }
    let named = place.map.as_ref().map(|map| &map.r#as);
    let context = WalkContext::of(turn).with(named.zip(of_item.as_ref()));
    // A dispatch target has the retry delay of its agent.
    let delay_ms = if failures > 0 && place.kind != NodeKind::Dispatch {
        place.retry_delay_ms
    } else {
        0
    };
    let since = turn.since_accepted_ms(turn.view.at);
    let limit = place
        .timeout_seconds
        .map(|seconds| u64::from(seconds) * 1_000);
    let until_ms = limit.map(|limit| since + delay_ms + limit);
    let request = match (place.kind, &of_item) {
        (NodeKind::Dispatch, Some(target)) => {
            routing::dispatched(turn, target, failures, until_ms)?
        }
        _ => ask(turn, workflow, place, &context, until_ms)?,
    };
    let label = label(place, name, &request);
    let approval = match place.kind {
        NodeKind::Human => {
            let prompt = place.prompt.as_deref().unwrap_or("May it go on?");
            Some(
                turn.assistant
                    .templates
                    .text(prompt, &context)
                    .map_err(template_failed)?,
            )
        }
        _ => approval(turn, workflow, name, &request),
    };
    if let Some(running) = running(turn, name) {
        running.open += 1;
    }
    Ok(NewCall {
        label,
        request: Request(CallRequest::At(NodeAction {
            node: name.clone(),
            item,
            delay_ms,
            request: Box::new(request),
        })),
        approval,
    })
}

/// The question before a call of a checkpoint, or one that needs approval by itself.
pub(super) fn approval(
    turn: &Turn<'_>,
    workflow: &WorkflowGraph,
    name: &Name,
    request: &CallRequest,
) -> Option<String> {
    let needed = workflow.checkpoints.contains(name) || needs_approval(turn, request);
    needed.then(|| checkpoint(turn, name, request))
}

/// Whether the call needs approval, apart from the workflow's checkpoints.
fn needs_approval(turn: &Turn<'_>, request: &CallRequest) -> bool {
    match request {
        CallRequest::Tool(tool_call) => turn
            .assistant
            .needs_approval(&tool_call.tool, &tool_call.arguments),
        _ => false,
    }
}

fn ask(
    turn: &Turn<'_>,
    workflow: &WorkflowGraph,
    place: &Place,
    context: &WalkContext<'_>,
    until_ms: Option<u64>,
) -> Result<CallRequest, String> {
    let templates = &turn.assistant.templates;
    Ok(match place.kind {
        NodeKind::Tool => {
            let arguments = templates
                .value(&Value::Object(place.arguments.clone()), context)
                .map_err(template_failed)?;
            let mut arguments = match arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            };
            // A template that renders to null leaves the argument out.
            arguments.retain(|_, value| !value.is_null());
            CallRequest::Tool(ToolCallRequest {
                tool: place.tool.clone().unwrap_or_default(),
                arguments: Arc::new(arguments),
                index: None,
                until_ms,
                delay_ms: 0,
                is_query: false,
                attempts: Vec::new(),
            })
        }
        NodeKind::Agent => {
            let task = match &place.prompt {
                Some(prompt) => templates.text(prompt, context).map_err(template_failed)?,
                None => turn.message().to_owned(),
            };
            let agent = place.agent.clone().ok_or("the node names no agent")?;
            CallRequest::Child(Box::new(SubTask {
                until_ms,
                pattern_override: PatternOverride::at(place, workflow),
                ..SubTask::at_node(Addressee::Agent(agent), task, Map::new())
            }))
        }
        NodeKind::Workflow => {
            let workflow = place.workflow.clone().ok_or("the node names no workflow")?;
            let state = templates
                .value(&Value::Object(place.arguments.clone()), context)
                .map_err(template_failed)?;
            let state = match state {
                Value::Object(state) => state,
                _ => Map::new(),
            };
            let task = turn.message().to_owned();
            CallRequest::Child(Box::new(SubTask {
                until_ms,
                earlier: dispatch::excerpt(turn),
                ..SubTask::at_node(Addressee::Workflow(workflow), task, state)
            }))
        }
        NodeKind::Human => CallRequest::Person { answer: None },
        NodeKind::Route => CallRequest::Decide(DecisionContext {
            earlier: turn.state.earlier,
            ..DecisionContext::default()
        }),
        other => {
            let why = format!("a node of type {other:?} makes no call");
            return Err(FailureCode::WorkflowNode.because(why));
        }
    })
}

/// Evaluates a node that makes no call.
fn immediate_value(
    turn: &Turn<'_>,
    workflow: &WorkflowGraph,
    place: &Place,
) -> Result<Value, String> {
    let context = WalkContext::of(turn);
    let templates = &turn.assistant.templates;
    match (place.kind, &place.expression, &place.prompt) {
        (NodeKind::Check, ..) => judge(turn, place, &context.deciding()),
        (NodeKind::Aggregate, ..) => routing::aggregated(turn, workflow, place),
        (NodeKind::Compose | NodeKind::Deliver, _, Some(template)) => {
            let text = templates.text(template, &context).map_err(template_failed);
            text.map(Value::from)
        }
        (_, Some(expression), _) => templates
            .expression(expression, &context.deciding())
            .map_err(|error| FailureCode::WorkflowCondition.because(error)),
        _ => {
            let key = context.value_of("routing_key").map(Cow::into_owned);
            Ok(key.unwrap_or_default())
        }
    }
}

/// The cause for a template or an expression that failed.
fn template_failed(error: String) -> String {
    FailureCode::WorkflowTemplate.because(error)
}

/// Evaluates the criteria of a check node.
fn judge(turn: &Turn<'_>, place: &Place, context: &WalkContext<'_>) -> Result<Value, String> {
    let mut failed = Vec::new();
    let mut feedback = Vec::new();
    for criterion in &place.criteria {
        let holds = turn
            .assistant
            .templates
            .expression(&criterion.expression, context);
        let holds = holds.map_err(|error| {
            FailureCode::WorkflowCheck.because(format!("{}: {error}", criterion.id))
        })?;
        if !is_true(&holds) {
            failed.push(criterion.id.clone());
            feedback.push(criterion.description.as_str());
        }
    }
    Ok(json!({
        "passed": failed.is_empty(), "failed": failed, "feedback": feedback.join("; "),
    }))
}

fn label(place: &Place, name: &Name, request: &CallRequest) -> String {
    match (place.kind, request) {
        (NodeKind::Tool, CallRequest::Tool(tool_call)) => format!("{name}: {}", tool_call.tool),
        (NodeKind::Agent | NodeKind::Dispatch, CallRequest::Child(sub_task)) => {
            format!("{name}: {}", sub_task.addressee.name())
        }
        _ => name.to_string(),
    }
}

/// The question to a person before a checkpoint or a call that needs approval.
fn checkpoint(turn: &Turn<'_>, name: &Name, request: &CallRequest) -> String {
    match request {
        CallRequest::Tool(tool_call) => {
            approval_question(turn.assistant, &tool_call.tool, &tool_call.arguments)
        }
        _ => format!("May I go on with {}?", name.as_str().replace('_', " ")),
    }
}

fn running<'t>(turn: &'t mut Turn<'_>, name: &Name) -> Option<&'t mut RunningNode> {
    turn.state.walk.as_mut()?.running(name)
}
