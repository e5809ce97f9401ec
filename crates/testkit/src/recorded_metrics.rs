//! A sink that remembers the metrics of the test's process.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use convoke_telemetry::metrics::Metric;
use convoke_telemetry::{MetricSink, SinkInstalled, collect};

/// What was recorded so far. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct RecordedMetrics(Arc<Mutex<Vec<RecordedMetric>>>);

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedMetric {
    /// Of which.
    pub metric: &'static Metric,
    /// Its labels.
    pub labels: Vec<String>,
    /// The value.
    pub value: f64,
}

impl RecordedMetrics {
    /// Records the metrics of this process from now on.
    pub fn install() -> Result<Self, SinkInstalled> {
        let recorded = Self::default();
        collect(recorded.clone())?;
        Ok(recorded)
    }

    /// All values of a metric, in order.
    pub fn of(&self, name: &str) -> Vec<RecordedMetric> {
        let mut recorded = self.lock().clone();
        recorded.retain(|recorded| recorded.metric.name == name);
        recorded
    }

    /// The different labels that a metric was recorded with.
    pub fn labels_of(&self, name: &str) -> BTreeSet<Vec<String>> {
        let recorded = self.of(name).into_iter();
        recorded.map(|recorded| recorded.labels).collect()
    }

    /// The sum of the values that a metric was recorded with.
    pub fn sum_of(&self, name: &str) -> f64 {
        self.of(name).iter().map(|recorded| recorded.value).sum()
    }

    /// The metrics that were recorded.
    pub fn names(&self) -> BTreeSet<&'static str> {
        let recorded = self.lock();
        recorded
            .iter()
            .map(|recorded| recorded.metric.name)
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<RecordedMetric>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetricSink for RecordedMetrics {
    fn record(&self, metric: &'static Metric, labels: &[&str], value: f64) {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.lock().push(RecordedMetric {
            metric,
            labels,
            value,
        });
    }
}
