//! Inquire: queries data domains through their tools, in parallel unless one needs another's answer; polls long-running
//! queries; and answers when all have replied or when the time is over.

use std::sync::Arc;

use convoke_engine::{Failure, NewCall, Outcome, Step};
use convoke_model::{DomainToolFields, Name, Stage, ToolCall, ToolCallStatus};
use convoke_tools::{Arguments, FailureCode, ToolReply};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::aggregate::{self, Aggregation};
use super::{agent, compose};
use crate::assistant::{Assistant, Node};
use crate::calls::{CallInfo, CallRequest, Request, ReturnedCall, ToolCallRequest, is_default};
use crate::ended_call::{EndedCall, record};
use crate::fallback::{Grant, earlier_attempts, failure_after};
use crate::inquiry::{Inquiry, Question};
use crate::memory::{Item, Memory};
use crate::pointing::points_back;
use crate::suggestions::{Answered, remembered, suggest};
use crate::turn::Turn;
use crate::unused::{AnsweredQuestion, unused_by_all};

/// A query to one tool of a domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DomainToolCall {
    pub(crate) domain: Name,
    /// Index of the tool among the domain's.
    #[serde(default, skip_serializing_if = "is_default")]
    tool: usize,
    question: String,
    /// Indexes of the queries whose answers it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<usize>,
    /// The call, once it is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<RunningQuery>,
    #[serde(rename = "came", default, skip_serializing_if = "Option::is_none")]
    outcome: Option<DomainOutcome>,
}

/// A query that has been started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RunningQuery {
    id: Uuid,
    arguments: Arguments,
    started_at: Timestamp,
    /// Its deadline, in milliseconds from when the task was accepted.
    until_ms: u64,
    /// The fallback tool that it is made to, if it is not the domain's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fallback: Option<String>,
}

/// The outcome of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DomainOutcome {
    Answer {
        text: String,
        /// The whole result, if another query needs it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
        /// Labels of the items in it, for queries that refer to them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shows: Vec<String>,
        /// Parts of the question that it does not use.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unused: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
    },
    /// The tool replied that it cannot answer this.
    Declined(String),
    /// The tool could not be called, or did not answer in time.
    Failed(String),
}

/// Starts every query that needs no other.
pub(crate) fn start(turn: &mut Turn<'_>, inquiry: Inquiry) -> Step<Request> {
    turn.state.node = Node::Inquire;
    turn.state.decision = Some(inquiry.decision);
    turn.state.domain_calls = queries(turn.assistant, &inquiry.questions);
    let step = go_on(turn);
    let stage = (!step.calls.is_empty() && turn.state.node == Node::Inquire)
        .then_some(Stage::Extracting)
        .or(step.stage);
    Step { stage, ..step }
}

/// Starts the queries that can start now, and answers once all have an outcome.
fn go_on(turn: &mut Turn<'_>) -> Step<Request> {
    let calls = next(turn);
    let is_open = turn
        .state
        .domain_calls
        .iter()
        .any(|one| one.outcome.is_none());
    aggregate::go_on(turn, calls, is_open, gather)
}

/// The queries for these questions, with their dependencies.
fn queries(assistant: &Assistant, questions: &[Question]) -> Vec<DomainToolCall> {
    let mut calls: Vec<DomainToolCall> = Vec::new();
    for question in questions {
        let tools = tools_of(assistant, &question.domain);
        if tools.is_empty() {
            calls.push(DomainToolCall {
                outcome: Some(DomainOutcome::Failed("the domain has no tool".into())),
                ..DomainToolCall::of(question, 0)
            });
        }
        let places = 0..tools.len();
        calls.extend(places.map(|tool| DomainToolCall::of(question, tool)));
    }
    let waits: Vec<Vec<usize>> = (0..calls.len())
        .map(|place| waits_for(assistant, &calls, place))
        .collect();
    for (one, waits_for) in calls.iter_mut().zip(waits) {
        one.waits_for = waits_for;
    }
    calls
}

/// Indexes of the queries that a query depends on. They come before it, so there are no cycles.
fn waits_for(assistant: &Assistant, calls: &[DomainToolCall], place: usize) -> Vec<usize> {
    let one = &calls[place];
    let Some(how) = tool_of(assistant, one) else {
        return Vec::new();
    };
    let points = points_back(&one.question);
    let is_waited_for = |other: &DomainToolCall| {
        if other.domain == one.domain {
            tool_of(assistant, other).is_some_and(|other| how.needs.contains(&other.tool))
        } else {
            points && how.follows.contains(&other.domain)
        }
    };
    let before = calls[..place].iter().enumerate();
    before
        .filter(|(_, other)| is_waited_for(other))
        .map(|(place, _)| place)
        .collect()
}

