//! What can go wrong with a tool call, split by what the caller may do next.

use std::time::Duration;

pub use convoke_schema::Complaint;
use convoke_tools::FailureCode;

/// Why a tool call gave no reply.
///
/// The variants answer the one question that decides whether a call may be made again: can it have
/// had an effect?
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The call is wrong as it stands and certainly had no effect. Making it again will not help.
    #[error("{0}")]
    Refused(Refusal),
    /// The call never left, so it certainly had no effect. It may be made again later.
    #[error("the tool server `{server}` could not be reached: {reason}")]
    NotSent {
        /// The server that was to be called.
        server: String,
        /// What stood in the way.
        reason: String,
    },
    /// The call left and no answer came back: the effect may have happened.
    #[error("the outcome of `{server}.{tool}` is unknown: {loss}")]
    Unknown {
        /// The server that was called.
        server: String,
        /// The tool that was called.
        tool: String,
        /// How the answer was lost.
        loss: LostAnswer,
    },
    /// The server answered with more than is read. The call is over; whether it left something behind only
    /// the server knows.
    #[error("the answer of `{server}.{tool}` is too large: {message}")]
    TooLarge {
        /// The server that was called.
        server: String,
        /// The tool that was called.
        tool: String,
        /// Which limit it exceeds.
        message: String,
    },
    /// The server answered with a protocol error. The call is over; whether it left something
    /// behind only the server knows.
    #[error("`{server}.{tool}` failed: {message}")]
    Failed {
        /// The server that was called.
        server: String,
        /// The tool that was called.
        tool: String,
        /// The JSON-RPC error code, where the server gave one.
        rpc_code: Option<i32>,
        /// What the server said.
        message: String,
    },
}

/// Why a call was turned down before it could have an effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The app has no such server.
    #[error("there is no tool server `{server}`; there are {}", listed(.known))]
    UnknownServer {
        /// The name that was asked for.
        server: String,
        /// The servers that exist.
        known: Vec<String>,
    },
    /// No server, or not the one named, has such a tool.
    #[error("there is no tool `{tool}`; there are {}", listed(.known))]
    UnknownTool {
        /// The name that was asked for.
        tool: String,
        /// The tools that exist, as `server.tool`.
        known: Vec<String>,
    },
    /// Several servers have a tool of this name.
    #[error("several servers have a tool `{tool}`; write one of {}", listed(.candidates))]
    AmbiguousTool {
        /// The name that was asked for.
        tool: String,
        /// What to write instead, as `server.tool`.
        candidates: Vec<String>,
    },
    /// The arguments do not fit the tool's schema.
    #[error("the arguments of `{server}.{tool}` do not fit: {}", joined(.complaints))]
    Arguments {
        /// The server of the tool.
        server: String,
        /// The tool.
        tool: String,
        /// What does not fit: at most as many as the limits allow.
        complaints: Vec<Complaint>,
    },
    /// Whether the arguments fit the tool's schema cannot be found out within the limits.
    #[error("the arguments of `{server}.{tool}` are too complex: {reason}")]
    ArgumentsTooComplex {
        /// The server of the tool.
        server: String,
        /// The tool.
        tool: String,
        /// Which limit they exceed.
        reason: String,
    },
    /// The tool's own schema exceeds the limits.
    #[error("the input schema of `{server}.{tool}` is too complex: {reason}")]
    SchemaTooComplex {
        /// The server of the tool.
        server: String,
        /// The tool.
        tool: String,
        /// Which limit it exceeds.
        reason: String,
    },
    /// The tool's own schema is no JSON Schema, so that no arguments can be checked against it.
    #[error("the input schema of `{server}.{tool}` cannot be used: {reason}")]
    Schema {
        /// The server of the tool.
        server: String,
        /// The tool.
        tool: String,
        /// What is wrong with the schema.
        reason: String,
    },
    /// The server turned the request down before it ran the tool.
    #[error("`{server}` refused the call of `{tool}`: {message}")]
    ByServer {
        /// The server that was called.
        server: String,
        /// The tool that was called.
        tool: String,
        /// What the server said.
        message: String,
    },
}

/// How an answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LostAnswer {
    /// The call took longer than it was allowed to. The server was told to stop.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The connection broke while the call was under way.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl McpError {
    /// Stable and greppable.
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

    /// Whether the call is certain to have had no effect.
    pub fn had_no_effect(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::NotSent { .. })
    }

    /// Whether the same call may succeed later without anybody changing it.
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

fn joined(complaints: &[Complaint]) -> String {
    complaints
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
