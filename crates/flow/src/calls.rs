//! What the nodes ask the performer for, and what it gives back. Both stand in the journal.

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{Failure, FailureKind, NewCall, Outcome, Step};
use convoke_model::Name;
use convoke_tools::{Arguments, FailureCode, ToolReply};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::input::ConversationExcerpt;
use crate::memory::{RequestTarget, Topic};
use crate::nodes::agent::sub_agents::SubTask;
use crate::nodes::agent::{Thought, ThoughtRequest};
use crate::nodes::aggregate::Facts;
use crate::nodes::decide::DecisionReply;
use crate::nodes::route::Routing;
use crate::toolbox::wait_time;

/// What an assistant's call asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Request(pub(crate) CallRequest);

/// What an assistant's call gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reply(pub(crate) CallReply);

/// What is to be done outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum CallRequest {
    /// Find out what the user means.
    Decide(DecisionContext),
    /// Let a model say who answers.
    Route(Routing),
    /// Let a model write one text from several results.
    Synthesise(Facts),
    /// Call a tool.
    Tool(ToolCallRequest),
    /// Let a model think.
    Model(ThoughtRequest),
    /// Let another agent, or a workflow, do a part of the work.
    Child(Box<SubTask>),
    /// Ask a person.
    Person {
        /// What they said and changed, once they have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<Value>,
    },
    /// Do one of these at a node of a workflow.
    At(NodeAction),
}

/// What is known of a message before it is read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DecisionContext {
    /// What it is for, where it is a part of a longer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<RequestTarget>,
    /// What the part before it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<Topic>,
    /// What a child may read of its parent's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// What is done at a node of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeAction {
    pub(crate) node: Name,
    /// Which item of a list it is done for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<usize>,
    /// How long to wait first, after an attempt that failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) delay_ms: u64,
    pub(crate) ask: Box<CallRequest>,
}

impl ToolCallRequest {
    /// How long a call waits that does nothing else.
    pub(crate) fn waits(&self) -> Option<Duration> {
        wait_time(&self.tool, &self.arguments)
    }
}

/// A tool that is to be called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolCallRequest {
    /// As `tool` or `server.tool`.
    pub(crate) tool: String,
    pub(crate) arguments: Arguments,
    /// Which of a thought's calls it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<usize>,
    /// When the time of the run that calls it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until_ms: Option<u64>,
    /// How long to wait first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) delay_ms: u64,
    /// Whether it only asks something, so that without an answer there is nothing to find out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) asks: bool,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallReply {
    /// What the user means.
    Decided(Box<DecisionReply>),
    /// What a tool, or another agent, said.
    Tool(Box<ToolReply>),
    /// What a model said.
    Thought(Box<Thought>),
    /// What a person said, and changed, if they did more than agree.
    Person(Option<Value>),
}

impl Request {
    /// The same request with other arguments, as a person wants it.
    pub(crate) fn with_arguments(&self, value: Value) -> Result<Self, String> {
        self.0.with_arguments(value).map(Self)
    }

    /// The same request, with what a person who agreed to it said.
    pub(crate) fn agreed(&self, message: &str) -> Self {
        Self(self.0.agreed(message))
    }

    /// What a person says came of the call.
    pub(crate) fn replied_by_hand(&self, value: Value) -> Result<Reply, String> {
        let CallRequest::Tool(tool_call) = self.0.itself() else {
            return Err("only the result of a tool can be given by hand".into());
        };
        let (server, tool) = tool_call
            .tool
            .split_once('.')
            .unwrap_or(("", &tool_call.tool));
        let reply = ToolReply::of(server, tool, value);
        Ok(Reply(CallReply::Tool(Box::new(reply))))
    }
}

/// The codes of calls that a person decided against, by a word or by saying nothing.
const DECIDED_AGAINST: [FailureCode; 2] = [FailureCode::CallRejected, FailureCode::CallUnanswered];

/// Whether something may be done in the place of a call that failed: it certainly changed nothing, and no person
/// decided against it.
pub(crate) fn may_be_replaced(ask: &CallRequest, outcome: &Outcome<Reply>) -> bool {
    let decided_against = matches!(
        outcome,
        Outcome::Failed(failure) if DECIDED_AGAINST.iter().any(|code| failure.is(*code))
    );
    !decided_against && ask.changed_nothing(outcome)
}

impl CallRequest {
    /// Whether it may change something outside. Who knows the tool knows better.
    pub(crate) fn may_act(&self) -> bool {
        matches!(self.itself(), Self::Tool(_) | Self::Child(_))
    }

    /// Whether it is certain, by what came of it, that nothing was changed. A tool that was reached and says that
    /// it failed is taken at its word; another agent may have failed after it had done something.
    pub(crate) fn changed_nothing(&self, outcome: &Outcome<Reply>) -> bool {
        match outcome {
            Outcome::Failed(failure) => failure.kind == FailureKind::NoEffect,
            Outcome::Done(Reply(CallReply::Tool(reply))) => {
                let is_tool = matches!(self.itself(), Self::Tool(_));
                reply.changed_nothing || (is_tool && reply.is_error)
            }
            Outcome::Done(_) => false,
        }
    }

