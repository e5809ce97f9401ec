//! How a domain is asked: the tool, what it is given, and how a long answer is waited for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::name::Name;
use crate::valid::{Report, Rules};

/// A tool that asks a domain: by its name alone, or in words of the app's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DomainTool {
    /// This tool, in the usual way.
    Tool(String),
    /// In these words.
    Asked(Box<DomainToolFields>),
}

/// How a tool asks a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DomainToolFields {
    /// The tool, as `tool` or `server.tool`.
    pub tool: String,
    /// What it is given: templates over `question`, `conversation_id` (of the domain, if it was asked before in the
    /// same conversation), `results`, and `pointed`, what the question points at with words such as "those".
    #[serde(default = "default_arguments")]
    pub arguments: Map<String, Value>,
    /// Other tools of the same domain that must have answered first. Their results are in `results`, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Domains whose answers it waits for where they are asked too and the question points at them, as in "and how many
    /// of those are in stock?". Their results are in `results`, by the domains' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<Name>,
    /// The expression over its `result` for what people read.
    #[serde(default = "default_gives")]
    pub gives: String,
    /// The expression over its `result` for a list of what it tells of, so that "those" can point at it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows: Option<String>,
    /// The expression over its `result` for the conversation that a later question goes on with.
    #[serde(default = "default_conversation")]
    pub conversation: String,
    /// How an answer that is not ready yet is asked for again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Poll>,
}

/// How an answer that is not ready yet is asked for again, until the tool's time is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// The tool, as `tool` or `server.tool`.
    pub tool: String,
    /// What it is given: templates over the `result` so far.
    #[serde(default = "default_poll_arguments")]
    pub arguments: Map<String, Value>,
    /// The expression over a `result` that is true while there is no answer yet.
    #[serde(default = "default_running")]
    pub running: String,
    /// Milliseconds between two questions.
    #[serde(default = "default_every_ms")]
    #[schemars(range(min = 1))]
    pub every_ms: u64,
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn default_arguments() -> Map<String, Value> {
    object(json!({ "query": "{{ question }}", "conversation_id": "{{ conversation_id }}" }))
}

fn default_poll_arguments() -> Map<String, Value> {
    object(json!({
        "conversation_id": "{{ result.conversation_id }}", "message_id": "{{ result.message_id }}",
    }))
}

fn default_gives() -> String {
    "result['answer']".to_owned()
}

fn default_conversation() -> String {
    "result['conversation_id']".to_owned()
}

fn default_running() -> String {
    "result.status == 'running'".to_owned()
}

fn default_every_ms() -> u64 {
    1_000
}

impl DomainTool {
    /// The tool that asks.
    pub fn tool(&self) -> &str {
        match self {
            Self::Tool(tool) => tool,
            Self::Asked(asked) => &asked.tool,
        }
    }

    /// Every tool that is named: the one that asks, and the one that asks again.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let poll = match self {
            Self::Tool(_) => None,
            Self::Asked(asked) => asked.poll.as_ref(),
        };
        std::iter::once(self.tool()).chain(poll.map(|poll| poll.tool.as_str()))
    }

    /// All that is said of it, the usual words filled in.
    pub fn fields(&self) -> DomainToolFields {
        match self {
            Self::Asked(asked) => (**asked).clone(),
            Self::Tool(tool) => DomainToolFields {
                tool: tool.clone(),
                arguments: default_arguments(),
                needs: Vec::new(),
                follows: Vec::new(),
                gives: default_gives(),
                shows: None,
                conversation: default_conversation(),
                poll: None,
            },
        }
    }
}

/// What must hold between the tools of one domain.
pub(crate) fn tool_rules(tools: &[DomainTool], domain: &Name, report: &mut Report) {
    for (index, tool) in tools.iter().enumerate() {
        let DomainTool::Asked(asked) = tool else {
            continue;
        };
        report.within(index, |report| {
            asked.rules(report);
            // A tool may need only what stands before it, so that no two wait for each other.
            let before: Vec<&str> = tools[..index].iter().map(DomainTool::tool).collect();
            for need in &asked.needs {
                report.require(
                    before.contains(&need.as_str()),
                    "needs",
                    "domain.needs_unknown",
                    format_args!("`{need}` is no tool of the domain that stands before this one"),
                );
            }
            report.require(
                !asked.follows.contains(domain),
                "follows",
                "domain.follows_itself",
                "a domain cannot wait for itself; name others",
            );
        });
    }
}

impl Rules for DomainToolFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.tool.trim().is_empty(),
            "tool",
            "domain.tool_empty",
            "tool is empty; name the tool that asks the domain",
        );
        if let Some(poll) = &self.poll {
            report.within("poll", |report| {
                report.require(
                    !poll.tool.trim().is_empty(),
                    "tool",
                    "domain.tool_empty",
                    "tool is empty; name the tool that asks again",
                );
                report.require(
                    poll.every_ms > 0,
                    "every_ms",
                    "domain.poll_zero",
                    "every_ms must be at least 1",
                );
            });
        }
    }
}
