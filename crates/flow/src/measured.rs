//! Spans and metrics of calls. They contain no message, argument or result.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use convoke_engine::Failure;
use convoke_telemetry::{TraceContext, metrics};
use convoke_tools::{ToolDescription, ToolReply};
use tokio::time::Instant;
use tracing::Span;
use tracing::field::Empty;

use crate::calls::{CallRequest, ToolCallRequest};

/// Outcome label of a successful call.
const OK: &str = "ok";

/// Outcome label of a call whose tool reported an error.
const TOOL_ERROR: &str = "tool.error";

/// Tool label of a call that reached no tool: an invented name must not become a label.
const OTHER: &str = "_OTHER";

/// A call of a tool, with all its attempts to reach the server.
pub(crate) struct MeasuredTool {
    /// The call's span in the trace.
    pub(crate) trace: TraceContext,
    pub(crate) span: Span,
    began: Instant,
    described: OnceLock<Arc<ToolDescription>>,
}

impl MeasuredTool {
    /// Starts measuring a call in the span `trace`, below `parent`.
    pub(crate) fn begin(
        tool_call: &ToolCallRequest,
        key: &str,
        trace: TraceContext,
        parent: TraceContext,
    ) -> Self {
        let tool = tool_call.tool.as_str();
        let span = tracing::info_span!(
            "execute_tool",
            otel.name = %format_args!("execute_tool {tool}"),
            otel.kind = "client",
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = tool,
            gen_ai.tool.type = "function",
            gen_ai.tool.call.id = key,
            error.type = Empty,
            trace_id = %trace.trace_id(),
            span_id = %trace.span_id(),
            parent_span_id = %parent.span_id(),
        );
        Self {
            trace,
            span,
            began: Instant::now(),
            described: OnceLock::new(),
        }
    }

    /// Records the tool's description, once it is known.
    pub(crate) fn found(&self, described: &Arc<ToolDescription>) {
        let _ = self.described.set(Arc::clone(described));
    }

    pub(crate) fn ended(&self, outcome: &Result<ToolReply, Failure>) {
        let code = match outcome {
            Ok(reply) if reply.is_error => TOOL_ERROR,
            Ok(_) => OK,
            Err(failure) => &failure.code,
        };
        if code != OK {
            self.span.record("error.type", code);
        }
        if convoke_telemetry::is_collected() {
            let name = match self.described.get() {
                Some(tool) => &format!("{}.{}", tool.server, tool.tool),
                None => OTHER,
            };
            metrics::TOOL_DURATION.observe_time(self.began.elapsed(), [name, code]);
        }
    }
}

/// Records the duration and outcome of a call.
pub(crate) fn call(request: &CallRequest, failure: Option<&Failure>, took: Duration) {
    let kind = match request {
        CallRequest::Decide(_) => "decide",
        CallRequest::Route(_) | CallRequest::Synthesise(_) | CallRequest::Model(_) => "model",
        CallRequest::Tool(_) => "tool",
        CallRequest::Child(_) => "agent",
        CallRequest::Workflow(_) | CallRequest::Person { .. } => "person",
        CallRequest::At(_) => OTHER,
    };
    let outcome = failure.map_or(OK, |failure| failure.code.as_str());
    metrics::CALL_DURATION.observe_time(took, [kind, outcome]);
}
