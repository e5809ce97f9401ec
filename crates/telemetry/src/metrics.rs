//! Every metric that Convoke records, with its unit and its labels. `docs/telemetry.md` lists the same, and a test
//! compares the two.
//!
//! Labels have few values by construction: names from the app, states, kinds and codes, never ids or texts.

use std::time::Duration;

use crate::sink;

/// What a value of a metric means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum that only grows.
    Counter,
    /// The newest value counts.
    Gauge,
    /// How values are distributed.
    Histogram,
}

impl MetricKind {
    /// The kind in one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric, as an exporter describes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name, in the style of OpenTelemetry: `convoke.task.duration`.
    pub name: &'static str,
    /// What its values mean.
    pub kind: MetricKind,
    /// The unit, in the notation of UCUM: `s`, `{task}`.
    pub unit: &'static str,
    /// The names of its labels, in the order of their values.
    pub labels: &'static [&'static str],
    /// What it says, in a sentence.
    pub help: &'static str,
}

/// A sum that only grows, with `N` labels.
#[derive(Debug)]
pub struct Counter<const N: usize>(Metric);

/// A value that goes up and down, with `N` labels.
#[derive(Debug)]
pub struct Gauge<const N: usize>(Metric);

/// A distribution, with `N` labels.
#[derive(Debug)]
pub struct Histogram<const N: usize>(Metric);

impl<const N: usize> Counter<N> {
    /// Counts one more.
    pub fn increment(&'static self, labels: [&str; N]) {
        self.add(1.0, labels);
    }

    /// Counts so many more.
    pub fn add(&'static self, value: f64, labels: [&str; N]) {
        sink::record(&self.0, &labels, value);
    }
}

impl<const N: usize> Gauge<N> {
    /// Sets the value.
    pub fn set(&'static self, value: usize, labels: [&str; N]) {
        sink::record(&self.0, &labels, as_number(value));
    }
}

impl<const N: usize> Histogram<N> {
    /// Adds an observation.
    pub fn observe(&'static self, value: f64, labels: [&str; N]) {
        sink::record(&self.0, &labels, value);
    }

    /// Adds a number of things.
    pub fn observe_number(&'static self, number: usize, labels: [&str; N]) {
        self.observe(as_number(number), labels);
    }

    /// Adds a duration, in seconds.
    pub fn observe_time(&'static self, time: Duration, labels: [&str; N]) {
        self.observe(time.as_secs_f64(), labels);
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "beyond 2^53 the last digits do not matter"
)]
fn as_number(number: usize) -> f64 {
    number as f64
}

