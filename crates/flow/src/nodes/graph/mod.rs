//! Graph: runs a workflow. A node starts as soon as its join allows; its result goes into the state; its edges select the
//! next nodes. A node runs at most once.

mod arrivals;
mod at_node;
mod conditions;
mod context;
mod conversation;
mod definition;
mod routing;
#[cfg(test)]
mod tests;
mod walk;

use std::borrow::Cow;

use convoke_app::{BUILTIN_SERVER, STATE_FIELDS, TemplateContext};
use convoke_engine::{AddedMessage, NewCall, Outcome, Step, UnusableAnswer};
use convoke_model::{
    Destination, Edge, FAILED, FailureCode, Message, MessageFields, Name, Node as Place, NodeKind,
    OnError, PASSED, Reliance, Role, WorkflowFields,
};
use serde_json::{Map, Value, json};

use self::at_node::ListProgress;
use self::context::WalkContext;
use self::routing::NodeContext;
use self::walk::NodeExit;
use crate::assistant::{Assistant, Node};
use crate::calls::{
    CallReply, CallRequest, NodeAction, Reply, Request, ReturnedCall, may_be_replaced,
};
use crate::ended_call::{record_returned, tool_outcome};
use crate::fallback::{Grant, earlier_attempts, with_attempts};
use crate::memory::Memory;
use crate::nodes::compose;
use crate::template::Templates;
use crate::turn::Turn;

pub(crate) use conditions::note as note_condition;
pub use conditions::{ConditionOutcome, ConditionReader, JudgedCondition};
pub(crate) use definition::WorkflowGraph;
pub(crate) use routing::agent_results;
pub(crate) use walk::Walk;

/// The code of an answer that sets a field that the workflow has not.
const FIELD_UNKNOWN: &str = "answer.field_unknown";

/// The code of an answer that sets a field to a value of another type than declared.
const FIELD_TYPE: &str = "answer.field_type";

/// Starts a workflow.
pub(crate) fn start(
    turn: &mut Turn<'_>,
    workflow: &WorkflowFields,
    state: Map<String, Value>,
) -> Step<Request> {
    let mut inputs = workflow.inputs.iter();
    let missing = inputs.find(|input| !state.contains_key(input.as_str()));
    turn.state.node = Node::Graph;
    turn.state.walk = Some(Box::new(Walk::new(workflow, state)));
    if let Some(input) = missing {
        let why = format!("`{}` has no value for its input `{input}`", workflow.name);
        return compose::workflow_failure(turn, &FailureCode::WorkflowInput.because(why), true);
    }
    go_on(turn, Vec::new(), Vec::new())
}

/// Applies the outcome of a call, and continues.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let Some(CallRequest::At(at)) = turn.view.returned.map(|call| &call.request.0) else {
        return compose::fail(turn, "the outcome belongs to no node");
    };
    let found = workflow_of(turn).and_then(|workflow| {
        let place = workflow.nodes.get(&at.node)?;
        Some((workflow, place))
    });
    let Some((workflow, place)) = found else {
        return compose::fail(turn, "the workflow is no longer in the app");
    };
    if let (Some(walk), Outcome::Done(Reply(CallReply::Tool(reply)))) =
        (turn.state.walk.as_mut(), &returned.outcome)
        && matches!(&*at.request, CallRequest::Child(_))
    {
        walk.spent.add_child(reply);
    }
    note_call(turn, &returned);
    if let (NodeKind::Workflow, Outcome::Done(Reply(CallReply::Tool(reply)))) =
        (place.kind, &returned.outcome)
    {
        let calls = conversation::note_part(turn, reply);
        turn.state.tool_calls.extend(calls);
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
    let mut messages_added = Vec::new();
    let here = NodeContext {
        workflow,
        place,
        node: &at.node,
    };
    let calls = match place.kind {
        NodeKind::Route => routing::take_route(turn, here, at, returned.outcome),
        NodeKind::Dispatch => routing::take_dispatched(turn, here, at, returned),
        _ => match result_of(place, &at.request, returned.outcome) {
            Ok(value) => {
                if place.kind == NodeKind::Agent {
                    messages_added.extend(agent_message(turn, place, &value));
                }
                take_value(turn, workflow, place, &at.node, at.item, value)
            }
            Err(mut fault) => {
                fault.cause = with_attempts(fault.cause, earlier_attempts(turn));
                take_error(turn, workflow, place, at, &fault)
            }
        },
    };
    go_on(turn, messages_added, calls)
}

