//! The nodes that choose targets (`route`), run them (`dispatch`) and combine their answers (`aggregate`): the steps of an
//! app without a workflow, as parts of a graph.

use convoke_engine::{NewCall, Outcome};
use convoke_model::{
    AgentResult, AgentResultFields, Decision, Destination, Edge, FailureCode, Name, Node as Place,
    NodeKind, Target, TargetKind, ToolCall, WorkflowFields,
};
use convoke_tools::ToolReply;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conversation::{note_part, note_unrouted};
use super::definition::WorkflowGraph;
use super::walk::{NodeExit, RunningNode, Walk};
use super::{at_node, field_of, started, take_value};
use crate::assistant::Assistant;
use crate::calls::{CallReply, CallRequest, NodeAction, Reply, Request, ReturnedCall};
use crate::interpret::{Meaning, RequestedAction};
use crate::memory::{PendingQuestion, PossibleTarget, RequestTarget, SkillRef};
use crate::nodes::route::{
    Choice, INTENT_CLARIFY, INTENT_DISMISSED, INTENT_FALLBACK, INTENT_UNKNOWN, ModelChoice,
    RouterContext, attempt, decision, described_candidates, fill_slots, open,
};
use crate::nodes::{aggregate, compose, dispatch};
use crate::split::Part;
use crate::turn::Turn;
use crate::undone::in_user_words;

/// The routing key of an ambiguous request.
const CLARIFY: &str = "clarify";

/// The routing key of a request without a target.
const FALLBACK: &str = "fallback";

/// The node that is being processed.
#[derive(Clone, Copy)]
pub(super) struct NodeContext<'a> {
    pub(super) workflow: &'a WorkflowGraph,
    pub(super) place: &'a Place,
    pub(super) node: &'a Name,
}

impl NodeContext<'_> {
    /// Leaves a route node with a decision and its routing key.
    fn give(self, turn: &mut Turn<'_>, key: &str, value: Value) -> Vec<NewCall<Request>> {
        if let Some(walk) = turn.state.walk.as_mut() {
            walk.state.insert("routing_key".into(), key.into());
        }
        take_value(turn, self.workflow, self.place, self.node, None, value)
    }
}

/// Applies a decision, and asks the model where the local one is not sure.
pub(super) fn take_route(
    turn: &mut Turn<'_>,
    here: NodeContext<'_>,
    at: &NodeAction,
    outcome: Outcome<Reply>,
) -> Vec<NewCall<Request>> {
    let over = here.place.over;
    match outcome {
        Outcome::Done(Reply(CallReply::Decided(decided))) => {
            turn.state.shown = decided.shown;
            turn.state.listed = decided.listed;
            turn.state.conversations = decided.conversations;
            if decided.meaning == Meaning::Dismissed {
                return dismiss(turn, here);
            }
            if let Some(walk) = turn.state.walk.as_mut() {
                walk.requested = match &decided.meaning {
                    Meaning::Act(action) => Some(action.clone()),
                    _ => None,
                };
            }
            match local_decision(decided.meaning, over) {
                Ok((decision, parts)) => leave(turn, here, &decision, &parts),
                Err(candidates) => {
                    let context = RouterContext {
                        candidates,
                        ..RouterContext::default()
                    };
                    let why = "nothing that the app can do fits";
                    ask(turn, here, at, context, (INTENT_UNKNOWN, why))
                }
            }
        }
        Outcome::Done(Reply(CallReply::Thought(thought))) => {
            let context = take_context(turn, &at.node);
            let Some(router) = turn.assistant.router(over) else {
                let why = "the router is no longer in the app";
                return fall_back(turn, here, (INTENT_FALLBACK, why), &context.dropped);
            };
            if let Some(walk) = turn.state.walk.as_mut() {
                walk.spent.add(&thought, router.models.iter());
            }
            let choice = router.read(&thought.text, turn.message());
            take_choice(turn, here, at, choice, context)
        }
        Outcome::Done(_) => fall_back(turn, here, (INTENT_FALLBACK, "nothing was decided"), &[]),
        Outcome::Failed(failure) => {
            let context = take_context(turn, &at.node);
            let why = failure.cause();
            if failure.transient {
                return ask(turn, here, at, context, (INTENT_FALLBACK, &why));
            }
            fall_back(turn, here, (INTENT_FALLBACK, &why), &context.dropped)
        }
    }
}

