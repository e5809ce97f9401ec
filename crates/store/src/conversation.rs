//! Conversations: their users, channels and messages.

use std::fmt;
use std::str::FromStr;

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

/// A position in a list of conversations: right after one of them, as it was when it was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationCursor {
    /// When its last message was stored.
    pub updated_at: Timestamp,
    /// Its id.
    pub id: Uuid,
}

/// A text that is no cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no position in a list of conversations")]
pub struct InvalidConversationCursor;

/// What became of a conversation that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// It is gone, with its tasks.
    Deleted,
    /// One of its tasks has not ended, so everything is as it was.
    Unfinished,
}

impl ConversationRecord {
    /// The position right after it.
    pub fn cursor(&self) -> ConversationCursor {
        ConversationCursor {
            updated_at: self.updated_at,
            id: self.id,
        }
    }
}

impl fmt::Display for ConversationCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.updated_at.as_millisecond(), self.id)
    }
}

impl FromStr for ConversationCursor {
    type Err = InvalidConversationCursor;

    fn from_str(text: &str) -> Result<Self, InvalidConversationCursor> {
        let read = text.split_once('.').and_then(|(time, id)| {
            Some(Self {
                updated_at: Timestamp::from_millisecond(time.parse().ok()?).ok()?,
                id: id.parse().ok()?,
            })
        });
        read.ok_or(InvalidConversationCursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        let cursor = ConversationCursor {
            updated_at: Timestamp::from_millisecond(1_234).unwrap(),
            id: Uuid::from_u128(7),
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in [
            "",
            "7",
            "7.",
            ".7",
            "x.00000000-0000-0000-0000-000000000007",
        ] {
            assert_eq!(
                text.parse::<ConversationCursor>(),
                Err(InvalidConversationCursor)
            );
        }
    }
}
