//! The values of every metric, by its labels.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_telemetry::metrics::{ALL, Metric, MetricKind};

/// Stands for the labels of what is recorded beyond the limit.
const OTHER: &str = "_OTHER";

/// Between the labels of a key. No name and no code contains it.
const SEPARATOR: char = '\u{1f}';

/// Upper ends of a histogram's buckets: seconds, from a millisecond to more than an hour.
const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48,
    40.96, 81.92, 300.0, 3600.0,
];

/// Upper ends of a histogram's buckets: tokens, in powers of four.
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
];

/// Upper ends of a histogram's buckets: things that are counted, in powers of two.
const NUMBERS: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0,
];

/// All metrics, in the order of their table.
#[derive(Debug)]
pub(super) struct Families {
    families: Vec<Family>,
    /// Combinations of labels that a metric may have.
    most_series: usize,
}

/// A metric, with its values.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) metric: &'static Metric,
    /// By the joined labels.
    series: Mutex<HashMap<Box<str>, Series>>,
}

/// The value of a metric for one combination of labels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) labels: Vec<Box<str>>,
    pub(super) value: SeriesValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SeriesValue {
    Number(f64),
    /// How many observations fell into each bucket, the last of which has no upper end, and their sum.
    Distribution {
        buckets: Vec<u64>,
        sum: f64,
    },
}

impl Families {
    pub(super) fn new(most_series: u32) -> Self {
        let family = |metric: &&'static Metric| Family {
            metric,
            series: Mutex::default(),
        };
        Self {
            families: ALL.iter().map(family).collect(),
            most_series: most_series as usize,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Family> {
        self.families.iter()
    }

    pub(super) fn record(&self, metric: &'static Metric, labels: &[&str], value: f64) {
        let mut families = self.families.iter();
        if let Some(family) = families.find(|family| std::ptr::eq(family.metric, metric)) {
            family.record(labels, value, self.most_series);
        }
    }
}

impl Family {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Series>> {
        // A value is changed in one step, so that it is whole even if a panic came in between.
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The series by their labels, in their order.
    pub(super) fn sorted(&self) -> Vec<Series> {
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        all.sort_by(|left, right| left.labels.cmp(&right.labels));
        all
    }

    fn record(&self, labels: &[&str], value: f64, most_series: usize) {
        let mut key = joined(labels);
        let mut all = self.lock();
        let others = vec![OTHER; labels.len()];
        let mut labels = labels;
        if all.len() >= most_series && !all.contains_key(key.as_str()) {
            labels = &others;
            key = joined(labels);
        }
        let empty = || Series {
            labels: labels.iter().map(|label| Box::from(*label)).collect(),
            value: SeriesValue::empty(self.metric),
        };
        // A key is allocated for a new series only.
        if !all.contains_key(key.as_str()) {
            all.insert(key.as_str().into(), empty());
        }
        if let Some(series) = all.get_mut(key.as_str()) {
            series.value.add(self.metric, value);
        }
    }
}

impl SeriesValue {
    fn empty(metric: &Metric) -> Self {
        match metric.kind {
            MetricKind::Counter | MetricKind::Gauge => Self::Number(0.0),
            MetricKind::Histogram => Self::Distribution {
                buckets: vec![0; bucket_ends(metric).len() + 1],
                sum: 0.0,
            },
        }
    }

    fn add(&mut self, metric: &Metric, value: f64) {
        match self {
            Self::Number(number) if metric.kind == MetricKind::Gauge => *number = value,
            Self::Number(number) => *number += value,
            Self::Distribution { buckets, sum } => {
                let bucket = bucket_ends(metric).partition_point(|end| *end < value);
                if let Some(count) = buckets.get_mut(bucket) {
                    *count += 1;
                }
                *sum += value;
            }
        }
    }
}

/// The upper ends of a histogram's buckets, but for the last, which has none.
pub(super) fn bucket_ends(metric: &Metric) -> &'static [f64] {
    match metric.unit {
        "s" => SECONDS,
        "{token}" => TOKENS,
        _ => NUMBERS,
    }
}

fn joined(labels: &[&str]) -> String {
    let mut key = String::with_capacity(labels.iter().map(|label| label.len() + 1).sum());
    for label in labels {
        key.push_str(label);
        key.push(SEPARATOR);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(kind: MetricKind) -> &'static Metric {
        let found = ALL
            .iter()
            .find(|metric| metric.kind == kind && metric.labels.len() == 2);
        found.unwrap()
    }

    fn of(families: &Families, metric: &'static Metric) -> Vec<Series> {
        let mut all = families.iter();
        all.find(|family| std::ptr::eq(family.metric, metric))
            .unwrap()
            .sorted()
    }

    #[test]
    fn a_value_beyond_the_limit_of_labels_is_counted_under_other() {
        let families = Families::new(2);
        let counter = metric(MetricKind::Counter);
        for name in ["a", "b", "c", "d", "a"] {
            families.record(counter, &[name, "x"], 1.0);
        }
        let told: Vec<_> = of(&families, counter)
            .into_iter()
            .map(|series| (series.labels.join(" "), series.value))
            .collect();
        let number = |number| SeriesValue::Number(number);
        assert_eq!(
            told,
            [
                ("_OTHER _OTHER".into(), number(2.0)),
                ("a x".into(), number(2.0)),
                ("b x".into(), number(1.0)),
            ]
        );
    }

    #[test]
    fn an_observation_at_the_end_of_a_bucket_falls_into_it() {
        let families = Families::new(10);
        let histogram = metric(MetricKind::Histogram);
        let ends = bucket_ends(histogram);
        for value in [0.0, ends[0], ends[1], ends[ends.len() - 1], 1e9] {
            families.record(histogram, &["a", "b"], value);
        }
        let [series] = &of(&families, histogram)[..] else {
            panic!("one series")
        };
        let SeriesValue::Distribution { buckets, sum } = &series.value else {
            panic!("a distribution")
        };
        assert_eq!((buckets[0], buckets[1]), (2, 1));
        assert_eq!(buckets[ends.len() - 1..], [1, 1]);
        assert!(*sum > 1e9, "{sum}");
    }
}
