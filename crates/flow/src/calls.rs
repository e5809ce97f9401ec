//! Calls that the nodes request and the replies that the performer returns. Both are journaled.

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{Failure, FailureKind, NewCall, Outcome, Step, UnusableAnswer};
use convoke_model::Name;
use convoke_tools::{Arguments, FailureCode, ToolReply};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::fallback::FailedAttempt;
use crate::input::ConversationExcerpt;
use crate::interpret::RequestedAction;
use crate::memory::{RequestTarget, Topic};
use crate::nodes::agent::sub_agents::SubTask;
use crate::nodes::agent::{Thought, ThoughtRequest};
use crate::nodes::aggregate::Facts;
use crate::nodes::decide::DecisionReply;
use crate::nodes::route::Routing;
use crate::toolbox::wait_time;

/// The request of an assistant's call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Request(pub(crate) CallRequest);

/// The reply to an assistant's call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reply(pub(crate) CallReply);

/// Work that the performer carries out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum CallRequest {
    /// Classify the user's message.
    Decide(DecisionContext),
    /// Let a model choose who answers.
    Route(Routing),
    /// Let a model write one answer from several results.
    Synthesise(Facts),
    /// Call a tool.
    Tool(ToolCallRequest),
    /// Ask a model for an agent's next thought.
    Model(ThoughtRequest),
    /// Run a sub-task of another agent or of a workflow.
    Child(Box<SubTask>),
    /// Start the workflow of a skill, once a person has approved it.
    Workflow(WorkflowStart),
    /// Ask a person.
    Person {
        /// Their comment and changes, once they have answered.
        #[serde(rename = "said", default, skip_serializing_if = "Option::is_none")]
        answer: Option<Value>,
    },
    /// Any of the above, at a node of a workflow.
    At(NodeAction),
}

/// The start of a skill's workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkflowStart {
    pub(crate) workflow: Name,
    /// Its initial state.
    pub(crate) inputs: Arguments,
}

/// Context of a message that is to be classified.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DecisionContext {
    /// Its target, if it is a part of a longer message.
    #[serde(rename = "goal", default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<RequestTarget>,
    /// What it asks for, if whoever routed it knows that already: also what answers an open question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<Box<RequestedAction>>,
    /// The topic of the part before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<Topic>,
    /// What a child may read of its parent's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// A call at a node of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeAction {
    pub(crate) node: Name,
    /// Index of the item, for a node that runs for each item of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<usize>,
    /// Delay before a retry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) delay_ms: u64,
    #[serde(rename = "ask")]
    pub(crate) request: Box<CallRequest>,
}

impl ToolCallRequest {
    /// How long a call waits that does nothing else.
    pub(crate) fn waits(&self) -> Option<Duration> {
        wait_time(&self.tool, &self.arguments)
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolCallRequest {
    /// As `tool` or `server.tool`.
    pub(crate) tool: String,
    pub(crate) arguments: Arguments,
    /// Its index among the calls of a thought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<usize>,
    /// Deadline of the agent run that makes the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until_ms: Option<u64>,
    /// Delay before the call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) delay_ms: u64,
    /// Whether it only queries: a lost answer then needs no verification.
    #[serde(rename = "asks", default, skip_serializing_if = "is_default")]
    pub(crate) is_query: bool,
    /// The failed attempts in whose place it is made, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attempts: Vec<FailedAttempt>,
}

/// The reply of the performer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallReply {
    /// What the user means.
    Decided(Box<DecisionReply>),
    /// The reply of a tool or of a sub-task.
    Tool(Box<ToolReply>),
    /// The output of a model.
    Thought(Box<Thought>),
    /// A person's comment and changes, if they did more than approve.
    Person(Option<Value>),
}

impl Request {
    /// The request with the arguments that a person changed.
    pub(crate) fn with_arguments(&self, value: Value) -> Result<Self, UnusableAnswer> {
        self.0.with_arguments(value).map(Self)
    }

    /// The fields of a workflow's state that a person set.
    pub(crate) fn state_updates(&self) -> Option<&Map<String, Value>> {
        match self.0.innermost() {
            CallRequest::Person { answer } => answer.as_ref()?.get(STATE_UPDATES)?.as_object(),
            _ => None,
        }
    }

    /// The tool call of the request, if it is one.
    pub(crate) fn tool_call(&self) -> Option<&ToolCallRequest> {
        match self.0.innermost() {
            CallRequest::Tool(tool_call) => Some(tool_call),
            _ => None,
        }
    }

    /// The request with the comment of the person who approved it.
    pub(crate) fn agreed(&self, message: &str) -> Self {
        Self(self.0.agreed(message))
    }

