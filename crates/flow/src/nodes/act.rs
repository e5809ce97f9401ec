//! Act: calls the tool of a skill, or starts its workflow.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use convoke_app::TemplateContext;
use convoke_engine::{Failure, NewCall, Step};
use convoke_model::{
    Action, ActionTarget, ApprovalCondition, FailureCode, Name, ShownItems, SkillFields, Stage,
    UserId,
};
use convoke_tools::{Arguments, ToolReply};
use serde_json::{Map, Value};

use super::{agent, compose, graph};
use crate::approval_question::{approval_question, start_question};
use crate::assistant::Node;
use crate::calls::{CallRequest, Request, ReturnedCall, ToolCallRequest, WorkflowStart, one_call};
use crate::ended_call::record_returned;
use crate::fallback::{earlier_attempts, failure_after};
use crate::memory::{Item, Memory, Topic};
use crate::turn::Turn;

/// Starts what the skill is for: its tool, or its workflow.
pub(crate) fn start(turn: &mut Turn<'_>, skill: &SkillFields) -> Step<Request> {
    let Some((action, target)) = skill
        .action
        .as_ref()
        .and_then(|action| Some((action, action.target()?)))
    else {
        return compose::fail(turn, "the skill has no action");
    };
    turn.state.node = Node::Act;
    turn.state.slot = None;
    let arguments = match arguments(turn, &action.arguments) {
        Ok(arguments) => Arc::new(arguments),
        Err(cause) => return compose::fail(turn, &cause),
    };
    let is_asked = approval_condition(turn, skill, action, &arguments);
    let assistant = turn.assistant;
    match target {
        ActionTarget::Tool(tool) => {
            let question = is_asked.then(|| approval_question(assistant, tool, &arguments));
            call_with(turn, tool, arguments, question)
        }
        ActionTarget::Workflow(workflow) if is_asked && !counts_as_approved(turn, None) => {
            let question = start_question(assistant, workflow, &arguments);
            let request = CallRequest::Workflow(WorkflowStart {
                workflow: workflow.clone(),
                inputs: arguments,
            });
            let mut step = one_call(workflow.as_str(), request);
            for call in &mut step.calls {
                call.approval = Some(question.clone());
            }
            step
        }
        ActionTarget::Workflow(workflow) => start_workflow(turn, workflow, &arguments),
    }
}

/// Runs the skill's workflow as a part of the task, so that its questions, limits and calls are those of the task.
fn start_workflow(turn: &mut Turn<'_>, workflow: &Name, inputs: &Arguments) -> Step<Request> {
    match turn.assistant.app.workflow(workflow.as_str()) {
        Some(workflow) => graph::start(turn, workflow, (**inputs).clone()),
        None => compose::fail(turn, "the workflow is no longer in the app"),
    }
}

/// Whether the skill's own condition wants a person's approval. Only a condition that is false lets it go unasked: what
/// cannot be evaluated asks.
fn approval_condition(
    turn: &mut Turn<'_>,
    skill: &SkillFields,
    action: &Action,
    arguments: &Map<String, Value>,
) -> bool {
    let Some(ApprovalCondition { when }) = &action.approval else {
        return false;
    };
    let names = ActionNames {
        slots: &turn.state.slots,
        arguments,
    };
    let value = turn.assistant.templates.expression(when, &names);
    if let Err(cause) = &value {
        let (task, skill) = (turn.view.facts.id, &skill.name);
        tracing::warn!(%task, %skill, cause, "the condition of an approval failed; a person is asked");
    }
    let seen = value.as_ref().map_err(String::as_str);
    graph::note_condition(turn, &skill.name, Some("approval".to_owned()), seen);
    value != Ok(Value::Bool(false))
}

/// The names of an approval's condition. An argument shadows a slot; a name without a value is an error.
struct ActionNames<'a> {
    slots: &'a Map<String, Value>,
    arguments: &'a Map<String, Value>,
}

