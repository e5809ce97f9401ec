//! Tool servers: MCP servers and how to connect to them.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::approvers::Approvers;
use crate::name::Name;
use crate::valid::{Report, Rules, Valid};

/// A validated tool server.
pub type McpServer = Valid<McpServerFields>;

/// One MCP server: its name, its transport, and its guarantees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "McpServer")]
pub struct McpServerFields {
    /// The server's name in tools, agents and traces.
    pub name: Name,
    /// How to connect to it.
    pub transport: Transport,
    /// Arguments filled in by the engine, by argument name. They are hidden from decisions and models,
    /// and override their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inject: BTreeMap<String, Injected>,
    /// Settings of single tools, by tool name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSettings>,
    /// Whether the server answers a repeated call with the same idempotency key with the first call's
    /// result. Only then is a call whose outcome is unknown repeated.
    #[serde(default)]
    pub honours_idempotency_key: bool,
    /// Seconds to wait for the server to start or accept the connection.
    #[serde(default = "default_connect_seconds")]
    pub connect_seconds: u32,
}

/// How to connect to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A child process, over its standard input and output.
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
    /// The program. `convoke` means the running binary.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables, added to the few that every server gets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The folder that it runs in, relative to the app folder; that of Convoke itself by default. A relative `command`
    /// with a `/` in it is relative to this folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// A remote server.
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
    /// Shows only the names of variables and arguments; values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioConfig")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for UrlConfig {
    /// Shows only the names of headers; values and addresses may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlConfig")
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

/// A fact of the request that the engine fills into a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Injected {
    /// The verified user id.
    UserId,
    /// The conversation's id.
    ConversationId,
    /// The task's id.
    TaskId,
    /// The channel of the request.
    Channel,
}

/// An app's settings for one tool, overriding what the server declares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSettings {
    /// Time limit of one call, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// Tools to try, in order, when this one fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback_tools: Vec<String>,
    /// Whether a person must approve each call.
    pub approval: Approval,
    /// Template of the question before a call that a person must approve; over `tool`, `arguments` and `details`, the
    /// arguments in words. `messages.approval` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_question: Option<String>,
    /// Who may answer it; the app's `approvers` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Approvers>,
    /// A read-only tool that reports whether a call with unknown outcome took effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// How to find out whether a call took effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Verify {
    /// This tool, with the call's own arguments; its result has the field `done`.
    Tool(String),
    /// A tool with the app's settings.
    Configured(VerifyFields),
}

/// Settings for finding out whether a call took effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyFields {
    /// The tool, as `tool` or `server.tool`. It must be read-only.
    pub tool: String,
    /// Its arguments: templates over `call_id`, the idempotency key of the call, and `arguments`, the
    /// call's arguments. The call's own arguments if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// Expression over `result`: true if the call took effect, false if not. Any other value leaves the
    /// outcome unknown.
    #[serde(default = "default_done")]
    pub done: String,
    /// Expression over `result` for the result of the original call; all of `result` by default.
    #[serde(default = "default_gives")]
    pub gives: String,
}

fn default_done() -> String {
    "result['done'] | default(none)".to_owned()
}

fn default_gives() -> String {
    "result".to_owned()
}

impl Verify {
    /// The tool that is called.
    pub fn tool(&self) -> &str {
        match self {
            Self::Tool(tool) => tool,
            Self::Configured(settings) => &settings.tool,
        }
    }

    /// All settings, defaults filled in.
    pub fn fields(&self) -> VerifyFields {
        match self {
            Self::Configured(settings) => settings.clone(),
            Self::Tool(tool) => VerifyFields {
                tool: tool.clone(),
                arguments: None,
                done: default_done(),
                gives: default_gives(),
            },
        }
    }
}

/// Whether a person must approve a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// No approval.
    #[default]
    None,
    /// The task pauses until a person approves, rejects or changes the call.
    Required,
    /// The same for calls of which this expression over `arguments` is not `false`. One that cannot be evaluated asks.
    When(String),
}

impl Rules for ToolSettings {
    fn rules(&self, report: &mut Report) {
        if let Some(approvers) = &self.approvers {
            report.within("approvers", |report| approvers.rules(report));
        }
        if let Approval::When(condition) = &self.approval {
            report.require(
                !condition.trim().is_empty(),
                "approval",
                "tool.approval_empty",
                "`when` is empty; write a condition, such as `arguments.amount > 100`",
            );
        }
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
                report.require(
                    config.cwd.as_deref() != Some(""),
                    "cwd",
                    "mcp_server.cwd_empty",
                    "cwd is empty; write `.` for the app folder",
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
            cwd: None,
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