    /// A reply that a person enters for a call whose outcome is unknown.
    pub(crate) fn manual_reply(&self, value: Value) -> Result<Reply, String> {
        let Some(tool_call) = self.tool_call() else {
            return Err("only the result of a tool can be entered by hand".into());
        };
        let (server, tool) = tool_call
            .tool
            .split_once('.')
            .unwrap_or(("", &tool_call.tool));
        let reply = ToolReply::of(server, tool, value);
        Ok(Reply(CallReply::Tool(Box::new(reply))))
    }
}

/// The code of an answer with an argument that the call does not take.
pub(crate) const ARGUMENT_UNKNOWN: &str = "answer.argument_unknown";

/// The code of an answer with arguments that do not fit.
pub(crate) const ARGUMENT_TYPE: &str = "answer.argument_type";

/// The codes of calls that a person rejected or did not answer in time.
const DECIDED_AGAINST: [FailureCode; 2] = [FailureCode::CallRejected, FailureCode::CallUnanswered];

/// Whether a failed call may be retried or replaced: it certainly changed nothing, and no person decided against it.
pub(crate) fn may_be_replaced(request: &CallRequest, outcome: &Outcome<Reply>) -> bool {
    let decided_against = matches!(
        outcome,
        Outcome::Failed(failure) if DECIDED_AGAINST.iter().any(|code| failure.is(*code))
    );
    !decided_against && request.changed_nothing(outcome)
}

impl CallRequest {
    /// Whether it may have an effect. Conservative: the tool's description may say otherwise.
    pub(crate) fn may_act(&self) -> bool {
        matches!(self.innermost(), Self::Tool(_) | Self::Child(_))
    }

    /// Whether the outcome proves that nothing was changed. A tool's own error does; a failed sub-task may have had
    /// effects before it failed.
    pub(crate) fn changed_nothing(&self, outcome: &Outcome<Reply>) -> bool {
        match outcome {
            Outcome::Failed(failure) => failure.kind == FailureKind::NoEffect,
            Outcome::Done(Reply(CallReply::Tool(reply))) => {
                let is_tool = matches!(self.innermost(), Self::Tool(_));
                reply.changed_nothing || (is_tool && reply.is_error)
            }
            Outcome::Done(_) => false,
        }
    }

    /// The call itself, without the node that makes it.
    pub(crate) fn innermost(&self) -> &Self {
        match self {
            Self::At(at) => &at.request,
            request => request,
        }
    }

    /// The node that makes it, in a workflow.
    pub(crate) fn node(&self) -> Option<&Name> {
        match self {
            Self::At(at) => Some(&at.node),
            _ => None,
        }
    }

    /// Delay before it is carried out.
    pub(crate) fn delay(&self) -> Duration {
        match self {
            Self::At(at) => Duration::from_millis(at.delay_ms) + at.request.delay(),
            Self::Tool(tool_call) => {
                Duration::from_millis(tool_call.delay_ms) + tool_call.waits().unwrap_or_default()
            }
            Self::Child(sub_task) => Duration::from_millis(sub_task.delay_ms),
            Self::Model(request) => Duration::from_millis(request.delay_ms),
            Self::Decide(_)
            | Self::Route(_)
            | Self::Synthesise(_)
            | Self::Workflow(_)
            | Self::Person { .. } => Duration::ZERO,
        }
    }

    fn agreed(&self, message: &str) -> Self {
        match self {
            Self::Person { .. } => Self::Person {
                answer: Some(json!({ "action": "approve", "message": message })),
            },
            Self::At(at) => Self::At(NodeAction {
                request: Box::new(at.request.agreed(message)),
                ..at.clone()
            }),
            other => other.clone(),
        }
    }

