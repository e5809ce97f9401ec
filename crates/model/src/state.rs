//! The state that the steps of a running task share. Messages are append-only; other fields are
//! replaced.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::Message;
use crate::name::Name;

/// The shared state of a running task. Its messages are private, so that none can be removed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    #[serde(default)]
    messages: Vec<Message>,
    /// The next action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<String>,
    /// The agent at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_agent: Option<Name>,
    /// The key that selects the edge at a condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Operations waiting to be executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_operations: Vec<Value>,
    /// When the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Other data shared by steps.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// A change of the state. Absent fields stay; present fields replace, except messages, which are
/// appended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StateUpdate {
    /// Messages to append.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// The next action; an empty string clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_action: Option<String>,
    /// The agent at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_agent: Option<Name>,
    /// The key that selects the edge at a condition; an empty string clears it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Operations waiting to be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_operations: Option<Vec<Value>>,
    /// Other data shared by steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl State {
    /// The state at the start of a run.
    pub fn begin(messages: Vec<Message>, at: Timestamp) -> Self {
        Self {
            messages,
            started_at: Some(at),
            ..Self::default()
        }
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Appends a message.
    pub fn say(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Applies a change.
    pub fn update(&mut self, update: StateUpdate) {
        self.messages.extend(update.messages);
        if let Some(next_action) = update.next_action {
            self.next_action = Some(next_action).filter(|action| !action.is_empty());
        }
        if let Some(current_agent) = update.current_agent {
            self.current_agent = Some(current_agent);
        }
        if let Some(routing_key) = update.routing_key {
            self.routing_key = Some(routing_key).filter(|key| !key.is_empty());
        }
        if let Some(pending_operations) = update.pending_operations {
            self.pending_operations = pending_operations;
        }
        if let Some(metadata) = update.metadata {
            self.metadata = metadata;
        }
    }
}

impl StateUpdate {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_added_and_everything_else_is_replaced() {
        let at = Timestamp::UNIX_EPOCH;
        let mut state = State::begin(vec![Message::user("one", at).unwrap()], at);
        state.routing_key = Some("left".into());
        state.next_action = Some("think".into());
        state.metadata.insert("old".into(), json!(1));

        state.update(StateUpdate {
            messages: vec![Message::assistant("two", at).unwrap()],
            next_action: Some(String::new()),
            metadata: Some(json!({ "new": 2 }).as_object().unwrap().clone()),
            ..StateUpdate::default()
        });

        let contents: Vec<_> = state
            .messages()
            .iter()
            .map(|message| &message.content)
            .collect();
        assert_eq!(contents, ["one", "two"]);
        assert_eq!(state.next_action, None, "an empty text clears");
        assert_eq!(
            state.routing_key.as_deref(),
            Some("left"),
            "what is left out stays"
        );
        assert_eq!(
            Value::Object(state.metadata),
            json!({ "new": 2 }),
            "a map is replaced whole"
        );
    }
}
