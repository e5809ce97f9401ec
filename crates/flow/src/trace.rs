//! Converts a task's journal to a trace: steps with times, durations and costs. Redaction rules apply to every step.

use std::collections::HashMap;
use std::time::Duration;

use convoke_engine::{Call, Event, Outcome, QuestionAnswer};
use convoke_llm::extract_json;
use convoke_model::{
    Invalid, LlmCall, LlmCallFields, Message, Name, Redaction, Role, SessionStatus, StepRecord,
    StepRecordFields, StepStatus, SubAgentSessionInfo, TaskState, ToolCall, Trace,
};
use convoke_store::{Entry, LoadedTask};
use convoke_telemetry::TraceContext;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::calls::{CallReply, CallRequest, Reply, Request};
use crate::input::TaskInput;
use crate::nodes::agent::sub_agents::Addressee;
use crate::nodes::graph::{ConditionOutcome, ConditionReader, JudgedCondition};

/// Limit of a step's message, in characters.
const SUMMARY_CHARACTERS: usize = 200;

/// Builds the trace of a task from its journal and its children.
pub fn trace(
    task: &LoadedTask,
    children: &[&LoadedTask],
    redaction: &Redaction,
) -> Result<Trace, Invalid> {
    let mut trace = Trace::begin(task.record.id, task.record.created_at)?;
    let context = task.record.trace.as_deref().and_then(TraceContext::parse);
    if let Some(context) = context {
        trace = trace.within(context.trace_id().to_string())?;
    }
    let mut reader = Reader::default();
    let mut conditions = ConditionReader::default();
    for entry in &task.entries {
        if let Some(step) = reader.step(entry, &task.messages[..])? {
            trace = trace.record(step, redaction, entry.at)?;
        }
        for condition in conditions.next(entry) {
            let step = StepRecord::new(judged(&condition, entry.at))?;
            trace = trace.record(step, redaction, entry.at)?;
        }
        reader.remember(entry);
    }
    for child in children {
        if let Some(session) = session(child) {
            trace = trace.follow(session, child.record.completed_at.unwrap_or_default())?;
        }
    }
    Ok(trace)
}

/// State from earlier entries that later ones refer to.
#[derive(Default)]
struct Reader {
    open: HashMap<Uuid, Call<Request>>,
    /// The time of each question.
    questions: HashMap<Uuid, Timestamp>,
}

/// The open calls and questions in an entry's state.
#[derive(Deserialize)]
struct Open {
    #[serde(default = "Vec::new")]
    open: Vec<Call<Request>>,
    #[serde(default)]
    questions: Vec<OpenCall>,
}

#[derive(Deserialize)]
struct OpenCall {
    id: Uuid,
}

impl Reader {
    fn remember(&mut self, entry: &Entry) {
        let Ok(state) = entry.state.read::<Open>() else {
            return;
        };
        for question in state.questions {
            self.questions.entry(question.id).or_insert(entry.at);
        }
        self.open
            .extend(state.open.into_iter().map(|call| (call.id, call)));
    }