impl DomainToolCall {
    fn of(question: &Question, tool: usize) -> Self {
        Self {
            domain: question.domain.clone(),
            tool,
            question: question.text.clone(),
            waits_for: Vec::new(),
            call: None,
            outcome: None,
        }
    }
}

/// The tools of a domain.
fn tools_of(assistant: &Assistant, domain: &Name) -> Vec<DomainToolFields> {
    let domain = assistant.catalogue.domain(domain);
    let tools = domain.into_iter().flat_map(|domain| &domain.mcp_tools);
    tools.map(convoke_model::DomainTool::fields).collect()
}

/// The tool of a query.
fn tool_of(assistant: &Assistant, one: &DomainToolCall) -> Option<DomainToolFields> {
    tools_of(assistant, &one.domain).into_iter().nth(one.tool)
}

/// Starts every query that can start now.
fn next(turn: &mut Turn<'_>) -> Vec<NewCall<Request>> {
    let mut calls = Vec::new();
    for place in 0..turn.state.domain_calls.len() {
        let queries = &turn.state.domain_calls;
        let one = &queries[place];
        let ready = one
            .waits_for
            .iter()
            .all(|other| queries[*other].outcome.is_some());
        if one.call.is_some() || one.outcome.is_some() || !ready {
            continue;
        }
        match ask(turn, place, calls.len()) {
            Ok(call) => calls.push(call),
            Err(why) => turn.state.domain_calls[place].outcome = Some(DomainOutcome::Failed(why)),
        }
    }
    calls
}

fn ask(turn: &mut Turn<'_>, place: usize, index: usize) -> Result<NewCall<Request>, String> {
    let one = &turn.state.domain_calls[place];
    let how = tool_of(turn.assistant, one).ok_or("the domain's tool is no longer in the app")?;
    let arguments = arguments(turn, one, &how)?;
    let until_ms = query_ends(turn, &how.tool);
    let id = turn.view.call_id(index);
    let call = tool_call(turn, &how.tool, &arguments, place, until_ms, 0);
    turn.state.domain_calls[place].call = Some(RunningQuery {
        id,
        arguments,
        started_at: turn.view.at,
        until_ms,
        fallback: None,
    });
    Ok(call)
}

/// Deadline of a query to a tool that starts now, in milliseconds from when the task was accepted.
fn query_ends(turn: &Turn<'_>, tool: &str) -> u64 {
    let time = turn.assistant.tool_time(tool).as_millis();
    let time = u64::try_from(time).unwrap_or(u64::MAX);
    turn.since_accepted_ms(turn.view.at).saturating_add(time)
}

/// Grants a fallback tool in place of a query, or of a poll within the query's time.
pub(crate) fn grant_fallback(
    turn: &mut Turn<'_>,
    made: &ToolCallRequest,
    tool: &str,
) -> Option<Grant> {
    let place = made.index?;
    let ends = query_ends(turn, tool);
    let id = turn.view.call_id(0);
    let own = tool_of(turn.assistant, turn.state.domain_calls.get(place)?)?.tool;
    let query = turn.state.domain_calls.get_mut(place)?.call.as_mut()?;
    let queried = query.fallback.as_ref().unwrap_or(&own);
    if made.tool == *queried {
        *query = RunningQuery {
            id,
            arguments: Arc::clone(&made.arguments),
            started_at: turn.view.at,
            until_ms: ends,
            fallback: Some(tool.to_owned()),
        };
    }
    Some(Grant {
        until_ms: Some(query.until_ms),
    })
}

fn tool_call(
    turn: &Turn<'_>,
    tool: &str,
    arguments: &Arguments,
    place: usize,
    until_ms: u64,
    delay_ms: u64,
) -> NewCall<Request> {
    NewCall {
        label: tool.to_owned(),
        approval: agent::approval(turn.assistant, tool, arguments),
        request: Request(CallRequest::Tool(ToolCallRequest {
            tool: tool.to_owned(),
            arguments: Arc::clone(arguments),
            index: Some(place),
            until_ms: Some(until_ms),
            delay_ms,
            is_query: true,
            attempts: Vec::new(),
        })),
    }
}

