//! A client for MCP tool servers.
//!
//! [`ToolServers`] is a handle on all tool servers of an app. A server is started or connected to on
//! first use, shared by all tasks, and reconnected when its connection ends. Arguments are checked
//! against the tool's schema before a call is sent, and every error says whether the call can have had
//! an effect: see [`McpError`].

mod arguments;
mod call;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod greeting;
mod listing;
mod options;
mod port;
mod server;
mod servers;
mod session;
mod tool;
mod transport;

pub use call::{IDEMPOTENCY_KEY, ToolReply, ToolRequest};
pub use error::{LostAnswer, McpError, Refusal, StartFailure, Violation};
pub use options::{INHERITED_ENVIRONMENT, Options, StartObserver};
pub use servers::ToolServers;
pub use tool::{ToolAnnotations, ToolInfo};