/// Takes note of a call of a tool that has returned: whether the tool succeeded, and in the task's
/// record of calls.
fn note_call(turn: &mut Turn<'_>, returned: &ReturnedCall) {
    let Some(outcome) = tool_outcome(&returned.outcome) else {
        return;
    };
    let is_tool = turn.view.returned.is_some_and(|call| {
        let request = call.request.0.innermost();
        matches!(request, CallRequest::Tool(_))
    });
    record_returned(turn, returned.info, outcome);
    if let (Some(walk), true, Ok(reply)) = (turn.state.walk.as_mut(), is_tool, outcome)
        && !reply.is_error
        && reply.server != BUILTIN_SERVER
    {
        let tool = format!("{}.{}", reply.server, reply.tool);
        if !walk.done.contains(&tool) {
            walk.done.push(tool);
        }
    }
}

/// Grants a fallback tool in place of a call at a node, within the workflow's limit of calls.
pub(crate) fn grant_fallback(turn: &mut Turn<'_>, node: &Name) -> Option<Grant> {
    let workflow = workflow_of(turn)?;
    let limit = workflow.nodes.get(node)?.timeout_seconds;
    let since = turn.since_accepted_ms(turn.view.at);
    let walk = turn.state.walk.as_mut()?;
    if walk.failed.is_some() || walk.steps >= workflow.max_iterations {
        return None;
    }
    walk.steps += 1;
    Some(Grant {
        until_ms: limit.map(|seconds| since + u64::from(seconds) * 1_000),
    })
}

/// The question before a call at a node, if it needs one.
pub(crate) fn approval(turn: &Turn<'_>, node: &Name, request: &CallRequest) -> Option<String> {
    at_node::approval(turn, workflow_of(turn)?, node, request)
}

/// Checks fields that a person sets. A misspelt field would otherwise count as an approval of what was proposed.
pub(crate) fn check_updates(
    assistant: &Assistant,
    walk: &Walk,
    updates: &Map<String, Value>,
) -> Result<(), UnusableAnswer> {
    let workflow = assistant.workflow(&walk.workflow);
    let workflow = workflow.ok_or_else(|| "the workflow is no longer in the app".to_owned())?;
    for (field, value) in updates {
        let is_known = workflow.knows(field) || walk.state.contains_key(field);
        if !is_known || STATE_FIELDS.contains(&field.as_str()) {
            let fields: Vec<_> = workflow.state.keys().map(String::as_str).collect();
            let declared = if fields.is_empty() {
                "it declares none under `state`".to_owned()
            } else {
                format!("under `state` it declares {}", fields.join(", "))
            };
            let why = format!(
                "workflow `{}` has no field `{field}` to set; {declared}",
                workflow.name
            );
            return Err(UnusableAnswer::new(FIELD_UNKNOWN, why));
        }
        workflow.check_value(field, value).map_err(|why| {
            UnusableAnswer::new(FIELD_TYPE, format!("`{field}` takes no such value: {why}"))
        })?;
    }
    Ok(())
}

/// Rebuilds the open calls over a changed state.
pub(crate) fn rebuild_open_calls(
    turn: &mut Turn<'_>,
    open: &[NewCall<Request>],
    set: &Map<String, Value>,
) -> Result<Vec<NewCall<Request>>, String> {
    let workflow = workflow_of(turn).ok_or("the workflow is no longer in the app")?;
    let walk = turn
        .state
        .walk
        .as_mut()
        .ok_or("the state of the workflow is missing")?;
    check_updates(turn.assistant, walk, set).map_err(|unusable| unusable.message)?;
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
            let place = workflow
                .nodes
                .get(node)
                .ok_or("the node is no longer in the workflow")?;
            at_node::call(turn, workflow, place, node, item)
        })
        .collect()
}

