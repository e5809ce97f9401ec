//! `convoke tasks replay`: takes a task through its journal once more, without a model or a tool, and tells
//! where it comes out differently.

use std::path::Path;
use std::sync::Arc;

use convoke_engine::machine::Machine;
use convoke_engine::{Event, Facts};
use convoke_flow::{Assistant, Reply};
use convoke_store::{Loaded, Store};
use serde_json::{Value, json};
use uuid::Uuid;

use super::not_found;
use crate::cli::StoreArgs;
use crate::exit::{Exit, UsageError};
use crate::{output, start};

/// Where a replay and its journal part.
struct Difference {
    seq: u64,
    /// JSON pointer to what differs.
    place: String,
    journal: Value,
    replay: Value,
}

pub(super) async fn replay(
    store: &dyn Store,
    task: Uuid,
    folder: &Path,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Exit> {
    let app = start::load_app_as_written(folder, &args.data, json)?;
    let loaded = store.load(task, 1).await?.ok_or_else(|| not_found(task))?;
    if app.hash != loaded.record.definition {
        output::note(
            "the app has changed since the task was begun; differences may come from that",
        );
    }
    let steps = loaded.entries.len();
    let difference = first_difference(Arc::new(Assistant::new(app)?), &loaded)?;
    if json {
        let difference = difference.as_ref().map(|difference| {
            json!({
                "seq": difference.seq, "place": difference.place,
                "journal": difference.journal, "replay": difference.replay,
            })
        });
        output::json_line(&json!({ "task": task, "steps": steps, "difference": difference }));
    } else if let Some(difference) = &difference {
        let Difference { seq, place, .. } = difference;
        output::line(format!(
            "step {seq} of {steps} comes out differently, at {place}:"
        ));
        output::line(format!("  journal  {}", difference.journal));
        output::line(format!("  replay   {}", difference.replay));
    } else {
        output::line(format!("{steps} steps, the same as in the journal"));
    }
    Ok(match difference {
        None => Exit::Done,
        Some(_) => Exit::NotDone,
    })
}

fn first_difference(
    assistant: Arc<Assistant>,
    loaded: &Loaded,
) -> anyhow::Result<Option<Difference>> {
    let mut machine = Machine::new(assistant, Facts::from(&loaded.record));
    let first = loaded.messages.first().map(|stored| stored.message.clone());
    machine.begin_with(first);
    for entry in &loaded.entries {
        let event: Event<Reply> = serde_json::from_value(entry.event.clone()).map_err(|error| {
            let message = format!("step {} cannot be read: {error}", entry.seq);
            UsageError::new("task.unreadable", message)
        })?;
        machine.apply(event, entry.at);
        let replayed = comparable(serde_json::to_value(machine.snapshot())?);
        let written = comparable(entry.state.clone());
        if let Some((place, journal, replay)) = parting(&written, &replayed, String::new()) {
            return Ok(Some(Difference {
                seq: entry.seq,
                place,
                journal,
                replay,
            }));
        }
    }
    Ok(None)
}

/// A state without what the worker adds to it: a call that was put down because the worker stopped is not
/// begun, though the program asked for it.
fn comparable(mut state: Value) -> Value {
    let open = state.get_mut("open").and_then(Value::as_array_mut);
    for call in open.into_iter().flatten() {
        if let Value::Object(call) = call {
            call.shift_remove("started");
        }
    }
    state
}

/// The first place at which two values differ, and what stands there.
fn parting(journal: &Value, replay: &Value, place: String) -> Option<(String, Value, Value)> {
    if journal == replay {
        return None;
    }
    if let (Value::Object(before), Value::Object(after)) = (journal, replay) {
        let mut keys: Vec<_> = before.keys().chain(after.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let (before, after) = (&journal[key], &replay[key]);
            if let Some(found) = parting(before, after, format!("{place}/{key}")) {
                return Some(found);
            }
        }
    }
    Some((place, journal.clone(), replay.clone()))
}