    /// What is to be done, wherever it is done.
    pub(crate) fn itself(&self) -> &Self {
        match self {
            Self::At(at) => &at.ask,
            ask => ask,
        }
    }

    /// How long to wait before it is done.
    pub(crate) fn delay(&self) -> Duration {
        match self {
            Self::At(at) => Duration::from_millis(at.delay_ms) + at.ask.delay(),
            Self::Tool(tool_call) => {
                Duration::from_millis(tool_call.delay_ms) + tool_call.waits().unwrap_or_default()
            }
            Self::Child(sub_task) => Duration::from_millis(sub_task.delay_ms),
            Self::Model(asked) => Duration::from_millis(asked.delay_ms),
            Self::Decide(_) | Self::Route(_) | Self::Synthesise(_) | Self::Person { .. } => {
                Duration::ZERO
            }
        }
    }

    fn agreed(&self, message: &str) -> Self {
        match self {
            Self::Person { .. } => Self::Person {
                said: Some(json!({ "action": "approve", "message": message })),
            },
            Self::At(at) => Self::At(NodeAction {
                ask: Box::new(at.ask.agreed(message)),
                ..at.clone()
            }),
            other => other.clone(),
        }
    }

    fn with_arguments(&self, value: Value) -> Result<Self, String> {
        let Value::Object(fields) = value else {
            return Err("arguments are a JSON object".into());
        };
        Ok(match self {
            Self::Tool(tool_call) => Self::Tool(ToolCallRequest {
                arguments: Arc::new(fields),
                ..tool_call.clone()
            }),
            Self::Child(sub_task) => Self::Child(Box::new(SubTask {
                arguments: Arc::new(fields),
                ..(**sub_task).clone()
            })),
            Self::Person { .. } => Self::Person {
                said: Some(feedback(fields)?),
            },
            Self::At(at) => Self::At(NodeAction {
                ask: Box::new(at.ask.with_arguments(Value::Object(fields))?),
                ..at.clone()
            }),
            Self::Decide(_) | Self::Route(_) | Self::Synthesise(_) | Self::Model(_) => {
                return Err("this call takes no arguments".into());
            }
        })
    }
}

/// What a person changes at a human node: fields of the state, and what they say to it.
fn feedback(fields: Map<String, Value>) -> Result<Value, String> {
    let updates = fields.get("state_updates").and_then(Value::as_object);
    if updates.is_none_or(Map::is_empty) {
        return Err("to change something, give `state_updates`; otherwise approve".into());
    }
    let is_known = |key: &String| matches!(key.as_str(), "state_updates" | "message");
    if let Some(other) = fields.keys().find(|key| !is_known(key)) {
        return Err(format!(
            "a person gives `state_updates` and a `message`, and no `{other}`"
        ));
    }
    Ok(Value::Object(fields))
}

impl From<CallRequest> for Request {
    fn from(ask: CallRequest) -> Self {
        Self(ask)
    }
}

/// What every entry would repeat is not written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A step that makes one call, which needs nobody's leave.
pub(crate) fn one_call(label: impl Into<String>, ask: CallRequest) -> Step<Request> {
    Step {
        calls: vec![NewCall {
            label: label.into(),
            request: ask.into(),
            approval: None,
        }],
        ..Step::default()
    }
}

/// A call that has just come back.
pub(crate) struct ReturnedCall {
    pub(crate) made: CallInfo,
    pub(crate) outcome: Outcome<Reply>,
}

/// Which call it was, and when it was made.
#[derive(Clone, Copy)]
pub(crate) struct CallInfo {
    pub(crate) call: Uuid,
    pub(crate) started_at: Timestamp,
}

impl ReturnedCall {
    /// What was decided, or why nothing was.
    pub(crate) fn decided(self) -> Result<DecisionReply, Failure> {
        match self.given()? {
            CallReply::Decided(decided) => Ok(*decided),
            _ => Err(not_asked_for()),
        }
    }

    /// What the tool said, or why it said nothing.
    pub(crate) fn tool(self) -> Result<ToolReply, Failure> {
        match self.given()? {
            CallReply::Tool(reply) => Ok(*reply),
            _ => Err(not_asked_for()),
        }
    }

    /// What a model said, or why it said nothing.
    pub(crate) fn thought(self) -> Result<Thought, Failure> {
        match self.given()? {
            CallReply::Thought(thought) => Ok(*thought),
            _ => Err(not_asked_for()),
        }
    }

    fn given(self) -> Result<CallReply, Failure> {
        match self.outcome {
            Outcome::Done(Reply(given)) => Ok(given),
            Outcome::Failed(failure) => Err(failure),
        }
    }
}

fn not_asked_for() -> Failure {
    let message = "the call gave something else than was asked for";
    Failure::unknown(FailureCode::CallUnexpected, message)
}