/// Starts every node that can start now, and ends the task when nothing is left.
fn go_on(
    turn: &mut Turn<'_>,
    messages_added: Vec<AddedMessage>,
    mut calls: Vec<NewCall<Request>>,
) -> Step<Request> {
    let Some(workflow) = workflow_of(turn) else {
        return compose::fail(turn, "the workflow is no longer in the app");
    };
    loop {
        let Some(walk) = turn.state.walk.as_mut() else {
            return compose::fail(turn, "the state of the workflow is missing");
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
            messages: messages_added,
            calls,
            ..Step::default()
        };
    }
    let mut step = end(turn, workflow);
    step.messages.splice(0..0, messages_added);
    step
}

/// Ends with the result of the deliver node, the workflow's answer template, or the result of the last node.
fn end(turn: &mut Turn<'_>, workflow: &WorkflowGraph) -> Step<Request> {
    let Some(walk) = turn.state.walk.as_deref() else {
        return compose::fail(turn, "the state of the workflow is missing");
    };
    if let Some(cause) = walk.failed.clone() {
        let changed_nothing = !walk.uncertain;
        return compose::workflow_failure(turn, &cause, changed_nothing);
    }
    if walk.is_dismissed() {
        let template = &turn.assistant.app.config.messages.rejected;
        let intent = conversation::intent(turn, &workflow.name);
        let nothing = json!({});
        turn.state.output = Some(Value::Object(walk.shared_values()));
        return compose::reply_from_template(turn, template, nothing, &intent, Memory::default());
    }
    let delivers = |node: &Place| node.kind == NodeKind::Deliver;
    let text = if workflow.nodes.values().any(delivers) {
        // A workflow with deliver nodes answers through them only.
        let Some(delivered) = &walk.delivered else {
            let why = "the workflow ended before a deliver node";
            let cause = FailureCode::WorkflowNotDelivered.because(why);
            return if compose::has_completed_tools(turn) || !has_failed_check(workflow, walk) {
                let changed_nothing = !walk.uncertain;
                compose::workflow_failure(turn, &cause, changed_nothing)
            } else {
                compose::check_failure(turn, &cause)
            };
        };
        let value = walk.state.get(&field_of(workflow, delivered));
        value.map(as_answer).unwrap_or_default()
    } else if let Some(template) = &workflow.answer {
        let context = WalkContext::of(turn);
        match turn.assistant.templates.text(template, &context) {
            Ok(text) => text,
            Err(cause) => {
                let cause = FailureCode::WorkflowTemplate.because(cause);
                return end_without_words(turn, workflow, &cause);
            }
        }
    } else if ends_in_failed_check(workflow, walk) {
        let why = "the workflow ended at a check that did not pass";
        let cause = FailureCode::WorkflowNoAnswer.because(why);
        return if compose::has_completed_tools(turn) {
            end_without_words(turn, workflow, &cause)
        } else {
            compose::check_failure(turn, &cause)
        };
    } else {
        let field = walk.last.as_ref().map(|last| field_of(workflow, last));
        let value = field.and_then(|field| walk.state.get(&field));
        value.map(as_answer).unwrap_or_default()
    };
    if text.trim().is_empty() {
        let why = "the workflow ended without an answer";
        return end_without_words(turn, workflow, &FailureCode::WorkflowNoAnswer.because(why));
    }
    let state = walk.shared_values();
    // A partial aggregate makes a partial answer.
    let lacks = |(name, node): (&Name, &Place)| {
        let value = state.get(&field_of(workflow, name));
        node.kind == NodeKind::Aggregate && value.is_some_and(|value| value["partial"] == true)
    };
    let partial = workflow.nodes.iter().any(lacks);
    let state = Value::Object(state);
    let reply = compose::ComposedReply {
        partial,
        confidence: if partial {
            Reliance::Medium
        } else {
            Reliance::High
        },
        ..conversation::reply(turn, workflow, text, &state)
    };
    turn.state.output = Some(state);
    compose::end_with_reply(turn, reply)
}

