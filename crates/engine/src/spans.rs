//! The spans of a task and of its steps. They carry ids, names and codes, and nothing of what was said.

use convoke_store::FIRST_EPOCH;
use convoke_telemetry::TraceContext;
use tracing::Span;
use tracing::field::Empty;
use uuid::Uuid;

use crate::program::Facts;

/// The span of a task in one worker's hands. The first is the task's own; those of later claims are below it.
pub(crate) fn of_task(app: &str, facts: &Facts, epoch: u64) -> Span {
    let (own, span) = (facts.span(), context(facts, epoch));
    let above = if span == own { facts.trace } else { own };
    let parent = (above != span).then_some(above);
    // On the level of errors, so that every line of the log about the task can name its trace.
    tracing::error_span!(
        "invoke_agent",
        otel.name = %format_args!("invoke_agent {app}"),
        otel.kind = "internal",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = app,
        gen_ai.conversation.id = facts.conversation.map(tracing::field::display),
        convoke.task.id = %facts.id,
        convoke.task.state = Empty,
        error.type = Empty,
        trace_id = %span.trace_id(),
        span_id = %span.span_id(),
        parent_span_id = parent.map(|parent| tracing::field::display(parent.span_id())),
    )
}

/// Where a task stands in its trace while one worker has it.
pub(crate) fn context(facts: &Facts, epoch: u64) -> TraceContext {
    let own = facts.span();
    if epoch > FIRST_EPOCH {
        own.child(epoch)
    } else {
        own
    }
}

/// The span of a call with all its attempts, which is what a step of a task spends its time on.
pub(crate) fn of_call(label: &str, call: Uuid, trace: TraceContext, parent: TraceContext) -> Span {
    tracing::info_span!(
        "step",
        otel.name = %format_args!("step {label}"),
        otel.kind = "internal",
        convoke.step.name = label,
        convoke.call.id = %call,
        error.type = Empty,
        trace_id = %trace.trace_id(),
        span_id = %trace.span_id(),
        parent_span_id = %parent.span_id(),
    )
}
