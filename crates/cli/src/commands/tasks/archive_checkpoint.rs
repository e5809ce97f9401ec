//! A point of a task in an export: a file for every entry of its journal.

use convoke_model::{CheckpointFields, Invalid, Message, Name, State, StateUpdate, TaskState};
use convoke_store::{Archive, Entry, StoredMessage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// How the files of all points begin.
const PREFIX: &str = "checkpoint_";

/// How they end.
const SUFFIX: &str = ".json";

/// Fields of a workflow's state that have a place of their own in a checkpoint.
const TOLD_APART: [&str; 3] = ["current_agent", "next_action", "routing_key"];

/// A file as it is written: the point as people and other programs know it, and beside it what the journal
/// has, exactly.
#[derive(Serialize)]
pub(super) struct CheckpointFile<'a> {
    #[serde(flatten)]
    point: CheckpointFields,
    entry: WrittenEntry<'a>,
    messages: Vec<WrittenMessage<'a>>,
}

#[derive(Serialize)]
struct WrittenEntry<'a> {
    kind: &'a str,
    event: &'a Value,
    state: Value,
}

#[derive(Serialize)]
struct WrittenMessage<'a> {
    spoken: bool,
    message: &'a Message,
}

/// A file as it is read: only what the journal needs, because the rest follows from it.
#[derive(Deserialize)]
pub(super) struct ReadCheckpoint {
    pub(super) sequence: u64,
    created_at: Timestamp,
    entry: ReadEntry,
    messages: Vec<ReadMessage>,
}

#[derive(Deserialize)]
struct ReadEntry {
    kind: String,
    event: Value,
    state: Value,
}

#[derive(Deserialize)]
struct ReadMessage {
    spoken: bool,
    message: Message,
}

impl<'a> CheckpointFile<'a> {
    pub(super) fn of(archive: &'a Archive, entry: &'a Entry) -> Result<Self, Invalid> {
        let task = archive.record.id;
        let added = archive.messages.iter().filter(|said| said.seq == entry.seq);
        let state = entry.state.value();
        Ok(Self {
            point: CheckpointFields {
                // Derived, so that the same point has the same id in every export.
                checkpoint_id: Uuid::new_v5(&task, entry.seq.to_string().as_bytes()),
                task_id: task,
                state: state_at(&state),
                position: position_at(&state, &entry.kind)?,
                sequence: entry.seq,
                created_at: entry.at,
                awaiting_human: awaits_human(&state),
                feedback: None,
                resumed_at: None,
            },
            entry: WrittenEntry {
                kind: &entry.kind,
                event: &entry.event,
                state,
            },
            messages: added
                .map(|said| WrittenMessage {
                    spoken: said.spoken,
                    message: &said.message,
                })
                .collect(),
        })
    }
}

impl ReadCheckpoint {
    /// The entry, and the messages that it added.
    pub(super) fn into_entry(self) -> (Entry, Vec<StoredMessage>) {
        let seq = self.sequence;
        let messages = self.messages.into_iter().map(|said| StoredMessage {
            seq,
            spoken: said.spoken,
            message: said.message,
        });
        let messages = messages.collect();
        let entry = Entry {
            seq,
            at: self.created_at,
            kind: self.entry.kind,
            event: self.entry.event,
            state: self.entry.state.to_string().into(),
        };
        (entry, messages)
    }
}

/// The name of a file, by its place from 0. All files of a task are numbered with as many digits as the
/// last one needs, so that their names sort as they follow each other.
pub(super) fn file_name(place: usize, number: usize) -> String {
    let last = number.saturating_sub(1);
    let width = last.to_string().len().max(3);
    format!("{PREFIX}{place:0width$}{SUFFIX}")
}

