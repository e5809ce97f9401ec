//! What happens at a node: the calls that it makes, for one thing or for each of a list, or what it gives
//! at once.

use std::sync::Arc;

use convoke_engine::NewCall;
use convoke_model::{Name, Node as Place, NodeKind, Order, WorkflowFields};
use serde_json::{Map, Value, json};

use super::walk::RunningNode;
use super::{Fault, context, give_up, is_true, routing, started, take_value};
use crate::calls::{CallRequest, DecisionContext, NodeAction, Request, ToolCallRequest};
use crate::nodes::agent::sub_agents::{Addressee, PatternOverride, SubTask};
use crate::turn::Turn;

/// What a walk ends with that would make more calls than it may, whatever its nodes say of errors.
const TOO_MANY: &str = "workflow.max_iterations";

/// Begins a node. Gives the calls that it makes, if it makes any.
pub(super) fn enter(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
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
        // Where one call of several cannot be made, none is.
        running.open = 0;
    }
    if cause.starts_with(TOO_MANY) {
        return started(turn, workflow, name, Err(cause));
    }
    let fault = Fault::without_call(cause);
    give_up(turn, workflow, place, name, None, &fault)
}

fn begin(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
    place: &Place,
    name: &Name,
) -> Result<Vec<NewCall<Request>>, String> {
    if place.kind.is_immediate() {
        let value = given_at_once(turn, workflow, place)?;
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
        .expression(&map.over, &context(turn, None))
        .map_err(misunderstood)?
    else {
        return Err(format!("workflow.map: `{}` is no list", map.over));
    };
    let (number, most) = (items.len(), map.max_items);
    if number > most as usize {
        return Err(format!(
            "workflow.map: there are {number} items, and at most {most} are gone over"
        ));
    }
    begin_items(turn, workflow, place, name, items, map.parallel as usize)
}

/// Begins a list of things, so many at once.
fn begin_items(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
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
        running.items = items;
        running.begun = at_once;
    }
    (0..at_once)
        .map(|item| call(turn, workflow, place, name, Some(item)))
        .collect()
}

/// What is known of a list once something came of one of its items.
pub(super) enum ListProgress {
    /// What all of them gave, in their order.
    All(Value),
    /// Others are under way.
    Waiting,
    /// This one is to be begun.
    Next(usize),
}

/// Takes in what came of an item.
pub(super) fn collect(turn: &mut Turn<'_>, name: &Name, item: usize, value: Value) -> ListProgress {
    let Some(running) = running(turn, name) else {
        return ListProgress::Waiting;
    };
    running.results.insert(item, value);
    if running.results.len() == running.items.len() {
        let results = std::mem::take(&mut running.results);
        return ListProgress::All(Value::Array(results.into_values().collect()));
    }
    if running.begun == running.items.len() {
        return ListProgress::Waiting;
    }
    running.begun += 1;
    ListProgress::Next(running.begun - 1)
}

/// A call of a node, for itself or for an item.
pub(super) fn call(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
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
        of_item = item.and_then(|item| running.items.get(item).cloned());
    }
    if let Some(walk) = turn.state.walk.as_mut() {
        walk.steps += 1;
        if walk.steps > workflow.max_iterations {
            let most = workflow.max_iterations;
            return Err(format!("{TOO_MANY}: more than {most} calls would be made"));
        }
    }
    let named = place.map.as_ref().map(|map| &map.r#as);
    let context = context(turn, named.zip(of_item.as_ref()));
    // A target that is tried again waits as long as its own agent says.
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
    let ask = match (place.kind, &of_item) {
        (NodeKind::Dispatch, Some(target)) => {
            routing::dispatched(turn, target, failures, until_ms)?
        }
        _ => ask(turn, workflow, place, &context, until_ms)?,
    };
    let label = label(place, name, &ask);
    let approval = match place.kind {
        NodeKind::Human => {
            let prompt = place.prompt.as_deref().unwrap_or("May it go on?");
            Some(
                turn.assistant
                    .templates
                    .text(prompt, &context)
                    .map_err(misunderstood)?,
            )
        }
        _ if workflow.checkpoints.contains(name) || needs_approval(turn, &ask) => {
            Some(checkpoint(name, &ask))
        }
        _ => None,
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
            ask: Box::new(ask),
        })),
        approval,
    })
}

/// Whether a person must agree to what a node does, wherever it is done.
fn needs_approval(turn: &Turn<'_>, ask: &CallRequest) -> bool {
    match ask {
        CallRequest::Tool(tool_call) => turn
            .assistant
            .needs_approval(&tool_call.tool, &tool_call.arguments),
        _ => false,
    }
}