    /// The step of an entry. `None` if it has none.
    fn step(
        &self,
        entry: &Entry,
        messages: &[convoke_store::StoredMessage],
    ) -> Result<Option<StepRecord>, Invalid> {
        let Ok(event) = Event::<Reply>::deserialize(&entry.event) else {
            let unreadable = step(&entry.kind, entry.at, "the entry cannot be read");
            return StepRecord::new(failed(unreadable, "journal.unreadable")).map(Some);
        };
        let fields = match event {
            Event::Submitted { .. } => {
                let message = messages
                    .iter()
                    .find(|stored| stored.message.role == Role::User);
                let message = message.map_or("", |stored| stored.message.content.as_str());
                step("submitted", entry.at, message)
            }
            Event::Returned {
                call,
                label,
                outcome,
                duration_ms,
                ..
            } => match self.returned(entry, call, &label, outcome, duration_ms)? {
                Some(fields) => fields,
                None => return Ok(None),
            },
            Event::Answered {
                question,
                answer,
                by,
            } => {
                let mut fields = self.answered(entry, question, &answer);
                if let Some(by) = by {
                    fields.input_data.insert("by".into(), json!(by));
                }
                fields
            }
            Event::Started { .. } | Event::Reminded { .. } => return Ok(None),
            Event::Resumed { .. } => step("resumed", entry.at, "a worker took the task up again"),
            Event::Postponed {
                call,
                pause_ms,
                cause,
            } => {
                let (label, pause) = (self.label(call), Duration::from_millis(pause_ms));
                let message = format!("{label} is to be tried again in {pause:.1?}: {cause}");
                warning(step("postponed", entry.at, &message))
            }
            Event::OutcomeUnknown { call, cause, .. } => {
                let label = self.label(call);
                let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
                let message =
                    format!("{label} may or may not have taken effect{cause}; a person is asked");
                warning(step("outcome_unknown", entry.at, &message))
            }
            Event::Verified { call, took_effect } => {
                let label = self.label(call);
                let message = match took_effect {
                    Some(true) => format!("{label} took effect"),
                    Some(false) => format!("{label} did not take effect"),
                    None => format!("nobody can tell whether {label} took effect"),
                };
                warning(step("verified", entry.at, &message))
            }
            Event::Forked { from, at, set } => StepRecordFields {
                input_data: set,
                ..step("forked", entry.at, &format!("begun at step {at} of {from}"))
            },
            Event::PutBack { why } => warning(step("put_back", entry.at, &why)),
            Event::Signalled { kind, payload } => StepRecordFields {
                input_data: Map::from_iter([("payload".to_owned(), payload)]),
                ..step("signalled", entry.at, &kind)
            },
            Event::Canceled { reason } => {
                warning(step("canceled", entry.at, &reason.unwrap_or_default()))
            }
            Event::DeadlineReached => failed(
                step("deadline_reached", entry.at, ""),
                "the task's time was over",
            ),
            Event::Poisoned { claims } => failed(
                step("poisoned", entry.at, ""),
                &format!("set aside after {claims} claims without progress"),
            ),
            Event::SetAside { cause } => failed(step("set_aside", entry.at, ""), &cause),
        };
        StepRecord::new(fields).map(Some)
    }

    fn label(&self, call: Uuid) -> &str {
        let call = self.open.get(&call);
        call.map_or("the call", |call| call.label.as_str())
    }

    fn answered(&self, entry: &Entry, question: Uuid, answer: &QuestionAnswer) -> StepRecordFields {
        let question_at = self.questions.get(&question).copied().unwrap_or(entry.at);
        let message = match answer {
            QuestionAnswer::Approve { message } | QuestionAnswer::Reject { message } => {
                let message = message.as_deref().map(|text| format!(": {text}"));
                format!("{}{}", answer.action(), message.unwrap_or_default())
            }
            QuestionAnswer::Modify { value } => format!("modify: {value}"),
            QuestionAnswer::Snooze { pause_ms } => {
                format!(
                    "asked to be asked again in {:?}",
                    Duration::from_millis(*pause_ms)
                )
            }
            QuestionAnswer::Expired => "nobody answered in time".to_owned(),
        };
        let mut fields = StepRecordFields {
            action: Some("person".into()),
            timestamp: question_at,
            duration_ms: millis(question_at, entry.at),
            ..step(self.label(question), entry.at, &summary(&message))
        };
        if matches!(answer, QuestionAnswer::Expired) {
            fields.status = StepStatus::Warning;
        }
        fields
    }

    /// The step of a returned call. `None` for a person's answer, which has its own step.
    fn returned(
        &self,
        entry: &Entry,
        id: Uuid,
        label: &str,
        outcome: Outcome<Reply>,
        duration_ms: u64,
    ) -> Result<Option<StepRecordFields>, Invalid> {
        let took = Duration::from_millis(duration_ms);
        let began = entry.at.checked_sub(took).unwrap_or(entry.at);
        let request = self.open.get(&id).map(|call| call.request.0.innermost());
        let mut fields = StepRecordFields {
            timestamp: began,
            duration_ms,
            ..step(label, entry.at, "")
        };
        let span = Span {
            began,
            ended: entry.at,
        };
        match request {
            Some(CallRequest::Person { .. }) => return Ok(None),
            Some(CallRequest::Workflow(start)) => {
                fields.action = Some("workflow".into());
                fields.input_data.clone_from(&start.inputs);
            }
            Some(CallRequest::Decide(_)) | None => fields.action = Some("decide".into()),
            Some(CallRequest::Route(_)) => {
                fields.action = Some("route".into());
                fields
                    .llm_calls
                    .push(llm_call("the router", &outcome, span, duration_ms)?);
            }
            Some(CallRequest::Synthesise(_)) => {
                fields.action = Some("synthesise".into());
                fields
                    .llm_calls
                    .push(llm_call("the aggregator", &outcome, span, duration_ms)?);
            }
            Some(CallRequest::At(_)) => fields.action = Some("node".into()),
            Some(CallRequest::Tool(request)) => {
                fields.action = Some("tool".into());
                if !request.attempts.is_empty() {
                    let attempts = json!(request.attempts);
                    fields.input_data.insert("instead_of".into(), attempts);
                }
                fields.tool_calls.push(tool_call(
                    id,
                    &request.tool,
                    &request.arguments,
                    &outcome,
                    span,
                )?);
            }
            Some(CallRequest::Model(request)) => {
                fields.action = Some("model".into());
                fields.agent = Some(request.agent.clone());
                fields.llm_calls.push(llm_call(
                    request.agent.as_str(),
                    &outcome,
                    span,
                    duration_ms,
                )?);
            }
            Some(CallRequest::Child(sub_task)) => {
                let (action, agent) = match &sub_task.addressee {
                    Addressee::Agent(agent) | Addressee::Request(agent) => {
                        ("agent", Some(agent.clone()))
                    }
                    Addressee::Workflow(_) => ("workflow", None),
                };
                fields.action = Some(action.into());
                fields.agent = agent;
                fields.input_data.clone_from(&sub_task.arguments);
            }
        }
        Ok(Some(match outcome {
            Outcome::Failed(failure) => failed(fields, &failure.cause()),
            Outcome::Done(Reply(reply)) => with_reply(fields, reply),
        }))
    }
}

