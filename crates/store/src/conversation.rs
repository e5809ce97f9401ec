//! Conversations: their users, channels and messages.

use convoke_model::{Channel, Message};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A conversation with its newest messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationRecord {
    /// Its id.
    pub id: Uuid,
    /// The owner.
    pub owner: Uuid,
    /// The app.
    pub app: String,
    /// The channel it began on.
    pub channel: Channel,
    /// When the first message was stored.
    pub created_at: Timestamp,
    /// When the last message was stored.
    pub updated_at: Timestamp,
    /// The newest messages, oldest first, up to the requested number.
    pub messages: Vec<Message>,
    /// The number of older messages.
    pub older: usize,
}
