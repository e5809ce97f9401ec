//! `convoke tasks trace`: every step of a task, when it was and how long it took.

use convoke_engine::{Event, Outcome};
use convoke_store::{Entry, Store};
use owo_colors::OwoColorize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::not_found;
use crate::output;

pub(crate) async fn trace(store: &dyn Store, task: Uuid, json: bool) -> anyhow::Result<()> {
    let loaded = store.load(task, 1).await?.ok_or_else(|| not_found(task))?;
    if json {
        output::json_line(&json!({ "task": loaded.record, "entries": loaded.entries }));
        return Ok(());
    }
    let record = &loaded.record;
    output::line(format!(
        "{} {} {}",
        record.id.bold(),
        record.app,
        record.status
    ));
    for entry in &loaded.entries {
        let after = entry
            .at
            .duration_since(record.created_at)
            .as_millis()
            .max(0);
        let (what, took) = describe(entry);
        let took = took
            .map(|millis| format!("{millis} ms"))
            .unwrap_or_default();
        output::line(format!(
            "{:>4}  {:>8}  {:>8}  {what}",
            entry.seq,
            format!("+{after} ms"),
            took
        ));
    }
    if let Some(result) = &record.result {
        output::line(format!("\n{result}"));
    }
    if let Some(error) = &record.error {
        output::line(format!("\n{} {error}", "error".red()));
    }
    Ok(())
}

/// What an entry says, in a line, and how long it took where it took time.
fn describe(entry: &Entry) -> (String, Option<u64>) {
    let Ok(event) = serde_json::from_value::<Event<Value>>(entry.event.clone()) else {
        return (entry.kind.clone(), None);
    };
    match event {
        Event::Returned {
            label,
            outcome,
            duration_ms,
            ..
        } => {
            let came = match outcome {
                Outcome::Done(value) => short(&gist(&value)),
                Outcome::Failed(failure) => format!("{} {}", failure.code.red(), failure.message),
            };
            (
                format!("{} {}", label.bold(), came.dimmed()),
                Some(duration_ms),
            )
        }
        Event::Canceled { reason } => (format!("canceled {}", reason.unwrap_or_default()), None),
        Event::Signalled { kind, .. } => (format!("signal {kind}"), None),
        Event::Answered { answer, .. } => (
            format!(
                "answered {}",
                json!(answer)["action"].as_str().unwrap_or_default()
            ),
            None,
        ),
        Event::OutcomeUnknown { .. } => ("outcome unknown, asking a person".into(), None),
        Event::Poisoned { claims } => (format!("set aside after {claims} claims"), None),
        Event::Submitted { .. }
        | Event::Started { .. }
        | Event::Resumed { .. }
        | Event::DeadlineReached => (entry.kind.replace('_', " "), None),
    }
}

/// What matters of an outcome: a decision's choice, a thought's words or calls, a tool's result, else
/// all of it.
fn gist(value: &Value) -> String {
    if let Some(decided) = value.get("decided") {
        let meaning = decided["meaning"].as_str().unwrap_or_default();
        let skill = decided["target"]["skill"].as_str().unwrap_or(meaning);
        let slots = decided.get("slots").and_then(Value::as_object);
        let slots = slots
            .into_iter()
            .flatten()
            .map(|(name, slot)| format!(" {name}={slot}"));
        return format!("{skill}{}", slots.collect::<String>());
    }
    if let Some(thought) = value.get("thought") {
        let calls = thought.get("calls").and_then(Value::as_array);
        let calls: Vec<&str> = calls
            .into_iter()
            .flatten()
            .filter_map(|call| call["name"].as_str())
            .collect();
        return if calls.is_empty() {
            thought["text"].as_str().unwrap_or_default().to_owned()
        } else {
            format!("calls {}", calls.join(", "))
        };
    }
    let said = value.get("tool").and_then(|reply| reply.get("content"));
    said.unwrap_or(value).to_string()
}

/// Characters of an outcome that a line shows.
const SHOWN: usize = 60;

fn short(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN - 1).chain(['…']).collect()
}
