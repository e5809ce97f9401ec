//! The history that comes with a request, in place of a stored conversation: it stands in the task's first message, so
//! nothing is read from or written to a conversation.

use convoke_model::{Invalid, Message, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::calls::is_default;

/// Metadata key of the task's first message.
const KEY: &str = "history";

/// Limit of the history of a request, in bytes of JSON.
pub const MAX_HISTORY_BYTES: usize = 1024 * 1024;

/// The messages before a request, as its sender knows them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestHistory {
    /// Oldest first.
    pub(crate) messages: Vec<Message>,
    /// Number of still older messages that were cut.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) older: usize,
}

impl RequestHistory {
    /// The history in a task's first message. `None` if the task belongs to a stored conversation, or to none.
    pub(crate) fn of(message: Option<&Message>) -> Option<Self> {
        Self::deserialize(message?.metadata.get(KEY)?).ok()
    }

    /// Whether a task's first message carries a history, even an empty one.
    pub(crate) fn is_in(message: Option<&Message>) -> bool {
        message.is_some_and(|message| message.metadata.contains_key(KEY))
    }

    /// The newest messages only.
    pub(crate) fn newest(mut self, limit: usize) -> Self {
        let cut = self.messages.len().saturating_sub(limit);
        self.messages.drain(..cut);
        self.older += cut;
        self
    }

    /// Writes the history to the metadata of a task's first message.
    pub(crate) fn write_to(&self, metadata: &mut Map<String, Value>) {
        metadata.insert(KEY.into(), json!(self));
    }
}

/// Checks the messages of a history: who may have written them, and how large they are together.
pub(crate) fn check_history(messages: &[Message]) -> Result<(), Invalid> {
    let is_said = |message: &&Message| {
        matches!(message.role, Role::User | Role::Assistant | Role::System)
            && message.tool_calls.is_empty()
            && message.parts.is_empty()
    };
    if let Some(place) = messages.iter().position(|message| !is_said(&message)) {
        let message = format!(
            "message {} of the history is not a text of a user, an assistant or the system",
            place + 1
        );
        return Err(Invalid::one("request.history_role", message));
    }
    if json!(messages).to_string().len() > MAX_HISTORY_BYTES {
        let message =
            format!("the history of a request has at most {MAX_HISTORY_BYTES} bytes of JSON");
        return Err(Invalid::one("request.history_too_large", message));
    }
    Ok(())
}
