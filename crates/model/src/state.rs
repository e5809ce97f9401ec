//! What a running task shares between its steps. Messages are only ever added; everything else is
//! replaced.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::Message;
use crate::name::Name;

/// The shared state of a running task. Its messages are private, so that nothing can take one
/// away.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    #[serde(default)]
    messages: Vec<Message>,
    /// What is to be done next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<String>,
    /// Who is at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_agent: Option<Name>,
    /// Which way a condition goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// What waits to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_operations: Vec<Value>,
    /// When the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Anything else that steps share.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// A change of state. What it leaves out stays; what it gives replaces, except messages, which are
/// added.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StateUpdate {
    /// Messages to add.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// What is to be done next; empty for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_action: Option<String>,
    /// Who is at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_agent: Option<Name>,
    /// Which way a condition goes; empty for neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// What waits to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_operations: Option<Vec<Value>>,
    /// Anything else that steps share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl State {
    /// The state of a run that begins with these messages.
    pub fn begin(messages: Vec<Message>, at: Timestamp) -> Self {
        Self {
            messages,
            started_at: Some(at),
            ..Self::default()
        }
    }

    /// What was said, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Adds what was said next.
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

        let said: Vec<_> = state
            .messages()
            .iter()
            .map(|message| &message.content)
            .collect();
        assert_eq!(said, ["one", "two"]);
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
