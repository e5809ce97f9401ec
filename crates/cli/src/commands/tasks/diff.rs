//! `convoke tasks diff`: compares two tasks, or two points of one.

use convoke_engine::Event;
use convoke_store::{Entry, LoadedTask, Store, Viewer};
use serde_json::{Value, json};
use uuid::Uuid;

use super::compare::{Difference, differences};
use super::{find, not_found};
use crate::exit::{Exit, UsageError};
use crate::output::{self, Text, TextStyle};

/// Differences that are shown to a person.
const SHOWN: usize = 40;

/// Characters of a value that are shown to a person.
const VALUE_SHOWN: usize = 60;

/// A point of a task.
struct TaskPoint {
    id: Uuid,
    loaded: LoadedTask,
    seq: u64,
}

pub(super) async fn diff(
    store: &dyn Store,
    one: &str,
    other: &str,
    json: bool,
) -> anyhow::Result<Exit> {
    let (one, other) = (point(store, one).await?, point(store, other).await?);
    let parted = parting(&one, &other);
    let found = differences(&one.state(), &other.state(), differs_always);
    if json {
        let differences: Vec<_> = found
            .iter()
            .map(|found| json!({ "place": found.place, "one": found.one, "other": found.other }))
            .collect();
        let parted =
            parted.map(|(before, after)| json!({ "one": told(before), "other": told(after) }));
        output::json_line(&json!({
            "one": { "task": one.id, "seq": one.seq }, "other": { "task": other.id, "seq": other.seq },
            "parted": parted, "differences": differences,
        }));
    } else {
        show(&one, &other, parted, &found);
    }
    Ok(if found.is_empty() && parted.is_none() {
        Exit::Done
    } else {
        Exit::NotDone
    })
}

fn show(one: &TaskPoint, other: &TaskPoint, parted: Option<Steps<'_>>, found: &[Difference]) {
    let named = |point: &TaskPoint| format!("{}, step {}", point.id, point.seq);
    output::line(minus(named(one)));
    output::line(plus(named(other)));
    match parted {
        None => output::line("their steps are the same"),
        Some((before, after)) => {
            output::line("their steps part:");
            let (one, other) = (told(before), told(after));
            let found = differences(&one["event"], &other["event"], differs_always);
            let found = found
                .first()
                .filter(|_| before.is_some() && after.is_some());
            let words = |step, value: Option<&Value>| {
                let value = value.map(short).unwrap_or_default();
                format!("{} {value}", in_words(step))
            };
            let one = minus(words(before, found.map(|found| &found.one)));
            output::line(one.trim_end());
            let other = plus(words(after, found.map(|found| &found.other)));
            output::line(other.trim_end());
        }
    }
    if found.is_empty() {
        output::line("they stand alike");
        return;
    }
    output::line("where they stand differs:");
    for Difference { place, one, other } in found.iter().take(SHOWN) {
        output::line(place);
        output::line(minus(short(one)));
        output::line(plus(short(other)));
    }
    if found.len() > SHOWN {
        output::note(format!("and {} places more", found.len() - SHOWN));
    }
}

fn minus(words: String) -> Text {
    Text::new().add(TextStyle::Red, "- ").plain(words)
}

fn plus(words: String) -> Text {
    Text::new().add(TextStyle::Green, "+ ").plain(words)
}

/// Reads `ID` or `ID@SEQ`.
async fn point(store: &dyn Store, text: &str) -> anyhow::Result<TaskPoint> {
    let (name, seq) = match text.split_once('@') {
        None => (text, None),
        Some((name, seq)) => {
            let seq: u64 = seq.parse().map_err(|_| {
                let message = format!("`{text}` names no step; write ID or ID@SEQ");
                UsageError::new("task.step_malformed", message)
            })?;
            (name, Some(seq))
        }
    };
    let id = find(store, name).await?;
    let mut loaded = store
        .load(&Viewer::System, id, 1)
        .await?
        .ok_or_else(|| not_found(id))?;
    let last = loaded.record.seq;
    let seq = seq.unwrap_or(last);
    if seq == 0 || seq > last {
        let message = format!("the task has {last} steps; there is no step {seq}");
        return Err(UsageError::new("task.no_such_step", message).into());
    }
    loaded.entries.retain(|entry| entry.seq <= seq);
    Ok(TaskPoint { id, loaded, seq })
}

/// A step of each, where there is one.
type Steps<'a> = (Option<&'a Entry>, Option<&'a Entry>);

/// The first steps that are not the same. What a task did before it was forked is what the other did.
fn parting<'a>(one: &'a TaskPoint, other: &'a TaskPoint) -> Option<Steps<'a>> {
    let (from, to) = if let Some(at) = other.forked_at(one.id) {
        (at, 1)
    } else if let Some(at) = one.forked_at(other.id) {
        (1, at)
    } else {
        (0, 0)
    };
    let (before, after) = (one.steps_after(from), other.steps_after(to));
    let longest = before.len().max(after.len());
    (0..longest)
        .map(|index| (before.get(index).copied(), after.get(index).copied()))
        .find(|(before, after)| before.map(essence) != after.map(essence))
}

impl TaskPoint {
    fn state(&self) -> Value {
        let entry = self.loaded.entries.last();
        entry.map_or(Value::Null, |entry| entry.state.value())
    }

    /// The events after a step, without resumes.
    fn steps_after(&self, seq: u64) -> Vec<&Entry> {
        let by_worker = |kind: &str| matches!(kind, "started" | "resumed" | "put_back");
        let entries = self.loaded.entries.iter();
        entries
            .filter(|entry| entry.seq > seq && !by_worker(&entry.kind))
            .collect()
    }

    /// The step of another task at which this one was begun.
    fn forked_at(&self, from: Uuid) -> Option<u64> {
        let first = self.loaded.entries.first()?;
        match serde_json::from_value::<Event<Value>>(first.event.clone()).ok()? {
            Event::Forked {
                from: other, at, ..
            } if other == from => Some(at),
            _ => None,
        }
    }
}

/// An event without ids and times.
fn essence(entry: &Entry) -> Value {
    without_chance(&json!({ "kind": entry.kind, "event": entry.event }))
}

fn without_chance(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !differs_always(key))
            .map(|(key, value)| (key.clone(), without_chance(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_chance).collect(),
        plain => plain.clone(),
    }
}

/// Ids and times, which always differ.
fn differs_always(key: &str) -> bool {
    const CHANCE: [&str; 14] = [
        "id",
        "call",
        "task",
        "question",
        "at",
        "deadline",
        "expires_at",
        "duration_ms",
        "total_ms",
        "total_execution_time_ms",
        "execution_time_ms",
        "until_ms",
        "timestamp",
        "spent",
    ];
    CHANCE.contains(&key) || key.ends_with("_at")
}

fn told(entry: Option<&Entry>) -> Value {
    entry.map_or(
        Value::Null,
        |entry| json!({ "seq": entry.seq, "kind": entry.kind, "event": entry.event }),
    )
}

fn in_words(entry: Option<&Entry>) -> String {
    let Some(entry) = entry else {
        return "nothing more".into();
    };
    let label = entry.event["label"].as_str().unwrap_or(&entry.kind);
    format!("step {}, {label}", entry.seq)
}

fn short(value: &Value) -> String {
    output::short(&output::json_text(value), VALUE_SHOWN)
}