/// Whether a check node judged that something does not hold.
fn has_failed_check(workflow: &WorkflowGraph, walk: &Walk) -> bool {
    workflow.nodes.iter().any(|(name, node)| {
        let judged = walk.state.get(&field_of(workflow, name));
        node.kind == NodeKind::Check && judged.is_some_and(|judged| judged["passed"] == false)
    })
}

/// Whether the last node is a check that did not pass. Its verdict is not an answer.
fn ends_in_failed_check(workflow: &WorkflowGraph, walk: &Walk) -> bool {
    let last = walk.last.as_ref();
    last.is_some_and(|last| {
        let kind = workflow.nodes.get(last).map(|node| node.kind);
        let judged = walk.state.get(&field_of(workflow, last));
        kind == Some(NodeKind::Check) && judged.is_some_and(|judged| judged["passed"] == false)
    })
}

/// Ends a workflow that finished without an answer. If tools had effects, the user is told so.
fn end_without_words(turn: &mut Turn<'_>, workflow: &WorkflowGraph, cause: &str) -> Step<Request> {
    if !compose::has_completed_tools(turn) {
        return compose::fail(turn, cause);
    }
    let state = turn.state.walk.as_deref().map(Walk::shared_values);
    turn.state.output = state.map(Value::Object);
    let intent = conversation::intent(turn, &workflow.name);
    compose::done_without_template(turn, &intent, Memory::default(), cause)
}

/// The workflow that the task runs.
fn workflow_of<'a>(turn: &Turn<'a>) -> Option<&'a WorkflowGraph> {
    let walk = turn.state.walk.as_deref()?;
    turn.assistant.workflow(&walk.workflow)
}

/// Why a node has no result.
struct Fault {
    cause: String,
    /// Whether it may have had an effect.
    unknown: bool,
    /// Whether a retry is allowed.
    may_try_again: bool,
}

impl Fault {
    /// The fault of a node that made no call.
    fn without_call(cause: String) -> Self {
        Self {
            cause,
            unknown: false,
            may_try_again: false,
        }
    }
}

/// The result of a call at a node: a value for the state, or why there is none.
fn result_of(
    place: &Place,
    request: &CallRequest,
    outcome: Outcome<Reply>,
) -> Result<Value, Fault> {
    let unknown = !request.changed_nothing(&outcome);
    let may_try_again = may_be_replaced(request, &outcome);
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
            Err(FailureCode::ToolFailed.because(&reply.text))
        }
        Outcome::Done(Reply(CallReply::Tool(reply))) => Ok(match place.kind {
            NodeKind::Agent => json!({ "text": reply.text, "task": reply.content["task"] }),
            NodeKind::Workflow => reply.content["output"].clone(),
            _ => reply.content,
        }),
        Outcome::Done(Reply(CallReply::Person(feedback))) => Ok(human_result(feedback)),
        Outcome::Done(_) => {
            Err(FailureCode::CallUnexpected.because("the call returned another kind of reply"))
        }
        // A rejection is a result of a human node.
        Outcome::Failed(failure) if place.kind == NodeKind::Human => {
            let action = if failure.is(FailureCode::CallUnanswered) {
                "expired"
            } else {
                "reject"
            };
            Ok(json!({ "action": action, "message": failure.message }))
        }
        Outcome::Failed(failure) => Err(failure.cause()),
    }
}

/// The result of a human node that was approved or modified.
fn human_result(feedback: Option<Value>) -> Value {
    let mut fields = match feedback {
        Some(Value::Object(mut fields)) => {
            fields.entry("action").or_insert_with(|| "modify".into());
            fields
        }
        _ => Map::from_iter([("action".to_owned(), "approve".into())]),
    };
    fields.entry("message").or_insert_with(|| "".into());
    Value::Object(fields)
}