/// The arguments of a query: the question, the conversation, and the results that it depends on.
fn arguments(
    turn: &Turn<'_>,
    one: &DomainToolCall,
    how: &DomainToolFields,
) -> Result<Arguments, String> {
    let mut results = Map::new();
    let mut pointed: Vec<&str> = Vec::new();
    for other in one
        .waits_for
        .iter()
        .map(|place| &turn.state.domain_calls[*place])
    {
        let Some(DomainOutcome::Answer { result, shows, .. }) = &other.outcome else {
            if other.domain == one.domain {
                return Err("a query that it depends on has no answer".to_owned());
            }
            continue;
        };
        let name = if other.domain == one.domain {
            tool_of(turn.assistant, other).map(|tool| tool.tool)
        } else {
            Some(other.domain.to_string())
        };
        results.insert(name.unwrap_or_default(), result.clone());
        pointed.extend(shows.iter().map(String::as_str));
    }
    if pointed.is_empty() && points_back(&one.question) {
        pointed.extend(turn.state.shown.iter().map(|item| item.label.as_str()));
    }
    let conversation = turn.state.conversations.get(&one.domain);
    let context = json!({
        "question": one.question, "conversation_id": conversation, "results": results, "pointed": pointed,
    });
    rendered(turn, &how.arguments, &context)
}

fn rendered(
    turn: &Turn<'_>,
    templates: &Map<String, Value>,
    context: &Value,
) -> Result<Arguments, String> {
    let context = context.as_object().cloned().unwrap_or_default();
    let templates = Value::Object(templates.clone());
    let value = turn.assistant.templates.value(&templates, &context)?;
    let mut arguments = value.as_object().cloned().unwrap_or_default();
    // A template that renders to null leaves the argument out.
    arguments.retain(|_, value| !value.is_null());
    Ok(Arc::new(arguments))
}

/// Records the outcome of a query, and answers once all have one.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let Some(CallRequest::Tool(ToolCallRequest {
        index: Some(place), ..
    })) = turn.view.returned.map(|call| &call.request.0)
    else {
        return compose::fail(turn, "the outcome belongs to no query");
    };
    let (place, made) = (*place, returned.info);
    let attempts = earlier_attempts(turn);
    let outcome = match returned.outcome {
        Outcome::Done(_) => match returned.tool() {
            Ok(reply) => match take_reply(turn, place, &reply) {
                ReplyStatus::Outcome(outcome) => {
                    note(turn, place, Ok(&reply), made);
                    outcome
                }
                ReplyStatus::NotYet(call) => {
                    return Step {
                        calls: vec![*call],
                        ..Step::default()
                    };
                }
                ReplyStatus::TooLate => {
                    let failure = timed_out();
                    note(turn, place, Err(&failure), made);
                    DomainOutcome::Failed(failure.message)
                }
            },
            Err(failure) => DomainOutcome::Failed(failure.message),
        },
        Outcome::Failed(failure) => {
            note(turn, place, Err(&failure), made);
            DomainOutcome::Failed(failure_after(failure, attempts).cause())
        }
    };
    if let Some(one) = turn.state.domain_calls.get_mut(place) {
        one.outcome = Some(outcome);
    }
    go_on(turn)
}

/// The answer at the deadline, from the results so far. `None` without any.
pub(crate) fn at_deadline(turn: &mut Turn<'_>) -> Option<Step<Request>> {
    let answered = |one: &DomainToolCall| matches!(one.outcome, Some(DomainOutcome::Answer { .. }));
    if !turn.state.domain_calls.iter().any(answered) {
        return None;
    }
    let failure = timed_out();
    for place in 0..turn.state.domain_calls.len() {
        let one = &turn.state.domain_calls[place];
        if let (Some(call), None) = (&one.call, &one.outcome) {
            let made = CallInfo {
                call: call.id,
                started_at: call.started_at,
            };
            note(turn, place, Err(&failure), made);
        }
    }
    let gathered = gather(turn);
    Some(aggregate::compose(turn, gathered, None))
}

fn timed_out() -> Failure {
    Failure::unknown(FailureCode::ToolTimeout, "its time limit passed")
}

/// What a reply means for its query.
enum ReplyStatus {
    Outcome(DomainOutcome),
    /// No answer yet; this call polls for it.
    NotYet(Box<NewCall<Request>>),
    /// No answer yet, and no time left to poll.
    TooLate,
}

