//! `convoke tasks diff`: compares two tasks, or two points of one.

use convoke::{Difference, TaskPoint, differences, differs_always};
use convoke_store::{JournalEvent, Store, Viewer};
use serde_json::{Value, json};

use super::find;
use crate::exit::{Exit, UsageError};
use crate::output::{self, Text, TextStyle};

/// Differences that are shown to a person.
const SHOWN: usize = 40;

/// Characters of a value that are shown to a person.
const VALUE_SHOWN: usize = 60;

/// Two steps, where there are any.
type Steps<'a> = (Option<&'a JournalEvent>, Option<&'a JournalEvent>);

pub(super) async fn diff(
    store: &dyn Store,
    one: &str,
    other: &str,
    json: bool,
) -> anyhow::Result<Exit> {
    let (one, other) = (point(store, one).await?, point(store, other).await?);
    let diff = one.diff(&other);
    let parted = diff.parted.as_ref();
    let parted = parted.map(|(before, after)| (before.as_ref(), after.as_ref()));
    let found = diff.differences;
    if json {
        let parted =
            parted.map(|(before, after)| json!({ "one": told(before), "other": told(after) }));
        output::json_line(&json!({
            "one": { "task": one.task(), "seq": one.seq() }, "other": { "task": other.task(), "seq": other.seq() },
            "parted": parted, "differences": found,
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
    let named = |point: &TaskPoint| format!("{}, step {}", point.task(), point.seq());
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
    let task = find(store, name).await?;
    Ok(TaskPoint::read(store, &Viewer::System, task, seq).await?)
}

fn told(entry: Option<&JournalEvent>) -> Value {
    entry.map_or(
        Value::Null,
        |entry| json!({ "seq": entry.seq, "kind": entry.kind, "event": entry.event }),
    )
}

fn in_words(entry: Option<&JournalEvent>) -> String {
    let Some(entry) = entry else {
        return "nothing more".into();
    };
    let label = entry.event["label"].as_str().unwrap_or(&entry.kind);
    format!("step {}, {label}", entry.seq)
}

fn short(value: &Value) -> String {
    output::short(&output::json_text(value), VALUE_SHOWN)
}
