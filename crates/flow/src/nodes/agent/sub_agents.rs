//! Agents as tools: a sub-task becomes a child task of another agent, which sees only its own message and returns an
//! answer.

use std::sync::Arc;

use convoke_engine::{CallContext, EngineError, Failure, FailureKind, NewCall, NewChild};
use convoke_llm::ToolSpec;
use convoke_model::{
    AgentFields, Message, MessageFields, Name, Node, Pattern, Role, WorkflowFields,
};
use convoke_store::StoreError;
use convoke_tools::{Arguments, FailureCode, ToolReply};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Allowance;
use super::transcript::OfferedTool;
use crate::assistant::Assistant;
use crate::calls::{CallRequest, DecisionContext, Request, is_default};
use crate::input::{ChildInput, ConversationExcerpt, TaskInput};
use crate::nodes::compose;
use crate::request_history::RequestHistory;

/// A part of the work for another agent or for a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubTask {
    #[serde(flatten)]
    pub(crate) addressee: Addressee,
    /// Arguments; `task` describes what to do.
    pub(crate) arguments: Arguments,
    /// Its index among the calls of a thought.
    #[serde(default)]
    pub(crate) index: usize,
    /// Initial state of a workflow.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) state: Map<String, Value>,
    /// Patterns set by the node that starts it.
    #[serde(rename = "manner", default, skip_serializing_if = "is_default")]
    pub(crate) pattern_override: PatternOverride,
    /// Its budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allowance: Option<Allowance>,
    /// Deadline of the run that starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until_ms: Option<u64>,
    /// Delay before a retry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) delay_ms: u64,
    /// Target and topic, if it is a part of the user's message.
    #[serde(rename = "deciding", default, skip_serializing_if = "is_default")]
    pub(crate) decision_context: DecisionContext,
    /// The part of the conversation that it may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// Placeholder server of agents that are called as tools.
pub(crate) const SERVER: &str = "agents";

/// Prefix of the tool name under which an agent is offered.
const PREFIX: &str = "ask_";

/// Limit of a child's answer as returned to the parent, in characters.
const SUMMARY_CHARACTERS: usize = 8_000;

/// Who runs a sub-task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Addressee {
    Agent(Name),
    Workflow(Name),
    /// A part of the user's message, for a skill of this agent.
    Request(Name),
}

impl Addressee {
    pub(crate) fn name(&self) -> &Name {
        match self {
            Self::Agent(name) | Self::Workflow(name) | Self::Request(name) => name,
        }
    }
}

impl SubTask {
    /// A sub-task of a workflow's node.
    pub(crate) fn at_node(addressee: Addressee, task: String, state: Map<String, Value>) -> Self {
        Self {
            addressee,
            arguments: Arc::new(Map::from_iter([("task".to_owned(), Value::String(task))])),
            index: 0,
            state,
            pattern_override: PatternOverride::default(),
            allowance: None,
            until_ms: None,
            delay_ms: 0,
            decision_context: DecisionContext::default(),
            earlier: None,
        }
    }
}

/// Patterns of a workflow's node, which replace those of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PatternOverride {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) patterns: Vec<Pattern>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_iterations: Option<u32>,
}

impl PatternOverride {
    /// The node's own pattern, else the workflow's.
    pub(crate) fn at(node: &Node, workflow: &WorkflowFields) -> Self {
        Self {
            patterns: match node.pattern {
                Some(pattern) => vec![pattern],
                None => workflow.patterns.clone(),
            },
            max_iterations: node.max_iterations,
        }
    }

    /// The effective patterns.
    pub(crate) fn patterns<'a>(&'a self, agent: &'a AgentFields) -> &'a [Pattern] {
        if self.patterns.is_empty() {
            &agent.patterns
        } else {
            &self.patterns
        }
    }

    /// Limit of thoughts that call tools.
    pub(crate) fn max_iterations(&self, agent: &AgentFields) -> u32 {
        self.max_iterations.unwrap_or(agent.max_iterations)
    }
}

/// An agent's sub-agents, as tools.
pub(crate) fn offered(assistant: &Assistant, agent: &AgentFields) -> Vec<OfferedTool> {
    let parameters = Arc::new(json!({
        "type": "object",
        "properties": { "task": {
            "type": "string",
            "description": "What to do, with everything that is needed to know for it.",
        } },
        "required": ["task"],
    }));
    agent
        .agents
        .iter()
        .filter_map(|name| assistant.app.agent(name.as_str()))
        .map(|other| OfferedTool {
            server: SERVER.into(),
            tool: other.name.to_string(),
            spec: ToolSpec::new(
                format!("{PREFIX}{}", other.name),
                other.role.clone(),
                Arc::clone(&parameters),
            ),
        })
        .collect()
}

/// Resolves a tool name that a model wrote to a sub-agent of the agent.
pub(crate) fn find(agent: &AgentFields, name: &str) -> Option<String> {
    let bare = name
        .strip_prefix(PREFIX)
        .or_else(|| name.strip_prefix("agents__"))?;
    let found = agent.agents.iter().find(|other| **other == *bare)?;
    Some(format!("{SERVER}.{found}"))
}

