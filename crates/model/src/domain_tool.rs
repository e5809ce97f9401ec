//! How a tool queries a domain: its arguments, its result and polling.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::name::Name;
use crate::valid::{Report, Rules};

/// A tool that queries a domain: its name alone, or with settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DomainTool {
    /// The tool with default settings.
    Tool(String),
    /// The tool with the app's settings.
    Configured(Box<DomainToolFields>),
}

/// Settings of a tool that queries a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DomainToolFields {
    /// The tool, as `tool` or `server.tool`.
    pub tool: String,
    /// Its arguments: templates over `question`, `conversation_id` (the domain's, if it was asked before
    /// in the same conversation), `results`, and `pointed`, what words such as "those" in the question
    /// refer to.
    #[serde(default = "default_arguments")]
    pub arguments: Map<String, Value>,
    /// Other tools of the domain that must answer first. Their results are in `results`, by tool name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Domains to wait for, if they are queried too and the question refers to their answer, as in "and
    /// how many of those are in stock?". Their results are in `results`, by domain name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<Name>,
    /// Expression over `result` for the text of the answer.
    #[serde(default = "default_gives")]
    pub gives: String,
    /// Expression over `result` for the list of items shown, so that "those" can refer to them later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows: Option<String>,
    /// Expression over `result` for the parts of the question that the answer does not use. They are named
    /// in the answer and lower its confidence.
    #[serde(default = "default_unused")]
    pub unused: String,
    /// Expression over `result` for the conversation id that follow-up questions use.
    #[serde(default = "default_conversation")]
    pub conversation: String,
    /// How to poll for an answer that is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Poll>,
}

/// How to poll for an answer that is not ready, until the tool's time limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// The tool, as `tool` or `server.tool`.
    pub tool: String,
    /// Its arguments: templates over the last `result`.
    #[serde(default = "default_poll_arguments")]
    pub arguments: Map<String, Value>,
    /// Expression over `result` that is true while the answer is not ready.
    #[serde(default = "default_running")]
    pub running: String,
    /// Milliseconds between polls.
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
    "result['answer'] | default(none)".to_owned()
}

fn default_unused() -> String {
    "result['unused'] | default([])".to_owned()
}

fn default_conversation() -> String {
    "result['conversation_id'] | default(none)".to_owned()
}

fn default_running() -> String {
    "(result.status | default(none)) == 'running'".to_owned()
}

fn default_every_ms() -> u64 {
    1_000
}

impl DomainTool {
    /// The tool that queries.
    pub fn tool(&self) -> &str {
        match self {
            Self::Tool(tool) => tool,
            Self::Configured(settings) => &settings.tool,
        }
    }

    /// Every tool named: the one that queries and the one that polls.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let poll = match self {
            Self::Tool(_) => None,
            Self::Configured(settings) => settings.poll.as_ref(),
        };
        std::iter::once(self.tool()).chain(poll.map(|poll| poll.tool.as_str()))
    }

    /// All settings, defaults filled in.
    pub fn fields(&self) -> DomainToolFields {
        match self {
            Self::Configured(settings) => (**settings).clone(),
            Self::Tool(tool) => DomainToolFields {
                tool: tool.clone(),
                arguments: default_arguments(),
                needs: Vec::new(),
                follows: Vec::new(),
                gives: default_gives(),
                shows: None,
                unused: default_unused(),
                conversation: default_conversation(),
                poll: None,
            },
        }
    }
}

/// Rules between the tools of one domain.
pub(crate) fn tool_rules(tools: &[DomainTool], domain: &Name, report: &mut Report) {
    for (index, tool) in tools.iter().enumerate() {
        let DomainTool::Configured(settings) = tool else {
            continue;
        };
        report.within(index, |report| {
            settings.rules(report);
            // A tool may depend only on earlier ones, so that there is no cycle.
            let before: Vec<&str> = tools[..index].iter().map(DomainTool::tool).collect();
            for need in &settings.needs {
                report.require(
                    before.contains(&need.as_str()),
                    "needs",
                    "domain.needs_unknown",
                    format_args!(
                        "`{need}` is not an earlier tool of this domain; list it before this one"
                    ),
                );
            }
            report.require(
                !settings.follows.contains(domain),
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