fn take_choice(
    turn: &mut Turn<'_>,
    here: NodeContext<'_>,
    at: &NodeAction,
    choice: Choice,
    mut context: RouterContext,
) -> Vec<NewCall<Request>> {
    context.dropped.extend(choice.dropped);
    match choice.chosen {
        ModelChoice::Broken(why) => ask(turn, here, at, context, (INTENT_FALLBACK, &why)),
        ModelChoice::Nobody { why, .. } => {
            fall_back(turn, here, (INTENT_UNKNOWN, &why), &context.dropped)
        }
        ModelChoice::Unsure {
            candidates,
            question,
            why,
        } => {
            let candidates = if candidates.is_empty() {
                context.candidates
            } else {
                candidates
            };
            ask_user(turn, here, &candidates, question.as_deref(), &why)
        }
        ModelChoice::Targets { mut parts, why } => {
            fill_slots(&turn.assistant.catalogue, &mut parts);
            match decision(turn.message(), &parts, &why, context.dropped) {
                Some(decision) => leave(turn, here, &decision, &parts),
                None => fall_back(turn, here, (INTENT_FALLBACK, &why), &[]),
            }
        }
    }
}

/// Leaves after a message that declines the open question: by an edge for that, or without any, which ends the workflow
/// with the app's own words.
fn dismiss(turn: &mut Turn<'_>, here: NodeContext<'_>) -> Vec<NewCall<Request>> {
    let value = json!({
        "targets": [], "reasoning": "the user declined the question", "decided_by": "local",
    });
    let edges: Vec<&Edge> = here
        .workflow
        .leaving(here.node)
        .map(|(_, edge)| edge)
        .collect();
    let is_for_it = |edge: &&Edge| matches!(&edge.to, Destination::ByKey(nodes) if nodes.contains_key(INTENT_DISMISSED));
    if edges.iter().any(is_for_it) {
        return here.give(turn, INTENT_DISMISSED, value);
    }
    note_unrouted(turn, INTENT_DISMISSED, None);
    if let Some(walk) = turn.state.walk.as_mut() {
        walk.keep(here.workflow, &field_of(here.workflow, here.node), value);
        let none = NodeExit::ByEdges(vec![None; edges.len()]);
        walk.leave(here.workflow, here.node, none);
    }
    Vec::new()
}

/// Asks the model, unless there is none or its attempts are used up. Without a model, the outcome is what `unless` names:
/// its intent, and why.
fn ask(
    turn: &mut Turn<'_>,
    here: NodeContext<'_>,
    at: &NodeAction,
    mut context: RouterContext,
    unless: (&str, &str),
) -> Vec<NewCall<Request>> {
    let most = turn.assistant.router(here.place.over);
    match most.map(|router| router.options.max_attempts) {
        Some(most) if context.attempts < most => {
            let routing = attempt(turn, &mut context, here.place.over);
            if let Some(running) = running(turn, &at.node) {
                running.router_context = Some(context);
                running.open += 1;
            }
            vec![NewCall {
                label: format!("{}: route", at.node),
                request: Request(CallRequest::At(NodeAction {
                    request: Box::new(CallRequest::Route(routing)),
                    ..at.clone()
                })),
                approval: None,
            }]
        }
        None if !context.candidates.is_empty() => {
            let why = "several things may be meant";
            ask_user(turn, here, &context.candidates, None, why)
        }
        _ => fall_back(turn, here, unless, &context.dropped),
    }
}

