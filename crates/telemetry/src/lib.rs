//! Trace context and metrics. [`TraceContext`] says where a piece of work stands in a distributed trace; [`metrics`]
//! names everything that is counted and measured. Both are written down by whoever does the work, and cost next to
//! nothing while nobody collects them: an exporter is a [`MetricSink`] and a `tracing` subscriber.

pub mod metrics;
mod sink;
mod trace_context;

pub use sink::{MetricSink, SinkInstalled, collect, is_collected};
pub use trace_context::{SpanId, TraceContext, TraceId};
