//! Graph: walks a workflow. Every node that all its ways have come to is begun at once; what comes of it
//! goes into the state; its edges say where it goes on. A node that was left is never begun again.

mod at_node;
mod routing;
mod walk;

use convoke_app::BUILTIN_SERVER;
use convoke_engine::{AddedMessage, NewCall, Outcome, Step};
use convoke_model::{
    Destination, Edge, FAILED, Message, MessageFields, Name, Node as Place, NodeKind, OnError,
    PASSED, Reliance, Role, WorkflowFields,
};
use serde_json::{Map, Value, json};

use self::at_node::ListProgress;
use self::routing::NodeContext;
use self::walk::NodeExit;
use crate::assistant::Node;
use crate::calls::{
    CallReply, CallRequest, NodeAction, Reply, Request, ReturnedCall, may_be_replaced,
};
use crate::memory::Memory;
use crate::nodes::compose;
use crate::template::Templates;
use crate::turn::Turn;

pub(crate) use walk::Walk;

/// Begins a walk.
pub(crate) fn start(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
    state: Map<String, Value>,
) -> Step<Request> {
    turn.state.node = Node::Graph;
    turn.state.walk = Some(Box::new(Walk::new(workflow, state)));
    go_on(turn, Vec::new(), Vec::new())
}

/// Takes in what came of a call, and goes on.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let Some(CallRequest::At(at)) = turn.view.returned.map(|call| &call.request.0) else {
        return compose::broken(turn, "an outcome came without its node");
    };
    let found = workflow_of(turn).and_then(|workflow| {
        let place = workflow.nodes.get(&at.node)?;
        Some((workflow, place))
    });
    let Some((workflow, place)) = found else {
        return compose::broken(turn, "the workflow is gone");
    };
    if let (Some(walk), Outcome::Done(Reply(CallReply::Tool(reply)))) =
        (turn.state.walk.as_mut(), &returned.outcome)
        && matches!(&*at.ask, CallRequest::Child(_))
    {
        walk.spent.add_child(reply);
    }
    if let (Some(walk), NodeKind::Tool, Outcome::Done(Reply(CallReply::Tool(reply)))) =
        (turn.state.walk.as_mut(), place.kind, &returned.outcome)
        && !reply.is_error
        && reply.server != BUILTIN_SERVER
    {
        let tool = format!("{}.{}", reply.server, reply.tool);
        if !walk.done.contains(&tool) {
            walk.done.push(tool);
        }
    }
    if let Some(walk) = turn.state.walk.as_mut() {
        if let Some(running) = walk.running(&at.node) {
            running.open = running.open.saturating_sub(1);
        }
        if walk.failed.is_some() {
            walk.leave_if_idle(workflow, &at.node);
            return go_on(turn, Vec::new(), Vec::new());
        }
    }
    let mut said = Vec::new();
    let here = NodeContext {
        workflow,
        place,
        node: &at.node,
    };
    let calls = match place.kind {
        NodeKind::Route => routing::take_route(turn, here, at, returned.outcome),
        NodeKind::Dispatch => routing::take_dispatched(turn, here, at, returned),
        _ => match result_of(place, &at.ask, returned.outcome) {
            Ok(value) => {
                if place.kind == NodeKind::Agent {
                    said.extend(agent_says(turn, place, &value));
                }
                take_value(turn, workflow, place, &at.node, at.item, value)
            }
            Err(fault) => take_error(turn, workflow, place, at, &fault),
        },
    };
    go_on(turn, said, calls)
}

/// Makes the calls that are open anew, over a state that was changed.
pub(crate) fn begin_again(
    turn: &mut Turn<'_>,
    open: &[NewCall<Request>],
    set: &Map<String, Value>,
) -> Result<Vec<NewCall<Request>>, String> {
    let workflow = workflow_of(turn).ok_or("the workflow is gone")?;
    let walk = turn.state.walk.as_mut().ok_or("the walk is gone")?;
    walk.state.extend(set.clone());
    let places = open.iter().filter_map(|call| match &call.request.0 {
        CallRequest::At(at) => Some((&at.node, at.item)),
        _ => None,
    });
    let places: Vec<_> = places.collect();
    for (node, _) in &places {
        if let Some(running) = walk.running(node) {
            running.open = 0;
        }
        walk.steps = walk.steps.saturating_sub(1);
    }
    places
        .into_iter()
        .map(|(node, item)| {
            let place = workflow.nodes.get(node).ok_or("the node is gone")?;
            at_node::call(turn, workflow, place, node, item)
        })
        .collect()
}