/// Stores a node's value and leaves the node. For an item of a list, returns the call for the next item until all have
/// results.
fn take_value(
    turn: &mut Turn<'_>,
    workflow: &WorkflowGraph,
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

/// The calls of a node. If they could not be built, the walk fails.
fn started(
    turn: &mut Turn<'_>,
    workflow: &WorkflowGraph,
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

/// Handles the failure of a node: retries it if it certainly changed nothing, else applies its `on_error`.
fn take_error(
    turn: &mut Turn<'_>,
    workflow: &WorkflowGraph,
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
        let failures = running.failures.get(&item).copied();
        let again = fault.may_try_again && failures.unwrap_or(0) < place.retries;
        if again || failures.is_none() {
            let failures = failures.unwrap_or(0) + u32::from(again);
            running.failures.insert(item, failures);
        }
        if again {
            let again = at_node::call(turn, workflow, place, node, at.item);
            return started(turn, workflow, node, again.map(|call| vec![call]));
        }
    }
    give_up(turn, workflow, place, node, at.item, fault)
}

/// Applies a node's `on_error`.
fn give_up(
    turn: &mut Turn<'_>,
    workflow: &WorkflowGraph,
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
        walk.uncertain = true;
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

/// Evaluates the edges of a node, and leaves it.
fn leave(turn: &mut Turn<'_>, workflow: &WorkflowGraph, node: &Name) {
    let (mut chosen, mut fault) = (Vec::new(), None);
    for (_, edge) in workflow.leaving(node) {
        let context = WalkContext::of(turn).deciding();
        let value = condition_of(&turn.assistant.templates, edge, &context);
        if let Ok(value) = &value {
            chosen.push(leads_to(edge, value.as_ref(), &context));
        }
        if edge.condition.is_some() {
            let names: Vec<&str> = edge.to.nodes().map(Name::as_str).collect();
            let seen = value.as_ref().map_err(String::as_str);
            let seen = seen.map(|value| value.as_ref().unwrap_or(&Value::Null));
            conditions::note(turn, node, Some(names.join(", ")), seen);
        }
        if let Err(cause) = value {
            fault = Some(cause);
            break;
        }
    }
    let Some(walk) = turn.state.walk.as_mut() else {
        return;
    };
    if let Some(cause) = fault {
        walk.failed
            .get_or_insert_with(|| FailureCode::WorkflowCondition.because(cause));
        chosen.clear();
    }
    walk.leave(workflow, node, NodeExit::ByEdges(chosen));
}

/// The value of an edge's condition, if it has one.
fn condition_of(
    templates: &Templates,
    edge: &Edge,
    context: &WalkContext<'_>,
) -> Result<Option<Value>, String> {
    let condition = edge.condition.as_ref();
    condition
        .map(|condition| templates.expression(condition, context))
        .transpose()
}

/// The target of an edge: by the value of its condition, or by the routing key. `None` if it is not taken.
fn leads_to(edge: &Edge, value: Option<&Value>, context: &WalkContext<'_>) -> Option<Name> {
    match (&edge.to, value) {
        (Destination::Node(node), None) => Some(node.clone()),
        (Destination::Node(node), Some(value)) => is_true(value).then(|| node.clone()),
        (Destination::ByKey(nodes), value) => {
            let key = match value {
                Some(value) => Some(Cow::Borrowed(value)),
                None => context.value_of("routing_key"),
            };
            let key = key.map(|key| key_of(&key)).unwrap_or_default();
            nodes.get(&key).or_else(|| nodes.get("otherwise")).cloned()
        }
    }
}

/// A value as the key of a mapping. Booleans are `yes` and `no`.
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

/// The field of the state for a node's result.
fn field_of(workflow: &WorkflowFields, node: &Name) -> String {
    let named = workflow
        .nodes
        .get(node)
        .and_then(|place| place.output.clone());
    named.unwrap_or_else(|| node.clone()).to_string()
}

/// An agent's answer as a message of the task.
fn agent_message(turn: &Turn<'_>, place: &Place, value: &Value) -> Option<AddedMessage> {
    let text = value["text"].as_str().unwrap_or_default();
    let mut fields = MessageFields::draft(Role::Assistant, text, turn.view.at);
    fields.agent.clone_from(&place.agent);
    let message = Message::new(fields).ok()?;
    Some(AddedMessage {
        message,
        in_conversation: false,
    })
}

/// A value as an answer.
fn as_answer(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => match fields.get("text") {
            Some(Value::String(text)) => text.clone(),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}