/// The step of a condition.
fn judged(condition: &JudgedCondition, at: Timestamp) -> StepRecordFields {
    let mut fields = StepRecordFields {
        action: Some("condition".into()),
        ..step(&condition.place(), at, "")
    };
    match &condition.outcome {
        ConditionOutcome::Value(value) => {
            fields.message = summary(&value.to_string());
            fields.output_data.insert("value".into(), value.clone());
            fields
        }
        ConditionOutcome::Error(cause) => failed(fields, cause),
    }
}

/// Start and end of a call.
#[derive(Clone, Copy)]
struct Span {
    began: Timestamp,
    ended: Timestamp,
}

/// Adds the reply of a call to its step.
fn with_reply(mut fields: StepRecordFields, reply: CallReply) -> StepRecordFields {
    match reply {
        CallReply::Decided(decided) => {
            let decided = json!(decided);
            let meaning = decided["meaning"].as_str().unwrap_or_default();
            let parts = decided["questions"]
                .as_array()
                .or(decided["parts"].as_array());
            let parts = parts.into_iter().flatten().filter_map(|part| {
                let target = &part["target"];
                let chosen = [&part["domain"], &target["skill"], &target["domain"]];
                chosen.into_iter().find_map(Value::as_str)
            });
            let several = parts.collect::<Vec<_>>().join(", ");
            let chosen = match decided["target"]["skill"].as_str() {
                Some(skill) => skill,
                None if several.is_empty() => meaning,
                None => &several,
            };
            let slots = decided["slots"].as_object().into_iter().flatten();
            let slots = slots.map(|(name, slot)| format!("{name}={slot}"));
            let words: Vec<_> = std::iter::once(chosen.to_owned()).chain(slots).collect();
            fields.message = summary(&words.join(" "));
        }
        CallReply::Tool(reply) if reply.is_error => return failed(fields, &summary(&reply.text)),
        CallReply::Tool(reply) => {
            if let Some(mismatch) = &reply.schema_mismatch {
                fields.status = StepStatus::Warning;
                fields
                    .output_data
                    .insert("schema_mismatch".into(), mismatch.as_str().into());
            }
            fields.message = summary(&match fields.action.as_deref() {
                Some("tool") => reply.content.to_string(),
                _ => reply.text,
            });
            if let (Some("agent" | "workflow"), Some(task)) =
                (fields.action.as_deref(), reply.content.get("task"))
            {
                fields.output_data.insert("task".into(), task.clone());
            }
        }
        CallReply::Thought(thought) => {
            let calls: Vec<_> = thought
                .calls
                .iter()
                .map(|call| call.name.as_str())
                .collect();
            fields.message = if fields.action.as_deref() == Some("route") {
                summary(&chosen(&thought.text))
            } else if calls.is_empty() {
                summary(&thought.text)
            } else {
                format!("calls {}", calls.join(", "))
            };
        }
        CallReply::Person(answer) => {
            fields.message = summary(&answer.unwrap_or_default().to_string());
        }
    }
    fields
}

/// The names that a model chose, in its order; or its raw text if it chose none.
fn chosen(written: &str) -> String {
    let choice = extract_json(written).unwrap_or_default();
    let targets = choice["targets"].as_array().into_iter().flatten();
    let names: Vec<&str> = targets
        .filter_map(|target| target["name"].as_str())
        .collect();
    if names.is_empty() {
        return written.to_owned();
    }
    names.join(", ")
}