    fn with_arguments(&self, value: Value) -> Result<Self, UnusableAnswer> {
        let Value::Object(fields) = value else {
            return Err("arguments are a JSON object".into());
        };
        Ok(match self {
            Self::Tool(tool_call) => Self::Tool(ToolCallRequest {
                arguments: Arc::new(changed(&tool_call.arguments, fields)?),
                ..tool_call.clone()
            }),
            Self::Child(sub_task) => {
                let arguments = changed(&sub_task.arguments, fields)?;
                check_sub_task(&arguments)?;
                Self::Child(Box::new(SubTask {
                    arguments: Arc::new(arguments),
                    ..(**sub_task).clone()
                }))
            }
            Self::Workflow(start) => Self::Workflow(start.with_inputs(fields)?),
            Self::Person { .. } => Self::Person {
                answer: Some(feedback(fields)?),
            },
            Self::At(at) => Self::At(NodeAction {
                request: Box::new(at.request.with_arguments(Value::Object(fields))?),
                ..at.clone()
            }),
            Self::Decide(_) | Self::Route(_) | Self::Synthesise(_) | Self::Model(_) => {
                return Err("this call takes no arguments".into());
            }
        })
    }
}

/// Key of a person's answer for the fields that they set, one by one.
const STATE_UPDATES: &str = "state_updates";

/// The arguments of a call as a person gives them: all of them, or single ones under `state_updates`, over those that the
/// call has.
fn changed(
    given: &Map<String, Value>,
    mut fields: Map<String, Value>,
) -> Result<Map<String, Value>, UnusableAnswer> {
    if given.contains_key(STATE_UPDATES) || !fields.contains_key(STATE_UPDATES) {
        return Ok(fields);
    }
    let Some(Value::Object(updates)) = fields.remove(STATE_UPDATES) else {
        return Err("`state_updates` is an object, by the names of arguments".into());
    };
    if updates.is_empty() {
        return Err("to change something, set an argument; otherwise approve".into());
    }
    if let Some(other) = fields.keys().find(|key| *key != "message") {
        return Err(format!("`{other}` does not go with `state_updates`").into());
    }
    let mut arguments = given.clone();
    arguments.extend(updates);
    Ok(arguments)
}

/// Checks the arguments of a sub-task: what is to be done, and nothing else.
fn check_sub_task(arguments: &Map<String, Value>) -> Result<(), UnusableAnswer> {
    if let Some(other) = arguments.keys().find(|key| *key != "task") {
        let why = format!("a sub-task has no argument `{other}`; it has `task`, what to do");
        return Err(UnusableAnswer::new(ARGUMENT_UNKNOWN, why));
    }
    let task = arguments.get("task").and_then(Value::as_str);
    if task.is_none_or(|task| task.trim().is_empty()) {
        let why = "`task` is a text that says what to do";
        return Err(UnusableAnswer::new(ARGUMENT_TYPE, why));
    }
    Ok(())
}

impl WorkflowStart {
    /// The same with other values of its inputs: under `state_updates`, or as they are.
    fn with_inputs(&self, mut fields: Map<String, Value>) -> Result<Self, String> {
        let updates = match fields.shift_remove("state_updates") {
            Some(Value::Object(updates)) => updates,
            Some(_) => return Err("`state_updates` are a JSON object".into()),
            None => fields,
        };
        for (input, value) in &updates {
            let Some(given) = self.inputs.get(input) else {
                return Err(format!("the workflow was given no input `{input}`"));
            };
            if std::mem::discriminant(given) != std::mem::discriminant(value) {
                return Err(format!(
                    "the input `{input}` is {given}; {value} is of another type"
                ));
            }
        }
        let mut inputs = (*self.inputs).clone();
        inputs.extend(updates);
        Ok(Self {
            inputs: Arc::new(inputs),
            ..self.clone()
        })
    }
}

/// Checks a person's input at a human node: updates of the state, and a comment.
fn feedback(fields: Map<String, Value>) -> Result<Value, String> {
    let updates = fields.get(STATE_UPDATES).and_then(Value::as_object);
    if updates.is_none_or(Map::is_empty) {
        return Err("to change something, give `state_updates`; otherwise approve".into());
    }
    let is_known = |key: &String| matches!(key.as_str(), STATE_UPDATES | "message");
    if let Some(other) = fields.keys().find(|key| !is_known(key)) {
        return Err(format!(
            "a person gives `state_updates` and a `message`, and no `{other}`"
        ));
    }
    Ok(Value::Object(fields))
}

impl From<CallRequest> for Request {
    fn from(request: CallRequest) -> Self {
        Self(request)
    }
}

/// For serde: defaults are left out of journal entries.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A step that makes one call without approval.
pub(crate) fn one_call(label: impl Into<String>, request: CallRequest) -> Step<Request> {
    Step {
        calls: vec![NewCall {
            label: label.into(),
            request: request.into(),
            approval: None,
        }],
        ..Step::default()
    }
}

/// A call that has just returned.
pub(crate) struct ReturnedCall {
    pub(crate) info: CallInfo,
    pub(crate) outcome: Outcome<Reply>,
}

/// Identity and start of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallInfo {
    pub(crate) call: Uuid,
    pub(crate) started_at: Timestamp,
}

impl ReturnedCall {
    /// The decision, or why there is none.
    pub(crate) fn decided(self) -> Result<DecisionReply, Failure> {
        match self.reply()? {
            CallReply::Decided(decided) => Ok(*decided),
            _ => Err(unexpected_reply()),
        }
    }

    /// The tool's reply, or why there is none.
    pub(crate) fn tool(self) -> Result<ToolReply, Failure> {
        match self.reply()? {
            CallReply::Tool(reply) => Ok(*reply),
            _ => Err(unexpected_reply()),
        }
    }

    /// The model's output, or why there is none.
    pub(crate) fn thought(self) -> Result<Thought, Failure> {
        match self.reply()? {
            CallReply::Thought(thought) => Ok(*thought),
            _ => Err(unexpected_reply()),
        }
    }

    /// Whether a person approved, or why not.
    pub(crate) fn approval(self) -> Result<(), Failure> {
        match self.reply()? {
            CallReply::Person(_) => Ok(()),
            _ => Err(unexpected_reply()),
        }
    }

    fn reply(self) -> Result<CallReply, Failure> {
        match self.outcome {
            Outcome::Done(Reply(reply)) => Ok(reply),
            Outcome::Failed(failure) => Err(failure),
        }
    }
}

fn unexpected_reply() -> Failure {
    let message = "the call returned another kind of reply than requested";
    Failure::unknown(FailureCode::CallUnexpected, message)
}
