//! Errors of tool calls, split by what the caller can do next.

use std::sync::Arc;
use std::time::Duration;

pub use convoke_schema::Violation;
use convoke_tools::FailureCode;

/// Why a tool call has no reply.
///
/// The variants answer the question that decides whether a call may be repeated: can it have had an
/// effect?
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The call is invalid and had no effect. Repeating it does not help.
    #[error("{0}")]
    Refused(Refusal),
    /// The call was not sent, so it had no effect. It may be repeated later.
    #[error("the tool server `{server}` could not be reached: {reason}")]
    NotSent {
        /// The server.
        server: String,
        /// Why it was not sent.
        reason: String,
    },
    /// The server has never worked in this process and could not be started, so the call had no effect. Repeating it soon
    /// does not help.
    #[error("the tool server `{}` could not be started: {}", .0.server, .0.reason)]
    NotStarted(Arc<StartFailure>),
    /// The call was sent and no answer arrived: it may have had an effect.
    #[error("the outcome of `{server}.{tool}` is unknown: {loss}")]
    Unknown {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        loss: LostAnswer,
    },
    /// The answer exceeds the limits. The call has ended; only the server knows whether it had an
    /// effect.
    #[error("the answer of `{server}.{tool}` is too large: {message}")]
    TooLarge {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The exceeded limit.
        message: String,
    },
    /// The server answered with a protocol error. The call has ended; only the server knows whether it
    /// had an effect.
    #[error("`{server}.{tool}` failed: {message}")]
    Failed {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The JSON-RPC error code, if the server sent one.
        rpc_code: Option<i32>,
        /// The server's message.
        message: String,
    },
}

/// Why a server could not be started or connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    pub server: String,
    /// In words, without secrets.
    pub reason: String,
    /// The last lines of a child process's error output, oldest first. They may contain anything.
    pub error_output: Vec<String>,
}

/// Why a call was rejected before it could have an effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The app has no such server.
    #[error("there is no tool server `{server}`; there are {}", listed(.known))]
    UnknownServer {
        /// The requested name.
        server: String,
        known: Vec<String>,
    },
    /// No server, or not the named one, has this tool.
    #[error("there is no tool `{tool}`; there are {}", listed(.known))]
    UnknownTool {
        /// The requested name.
        tool: String,
        /// The existing tools, as `server.tool`.
        known: Vec<String>,
    },
    /// Several servers have a tool of this name.
    #[error("several servers have a tool `{tool}`; write one of {}", listed(.candidates))]
    AmbiguousTool {
        /// The requested name.
        tool: String,
        /// The possible tools, as `server.tool`.
        candidates: Vec<String>,
    },
    /// The arguments do not match the tool's schema.
    #[error("the arguments of `{server}.{tool}` do not fit: {}", joined(.violations))]
    Arguments {
        /// The server.
        server: String,
        tool: String,
        /// The violations, at most as many as the limits allow.
        violations: Vec<Violation>,
    },
    /// The limits were reached before it was known whether the arguments match.
    #[error("the arguments of `{server}.{tool}` are too complex: {reason}")]
    ArgumentsTooComplex {
        /// The server.
        server: String,
        tool: String,
        /// The exceeded limit.
        reason: String,
    },
    /// The tool's schema exceeds the limits.
    #[error("the input schema of `{server}.{tool}` is too complex: {reason}")]
    SchemaTooComplex {
        /// The server.
        server: String,
        tool: String,
        /// The exceeded limit.
        reason: String,
    },
    /// The tool's schema is not a valid JSON Schema, so arguments cannot be checked.
    #[error("the input schema of `{server}.{tool}` cannot be used: {reason}")]
    Schema {
        /// The server.
        server: String,
        tool: String,
        /// What is wrong with the schema.
        reason: String,
    },
    /// The server rejected the request before running the tool.
    #[error("`{server}` refused the call of `{tool}`: {message}")]
    ByServer {
        /// The server.
        server: String,
        tool: String,
        /// The server's message.
        message: String,
    },
}

/// Why an answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LostAnswer {
    /// The call exceeded its time limit. The server was told to cancel it.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The connection broke during the call.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl McpError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => match refusal {
                Refusal::UnknownServer { .. } => "mcp.unknown_server",
                Refusal::UnknownTool { .. } => "mcp.unknown_tool",
                Refusal::AmbiguousTool { .. } => "mcp.ambiguous_tool",
                Refusal::Arguments { .. } => "mcp.bad_arguments",
                Refusal::ArgumentsTooComplex { .. } => {
                    FailureCode::ToolArgumentsTooComplex.as_str()
                }
                Refusal::SchemaTooComplex { .. } => FailureCode::ToolSchemaTooComplex.as_str(),
                Refusal::Schema { .. } => "mcp.bad_schema",
                Refusal::ByServer { .. } => "mcp.refused_by_server",
            },
            Self::NotSent { .. } => "mcp.not_sent",
            Self::NotStarted(_) => "mcp.not_started",
            Self::Unknown {
                loss: LostAnswer::TimedOut(_),
                ..
            } => "mcp.timed_out",
            Self::Unknown {
                loss: LostAnswer::Broken(_),
                ..
            } => "mcp.connection_lost",
            Self::TooLarge { .. } => FailureCode::ToolResultTooLarge.as_str(),
            Self::Failed { .. } => "mcp.failed",
        }
    }

    /// Whether the call certainly had no effect.
    pub fn had_no_effect(&self) -> bool {
        matches!(
            self,
            Self::Refused(_) | Self::NotSent { .. } | Self::NotStarted(_)
        )
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::NotSent { .. } | Self::Unknown { .. })
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn joined(violations: &[Violation]) -> String {
    violations
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
