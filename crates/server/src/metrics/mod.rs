//! Metrics of this process: collects what [`convoke_telemetry`] is told, for `/metrics`.

mod prometheus;
mod series;

use std::sync::{Arc, OnceLock};

use convoke_telemetry::MetricSink;
use convoke_telemetry::metrics::Metric;

pub(crate) use prometheus::MEDIA_TYPE;
use series::Families;

/// Everything that was recorded since the process started. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct MetricCollector(Arc<Families>);

impl MetricCollector {
    /// The collector of this process, or `None` where the program that embeds the service collects metrics itself. The first
    /// call says how many combinations of labels a metric may have.
    pub(crate) fn of_process(most_series: u32) -> Option<Self> {
        static COLLECTOR: OnceLock<Option<MetricCollector>> = OnceLock::new();
        let collector = COLLECTOR.get_or_init(|| {
            let collector = Self(Arc::new(Families::new(most_series)));
            let installed = convoke_telemetry::collect(collector.clone());
            installed.is_ok().then_some(collector)
        });
        collector.clone()
    }

    /// The text that a Prometheus server reads.
    pub(crate) fn to_text(&self) -> String {
        prometheus::to_text(&self.0)
    }
}

impl MetricSink for MetricCollector {
    fn record(&self, metric: &'static Metric, labels: &[&str], value: f64) {
        self.0.record(metric, labels, value);
    }
}