/// Begins everything that can be begun now; ends the task where nothing is left to do.
fn go_on(
    turn: &mut Turn<'_>,
    said: Vec<AddedMessage>,
    mut calls: Vec<NewCall<Request>>,
) -> Step<Request> {
    let Some(workflow) = workflow_of(turn) else {
        return compose::broken(turn, "the workflow is gone");
    };
    loop {
        let Some(walk) = turn.state.walk.as_mut() else {
            return compose::broken(turn, "the walk is gone");
        };
        if walk.failed.is_some() {
            break;
        }
        let ready = walk.ready(workflow);
        if ready.is_empty() {
            break;
        }
        walk.state.insert("next_action".into(), json!(ready));
        for name in ready {
            calls.extend(at_node::enter(turn, workflow, &name));
        }
    }
    let busy = turn.state.walk.as_deref().is_some_and(Walk::is_busy);
    if !calls.is_empty() || busy {
        return Step {
            messages: said,
            calls,
            ..Step::default()
        };
    }
    let mut step = end(turn, workflow);
    step.messages.splice(0..0, said);
    step
}

/// The answer: what the workflow's own template says, else what the last node gave.
fn end(turn: &mut Turn<'_>, workflow: &WorkflowFields) -> Step<Request> {
    let Some(walk) = turn.state.walk.as_deref() else {
        return compose::broken(turn, "the walk is gone");
    };
    if let Some(cause) = walk.failed.clone() {
        return compose::stopped(turn, &cause);
    }
    let delivers = |node: &Place| node.kind == NodeKind::Deliver;
    let text = if workflow.nodes.values().any(delivers) {
        // Whatever else there is was never meant to go out.
        let Some(delivered) = &walk.delivered else {
            let cause = "workflow.not_delivered: the workflow ended with nothing that may go out";
            return compose::stopped(turn, cause);
        };
        let value = walk.state.get(&field_of(workflow, delivered));
        value.map(in_words).unwrap_or_default()
    } else if let Some(template) = &workflow.answer {
        let context = context(turn, None);
        match turn.assistant.templates.text(template, &context) {
            Ok(text) => text,
            Err(cause) => {
                let cause = format!("workflow.template: {cause}");
                return wordless(turn, workflow, &cause);
            }
        }
    } else {
        let field = walk.last.as_ref().map(|last| field_of(workflow, last));
        let value = field.and_then(|field| walk.state.get(&field));
        value.map(in_words).unwrap_or_default()
    };
    if text.trim().is_empty() {
        let cause = "workflow.no_answer: the workflow ended with nothing to say";
        return wordless(turn, workflow, cause);
    }
    let state: Map<String, Value> = walk.state.clone();
    // What an aggregate node lacks, the answer lacks.
    let lacks = |(name, node): (&Name, &Place)| {
        let value = state.get(&field_of(workflow, name));
        node.kind == NodeKind::Aggregate && value.is_some_and(|value| value["partial"] == true)
    };
    let partial = workflow.nodes.iter().any(lacks);
    turn.state.output = Some(Value::Object(state));
    let told = compose::ComposedReply {
        partial,
        confidence: if partial {
            Reliance::Medium
        } else {
            Reliance::High
        },
        ..compose::ComposedReply::of(text, workflow.name.as_str(), Memory::default())
    };
    compose::speak(turn, told)
}

/// The end of a workflow that came to its end and has no words for it. What it did is done.
fn wordless(turn: &mut Turn<'_>, workflow: &WorkflowFields, cause: &str) -> Step<Request> {
    if !compose::is_something_done(turn) {
        return compose::broken(turn, cause);
    }
    let state = turn.state.walk.as_deref().map(|walk| walk.state.clone());
    turn.state.output = state.map(Value::Object);
    compose::without_words(turn, workflow.name.as_str(), Memory::default(), cause)
}

/// The workflow that the task walks.
fn workflow_of<'a>(turn: &Turn<'a>) -> Option<&'a WorkflowFields> {
    let walk = turn.state.walk.as_deref()?;
    let workflow = turn.assistant.app.workflow(walk.workflow.as_str());
    workflow.map(|workflow| &**workflow)
}

/// Why a node has no result.
struct Fault {
    cause: String,
    /// Whether it may have changed something all the same.
    unknown: bool,
    /// Whether it may be tried again.
    may_try_again: bool,
}