fn take_reply(turn: &Turn<'_>, place: usize, reply: &ToolReply) -> ReplyStatus {
    if reply.is_error {
        return ReplyStatus::Outcome(DomainOutcome::Declined(reply.text.clone()));
    }
    let taken = read(turn, place, reply);
    taken.unwrap_or_else(|why| {
        ReplyStatus::Outcome(DomainOutcome::Failed(
            FailureCode::DomainTemplate.because(why),
        ))
    })
}

fn read(turn: &Turn<'_>, place: usize, reply: &ToolReply) -> Result<ReplyStatus, String> {
    let one = turn
        .state
        .domain_calls
        .get(place)
        .ok_or("the state of the query is missing")?;
    let how = tool_of(turn.assistant, one).ok_or("the domain's tool is no longer in the app")?;
    let context = json!({ "result": reply.content });
    let fields = context.as_object().cloned().unwrap_or_default();
    let templates = &turn.assistant.templates;
    if let Some(poll) = &how.poll
        && templates.expression(&poll.running, &fields)? == Value::Bool(true)
    {
        let until_ms = one.call.as_ref().map_or(0, |call| call.until_ms);
        if turn.since_accepted_ms(turn.view.at) + poll.every_ms >= until_ms {
            return Ok(ReplyStatus::TooLate);
        }
        let arguments = rendered(turn, &poll.arguments, &context)?;
        let call = tool_call(turn, &poll.tool, &arguments, place, until_ms, poll.every_ms);
        return Ok(ReplyStatus::NotYet(Box::new(call)));
    }
    let text = match templates.expression(&how.gives, &fields)? {
        Value::String(text) if !text.trim().is_empty() => text,
        Value::Null | Value::String(_) => reply.text.clone(),
        other => other.to_string(),
    };
    let shows = match &how.shows {
        // The answer is given all the same; nothing in it can be pointed at.
        Some(shows) => templates
            .expression(shows, &fields)
            .unwrap_or_else(|cause| {
                let (task, tool) = (turn.view.facts.id, &how.tool);
                tracing::warn!(%task, tool, cause, "the items that an answer shows cannot be read");
                Value::Null
            }),
        None => Value::Null,
    };
    let unused = templates.expression(&how.unused, &fields)?;
    let is_needed = turn
        .state
        .domain_calls
        .iter()
        .any(|other| other.waits_for.contains(&place));
    Ok(ReplyStatus::Outcome(DomainOutcome::Answer {
        text,
        result: if is_needed {
            reply.content.clone()
        } else {
            Value::Null
        },
        shows: texts(&shows),
        unused: texts(&unused),
        conversation: templates
            .expression(&how.conversation, &fields)?
            .as_str()
            .map(str::to_owned),
    }))
}

/// The texts in a list.
fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// Adds an ended query to the task's tool calls: one record, however often it was polled.
fn note(turn: &mut Turn<'_>, place: usize, outcome: Result<&ToolReply, &Failure>, made: CallInfo) {
    let Some(one) = turn.state.domain_calls.get(place) else {
        return;
    };
    let fallback = one.call.as_ref().and_then(|call| call.fallback.clone());
    let own = || tool_of(turn.assistant, one).map_or_else(String::new, |how| how.tool);
    let tool = fallback.unwrap_or_else(own);
    let call = one.call.as_ref();
    let ended = EndedCall {
        id: call.map_or(made.call, |call| call.id),
        tool: &tool,
        domain: Some(one.domain.clone()),
        arguments: call
            .map(|call| (*call.arguments).clone())
            .unwrap_or_default(),
        started_at: call.map_or(made.started_at, |call| call.started_at),
    };
    record(turn, ended, outcome);
}

