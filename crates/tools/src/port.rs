//! The port between the engine's nodes and whatever serves tools.

use std::sync::Arc;

use convoke_model::Failure;
use futures::future::BoxFuture;

use crate::call::{ToolReply, ToolRequest};
use crate::description::ToolDescription;

/// The tools of an app.
pub trait Tools: Send + Sync + 'static {
    /// Describes a tool, named as `tool` or `server.tool`. Changes nothing outside.
    fn describe<'a>(
        &'a self,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Arc<ToolDescription>, Failure>>;

    /// Calls a tool. A failure says whether the call can have had an effect.
    fn call<'a>(&'a self, request: &'a ToolRequest) -> BoxFuture<'a, Result<ToolReply, Failure>>;
}