impl Fault {
    /// Of a node that made no call.
    fn without_call(cause: String) -> Self {
        Self {
            cause,
            unknown: false,
            may_try_again: false,
        }
    }
}

/// What a call at a node gave: a value for the state, or why there is none.
fn result_of(place: &Place, ask: &CallRequest, outcome: Outcome<Reply>) -> Result<Value, Fault> {
    let unknown = !ask.changed_nothing(&outcome);
    let may_try_again = may_be_replaced(ask, &outcome);
    let value = value_of(place, outcome);
    value.map_err(|cause| Fault {
        cause,
        unknown,
        may_try_again,
    })
}

fn value_of(place: &Place, outcome: Outcome<Reply>) -> Result<Value, String> {
    match outcome {
        Outcome::Done(Reply(CallReply::Tool(reply))) if reply.is_error => {
            Err(format!("tool.failed: {}", reply.text))
        }
        Outcome::Done(Reply(CallReply::Tool(reply))) => Ok(match place.kind {
            NodeKind::Agent => json!({ "text": reply.text, "task": reply.content["task"] }),
            NodeKind::Workflow => reply.content["output"].clone(),
            _ => reply.content,
        }),
        Outcome::Done(Reply(CallReply::Person(feedback))) => Ok(person_said(feedback)),
        Outcome::Done(_) => Err("call.unexpected: the call gave something else".into()),
        // A person who says no has answered.
        Outcome::Failed(failure) if place.kind == NodeKind::Human => {
            let action = if failure.code == "call.unanswered" {
                "expired"
            } else {
                "reject"
            };
            Ok(json!({ "action": action, "message": failure.message }))
        }
        Outcome::Failed(failure) => Err(format!("{}: {}", failure.code, failure.message)),
    }
}

/// What a person who agreed said. One who changed something said so.
fn person_said(feedback: Option<Value>) -> Value {
    let Some(Value::Object(mut fields)) = feedback else {
        return json!({ "action": "approve" });
    };
    fields.entry("action").or_insert_with(|| "modify".into());
    Value::Object(fields)
}

/// Puts a value where it belongs and leaves the node, once all of it has come. Gives the call for the
/// next item of a list.
fn take_value(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
    place: &Place,
    node: &Name,
    item: Option<usize>,
    value: Value,
) -> Vec<NewCall<Request>> {
    let value = match item {
        None => value,
        Some(item) => match at_node::collect(turn, node, item, value) {
            ListProgress::All(values) => values,
            ListProgress::Waiting => return Vec::new(),
            ListProgress::Next(next) => {
                let call = at_node::call(turn, workflow, place, node, Some(next));
                return started(turn, workflow, node, call.map(|call| vec![call]));
            }
        },
    };
    if let Some(walk) = turn.state.walk.as_mut() {
        match place.kind {
            NodeKind::Human => {
                let action = value["action"].clone();
                walk.state.insert("routing_key".into(), action);
                for (field, update) in value["state_updates"].as_object().into_iter().flatten() {
                    walk.keep(workflow, field, update.clone());
                }
            }
            NodeKind::Condition => {
                walk.state
                    .insert("routing_key".into(), key_of(&value).into());
            }
            NodeKind::Check => {
                let passed = value["passed"] == Value::Bool(true);
                let key = if passed { PASSED } else { FAILED };
                walk.state.insert("routing_key".into(), key.into());
            }
            NodeKind::Agent => {
                walk.state
                    .insert("current_agent".into(), json!(place.agent));
            }
            NodeKind::Deliver => walk.delivered = Some(node.clone()),
            _ => {}
        }
        walk.keep(workflow, &field_of(workflow, node), value);
    }
    leave(turn, workflow, node);
    Vec::new()
}

/// The calls of a node, or the end of the walk because they could not be made.
fn started(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
    node: &Name,
    calls: Result<Vec<NewCall<Request>>, String>,
) -> Vec<NewCall<Request>> {
    match calls {
        Ok(calls) => calls,
        Err(cause) => {
            if let Some(walk) = turn.state.walk.as_mut() {
                walk.fail(workflow, node, &cause);
            }
            Vec::new()
        }
    }
}