/// Whether a file holds a point.
pub(super) fn is_file_name(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// The agent at work in a state, where it tells.
pub(super) fn agent_at(state: &Value) -> Option<Name> {
    let program = &state["program"];
    let told = [
        &program["walk"]["state"]["current_agent"],
        &program["run"]["agent"],
        &program["target"]["agent"],
    ];
    told.into_iter()
        .filter_map(Value::as_str)
        .find_map(|name| Name::new(name).ok())
}

/// What a task shared between its steps after an entry. The messages stand with the entries that added
/// them, once each.
fn state_at(told: &Value) -> State {
    let shared = told["program"]["walk"]["state"].as_object();
    let field = |field: &str| shared.and_then(|fields| fields.get(field)).and_then(text);
    let rest = shared.map(|fields| {
        let rest = fields.iter();
        let rest = rest.filter(|(field, _)| !TOLD_APART.contains(&field.as_str()));
        let rest = rest.map(|(field, value)| (field.clone(), value.clone()));
        rest.collect()
    });
    let mut state = State::default();
    state.update(StateUpdate {
        current_agent: agent_at(told),
        next_action: field("next_action"),
        routing_key: field("routing_key"),
        metadata: rest,
        ..StateUpdate::default()
    });
    state
}

/// A text, or several in one.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(text).collect();
            Some(items.join(", "))
        }
        other => Some(other.to_string()),
    }
}

/// The node, the tool or whatever else was under way after an entry, else what had happened.
fn position_at(state: &Value, kind: &str) -> Result<Name, Invalid> {
    let label = state["open"][0]["label"].as_str();
    // A node that calls something tells both, as in `clean: ops.remove`.
    let node = label.and_then(|label| label.split(':').next());
    let spelt = node.and_then(as_name).or_else(|| as_name(kind));
    spelt.map_or_else(|| Name::new("step"), Ok)
}

/// A label with all that a name may not have made into `_`.
fn as_name(label: &str) -> Option<Name> {
    let spelt = label
        .chars()
        .map(|letter| match letter.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() => letter,
            _ => '_',
        });
    let spelt = spelt.skip_while(|letter| !letter.is_ascii_lowercase());
    let spelt: String = spelt.take(convoke_model::MAX_NAME_LENGTH).collect();
    Name::new(spelt).ok()
}

fn awaits_human(state: &Value) -> bool {
    let questions = state["questions"].as_array();
    let status = TaskState::deserialize(&state["status"]);
    questions.is_some_and(|open| !open.is_empty()) || status.is_ok_and(TaskState::awaits_person)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_files_sort_as_the_files_follow_each_other() {
        assert_eq!(file_name(0, 1), "checkpoint_000.json");
        assert_eq!(file_name(999, 1_000), "checkpoint_999.json");
        assert_eq!(file_name(7, 1_001), "checkpoint_0007.json");
        let names: Vec<_> = (0..12_345).map(|place| file_name(place, 12_345)).collect();
        assert!(names.is_sorted());
    }

    #[test]
    fn a_position_is_a_name_whatever_the_label_is() {
        let at = |label: &str| {
            position_at(&json!({ "open": [{ "label": label }] }), "returned").unwrap()
        };
        assert_eq!(at("clean: ops.remove"), "clean");
        assert_eq!(at("todo.add_task"), "todo_add_task");
        assert_eq!(at("42"), "returned");
        assert_eq!(position_at(&Value::Null, "returned").unwrap(), "returned");
        assert_eq!(at(&"a".repeat(100)).as_str().len(), 64);
    }

    #[test]
    fn a_state_tells_what_a_workflow_shares() {
        let shared = json!({
            "routing_key": "approve", "next_action": ["pay", "sign"], "current_agent": "clerk", "sum": 7,
        });
        let state = state_at(&json!({ "program": { "walk": { "state": shared } } }));
        assert_eq!(state.routing_key.as_deref(), Some("approve"));
        assert_eq!(state.next_action.as_deref(), Some("pay, sign"));
        assert_eq!(state.current_agent, Some(Name::new("clerk").unwrap()));
        assert_eq!(Value::Object(state.metadata), json!({ "sum": 7 }));
    }
}