impl TemplateContext for ActionNames<'_> {
    fn value_of(&self, name: &str) -> Option<Cow<'_, Value>> {
        let value = self.arguments.get(name).or_else(|| self.slots.get(name));
        value.map(Cow::Borrowed)
    }

    fn may_be_absent(&self, _name: &str) -> bool {
        false
    }
}

/// Whether the user's own confirmation counts as the approval, because the app lets them approve.
fn counts_as_approved(turn: &Turn<'_>, tool: Option<&str>) -> bool {
    let requester = UserId::from(turn.view.facts.owner);
    turn.state.confirmed && turn.assistant.requester_may_approve(tool, requester)
}

/// Rebuilds the open call of a fork, with changed slots.
pub(crate) fn rebuild_open_calls(
    turn: &mut Turn<'_>,
    set: &Map<String, Value>,
) -> Result<Vec<NewCall<Request>>, String> {
    let target = turn.state.target.as_ref();
    let skill = target.and_then(|target| turn.assistant.catalogue.skill(target));
    let skill = skill.ok_or("the skill is no longer in the app")?;
    turn.state.slots.extend(set.clone());
    let step = start(turn, skill);
    if step.calls.is_empty() {
        return Err("with these changes no call is left to make".into());
    }
    Ok(step.calls)
}

/// Requests a tool call with arguments rendered from the slots.
pub(crate) fn call(
    turn: &mut Turn<'_>,
    tool: &str,
    templates: &BTreeMap<String, Value>,
) -> Step<Request> {
    match arguments(turn, templates) {
        Ok(arguments) => call_with(turn, tool, Arc::new(arguments), None),
        Err(cause) => compose::fail(turn, &cause),
    }
}

/// Requests a tool call, which a person must approve if there is a question for it, or if the tool wants it.
fn call_with(
    turn: &Turn<'_>,
    tool: &str,
    arguments: Arguments,
    question: Option<String>,
) -> Step<Request> {
    let approval = if counts_as_approved(turn, Some(tool)) {
        None
    } else {
        question.or_else(|| agent::approval(turn.assistant, tool, &arguments))
    };
    let tool_call = ToolCallRequest {
        tool: tool.to_owned(),
        arguments,
        index: None,
        until_ms: None,
        delay_ms: 0,
        is_query: false,
        attempts: Vec::new(),
    };
    let mut step = one_call(tool, CallRequest::Tool(tool_call));
    for call in &mut step.calls {
        call.approval.clone_from(&approval);
    }
    Step {
        stage: Some(Stage::Extracting),
        ..step
    }
}

/// The question before a fallback tool is called, if it needs one: by itself, or because the skill asks on a condition, which was
/// judged for another tool. The user's confirmation counts as the approval of whom the app lets approve.
pub(crate) fn approval(turn: &Turn<'_>, tool: &str, arguments: &Arguments) -> Option<String> {
    if counts_as_approved(turn, Some(tool)) {
        return None;
    }
    let target = turn.state.target.as_ref();
    let skill = target.and_then(|target| turn.assistant.catalogue.skill(target));
    let action = skill.and_then(|skill| skill.action.as_ref());
    let asks =
        turn.state.node == Node::Act && action.is_some_and(|action| action.approval.is_some());
    if asks {
        return Some(approval_question(turn.assistant, tool, arguments));
    }
    agent::approval(turn.assistant, tool, arguments)
}

/// The reply of a tool that was called for a skill, added to the task's record of calls. An error is that of the last
/// attempt, with those before it.
pub(crate) fn take_reply(
    turn: &mut Turn<'_>,
    returned: ReturnedCall,
) -> Result<ToolReply, Failure> {
    let info = returned.info;
    let outcome = returned.tool();
    record_returned(turn, info, outcome.as_ref());
    outcome.map_err(|failure| failure_after(failure, earlier_attempts(turn)))
}

pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let assistant = turn.assistant;
    let action = turn
        .state
        .target
        .as_ref()
        .and_then(|target| assistant.catalogue.skill(target))
        .and_then(|skill| skill.action.as_ref());
    let Some(action) = action else {
        return compose::fail(turn, "the skill no longer has an action");
    };
    if let Some(CallRequest::Workflow(start)) = turn.view.returned.map(|call| &call.request.0) {
        return match returned.approval() {
            Ok(()) => start_workflow(turn, &start.workflow, &start.inputs),
            Err(failure) => compose::call_failure(turn, &failure),
        };
    }
    let reply = match take_reply(turn, returned) {
        Ok(reply) => reply,
        Err(failure) => return compose::call_failure(turn, &failure),
    };
    if reply.is_error {
        return compose::tool_error(turn, action.failure.as_deref(), &reply);
    }
    let (memory, unread) = memory(turn, action, |shows| {
        shown(action, shows, shows.items.as_deref(), &reply.content)
    });
    let mut context = turn.state.slots.clone();
    context.insert("result".into(), reply.content);
    let intent = turn.intent();
    let template = action.reply.as_deref().unwrap_or_default();
    compose::reply_done(turn, template, &context, &intent, memory, unread)
}

/// What the next message can refer to after the skill has run its workflow, from the workflow's final state, and why the
/// items cannot be read. Nothing if no skill has started the workflow.
pub(crate) fn memory_of_workflow(turn: &Turn<'_>, state: &Value) -> (Memory, Option<String>) {
    let target = turn.state.target.as_ref();
    let skill = target.and_then(|target| turn.assistant.catalogue.skill(target));
    let action = skill.and_then(|skill| skill.action.as_ref());
    let Some(action) = action.filter(|action| action.workflow.is_some()) else {
        return (Memory::default(), None);
    };
    memory(turn, action, |shows| {
        let items = shows.items.as_deref();
        let Some((path, list)) = items.and_then(|items| items.rsplit_once('.')) else {
            return shown(action, shows, items, state);
        };
        let mut steps = path.split('.');
        let found = steps.try_fold(state, |value, field| value.get(field));
        let found = found.ok_or_else(|| format!("the workflow's state has no `{path}`"))?;
        shown(action, shows, Some(list), found)
    })
}

/// What the next message can refer to: the topic, and the items of the reply.
fn memory(
    turn: &Turn<'_>,
    action: &Action,
    read: impl FnOnce(&ShownItems) -> Result<Vec<Item>, String>,
) -> (Memory, Option<String>) {
    let shown = action.shows.as_ref().map_or_else(|| Ok(Vec::new()), read);
    let memory = Memory {
        topic: turn.state.target.as_ref().map(|target| {
            let slots = &turn.state.slots;
            Topic::of(target.agent.clone(), slots)
        }),
        unread: shown.is_err(),
        list: action
            .shows
            .as_ref()
            .is_some_and(|shows| shows.items.is_some()),
        ..Memory::showing(shown.as_ref().cloned().unwrap_or_default())
    };
    let unread = shown.err();
    let unread = unread.map(|cause| FailureCode::ReplyShows.because(cause));
    (memory, unread)
}

/// The items in a result: those of a list, or the result itself.
fn shown(
    action: &Action,
    shows: &ShownItems,
    list: Option<&str>,
    content: &Value,
) -> Result<Vec<Item>, String> {
    let fields = (shows.id.as_str(), shows.label.as_str());
    let read = |item: &Value| Item::read(item, action.kind_of(shows), fields);
    match list {
        None => Ok(vec![read(content)?]),
        Some(field) => Item::list_in(content, field)?.iter().map(read).collect(),
    }
}

/// The arguments of a call, from templates over the slots.
fn arguments(
    turn: &Turn<'_>,
    templates: &BTreeMap<String, Value>,
) -> Result<Map<String, Value>, String> {
    templates
        .iter()
        .map(|(name, template)| {
            Ok((
                name.clone(),
                turn.assistant
                    .templates
                    .value(template, &turn.state.slots)?,
            ))
        })
        // A template that renders to null leaves the argument out.
        .filter(|argument| !matches!(argument, Ok((_, Value::Null))))
        .collect()
}