/// A node that could not do its work: it tries again where it certainly changed nothing, or does what its
/// `on_error` says.
fn take_error(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
    place: &Place,
    at: &NodeAction,
    fault: &Fault,
) -> Vec<NewCall<Request>> {
    let node = &at.node;
    let item = at.item.unwrap_or(0);
    let Some(walk) = turn.state.walk.as_mut() else {
        return Vec::new();
    };
    if let Some(running) = walk.running(node) {
        let failures = running.failures.entry(item).or_insert(0);
        if fault.may_try_again && *failures < place.retries {
            *failures += 1;
            let again = at_node::call(turn, workflow, place, node, at.item);
            return started(turn, workflow, node, again.map(|call| vec![call]));
        }
    }
    give_up(turn, workflow, place, node, at.item, fault)
}

/// Does what a node's `on_error` says.
fn give_up(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
    place: &Place,
    node: &Name,
    item: Option<usize>,
    fault: &Fault,
) -> Vec<NewCall<Request>> {
    let Some(walk) = turn.state.walk.as_mut() else {
        return Vec::new();
    };
    let mut error = json!({ "error": fault.cause });
    if fault.unknown {
        error["unknown"] = true.into();
    }
    match &place.on_error {
        OnError::Fail => walk.fail(workflow, node, &fault.cause),
        OnError::Continue => return take_value(turn, workflow, place, node, item, error),
        OnError::Goto(target) => {
            walk.keep(workflow, &field_of(workflow, node), error);
            walk.leave(workflow, node, NodeExit::To(target.clone()));
        }
    }
    Vec::new()
}

/// Decides where the edges of a node lead, and leaves it.
fn leave(turn: &mut Turn<'_>, workflow: &WorkflowFields, node: &Name) {
    let context = context(turn, None);
    let chosen: Result<Vec<_>, String> = workflow
        .edges_from(node)
        .map(|edge| leads_to(&turn.assistant.templates, edge, &context))
        .collect();
    let Some(walk) = turn.state.walk.as_mut() else {
        return;
    };
    match chosen {
        Ok(chosen) => walk.leave(workflow, node, NodeExit::ByEdges(chosen)),
        Err(cause) => {
            walk.failed
                .get_or_insert(format!("workflow.condition: {cause}"));
            walk.leave(workflow, node, NodeExit::ByEdges(Vec::new()));
        }
    }
}

/// Where an edge leads, if anywhere: under its condition, or to the node that its key names.
fn leads_to(
    templates: &Templates,
    edge: &Edge,
    context: &Map<String, Value>,
) -> Result<Option<Name>, String> {
    let value = match &edge.condition {
        Some(condition) => Some(templates.expression(condition, context)?),
        None => None,
    };
    Ok(match (&edge.to, value) {
        (Destination::Node(node), None) => Some(node.clone()),
        (Destination::Node(node), Some(value)) => is_true(&value).then(|| node.clone()),
        (Destination::ByKey(nodes), value) => {
            let key = value.or_else(|| context.get("routing_key").cloned());
            let key = key.map(|key| key_of(&key)).unwrap_or_default();
            nodes.get(&key).or_else(|| nodes.get("otherwise")).cloned()
        }
    })
}

/// A value as the key of a mapping. Yes and no may be written as such.
fn key_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        other => other.to_string(),
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(holds) => *holds,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// What templates and expressions see: the state, what was asked, and the item of a `map`.
fn context(turn: &Turn<'_>, item: Option<(&Name, &Value)>) -> Map<String, Value> {
    let walk = turn.state.walk.as_deref();
    let mut context = walk.map(|walk| walk.state.clone()).unwrap_or_default();
    context.insert("request".into(), turn.said().into());
    context.insert("task_id".into(), turn.view.facts.id.to_string().into());
    let thinks = turn.assistant.thinker(None).is_some();
    context.insert("has_model".into(), thinks.into());
    if let Some((name, value)) = item {
        context.insert(name.to_string(), value.clone());
    }
    context
}

/// The field of the state that takes what comes of a node.
fn field_of(workflow: &WorkflowFields, node: &Name) -> String {
    let named = workflow
        .nodes
        .get(node)
        .and_then(|place| place.output.clone());
    named.unwrap_or_else(|| node.clone()).to_string()
}

/// What an agent said becomes part of the task's messages.
fn agent_says(turn: &Turn<'_>, place: &Place, value: &Value) -> Option<AddedMessage> {
    let text = value["text"].as_str().unwrap_or_default();
    let mut fields = MessageFields::draft(Role::Assistant, text, turn.view.at);
    fields.agent.clone_from(&place.agent);
    let message = Message::new(fields).ok()?;
    Some(AddedMessage {
        message,
        spoken: false,
    })
}

/// A value as an answer.
fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => match fields.get("text") {
            Some(Value::String(text)) => text.clone(),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}
