//! Implements the flow's `Tools` port with MCP servers.

use std::sync::Arc;

use convoke_tools::{Failure, FailureCode, FailureKind, ToolDescription, Tools};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::call::ToolRequest;
use crate::error::McpError;
use crate::servers::ToolServers;

impl Tools for ToolServers {
    fn describe<'a>(
        &'a self,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Arc<ToolDescription>, Failure>> {
        async move {
            let info = self.find(tool).await.map_err(|error| failure(&error))?;
            let injected = self.config(&info.server).map(|config| config.inject.keys());
            let injected = injected.into_iter().flatten().map(String::as_str);
            Ok(Arc::new(ToolDescription {
                read_only: info.annotations.read_only == Some(true),
                idempotent: info.annotations.idempotent == Some(true),
                parameters: Arc::new(info.visible_schema(injected)),
                output_schema: info.output_schema.clone(),
                description: info.description.unwrap_or_default(),
                server: info.server,
                tool: info.name,
            }))
        }
        .boxed()
    }

    fn call<'a>(
        &'a self,
        request: &'a convoke_tools::ToolRequest,
    ) -> BoxFuture<'a, Result<convoke_tools::ToolReply, Failure>> {
        async move {
            let reply = self
                .call(ToolRequest {
                    server: request.server.clone(),
                    tool: request.tool.clone(),
                    arguments: (*request.arguments).clone(),
                    injected: request.injected.clone(),
                    idempotency_key: request.idempotency_key.clone(),
                    timeout: Some(request.timeout),
                    trace: request.caller.trace,
                })
                .await
                .map_err(|error| failure(&error))?;
            Ok(convoke_tools::ToolReply {
                server: request.server.clone(),
                tool: request.tool.clone(),
                content: reply.content,
                text: reply.text,
                is_error: reply.is_error,
                schema_mismatch: reply.schema_mismatch,
                changed_nothing: false,
            })
        }
        .boxed()
    }
}

/// Maps an error to its meaning for effects, in the engine's terms.
fn failure(error: &McpError) -> Failure {
    let (code, kind) = match error {
        McpError::Refused(_) => (error.code(), FailureKind::NoEffect),
        McpError::NotSent { .. } | McpError::NotStarted(_) => {
            (FailureCode::ToolNotReached.as_str(), FailureKind::NoEffect)
        }
        McpError::Unknown { .. } => (error.code(), FailureKind::Unknown),
        McpError::TooLarge { .. } | McpError::Failed { .. } => {
            (error.code(), FailureKind::Answered)
        }
    };
    let failure = Failure::new(kind, code, error.to_string());
    if error.is_transient() {
        failure.transient()
    } else {
        failure
    }
}