/// The local decision, with the parts of a message that has several, or the candidates if it is not sure.
fn local_decision(
    meaning: Meaning,
    over: Option<TargetKind>,
) -> Result<(Decision, Vec<Part>), Vec<PossibleTarget>> {
    let whole = |decision: Decision| (decision, Vec::new());
    let fits = |kind: TargetKind| over.is_none_or(|over| over == kind);
    match meaning {
        Meaning::Act(tool_call) => match over {
            Some(TargetKind::Agent) => {
                let target = RequestTarget::Agent {
                    agent: tool_call.target.agent,
                };
                let confidence = tool_call.decision.confidence().value();
                let target = Target {
                    parameters: tool_call.slots,
                    ..target.target(confidence)
                };
                let changed = tool_call.decision.with(|decision| {
                    decision.targets = vec![target];
                });
                changed.map(whole).map_err(|_| Vec::new())
            }
            Some(TargetKind::Domain) => Err(Vec::new()),
            Some(TargetKind::Skill) | None => Ok(whole(tool_call.decision)),
        },
        Meaning::Several { parts } => {
            let parts: Vec<Part> = parts
                .into_iter()
                .filter_map(|part| as_kind(part, over))
                .collect();
            let request: Vec<&str> = parts.iter().map(|part| part.request.as_str()).collect();
            let decision = dispatch::decision(&request.join(", "), &parts);
            decision
                .map(|decision| (decision, parts))
                .ok_or_else(Vec::new)
        }
        Meaning::Inquire(inquiry) if fits(TargetKind::Domain) => Ok(whole(inquiry.decision)),
        Meaning::Unclear { candidates } => {
            let fitting = candidates
                .into_iter()
                .filter(|possible| match possible.target {
                    RequestTarget::Domain { .. } => fits(TargetKind::Domain),
                    RequestTarget::Skill(_) | RequestTarget::Agent { .. } => {
                        over != Some(TargetKind::Domain)
                    }
                });
            Err(fitting.collect())
        }
        Meaning::Inquire(_) | Meaning::Unknown | Meaning::Dismissed => Err(Vec::new()),
    }
}

/// A part of a message as a target of the wanted kind, if it can be one.
fn as_kind(part: Part, over: Option<TargetKind>) -> Option<Part> {
    let target = match (part.target, over) {
        (RequestTarget::Skill(SkillRef { agent, .. }), Some(TargetKind::Agent)) => {
            RequestTarget::Agent { agent }
        }
        (RequestTarget::Skill(_), Some(TargetKind::Domain))
        | (RequestTarget::Domain { .. }, Some(TargetKind::Agent | TargetKind::Skill)) => {
            return None;
        }
        (target, _) => target,
    };
    Some(Part { target, ..part })
}

/// Leaves with the chosen targets. Of several parts, each is a target, even if two are for the same.
fn leave(
    turn: &mut Turn<'_>,
    here: NodeContext<'_>,
    decision: &Decision,
    parts: &[Part],
) -> Vec<NewCall<Request>> {
    if turn.state.target.is_none() {
        turn.state.decision = Some(decision.clone());
    }
    if let Some(walk) = turn.state.walk.as_mut() {
        walk.unrouted = None;
    }
    let primary = decision.primary().map(|target| target.name.to_string());
    let mut value = compose::routing(decision);
    if !parts.is_empty() {
        let targets = parts.iter().map(|part| part.decided(turn.message()));
        let targets: Vec<Value> = targets
            .map(|target| compose::target_value(&target))
            .collect();
        value["targets"] = targets.into();
    }
    here.give(turn, &primary.unwrap_or_default(), value)
}

/// Leaves with a question to the user.
fn ask_user(
    turn: &mut Turn<'_>,
    here: NodeContext<'_>,
    candidates: &[PossibleTarget],
    question: Option<&str>,
    why: &str,
) -> Vec<NewCall<Request>> {
    let described = described_candidates(turn, candidates);
    let pending = PendingQuestion::Skill {
        candidates: PossibleTarget::targets(candidates),
        request: turn.message().to_owned(),
    };
    note_unrouted(turn, INTENT_CLARIFY, Some(pending));
    if turn.state.target.is_none() {
        turn.state.decision = open(
            turn,
            candidates,
            question.map(str::to_owned),
            why,
            Vec::new(),
        );
    }
    let value = json!({
        "targets": [], "candidates": described, "reasoning": why, "ambiguous": true,
        "clarifying_question": question,
    });
    here.give(turn, CLARIFY, value)
}

/// Leaves without a target.
fn fall_back(
    turn: &mut Turn<'_>,
    here: NodeContext<'_>,
    (intent, why): (&str, &str),
    dropped: &[String],
) -> Vec<NewCall<Request>> {
    note_unrouted(turn, intent, None);
    let value = json!({
        "targets": [], "reasoning": why, "decided_by": "fallback", "dropped": dropped,
    });
    here.give(turn, FALLBACK, value)
}

fn take_context(turn: &mut Turn<'_>, node: &Name) -> RouterContext {
    running(turn, node)
        .and_then(|running| running.router_context.take())
        .unwrap_or_default()
}

fn running<'t>(turn: &'t mut Turn<'_>, node: &Name) -> Option<&'t mut RunningNode> {
    turn.state.walk.as_mut()?.running(node)
}

