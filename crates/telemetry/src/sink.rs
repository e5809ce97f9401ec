//! Where metrics go: one sink for the process, or none.

use std::sync::OnceLock;

use crate::metrics::Metric;

static SINK: OnceLock<Box<dyn MetricSink>> = OnceLock::new();

/// Collects metrics, for instance to export them. It is called where the work is done, so it must not block.
pub trait MetricSink: Send + Sync + 'static {
    /// Takes a value of a metric. A counter goes up by it, a gauge has it from now on, and a histogram has one
    /// observation more. The labels' values are in the order of [`Metric::labels`].
    fn record(&self, metric: &'static Metric, labels: &[&str], value: f64);
}

/// The process already has a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkInstalled;

impl std::fmt::Display for SinkInstalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("metrics are already collected in this process")
    }
}

impl std::error::Error for SinkInstalled {}

/// Sends all metrics of this process to a sink from now on.
pub fn collect(sink: impl MetricSink) -> Result<(), SinkInstalled> {
    SINK.set(Box::new(sink)).map_err(|_| SinkInstalled)
}

/// Whether there is a sink. Whatever only a metric needs is not worked out without one.
pub fn is_collected() -> bool {
    SINK.get().is_some()
}

pub(crate) fn record(metric: &'static Metric, labels: &[&str], value: f64) {
    if let Some(sink) = SINK.get() {
        sink.record(metric, labels, value);
    }
}
