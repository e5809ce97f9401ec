//! Conversations: who speaks with the assistant, where, and what was said.

use convoke_model::{Channel, Message};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A conversation and the newest part of what was said in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationRecord {
    /// Its id.
    pub id: Uuid,
    /// The user whose conversation it is.
    pub owner: Uuid,
    /// The app that it is held with.
    pub app: String,
    /// The channel it began on.
    pub channel: Channel,
    /// When the first message came.
    pub created_at: Timestamp,
    /// When the last one came or went.
    pub updated_at: Timestamp,
    /// What was said, oldest first, as many as were asked for.
    pub messages: Vec<Message>,
    /// How many older messages there are.
    pub older: usize,
}
