//! Agents as tools: a part of the work becomes a child task of another agent, which sees only what it
//! is told and hands back its answer.

use std::sync::Arc;

use convoke_engine::{CallContext, EngineError, Failure, FailureKind, NewCall, NewChild};
use convoke_llm::ToolSpec;
use convoke_model::{AgentFields, Message, Name, Node as Place, Pattern, WorkflowFields};
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

/// A part of the work for another agent, or for a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubTask {
    #[serde(flatten)]
    pub(crate) addressee: Addressee,
    /// What is to be done: the task, in words.
    pub(crate) arguments: Arguments,
    /// Its index among the calls of a thought.
    #[serde(default)]
    pub(crate) index: usize,
    /// What a workflow begins with.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) state: Map<String, Value>,
    /// How it thinks, where the node that asks says so.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) manner: PatternOverride,
    /// What it may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allowance: Option<Allowance>,
    /// When the time of the run that asks is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until_ms: Option<u64>,
    /// Delay before a retry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) delay_ms: u64,
    /// What it is for, and what the part before it is about, where it is a part of what the user said.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) deciding: DecisionContext,
    /// The turns of the conversation that it may look back on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// Stands for the server of an agent that is called as a tool.
pub(crate) const SERVER: &str = "agents";

/// What comes before an agent's name in the name of the tool that it is offered as.
const PREFIX: &str = "ask_";

/// Characters of a child's answer that are handed back.
const SUMMARY_CHARACTERS: usize = 8_000;

/// Who does a part of the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Addressee {
    Agent(Name),
    Workflow(Name),
    /// A part of what the user said, for a skill of this agent.
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
    /// A part of a workflow's work.
    pub(crate) fn at_node(addressee: Addressee, task: String, state: Map<String, Value>) -> Self {
        Self {
            addressee,
            arguments: Arc::new(Map::from_iter([("task".to_owned(), Value::String(task))])),
            index: 0,
            state,
            manner: PatternOverride::default(),
            allowance: None,
            until_ms: None,
            delay_ms: 0,
            deciding: DecisionContext::default(),
            earlier: None,
        }
    }
}

/// How an agent thinks at a node of a workflow, in the place of its own way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PatternOverride {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) patterns: Vec<Pattern>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_iterations: Option<u32>,
}

impl PatternOverride {
    /// The node's own pattern, else the workflow's.
    pub(crate) fn at(place: &Place, workflow: &WorkflowFields) -> Self {
        Self {
            patterns: match place.pattern {
                Some(pattern) => vec![pattern],
                None => workflow.patterns.clone(),
            },
            max_iterations: place.max_iterations,
        }
    }

    /// The ways of thinking that hold.
    pub(crate) fn patterns<'a>(&'a self, agent: &'a AgentFields) -> &'a [Pattern] {
        if self.patterns.is_empty() {
            &agent.patterns
        } else {
            &self.patterns
        }
    }

    /// How many thoughts may call tools.
    pub(crate) fn max_iterations(&self, agent: &AgentFields) -> u32 {
        self.max_iterations.unwrap_or(agent.max_iterations)
    }
}

/// The agents that an agent may ask, as tools.
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

/// The agent that a model means by a tool's name, as the agent lists it.
pub(crate) fn find(agent: &AgentFields, name: &str) -> Option<String> {
    let bare = name
        .strip_prefix(PREFIX)
        .or_else(|| name.strip_prefix("agents__"))?;
    let found = agent.agents.iter().find(|other| **other == *bare)?;
    Some(format!("{SERVER}.{found}"))
}

/// The agent that a tool stands for, if it stands for one.
pub(crate) fn named(tool: &str) -> Option<Name> {
    let name = tool.strip_prefix(SERVER)?.strip_prefix('.')?;
    Name::new(name).ok()
}

/// The call that asks another agent.
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

/// Runs the child and hands back its answer. Called by the performer.
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
    let message = Message::user(task, at).map_err(|_| {
        Failure::no_effect(FailureCode::ToolArguments, "task is empty; say what to do")
    })?;
    let input = serde_json::to_value(TaskInput::Child(Box::new(ChildInput {
        addressee: sub_task.addressee.clone(),
        state: sub_task.state.clone(),
        manner: sub_task.manner.clone(),
        allowance: sub_task.allowance.clone(),
        deciding: sub_task.deciding.clone(),
        earlier: sub_task.earlier,
    })))
    .map_err(|error| Failure::no_effect(FailureCode::AgentUnwritable, error.to_string()))?;
    let child = NewChild {
        key,
        message,
        input,
    };
    let ended = call_context
        .children
        .run(child, deadline)
        .await
        .map_err(|error| no_answer(&error))?;
    let said = ended
        .answer
        .as_ref()
        .map(|answer| answer.text.clone())
        .unwrap_or_default();
    let text: String = said.chars().take(SUMMARY_CHARACTERS).collect();
    let told = |key: &str| {
        let answer = ended.answer.as_ref();
        answer.and_then(|answer| answer.metadata.get(key).cloned())
    };
    let (spent, output) = (told("spent"), told("output"));
    let failed = ended.error.is_some();
    let changed_nothing = told(compose::CHANGED_NOTHING) == Some(Value::Bool(true));
    Ok(ToolReply {
        server: SERVER.into(),
        tool: name.to_string(),
        content: if sub_task.earlier.is_some()
            || matches!(sub_task.addressee, Addressee::Request(_))
        {
            // Whoever asked for a part of a message tells the user of it as if it had done it itself.
            let answer = ended.answer.as_ref();
            json!({
                "task": ended.facts.id, "spent": spent,
                "tool_calls": answer.map(|answer| &answer.tool_calls),
                "sources": answer.map(|answer| &answer.sources),
                "suggestions": answer.map(|answer| &answer.suggestions),
                "partial": answer.is_some_and(|answer| answer.partial),
                "memory": told(compose::MEMORY), "passing": told(compose::PASSING),
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
        changed_nothing,
    })
}

/// Why there is no answer of a child. Unless it was refused, it may be in the store and at work; asked again under
/// the same key, it is the same child.
fn no_answer(error: &EngineError) -> Failure {
    let refused = matches!(
        error,
        EngineError::Refused { .. }
            | EngineError::Store(
                StoreError::ForeignConversation { .. }
                    | StoreError::IdTaken { .. }
                    | StoreError::TooNew { .. }
            )
    );
    let kind = if refused {
        FailureKind::NoEffect
    } else {
        FailureKind::Unknown
    };
    Failure::new(kind, error.code(), error.to_string())
}
