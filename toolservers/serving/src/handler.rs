//! Implements MCP's server interface for a [`ToolServer`].

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, ListToolsResult, PaginatedRequestParams,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use crate::call::{Call, Outcome, answer};
use crate::failure::Refuse;

/// A server's tools and their implementation.
pub trait ToolServer: Clone + Send + Sync + 'static {
    /// The server's refusals.
    type Refusal: Refuse;

    /// Name, version and instructions for clients.
    fn about() -> ServerConfig;

    /// All tools, in the order of typical use.
    fn tools() -> Vec<Tool>;

    /// Runs a tool; `None` if there is no such tool.
    fn run(&self, tool: &str, call: &Call) -> Option<Outcome<Self::Refusal>>;
}

/// Adapts a tool server to MCP.
#[derive(Debug, Clone)]
pub(crate) struct Handler<S>(pub(crate) S);

impl<S: ToolServer> ServerHandler for Handler<S> {
    fn get_info(&self) -> ServerConfig {
        S::about()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(S::tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        S::tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let server = self.0.clone();
        answer(request, context, move |tool, call| server.run(tool, call)).await
    }
}