/// The sub-agent behind a tool name, if it is one.
pub(crate) fn named(tool: &str) -> Option<Name> {
    let name = tool.strip_prefix(SERVER)?.strip_prefix('.')?;
    Name::new(name).ok()
}

/// The call that runs a sub-agent.
pub(crate) fn call(
    agent: Name,
    arguments: Arguments,
    index: usize,
    allowance: Option<Allowance>,
    until_ms: Option<u64>,
) -> NewCall<Request> {
    NewCall {
        label: format!("{SERVER}.{agent}"),
        request: Request(CallRequest::Child(Box::new(SubTask {
            arguments,
            index,
            allowance,
            until_ms,
            ..SubTask::at_node(Addressee::Agent(agent), String::new(), Map::new())
        }))),
        approval: None,
    }
}

/// Runs the child and returns its answer. Called by the performer.
pub(crate) async fn perform(
    call_context: &CallContext,
    key: String,
    sub_task: &SubTask,
    at: Timestamp,
    deadline: Timestamp,
) -> Result<ToolReply, Failure> {
    let name = sub_task.addressee.name();
    let task = sub_task
        .arguments
        .get("task")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .trim()
        .to_owned();
    let mut message = MessageFields::draft(Role::User, task, at);
    if let Some(earlier) = sub_task.earlier
        && let Some(history) = RequestHistory::of(call_context.messages.first())
    {
        let newest = history.newest(earlier.messages);
        newest.write_to(&mut message.metadata);
    }
    let message = Message::new(message).map_err(|_| {
        Failure::no_effect(FailureCode::ToolArguments, "task is empty; say what to do")
    })?;
    let input = serde_json::to_value(TaskInput::Child(Box::new(ChildInput {
        addressee: sub_task.addressee.clone(),
        state: sub_task.state.clone(),
        pattern_override: sub_task.pattern_override.clone(),
        allowance: sub_task.allowance.clone(),
        decision_context: sub_task.decision_context.clone(),
        earlier: sub_task.earlier,
    })))
    .map_err(|error| Failure::no_effect(FailureCode::AgentUnwritable, error.to_string()))?;
    let child = NewChild {
        key,
        message,
        input,
        trace: call_context.trace,
    };
    let ended = call_context
        .children
        .run(child, deadline)
        .await
        .map_err(|error| no_answer(&error))?;
    let answer_text = ended
        .answer
        .as_ref()
        .map(|answer| answer.text.clone())
        .unwrap_or_default();
    let text: String = answer_text.chars().take(SUMMARY_CHARACTERS).collect();
    let metadata = |key: &str| {
        let answer = ended.answer.as_ref();
        answer.and_then(|answer| answer.metadata.get(key).cloned())
    };
    let (spent, output) = (metadata("spent"), metadata("output"));
    let failed = ended.error.is_some();
    let changed_nothing = metadata(compose::CHANGED_NOTHING) == Some(Value::Bool(true));
    Ok(ToolReply {
        server: SERVER.into(),
        tool: name.to_string(),
        content: if sub_task.earlier.is_some()
            || matches!(sub_task.addressee, Addressee::Request(_))
        {
            // The parent reports the result as its own, so it needs sources and tool calls.
            let answer = ended.answer.as_ref();
            json!({
                "task": ended.facts.id, "spent": spent, "output": output,
                "tool_calls": answer.map(|answer| &answer.tool_calls),
                "sources": answer.map(|answer| &answer.sources),
                "suggestions": answer.map(|answer| &answer.suggestions),
                "partial": answer.is_some_and(|answer| answer.partial_results),
                "warnings": answer.map(|answer| &answer.warnings),
                "confidence": answer.map(|answer| answer.confidence),
                "said": answer_text, "error": ended.error.clone().map(Value::String).or(metadata(compose::AGENT_ERROR)),
                "memory": metadata(compose::MEMORY), "passing": metadata(compose::TRANSIENT),
            })
        } else {
            json!({ "task": ended.facts.id, "spent": spent, "output": output })
        },
        text: match (failed, changed_nothing) {
            (false, _) => text,
            (true, true) => format!("{name} could not do it. {text}"),
            (true, false) => {
                format!("{name} did not finish it, and may have done a part of it. {text}")
            }
        },
        is_error: failed,
        schema_mismatch: None,
        changed_nothing,
    })
}

/// Converts an error of a child without an answer. Unless it was rejected, the child may be stored and running;
/// submitting it again under the same key finds it.
fn no_answer(error: &EngineError) -> Failure {
    let refused = matches!(
        error,
        EngineError::Refused { .. }
            | EngineError::Store(
                StoreError::ForeignConversation { .. }
                    | StoreError::IdTaken { .. }
                    | StoreError::TooNew { .. }
                    | StoreError::BlobTooLarge { .. }
            )
    );
    let kind = if refused {
        FailureKind::NoEffect
    } else {
        FailureKind::Unknown
    };
    Failure::new(kind, error.code(), error.to_string())
}
