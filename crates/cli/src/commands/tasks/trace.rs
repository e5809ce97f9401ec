//! `convoke tasks trace`: the steps of a task and of its children on a time axis.

use convoke::TaskTree;
use convoke_model::{Redaction, StepRecord, StepStatus};
use convoke_store::{LoadedTask, Store, Viewer};
use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;
use uuid::Uuid;

use super::not_found;
use crate::cli::StoreArgs;
use crate::output::{self, Text, TextStyle};
use crate::start;

/// Width of the time axis, in columns.
const BAR: usize = 30;

/// Limit of a step's name, in columns.
const NAME: usize = 40;

/// Limit of a step's message, in characters.
const SHOWN: usize = 60;

pub(crate) async fn trace(
    store: &dyn Store,
    task: Uuid,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<()> {
    let family = TaskTree::read(store, &Viewer::System, task).await?;
    let family = family.ok_or_else(|| not_found(task))?;
    let redaction = redaction(store, &family.task, args).await;
    if json {
        output::json_line(&family.trace(&redaction)?);
        return Ok(());
    }
    show(&family, &redaction)
}

/// The redaction rules of the task's app. If the app cannot be read, everything that may be secret is redacted.
pub(super) async fn redaction(store: &dyn Store, task: &LoadedTask, args: &StoreArgs) -> Redaction {
    let app = start::app_of(store, &task.record, None, args, false).await;
    app.map(|app| app.config.redaction.clone())
        .unwrap_or_default()
}

/// The steps of a task, each with the steps of the child that it started.
fn collect(
    tree: &TaskTree,
    depth: usize,
    redaction: &Redaction,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let mut steps = tree.trace(redaction)?.into_fields().steps;
    steps.sort_by_key(|step| step.timestamp);
    for step in steps {
        let started = step.output_data.get("task").cloned();
        rows.push(Row { depth, step });
        let started = started.and_then(|id| id.as_str().and_then(|id| id.parse().ok()));
        let child = started.and_then(|id: Uuid| {
            let mut children = tree.children.iter();
            children.find(|child| child.task.record.id == id)
        });
        if let Some(child) = child {
            collect(child, depth + 1, redaction, rows)?;
        }
    }
    Ok(())
}

struct Row {
    depth: usize,
    step: StepRecord,
}

impl Row {
    fn name(&self) -> String {
        let name = format!("{}{}", "  ".repeat(self.depth), self.step.step_name);
        output::short(&name, NAME)
    }

    fn end(&self) -> Timestamp {
        let took = std::time::Duration::from_millis(self.step.duration_ms);
        self.step
            .timestamp
            .checked_add(took)
            .unwrap_or(self.step.timestamp)
    }
}

fn show(family: &TaskTree, redaction: &Redaction) -> anyhow::Result<()> {
    let record = &family.task.record;
    let mut rows = Vec::new();
    collect(family, 0, redaction, &mut rows)?;
    let start = record.created_at;
    let last = rows.iter().map(Row::end).max().unwrap_or(start);
    let whole = millis(start, last).max(1);
    let (app, status, took) = (&record.app, record.status, time(whole));
    let heading = format!(" {app} {status} · {took}{}", spent(&rows));
    output::line(Text::new().bold(record.id).plain(heading));
    let width = rows.iter().map(|row| row.name().width()).max().unwrap_or(0);
    for row in &rows {
        let step = &row.step;
        let name = row.name();
        let space = " ".repeat(width - name.width());
        let bar = bar(millis(start, step.timestamp), step.duration_ms, whole);
        let took = match step.duration_ms {
            0 => String::new(),
            millis => time(millis),
        };
        let told = step.error.as_ref().unwrap_or(&step.message);
        let told = output::short(told, SHOWN);
        let began = format!("+{}", time(millis(start, step.timestamp)));
        let look = match step.status {
            StepStatus::Info => TextStyle::Dimmed,
            StepStatus::Warning => TextStyle::Yellow,
            StepStatus::Error => TextStyle::Red,
        };
        let line = Text::from(format!("{began:>8}  "))
            .bold(name)
            .plain(format!("{space}  {bar}  {took:>8}  "))
            .add(look, told);
        output::line(line.trim_end());
    }
    if let Some(result) = &record.result {
        output::line(format!("\n{}", redaction.text(result)));
    }
    if let Some(error) = &record.error {
        let error = redaction.text(error);
        let heading = Text::from("\n").add(TextStyle::Red, "error").plain(" ");
        output::line(heading.plain(error));
    }
    Ok(())
}

/// Token usage of the task's models, if any.
fn spent(rows: &[Row]) -> String {
    let calls = || rows.iter().flat_map(|row| &row.step.llm_calls);
    let number = calls().count();
    if number == 0 {
        return String::new();
    }
    let read: u64 = calls().map(|call| call.input_tokens).sum();
    let wrote: u64 = calls().map(|call| call.output_tokens).sum();
    let asked = if number == 1 {
        "model call"
    } else {
        "model calls"
    };
    format!(" · {number} {asked}, {read} + {wrote} tokens")
}

/// The position of a step on the time axis.
fn bar(start: u64, took: u64, whole: u64) -> String {
    let column = |at: u64| {
        let at = u128::from(at.min(whole)) * BAR as u128 / u128::from(whole);
        usize::try_from(at).unwrap_or(BAR)
    };
    let from = column(start).min(BAR - 1);
    let to = column(start.saturating_add(took)).clamp(from + 1, BAR);
    let mark = if took == 0 { "·" } else { "█" };
    let (before, after) = (" ".repeat(from), " ".repeat(BAR - to));
    format!("│{before}{}{after}│", mark.repeat(to - from))
}

/// A duration for people.
fn time(millis: u64) -> String {
    const MINUTE: u64 = 60_000;
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..MINUTE => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        MINUTE..3_600_000 => format!("{} m {} s", millis / MINUTE, millis % MINUTE / 1_000),
        _ => format!("{} h {} m", millis / 3_600_000, millis % 3_600_000 / MINUTE),
    }
}

fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_lies_where_its_step_lies_and_is_never_empty() {
        assert_eq!(bar(0, 100, 100), format!("│{}│", "█".repeat(30)));
        assert_eq!(
            bar(50, 50, 100),
            format!("│{}{}│", " ".repeat(15), "█".repeat(15))
        );
        assert_eq!(bar(100, 0, 100), format!("│{}·│", " ".repeat(29)));
        assert_eq!(bar(u64::MAX, u64::MAX, 1), format!("│{}█│", " ".repeat(29)));
    }

    #[test]
    fn durations_are_printed_in_readable_units() {
        let told: Vec<_> = [7, 1_234, 61_000, 86_400_000].map(time).into();
        assert_eq!(told, ["7 ms", "1.2 s", "1 m 1 s", "24 h 0 m"]);
    }
}
