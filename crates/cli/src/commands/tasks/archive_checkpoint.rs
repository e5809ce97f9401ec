//! A point of a task in an export: a file for every entry of its journal.

use convoke_engine::{Question, QuestionAnswer, QuestionKind};
use convoke_flow::assigned_agent;
use convoke_model::{
    Answerer, Checkpoint, CheckpointFields, FeedbackAction, HumanFeedback, HumanFeedbackFields,
    Invalid, Message, Name, State, TaskState,
};
use convoke_store::{Archive, Entry, StoredMessage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::show::questions;

/// How the files of all points begin.
const PREFIX: &str = "checkpoint_";

/// How they end.
const SUFFIX: &str = ".json";

/// Fields of a workflow's state that have a place of their own in a checkpoint.
const SEPARATE_FIELDS: [&str; 3] = ["current_agent", "next_action", "routing_key"];

/// A file as it is written: the point as people and other programs know it, and beside it what the journal
/// has, exactly.
#[derive(Serialize)]
pub(super) struct CheckpointFile<'a> {
    #[serde(flatten)]
    point: Checkpoint,
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
    #[serde(rename = "spoken")]
    in_conversation: bool,
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
    #[serde(rename = "spoken")]
    in_conversation: bool,
    message: Message,
}

impl<'a> CheckpointFile<'a> {
    /// The point after the entry at this place of the journal.
    pub(super) fn of(archive: &'a Archive, place: usize) -> Result<Option<Self>, Invalid> {
        let Some((entry, later)) = archive
            .entries
            .get(place..)
            .and_then(<[Entry]>::split_first)
        else {
            return Ok(None);
        };
        let task = archive.record.id;
        let added = archive
            .messages
            .iter()
            .filter(|stored| stored.seq == entry.seq);
        let state = entry.state.value();
        let answered = match answer_to(&questions(&state), later) {
            Some(answered) => {
                let at = answered.at.max(entry.at);
                Some((answered.feedback()?, at))
            }
            None => None,
        };
        let (feedback, resumed_at) = answered.unzip();
        let point = Checkpoint::new(CheckpointFields {
            // Derived, so that the same point has the same id in every export.
            checkpoint_id: Uuid::new_v5(&task, entry.seq.to_string().as_bytes()),
            task_id: task,
            state: state_at(archive, entry, &state),
            position: position_at(&state, &entry.kind)?,
            sequence: entry.seq,
            created_at: entry.at,
            awaiting_human: feedback.is_none() && awaits_human(&state),
            feedback,
            resumed_at,
        })?;
        Ok(Some(Self {
            point,
            entry: WrittenEntry {
                kind: &entry.kind,
                event: &entry.event,
                state,
            },
            messages: added
                .map(|stored| WrittenMessage {
                    in_conversation: stored.in_conversation,
                    message: &stored.message,
                })
                .collect(),
        }))
    }
}

/// An answer that closed a question.
struct Answered {
    about: QuestionKind,
    answer: QuestionAnswer,
    by: Option<Answerer>,
    at: Timestamp,
}

/// The first answer in these entries that closed one of the questions. One that puts a question off, or that the
/// task could not take, leaves it open.
fn answer_to(open: &[Question], later: &[Entry]) -> Option<Answered> {
    if open.is_empty() {
        return None;
    }
    later.iter().find_map(|entry| {
        if entry.kind != "answered" {
            return None;
        }
        let event = &entry.event;
        let id = Uuid::deserialize(&event["question"]).ok()?;
        let question = open.iter().find(|question| question.id == id)?;
        let left = questions(&entry.state.value());
        if left.iter().any(|question| question.id == id) {
            return None;
        }
        Some(Answered {
            about: question.about,
            answer: QuestionAnswer::deserialize(&event["answer"]).ok()?,
            by: Answerer::deserialize(&event["by"]).ok(),
            at: entry.at,
        })
    })
}