/// Collects the outcomes of all queries by domain, in the order in which the domains were chosen.
fn gather(turn: &mut Turn<'_>) -> Aggregation {
    let calls = std::mem::take(&mut turn.state.domain_calls);
    let catalogue = &turn.assistant.catalogue;
    let mut domains: Vec<&Name> = Vec::new();
    for one in &calls {
        if !domains.contains(&&one.domain) {
            domains.push(&one.domain);
        }
    }
    let mut gathered = Aggregation::of(match domains.as_slice() {
        [only] => only.as_str(),
        _ => "several",
    });
    let mut memory = Memory {
        domains: domains.iter().map(|domain| (*domain).clone()).collect(),
        ..Memory::default()
    };
    let (mut missing, mut declined) = (Vec::new(), Vec::new());
    for domain in &domains {
        let shown_as = catalogue
            .domain(domain)
            .map(|domain| domain.display_name.clone());
        let shown_as = shown_as.unwrap_or_else(|| domain.to_string());
        let mut answered = false;
        for one in calls.iter().filter(|one| one.domain == **domain) {
            match &one.outcome {
                Some(DomainOutcome::Answer {
                    text,
                    shows,
                    conversation,
                    ..
                }) => {
                    answered = true;
                    gathered.done.push(text.clone());
                    memory.shown.extend(shows.iter().map(|label| Item {
                        kind: String::new(),
                        id: label.clone(),
                        label: label.clone(),
                    }));
                    let conversation = conversation.clone().map(|id| ((*domain).clone(), id));
                    memory.conversations.extend(conversation);
                }
                Some(DomainOutcome::Declined(why)) => {
                    declined.push(why.clone());
                    gathered.miss(domain.to_string(), why.clone());
                }
                Some(DomainOutcome::Failed(why)) => gathered.miss(domain.to_string(), why.clone()),
                None => gathered.miss(domain.to_string(), "its time limit passed".to_owned()),
            }
        }
        if !answered {
            missing.push(shown_as);
        }
    }
    gathered.memory.add(memory);
    // In the order of the domains, whatever order they came in.
    let place = |call: &ToolCall| {
        domains
            .iter()
            .position(|domain| call.domain.as_ref() == Some(domain))
    };
    let mut calls_made = std::mem::take(&mut turn.state.tool_calls).into_items();
    calls_made.sort_by_key(place);
    turn.state.tool_calls.extend(calls_made);
    let completed = turn.state.tool_calls.items().iter();
    gathered.sources = completed
        .filter(|call| call.status == ToolCallStatus::Completed && call.domain.is_some())
        .map(|call| call.source())
        .collect();
    gathered.declined = declined;
    gathered.lacks = lacks(turn, &missing);
    add_hints(turn, &mut gathered, &calls, &domains);
    gathered
}

/// Names what the answered queries do not use of their questions, and suggests what to ask next.
fn add_hints(
    turn: &Turn<'_>,
    gathered: &mut Aggregation,
    calls: &[DomainToolCall],
    domains: &[&Name],
) {
    let catalogue = &turn.assistant.catalogue;
    let answered: Vec<AnsweredQuestion<'_>> = calls
        .iter()
        .filter_map(|one| match &one.outcome {
            Some(DomainOutcome::Answer { unused, .. }) => Some(AnsweredQuestion {
                question: &one.question,
                unused,
            }),
            _ => None,
        })
        .collect();
    let is_silent = |domain: &Name| {
        let answers =
            |one: &&DomainToolCall| matches!(one.outcome, Some(DomainOutcome::Answer { .. }));
        let mut own = calls.iter().filter(|one| one.domain == *domain);
        own.find(answers).is_none()
    };
    let is_for_silent = |part: &str| {
        let named = catalogue.named_domains(part);
        named
            .iter()
            .any(|name| domains.contains(&name) && is_silent(name))
    };
    gathered.unused = unused_by_all(&answered, is_for_silent);
    let result = turn
        .state
        .tool_calls
        .items()
        .iter()
        .find_map(|call| call.result.clone());
    let shown = gathered.memory.shown.iter().map(|item| &item.label);
    let shown: Vec<_> = shown.collect();
    let mut context = json!({ "question": turn.message() });
    // What the answer does not have is undefined, so that a template over it is left out.
    if !shown.is_empty() {
        context["shown"] = json!(shown);
    }
    if let Some(result) = result {
        context["result"] = result;
    }
    let suggestions = suggest(
        turn.assistant,
        &Answered {
            domains: domains.to_vec(),
            question: turn.message(),
            answer: gathered.done.join(" "),
            context: context.as_object().cloned().unwrap_or_default(),
            earlier: &turn.state.suggested,
        },
    );
    gathered.memory.suggested = remembered(&turn.state.suggested, &suggestions);
    gathered.suggestions = suggestions;
}

/// The sentence for the user about domains without an answer.
fn lacks(turn: &Turn<'_>, missing: &[String]) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let context = Map::from_iter([("missing".to_owned(), json!(missing))]);
    let template = &turn.assistant.app.config.messages.partial;
    let text = turn.assistant.templates.text(template, &context);
    Some(text.unwrap_or_else(|_| missing.join(", ")))
}
