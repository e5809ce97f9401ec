//! `convoke tasks replay`: replays a task's journal without models or tools, and reports the first difference.

use std::path::Path;
use std::sync::Arc;

use convoke::{Difference, differences};
use convoke_engine::machine::Machine;
use convoke_engine::{Event, Facts};
use convoke_flow::{Assistant, Reply};
use convoke_model::AnswerFields;
use convoke_store::{Entry, LoadedTask, Store, Viewer};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::not_found;
use crate::cli::StoreArgs;
use crate::exit::{Exit, UsageError};
use crate::{output, start};

/// The first difference between a replay and its journal.
struct Divergence {
    seq: u64,
    /// The journal's value, and the replay's.
    found: Difference,
}

pub(super) async fn replay(
    store: &dyn Store,
    task: Uuid,
    folder: Option<&Path>,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Exit> {
    let loaded = store
        .load(&Viewer::System, task, 1)
        .await?
        .ok_or_else(|| not_found(task))?;
    let app = start::app_of(store, &loaded.record, folder, args, json).await?;
    if app.hash != loaded.record.definition {
        output::note(
            "the app has changed since the task was begun; differences may come from that",
        );
    }
    let steps = loaded.entries.len();
    let difference = first_difference(Arc::new(Assistant::new(app)?), &loaded)?;
    if json {
        let difference = difference.as_ref().map(|Divergence { seq, found }| {
            json!({
                "seq": seq, "place": found.place,
                "journal": found.one, "replay": found.other,
            })
        });
        output::json_line(&json!({ "task": task, "steps": steps, "difference": difference }));
    } else if let Some(Divergence { seq, found }) = &difference {
        let place = &found.place;
        output::line(format!(
            "step {seq} of {steps} comes out differently, at {place}:"
        ));
        output::line(format!("  journal  {}", output::json_text(&found.one)));
        output::line(format!("  replay   {}", output::json_text(&found.other)));
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
    loaded: &LoadedTask,
) -> anyhow::Result<Option<Divergence>> {
    let (mut machine, entries) = beginning(assistant, loaded)?;
    for entry in entries {
        let event: Event<Reply> = serde_json::from_value(entry.event.clone()).map_err(|error| {
            let message = format!("step {} cannot be read: {error}", entry.seq);
            UsageError::new("task.unreadable", message)
        })?;
        machine.apply(event, entry.at);
        let replayed = comparable(serde_json::to_value(machine.snapshot())?);
        let written = comparable(entry.state.value());
        let found = differences(&written, &replayed, |_| false)
            .into_iter()
            .next();
        if let Some(found) = found {
            let seq = entry.seq;
            return Ok(Some(Divergence { seq, found }));
        }
    }
    Ok(None)
}

/// A task before the entries that are replayed. One that was begun at a point of another has that point in
/// its first entry, which is taken as it is.
fn beginning(
    assistant: Arc<Assistant>,
    loaded: &LoadedTask,
) -> anyhow::Result<(Machine<Assistant>, &[Entry])> {
    let facts = Facts::from(&loaded.record);
    match loaded.entries.split_first() {
        Some((first, rest)) if first.kind == "forked" => {
            let snapshot = first.state.read()?;
            let told = loaded.messages.iter().filter(|stored| stored.seq == 1);
            let told = told.map(|stored| stored.message.clone()).collect();
            let machine = Machine::restore(assistant, facts, snapshot, told, 1);
            Ok((machine, rest))
        }
        _ => {
            let mut machine = Machine::new(assistant, facts);
            let first = loaded.messages.first().map(|stored| stored.message.clone());
            machine.begin_with(first);
            Ok((machine, &loaded.entries))
        }
    }
}

/// A state without what the worker adds to it, and what older journals do not have: a call that was put down
/// because the worker stopped is not begun, though the program asked for it; when a call is due, which entry asked a question, what a
/// child may have changed, what conditions gave, whether a call failed otherwise than in words, when a part of a message
/// was started, what each agent did, and what a workflow called and told was not written down once. An answer is compared as it is written today.
fn comparable(mut state: Value) -> Value {
    for (list, field) in [
        ("open", "started"),
        ("open", "due_at"),
        ("questions", "seq"),
    ] {
        let items = state.get_mut(list).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            if let Value::Object(fields) = item {
                fields.shift_remove(field);
            }
        }
    }
    let walks = ["/program/walk", "/answer/metadata/workflow"]
        .into_iter()
        .any(|place| state.pointer(place).is_some_and(|found| !found.is_null()));
    if let Some(program) = state.get_mut("program").and_then(Value::as_object_mut) {
        program.shift_remove("possible_effects");
        program.shift_remove("conditions");
        if walks {
            program.shift_remove("tool_calls");
            program.shift_remove("decision");
        }
        if let Some(walk) = program.get_mut("walk").and_then(Value::as_object_mut) {
            for key in ["told", "requested", "unrouted"] {
                walk.shift_remove(key);
            }
            let visits = walk.get_mut("visits").and_then(Value::as_object_mut);
            for (_, visit) in visits.into_iter().flatten() {
                let running = visit.get_mut("running").and_then(Value::as_object_mut);
                running.and_then(|running| running.shift_remove("calls"));
            }
        }
        let parts = program.get_mut("dispatched").and_then(Value::as_array_mut);
        for part in parts.into_iter().flatten().filter_map(Value::as_object_mut) {
            part.shift_remove("started_at");
            let result = part.get_mut("came").and_then(Value::as_object_mut);
            result.and_then(|result| result.shift_remove("took_ms"));
        }
    }
    if let Some(answer) = state.get_mut("answer").filter(|answer| answer.is_object()) {
        comparable_answer(answer);
    }
    let wanted = state.pointer_mut("/program/run/wanted");
    for call in wanted.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(fields) = call {
            fields.shift_remove("status");
        }
    }
    state
}

/// Rewrites an answer of any version as this one does, without what older versions do not have.
fn comparable_answer(answer: &mut Value) {
    if answer.pointer("/metadata/workflow").is_some() {
        answer["tool_calls"] = json!([]);
    }
    if let Ok(read) = AnswerFields::deserialize(&*answer)
        && let Ok(written) = serde_json::to_value(read)
    {
        *answer = written;
    }
    let metadata = answer.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else { return };
    metadata.shift_remove("agent_results");
    if metadata.contains_key("workflow") {
        for key in ["routing", "confidence", "decided_by"] {
            metadata.shift_remove(key);
        }
    }
    let routing = metadata.get_mut("routing").and_then(Value::as_object_mut);
    if let Some(routing) = routing {
        for key in [
            "asked",
            "confidence",
            "ambiguous",
            "clarification_needed",
            "dropped",
        ] {
            routing.shift_remove(key);
        }
    }
}