impl Answered {
    fn feedback(self) -> Result<HumanFeedback, Invalid> {
        let mut fields = HumanFeedbackFields {
            action: FeedbackAction::Approve,
            message: None,
            state_updates: Map::new(),
            arguments: None,
            result: None,
            by: self.by,
        };
        match self.answer {
            QuestionAnswer::Approve { message } => fields.message = message,
            QuestionAnswer::Reject { message } => {
                fields.action = FeedbackAction::Reject;
                fields.message = message;
            }
            QuestionAnswer::Expired | QuestionAnswer::Snooze { .. } => {
                fields.action = FeedbackAction::Reject;
                fields.message = Some("nobody answered in time".into());
            }
            QuestionAnswer::Modify { value } => {
                fields.action = FeedbackAction::Modify;
                let message = value["message"].as_str().map(str::to_owned);
                match (self.about, value) {
                    (QuestionKind::OutcomeUnknown, value) => fields.result = Some(value),
                    (QuestionKind::Approval, Value::Object(mut changed)) => {
                        // A `human` node takes changes of the state; a call takes other arguments.
                        if let Some(Value::Object(updates)) = changed.remove("state_updates") {
                            fields.state_updates = updates;
                            fields.message = message;
                        } else {
                            fields.arguments = Some(changed);
                        }
                    }
                    (QuestionKind::Approval, value) => {
                        fields.arguments = Some(Map::from_iter([("value".to_owned(), value)]));
                    }
                }
            }
        }
        HumanFeedback::new(fields)
    }
}

impl ReadCheckpoint {
    /// The entry, and the messages that it added.
    pub(super) fn into_entry(self) -> (Entry, Vec<StoredMessage>) {
        let seq = self.sequence;
        let messages = self.messages.into_iter().map(|stored| StoredMessage {
            seq,
            in_conversation: stored.in_conversation,
            message: stored.message,
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

/// What a task shared between its steps after an entry, with all messages until then.
fn state_at(archive: &Archive, entry: &Entry, told: &Value) -> State {
    let until = archive.messages.iter();
    let until = until.filter(|stored| stored.seq <= entry.seq);
    let started_at = archive.record.started_at;
    State {
        messages: until.map(|stored| stored.message.clone()).collect(),
        current_agent: assigned_agent(
            told,
            archive
                .messages
                .iter()
                .filter(|stored| stored.seq <= entry.seq)
                .map(|stored| &stored.message),
        ),
        pending_operations: pending_at(told),
        started_at: started_at.filter(|at| *at <= entry.at),
        ..shared_at(told)
    }
}

/// The calls without an outcome, by their ids and labels.
fn pending_at(told: &Value) -> Vec<Value> {
    let open = told["open"].as_array().into_iter().flatten();
    open.map(|call| json!({ "id": call["id"], "label": call["label"] }))
        .collect()
}

/// What a workflow shared between its nodes.
fn shared_at(told: &Value) -> State {
    let shared = told["program"]["walk"]["state"].as_object();
    let field = |field: &str| shared.and_then(|fields| fields.get(field)).and_then(text);
    let rest = shared.into_iter().flatten();
    let rest = rest.filter(|(field, _)| !SEPARATE_FIELDS.contains(&field.as_str()));
    State {
        next_action: field("next_action").filter(|text| !text.is_empty()),
        routing_key: field("routing_key").filter(|text| !text.is_empty()),
        metadata: rest
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect(),
        ..State::default()
    }
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
    fn a_checkpoint_contains_the_shared_state_of_a_workflow() {
        let shared = json!({
            "routing_key": "approve", "next_action": ["pay", "sign"], "current_agent": "clerk", "sum": 7,
        });
        let state = shared_at(&json!({ "program": { "walk": { "state": shared } } }));
        assert_eq!(state.routing_key.as_deref(), Some("approve"));
        assert_eq!(state.next_action.as_deref(), Some("pay, sign"));
        assert_eq!(Value::Object(state.metadata), json!({ "sum": 7 }));
    }
}
