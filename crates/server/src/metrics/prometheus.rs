//! Writes metrics in Prometheus's text format (version 0.0.4).

use std::fmt::Write as _;

use convoke_telemetry::metrics::{Metric, MetricKind};

use super::series::{Families, Series, SeriesValue, bucket_ends};

/// The media type of the format.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every metric that has a value.
pub(super) fn to_text(families: &Families) -> String {
    let mut text = String::new();
    for family in families.iter() {
        let all = family.sorted();
        if !all.is_empty() {
            // Writing to a string cannot fail.
            let _ = write_family(&mut text, family.metric, &all);
        }
    }
    text
}

fn write_family(text: &mut String, metric: &Metric, all: &[Series]) -> std::fmt::Result {
    let name = name_of(metric);
    writeln!(text, "# HELP {name} {}", metric.help)?;
    writeln!(text, "# TYPE {name} {}", metric.kind.as_str())?;
    for series in all {
        let labels = labels_of(metric, series);
        match &series.value {
            SeriesValue::Number(number) => writeln!(text, "{name}{} {number}", braced(&labels))?,
            SeriesValue::Distribution { buckets, sum } => {
                let ends = bucket_ends(metric).iter().map(ToString::to_string);
                let mut count = 0;
                for (end, bucket) in ends.chain(["+Inf".to_owned()]).zip(buckets) {
                    count += bucket;
                    let comma = if labels.is_empty() { "" } else { "," };
                    writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {count}")?;
                }
                let labels = braced(&labels);
                writeln!(text, "{name}_sum{labels} {sum}")?;
                writeln!(text, "{name}_count{labels} {count}")?;
            }
        }
    }
    Ok(())
}

/// The name as Prometheus's conventions have it: with the unit, and `_total` for a counter.
fn name_of(metric: &Metric) -> String {
    let mut name = underscored(metric.name);
    if metric.unit == "s" {
        name.push_str("_seconds");
    }
    if metric.kind == MetricKind::Counter {
        name.push_str("_total");
    }
    name
}

fn underscored(name: &str) -> String {
    name.replace('.', "_")
}

fn labels_of(metric: &Metric, series: &Series) -> String {
    let labels = metric.labels.iter().zip(&series.labels);
    let labels =
        labels.map(|(name, value)| format!("{}=\"{}\"", underscored(name), escaped(value)));
    labels.collect::<Vec<_>>().join(",")
}

fn braced(labels: &str) -> String {
    if labels.is_empty() {
        return String::new();
    }
    format!("{{{labels}}}")
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use convoke_telemetry::metrics::ALL;

    use super::*;

    fn named(name: &str) -> &'static Metric {
        ALL.iter().find(|metric| metric.name == name).unwrap()
    }

    #[test]
    fn every_kind_of_metric_is_written_in_the_format() {
        let families = Families::new(10);
        families.record(
            named("convoke.tasks.accepted"),
            &["todo", "a \"b\"\\\n"],
            2.0,
        );
        families.record(named("convoke.tasks.held"), &["todo"], 3.0);
        families.record(named("convoke.store.commit.duration"), &[], 0.003);
        families.record(named("convoke.store.commit.duration"), &[], 5000.0);
        let text = to_text(&families);
        for line in [
            "# HELP convoke_tasks_accepted_total Tasks that were accepted.",
            "# TYPE convoke_tasks_accepted_total counter",
            r#"convoke_tasks_accepted_total{app="todo",channel="a \"b\"\\\n"} 2"#,
            "# TYPE convoke_tasks_held gauge",
            r#"convoke_tasks_held{app="todo"} 3"#,
            r#"convoke_store_commit_duration_seconds_bucket{le="0.0025"} 0"#,
            r#"convoke_store_commit_duration_seconds_bucket{le="0.005"} 1"#,
            r#"convoke_store_commit_duration_seconds_bucket{le="3600"} 1"#,
            r#"convoke_store_commit_duration_seconds_bucket{le="+Inf"} 2"#,
            "convoke_store_commit_duration_seconds_sum 5000.003",
            "convoke_store_commit_duration_seconds_count 2",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
        assert!(!text.contains("claims"), "{text}");
    }
}