fn tool_call(
    id: Uuid,
    tool: &str,
    arguments: &Map<String, Value>,
    outcome: &Outcome<Reply>,
    span: Span,
) -> Result<ToolCall, Invalid> {
    let (server, name) = match outcome {
        Outcome::Done(Reply(CallReply::Tool(reply))) if !reply.server.is_empty() => {
            (reply.server.as_str(), reply.tool.as_str())
        }
        _ => tool.split_once('.').unwrap_or(("unknown", tool)),
    };
    let call = ToolCall::pending(id, Name::new(server)?, name, arguments.clone())?;
    let call = call.start(span.began)?;
    match outcome {
        Outcome::Done(Reply(CallReply::Tool(reply))) if reply.is_error => {
            call.fail(reply.text.clone(), span.ended)
        }
        Outcome::Done(Reply(CallReply::Tool(reply))) => {
            let ended = call.complete(reply.content.clone(), span.ended)?;
            ended.with(|call| call.schema_mismatch.clone_from(&reply.schema_mismatch))
        }
        Outcome::Done(_) => call.complete(Value::Null, span.ended),
        Outcome::Failed(failure) if is_timeout(&failure.code) => {
            call.time_out(failure.cause(), span.ended)
        }
        Outcome::Failed(failure) => call.fail(failure.cause(), span.ended),
    }
}

/// Whether a call failed because it had no more time, whichever client says so.
fn is_timeout(code: &str) -> bool {
    code.ends_with("timeout") || code.ends_with("timed_out")
}

fn llm_call(
    caller: &str,
    outcome: &Outcome<Reply>,
    span: Span,
    duration_ms: u64,
) -> Result<LlmCall, Invalid> {
    let mut fields = LlmCallFields {
        model: format!("the model of {caller}"),
        started_at: span.began,
        duration_ms,
        input_tokens: 0,
        output_tokens: 0,
        success: true,
        error: None,
    };
    match outcome {
        Outcome::Done(Reply(CallReply::Thought(thought))) => {
            fields.model.clone_from(&thought.model);
            fields.input_tokens = thought.usage.input_tokens;
            fields.output_tokens = thought.usage.output_tokens;
        }
        Outcome::Done(_) => {}
        Outcome::Failed(failure) => {
            fields.success = false;
            fields.error = Some(failure.cause());
        }
    }
    LlmCall::new(fields)
}

/// The session entry of a child task.
fn session(child: &LoadedTask) -> Option<SubAgentSessionInfo> {
    let event = Event::<Value>::deserialize(&child.entries.first()?.event).ok()?;
    let Event::Submitted { input } = event else {
        return None;
    };
    let Ok(TaskInput::Child(input)) = TaskInput::read(&input) else {
        return None;
    };
    let counted = |stored: &&convoke_store::StoredMessage| is_counted(&stored.message);
    Some(SubAgentSessionInfo {
        session_id: child.record.id,
        agent: input.addressee.name().clone(),
        message_count: child.messages.iter().filter(counted).count(),
        status: match child.record.status {
            TaskState::Completed => SessionStatus::Completed,
            state if state.is_final() => SessionStatus::Failed,
            _ => SessionStatus::Running,
        },
    })
}

/// Whether a message counts as part of the session.
fn is_counted(message: &Message) -> bool {
    message.role != Role::System
}

fn step(name: &str, at: Timestamp, message: &str) -> StepRecordFields {
    StepRecordFields {
        step_name: if name.is_empty() { "step" } else { name }.to_owned(),
        message: summary(message),
        timestamp: at,
        status: StepStatus::Info,
        agent: None,
        action: None,
        input_data: Map::new(),
        output_data: Map::new(),
        tool_calls: Vec::new(),
        llm_calls: Vec::new(),
        duration_ms: 0,
        error: None,
    }
}

fn failed(mut fields: StepRecordFields, error: &str) -> StepRecordFields {
    fields.status = StepStatus::Error;
    fields.error = Some(if error.trim().is_empty() {
        "it failed".to_owned()
    } else {
        error.to_owned()
    });
    fields
}

fn warning(mut fields: StepRecordFields) -> StepRecordFields {
    fields.status = StepStatus::Warning;
    fields
}

fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}

/// The first characters of a text, in one line.
fn summary(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SUMMARY_CHARACTERS {
        return line;
    }
    line.chars()
        .take(SUMMARY_CHARACTERS - 1)
        .chain(['…'])
        .collect()
}
