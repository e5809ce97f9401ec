//! MCP tool servers as Convoke sees them.
//!
//! [`ToolServers`] is a handle on every tool server of an app. A server is started or connected to
//! when it is first used, shared by all tasks, and connected to again when it dies. Arguments are
//! checked against the tool's schema before anything leaves, and every failure says whether the
//! call can have had an effect: see [`McpError`].

mod arguments;
mod backoff;
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
pub use error::{Complaint, LostAnswer, McpError, Refusal};
pub use options::{INHERITED_ENVIRONMENT, Options};
pub use servers::ToolServers;
pub use tool::{ToolAnnotations, ToolInfo};