macro_rules! metrics {
    ($(#[doc = $help:literal] $constant:ident: $kind:ident = $name:literal, $unit:literal, [$($label:literal),*];)*) => {
        $(
            #[doc = $help]
            pub static $constant: $kind<{ <[&str]>::len(&[$($label),*]) }> = $kind(Metric {
                name: $name,
                kind: MetricKind::$kind,
                unit: $unit,
                labels: &[$($label),*],
                help: $help.trim_ascii(),
            });
        )*

        /// All metrics.
        pub static ALL: &[&Metric] = &[$(&$constant.0),*];
    };
}

metrics! {
    /// Tasks that were accepted.
    TASKS_ACCEPTED: Counter = "convoke.tasks.accepted", "{task}", ["app", "channel"];
    /// Requests that were refused because too many tasks wait.
    TASKS_REFUSED: Counter = "convoke.tasks.refused", "{request}", ["app", "code"];
    /// Tasks that ended, by the state in which they did.
    TASKS_ENDED: Counter = "convoke.tasks.ended", "{task}", ["app", "state"];
    /// Tasks that a worker dropped because of an error; they are claimed again.
    TASKS_DROPPED: Counter = "convoke.tasks.dropped", "{task}", ["app", "code"];
    /// Tasks in a worker's hands.
    TASKS_HELD: Gauge = "convoke.tasks.held", "{task}", ["app"];
    /// Time from the acceptance of a task to its end.
    TASK_DURATION: Histogram = "convoke.task.duration", "s", ["app", "state"];
    /// Time from the acceptance of a task to its first worker.
    TASK_WAIT: Histogram = "convoke.task.wait", "s", ["app"];
    /// Time that a task spent at a stage in one worker's hands.
    STAGE_DURATION: Histogram = "convoke.stage.duration", "s", ["app", "stage"];
    /// Permits in use; a worker needs one for each task that it works on.
    PERMITS_USED: Gauge = "convoke.permits.used", "{permit}", ["app"];
    /// Tasks handed to the worker of the same process and not begun.
    LOCAL_QUEUE: Gauge = "convoke.queue.local", "{task}", ["app"];
    /// Tasks that wait in the store, as far as they were counted to bound them.
    BACKLOG: Gauge = "convoke.queue.backlog", "{task}", ["app"];
    /// Tasks that a worker claimed from the store.
    CLAIMS: Counter = "convoke.claims", "{task}", ["app"];
    /// Tasks that a worker lost to another because their leases were over.
    LEASES_LOST: Counter = "convoke.leases.lost", "{lease}", ["app"];
    /// Requests to the store that failed because it was unavailable.
    STORE_OUTAGES: Counter = "convoke.store.outages", "{request}", ["operation"];
    /// Writes that went into one commit of the store.
    STORE_GROUP_SIZE: Histogram = "convoke.store.group.size", "{write}", [];
    /// Time to commit a group of writes.
    STORE_COMMIT_DURATION: Histogram = "convoke.store.commit.duration", "s", [];
    /// Writes that wait for the store.
    STORE_QUEUE: Gauge = "convoke.store.queue", "{write}", [];
    /// Time that a call took, with all its attempts; the outcome is `ok` or the code of the failure.
    CALL_DURATION: Histogram = "convoke.call.duration", "s", ["kind", "outcome"];
    /// Time that a call of a tool took, with all its attempts.
    TOOL_DURATION: Histogram = "convoke.tool.duration", "s", ["gen_ai.tool.name", "outcome"];
    /// Attempts after one that failed.
    RETRIES: Counter = "convoke.retries", "{attempt}", ["kind"];
    /// Time that a model took to answer, with all its attempts.
    MODEL_DURATION: Histogram = "gen_ai.client.operation.duration", "s", ["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "error.type"];
    /// Tokens of a question or of its answer.
    MODEL_TOKENS: Histogram = "gen_ai.client.token.usage", "{token}", ["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.token.type"];
    /// Time to answer a request over HTTP, for a stream until it begins.
    HTTP_REQUEST_DURATION: Histogram = "http.server.request.duration", "s", ["http.request.method", "http.route", "http.response.status_code"];
    /// Money spent on a model, in the currency of the app's prices.
    MODEL_COST: Counter = "convoke.model.cost", "{currency}", ["gen_ai.request.model"];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A row of the page, with what the code says.
    fn row(metric: &Metric) -> String {
        let labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let labels = match labels.as_slice() {
            [] => "–".to_owned(),
            labels => labels.join(", "),
        };
        let (name, kind, unit) = (metric.name, metric.kind.as_str(), metric.unit);
        format!(
            "| `{name}` | {kind} | `{unit}` | {labels} | {} |",
            metric.help
        )
    }

    #[test]
    fn the_page_lists_every_metric_and_no_other() {
        let page = include_str!("../../../docs/telemetry.md");
        let begin = page.find("## Metrics").unwrap();
        let told: Vec<&str> = page[begin..]
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        let known: Vec<String> = ALL.iter().map(|metric| row(metric)).collect();
        assert_eq!(told, known, "\n{}", known.join("\n"));
    }

    #[test]
    fn every_metric_has_a_name_of_its_own() {
        let names: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