fn ask(
    turn: &Turn<'_>,
    workflow: &WorkflowFields,
    place: &Place,
    context: &Map<String, Value>,
    until_ms: Option<u64>,
) -> Result<CallRequest, String> {
    let templates = &turn.assistant.templates;
    Ok(match place.kind {
        NodeKind::Tool => {
            let arguments = templates
                .value(&Value::Object(place.arguments.clone()), context)
                .map_err(misunderstood)?;
            let mut arguments = match arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            };
            // What a template leaves empty is not an argument.
            arguments.retain(|_, value| !value.is_null());
            CallRequest::Tool(ToolCallRequest {
                tool: place.tool.clone().unwrap_or_default(),
                arguments: Arc::new(arguments),
                index: None,
                until_ms,
                delay_ms: 0,
                asks: false,
            })
        }
        NodeKind::Agent => {
            let task = match &place.prompt {
                Some(prompt) => templates.text(prompt, context).map_err(misunderstood)?,
                None => turn.said().to_owned(),
            };
            let agent = place.agent.clone().ok_or("the node names no agent")?;
            CallRequest::Child(Box::new(SubTask {
                until_ms,
                manner: PatternOverride::at(place, workflow),
                ..SubTask::at_node(Addressee::Agent(agent), task, Map::new())
            }))
        }
        NodeKind::Workflow => {
            let workflow = place.workflow.clone().ok_or("the node names no workflow")?;
            let state = templates
                .value(&Value::Object(place.arguments.clone()), context)
                .map_err(misunderstood)?;
            let state = match state {
                Value::Object(state) => state,
                _ => Map::new(),
            };
            let task = turn.said().to_owned();
            CallRequest::Child(Box::new(SubTask {
                until_ms,
                ..SubTask::at_node(Addressee::Workflow(workflow), task, state)
            }))
        }
        NodeKind::Human => CallRequest::Person { said: None },
        NodeKind::Route => CallRequest::Decide(DecisionContext::default()),
        other => {
            return Err(format!(
                "workflow.node: a node of type {other:?} makes no call"
            ));
        }
    })
}

/// What a node gives without a call.
fn given_at_once(
    turn: &Turn<'_>,
    workflow: &WorkflowFields,
    place: &Place,
) -> Result<Value, String> {
    let context = context(turn, None);
    let templates = &turn.assistant.templates;
    match (place.kind, &place.expression, &place.prompt) {
        (NodeKind::Check, ..) => judge(turn, place, &context),
        (NodeKind::Aggregate, ..) => routing::aggregated(turn, workflow, place),
        (NodeKind::Compose | NodeKind::Deliver, _, Some(template)) => {
            let text = templates.text(template, &context).map_err(misunderstood);
            text.map(Value::from)
        }
        (_, Some(expression), _) => templates
            .expression(expression, &context)
            .map_err(misunderstood),
        _ => Ok(context.get("routing_key").cloned().unwrap_or_default()),
    }
}

/// Why a template or an expression gave nothing.
fn misunderstood(mut error: String) -> String {
    error.insert_str(0, "workflow.template: ");
    error
}

/// Whether all criteria of a check node hold, and which do not.
fn judge(turn: &Turn<'_>, place: &Place, context: &Map<String, Value>) -> Result<Value, String> {
    let mut failed = Vec::new();
    let mut feedback = Vec::new();
    for criterion in &place.criteria {
        let holds = turn
            .assistant
            .templates
            .expression(&criterion.expression, context);
        let holds = holds.map_err(|error| format!("workflow.check: {}: {error}", criterion.id))?;
        if !is_true(&holds) {
            failed.push(criterion.id.clone());
            feedback.push(criterion.description.as_str());
        }
    }
    Ok(json!({
        "passed": failed.is_empty(), "failed": failed, "feedback": feedback.join("; "),
    }))
}

fn label(place: &Place, name: &Name, ask: &CallRequest) -> String {
    match (place.kind, ask) {
        (NodeKind::Tool, CallRequest::Tool(tool_call)) => format!("{name}: {}", tool_call.tool),
        (NodeKind::Agent | NodeKind::Dispatch, CallRequest::Child(sub_task)) => {
            format!("{name}: {}", sub_task.whom.name())
        }
        _ => name.to_string(),
    }
}

/// What a person is asked before a node that they may look in at, or that calls a tool which needs approval.
fn checkpoint(name: &Name, ask: &CallRequest) -> String {
    match ask {
        CallRequest::Tool(tool_call) => {
            let arguments = json!(tool_call.arguments);
            format!("{name}: may I call {} with {arguments}?", tool_call.tool)
        }
        _ => format!("{name}: may it go on?"),
    }
}

fn running<'t>(turn: &'t mut Turn<'_>, name: &Name) -> Option<&'t mut RunningNode> {
    turn.state.walk.as_mut()?.running(name)
}
