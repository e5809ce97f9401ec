//! Where tools come from: MCP servers and how to reach them.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::name::Name;
use crate::valid::{Report, Rules, Valid};

/// A tool server whose rules hold.
pub type McpServer = Valid<McpServerFields>;

/// One MCP server: its name, the way to reach it, and what it promises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "McpServer")]
pub struct McpServerFields {
    /// The name that tools, agents and traces know the server by.
    pub name: Name,
    /// How to reach it.
    pub transport: Transport,
    /// Arguments that the engine fills in itself, by argument name. They are hidden from decisions
    /// and models, and override whatever either of them writes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inject: BTreeMap<String, Injected>,
    /// What the app says of single tools, by tool name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSettings>,
    /// Whether the server answers a repeated call under the same idempotency key with the first
    /// call's result. Only then is a call whose outcome is unknown made again.
    #[serde(default)]
    pub honours_idempotency_key: bool,
    /// Seconds to wait for the server to start or accept the connection.
    #[serde(default = "default_connect_seconds")]
    pub connect_seconds: u32,
}

/// The way to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A child process that speaks over its standard input and output.
    Stdio(StdioConfig),
    /// Legacy HTTP with server-sent events.
    Sse(UrlConfig),
    /// Streamable HTTP.
    Http(UrlConfig),
}

/// How to start a child process.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StdioConfig {
    /// The program. `convoke` means the running binary itself.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables added to the few that every server gets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// Where a remote server listens.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlConfig {
    /// An `http` or `https` address.
    pub url: String,
    /// Headers sent with every request, such as `authorization`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for StdioConfig {
    /// Names the variables and arguments; their values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioConfig")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for UrlConfig {
    /// Names the headers; their values, and an address, may carry secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlConfig")
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

/// A fact of the request that the engine puts into a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Injected {
    /// The verified user id.
    UserId,
    /// The conversation's id.
    ConversationId,
    /// The task's id.
    TaskId,
    /// The channel the request came in on.
    Channel,
}

/// What the app says of one tool, over what the server itself says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSettings {
    /// Seconds that one call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// Tools to try in order when this one fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback_tools: Vec<String>,
    /// Whether a person must agree before each call.
    pub approval: Approval,
    /// A read-only tool that tells whether a call whose outcome is unknown took effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// How a tool is asked whether a call took effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Verify {
    /// This tool, with the arguments of the call; its result says so in `done`.
    Tool(String),
    /// In these words.
    Asked(VerifyFields),
}

/// How a tool is asked whether a call took effect, in words of the app's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyFields {
    /// The tool, as `tool` or `server.tool`. It must be read-only.
    pub tool: String,
    /// What it is given: templates over `call_id`, the idempotency key of the call, and `arguments`, what
    /// the call was given. Without it, those arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// The expression over its `result` that is true if the call took effect and false if it did not.
    /// Anything else tells nothing.
    #[serde(default = "default_done")]
    pub done: String,
    /// The expression over its `result` for what the call gave; all of it otherwise.
    #[serde(default = "default_gives")]
    pub gives: String,
}

fn default_done() -> String {
    "result['done']".to_owned()
}

fn default_gives() -> String {
    "result".to_owned()
}

impl Verify {
    /// The tool that is asked.
    pub fn tool(&self) -> &str {
        match self {
            Self::Tool(tool) => tool,
            Self::Asked(asked) => &asked.tool,
        }
    }

    /// All that is said of it, the usual words filled in.
    pub fn fields(&self) -> VerifyFields {
        match self {
            Self::Asked(asked) => asked.clone(),
            Self::Tool(tool) => VerifyFields {
                tool: tool.clone(),
                arguments: None,
                done: default_done(),
                gives: default_gives(),
            },
        }
    }
}

/// Whether a person must agree to a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Nobody is asked.
    #[default]
    None,
    /// The task pauses until somebody approves, rejects or changes the call.
    Required,
}

impl Rules for ToolSettings {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.timeout_seconds != Some(0),
            "timeout_seconds",
            "tool.timeout_zero",
            "timeout_seconds must be at least 1",
        );
    }
}

fn url_rules(transport: &str, config: &UrlConfig, report: &mut Report) {
    report.within(transport, |report| {
        report.require(
            config.url.starts_with("http://") || config.url.starts_with("https://"),
            "url",
            "mcp_server.url",
            format_args!("`{}` is not an http:// or https:// address", config.url),
        );
    });
}

fn default_connect_seconds() -> u32 {
    10
}

impl Rules for McpServerFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.connect_seconds > 0,
            "connect_seconds",
            "mcp_server.connect_seconds",
            "connect_seconds must be at least 1",
        );
        report.within("transport", |report| match &self.transport {
            Transport::Stdio(config) => report.within("stdio", |report| {
                report.require(
                    !config.command.trim().is_empty(),
                    "command",
                    "mcp_server.command_empty",
                    "command is empty; name the program that serves the tools",
                );
            }),
            Transport::Sse(config) => url_rules("sse", config, report),
            Transport::Http(config) => url_rules("http", config, report),
        });
        report.within("tools", |report| {
            for (tool, settings) in &self.tools {
                report.within(tool, |report| settings.rules(report));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_form_shows_no_value_that_may_be_a_secret() {
        let map = |key: &str| BTreeMap::from([(key.to_owned(), "hunter2".to_owned())]);
        let child = StdioConfig {
            command: "server".into(),
            args: vec!["--key=hunter2".into()],
            env: map("API_KEY"),
        };
        let remote = UrlConfig {
            url: "https://me:hunter2@host".into(),
            headers: map("authorization"),
        };
        let shown = format!("{child:?} {remote:?}");
        assert!(
            shown.contains("API_KEY") && shown.contains("authorization"),
            "{shown}"
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