/// The targets of a dispatch node: those that its route node chose.
pub(super) fn targets(turn: &Turn<'_>, workflow: &WorkflowFields, place: &Place) -> Vec<Value> {
    source_value(turn, workflow, place)["targets"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

/// The result of the node that a dispatch or aggregate node refers to.
fn source_value(turn: &Turn<'_>, workflow: &WorkflowFields, place: &Place) -> Value {
    let walk = turn.state.walk.as_deref();
    let field = place.of.as_ref().map(|of| field_of(workflow, of));
    let value = field.and_then(|field| walk?.state.get(&field).cloned());
    value.unwrap_or_default()
}

/// The call of a target, after so many failed attempts.
pub(super) fn dispatched(
    turn: &Turn<'_>,
    target: &Value,
    failures: u32,
    until_ms: Option<u64>,
) -> Result<CallRequest, String> {
    let request = target["request"].as_str();
    let whole = request.is_none();
    let request = request.unwrap_or(turn.message()).to_owned();
    let target = target_of(target)
        .ok_or_else(|| FailureCode::WorkflowDispatch.because("the app has no such target"))?;
    let agent = target
        .agent()
        .and_then(|name| turn.assistant.app.agent(name.as_str()));
    let delay_ms = match (failures, agent) {
        (0, _) | (_, None) => 0,
        (_, Some(agent)) => agent.limits.retry_delay_ms,
    };
    let action = whole.then(|| requested(turn, &target)).flatten();
    let mut sub_task = dispatch::sub_task(turn, target, request, None, delay_ms);
    sub_task.decision_context.action = action;
    sub_task.until_ms = until_ms.or(sub_task.until_ms);
    Ok(CallRequest::Child(Box::new(sub_task)))
}

/// What the message asks of a target, as the route node read it: with what an open question already settled.
fn requested(turn: &Turn<'_>, target: &RequestTarget) -> Option<Box<RequestedAction>> {
    let requested = turn.state.walk.as_deref()?.requested.as_ref()?;
    let is_for = match target {
        RequestTarget::Skill(skill) => requested.target == *skill,
        RequestTarget::Agent { agent } => requested.target.agent == *agent,
        RequestTarget::Domain { .. } => false,
    };
    is_for.then(|| requested.clone())
}

fn target_of(target: &Value) -> Option<RequestTarget> {
    let name = |key: &str| Name::new(target[key].as_str()?).ok();
    Some(match target["kind"].as_str()? {
        "agent" => RequestTarget::Agent {
            agent: name("name")?,
        },
        "domain" => RequestTarget::Domain {
            domain: name("name")?,
        },
        _ => RequestTarget::Skill(SkillRef {
            agent: name("agent")?,
            skill: name("name")?,
        }),
    })
}

/// Applies the outcome of a target: stores its result or retries it.
pub(super) fn take_dispatched(
    turn: &mut Turn<'_>,
    here: NodeContext<'_>,
    at: &NodeAction,
    returned: ReturnedCall,
) -> Vec<NewCall<Request>> {
    let took = turn.view.at.duration_since(returned.info.started_at);
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(0);
    let item = at.item.unwrap_or(0);
    let known = running(turn, &at.node).map(|running| {
        let target = running.items.items().get(item).cloned().unwrap_or_default();
        (target, running.failures.get(&item).copied().unwrap_or(0))
    });
    let (target, failures) = known.unwrap_or_default();
    let (value, reply) = result(turn, &target, failures, returned.outcome, took_ms);
    if let Some(reply) = reply {
        let calls = note_part(turn, &reply);
        note_calls(turn, &at.node, item, calls);
    }
    if let Some(value) = value {
        return take_value(turn, here.workflow, here.place, here.node, at.item, value);
    }
    if let Some(running) = running(turn, &at.node) {
        running.failures.insert(item, failures + 1);
    }
    let again = at_node::call(turn, here.workflow, here.place, here.node, at.item);
    started(turn, here.workflow, here.node, again.map(|call| vec![call]))
}

/// Adds the calls of all targets to the task's record once the last of them has ended, in the order of the targets.
fn note_calls(turn: &mut Turn<'_>, node: &Name, item: usize, calls: Vec<ToolCall>) {
    let Some(running) = running(turn, node) else {
        return;
    };
    running.calls.insert(item, calls);
    if running.results.len() + 1 == running.items.items().len() {
        let calls = std::mem::take(&mut running.calls);
        turn.state
            .tool_calls
            .extend(calls.into_sorted_values().flatten());
    }
}

/// The result of a target, or none if it is to be retried, and the reply of its child task.
fn result(
    turn: &Turn<'_>,
    target: &Value,
    failures: u32,
    outcome: Outcome<Reply>,
    took_ms: u64,
) -> (Option<Value>, Option<Box<ToolReply>>) {
    let target = target_of(target);
    let agent = target
        .as_ref()
        .map(|target| target.agent().unwrap_or(target.name()).clone());
    let (content, error, reply) = match outcome {
        Outcome::Done(Reply(CallReply::Tool(reply))) => {
            let again = target.as_ref().and_then(|target| {
                dispatch::retry_delay(turn.assistant, target, failures + 1, &reply)
            });
            if again.is_some() {
                return (None, None);
            }
            let reported = reply.content["error"].as_str();
            let reported = reported.unwrap_or(&reply.text).to_owned();
            let error = reply.is_error.then_some(reported);
            (reply.text.clone(), error, Some(reply))
        }
        Outcome::Done(_) => (
            String::new(),
            Some("it returned another kind of reply".to_owned()),
            None,
        ),
        Outcome::Failed(failure) => {
            let why = failure.cause();
            (String::new(), Some(why), None)
        }
    };
    let result = agent.and_then(|agent| match &error {
        None => AgentResult::success(agent, content, took_ms).ok(),
        Some(why) => AgentResult::failure(agent, why, took_ms).ok(),
    });
    let mut result = json!(result);
    if let Some(reply) = &reply {
        for key in ["task", "sources", "partial"] {
            result[key] = reply.content[key].clone();
        }
    }
    (Some(result), reply)
}

/// What each agent did at the dispatch nodes of a workflow.
pub(crate) fn agent_results(assistant: &Assistant, walk: &Walk) -> Vec<AgentResult> {
    let Some(workflow) = assistant.workflow(&walk.workflow) else {
        return Vec::new();
    };
    let nodes = workflow.nodes.iter();
    let dispatches = nodes.filter(|(_, place)| place.kind == NodeKind::Dispatch);
    let results = dispatches.filter_map(|(node, _)| {
        let field = field_of(workflow, node);
        walk.state.get(&field)?.as_array().cloned()
    });
    results
        .flatten()
        .filter_map(|result| AgentResultFields::deserialize(result).ok())
        .filter_map(|result| AgentResult::new(result).ok())
        .collect()
}

/// Combines the results of all targets.
pub(super) fn aggregated(
    turn: &Turn<'_>,
    workflow: &WorkflowFields,
    place: &Place,
) -> Result<Value, String> {
    let results = source_value(turn, workflow, place);
    let results = results.as_array().map(Vec::as_slice).unwrap_or_default();
    let succeeded = |result: &&Value| result["success"] == Value::Bool(true);
    let texts: Vec<String> = results
        .iter()
        .filter(succeeded)
        .filter_map(|result| result["content"].as_str().map(str::to_owned))
        .collect();
    let failed: Vec<(&str, &str)> = results
        .iter()
        .filter(|result| !succeeded(result))
        .filter_map(|result| {
            let cause = result["error_message"].as_str();
            Some((result["agent"].as_str()?, cause.unwrap_or_default()))
        })
        .collect();
    let missing: Vec<&str> = failed.iter().map(|(agent, _)| *agent).collect();
    if texts.is_empty() {
        let causes = failed
            .iter()
            .map(|(agent, cause)| format!("{agent} ({cause})"));
        let causes: Vec<String> = causes.collect();
        let why = format!("none of these could answer: {}", causes.join(", "));
        return Err(FailureCode::DispatchAllFailed.because(why));
    }
    let lacks = failed.iter().map(|(agent, cause)| {
        let why = in_user_words(agent, cause, false);
        format!("{agent} could not help ({why})")
    });
    let lacks: Vec<String> = lacks.collect();
    let lacks = (!lacks.is_empty()).then(|| format!("{}.", lacks.join(", ")));
    let text = aggregate::joined_with_missing(turn.assistant, &texts, lacks.as_deref())?;
    let is_partial = |result: &Value| result["partial"] == Value::Bool(true);
    Ok(json!({
        "text": text, "missing": missing,
        "partial": !missing.is_empty() || results.iter().any(is_partial),
    }))
}
