//! A conversation: all messages between one user and the app on one channel.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::channel::Channel;
use crate::message::{Message, Role};
use crate::user::UserId;
use crate::valid::{Invalid, Report, Rules, Valid};

/// How long a conversation counts as active after its last message, in milliseconds, by default.
pub const DEFAULT_ACTIVE_MS: u64 = 3_600_000;

/// A validated conversation.
pub type Conversation = Valid<ConversationFields>;

/// One conversation. The list holds the order of the messages; timestamps do not, because clocks may
/// step back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Conversation")]
pub struct ConversationFields {
    /// Identifies the conversation.
    pub session_id: Uuid,
    /// The owner. No other user can see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<UserId>,
    /// The channel.
    pub channel: Channel,
    /// The messages, oldest first; the first one is the user's.
    #[schemars(length(min = 1))]
    pub messages: Vec<Message>,
    /// When it began.
    pub created_at: Timestamp,
    /// When the last message was added.
    pub last_updated: Timestamp,
    /// Other data.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Whether a conversation is still active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// The last message is recent.
    Active,
    /// The last message is old; the next one resumes it.
    Idle,
}

impl Activity {
    /// The state after no message for this long, if a conversation is active for `active_ms`.
    pub fn after(quiet: SignedDuration, active_ms: u64) -> Self {
        let active = SignedDuration::from_millis(i64::try_from(active_ms).unwrap_or(i64::MAX));
        if quiet < active {
            Self::Active
        } else {
            Self::Idle
        }
    }
}

impl Valid<ConversationFields> {
    /// Starts a conversation with the user's first message.
    pub fn begin(
        session_id: Uuid,
        owner: Option<UserId>,
        channel: Channel,
        first: Message,
        at: Timestamp,
    ) -> Result<Self, Invalid> {
        Self::new(ConversationFields {
            session_id,
            owner,
            channel,
            messages: vec![first],
            created_at: at,
            last_updated: at,
            metadata: Map::new(),
        })
    }

    /// Adds a message.
    pub fn say(self, message: Message, at: Timestamp) -> Result<Self, Invalid> {
        self.with(|conversation| {
            conversation.messages.push(message);
            conversation.last_updated = conversation.last_updated.max(at);
        })
    }
}

impl ConversationFields {
    /// Active if the last message is at most `active_ms` old.
    pub fn activity(&self, now: Timestamp, active_ms: u64) -> Activity {
        Activity::after(now.duration_since(self.last_updated), active_ms)
    }
}

impl Rules for ConversationFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.messages
                .first()
                .is_some_and(|first| first.role == Role::User),
            "messages",
            "conversation.first_message",
            "a conversation begins with a message from the user",
        );
        report.require(
            self.created_at <= self.last_updated,
            "last_updated",
            "conversation.times",
            "a conversation cannot be updated before it is created",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_active_for_less_than_an_hour_and_then_idle_and_can_be_resumed() {
        let started = Timestamp::UNIX_EPOCH;
        let hour = SignedDuration::from_hours(1);
        let first = Message::user("hello", started).unwrap();
        let conversation =
            Conversation::begin(Uuid::nil(), None, Channel::Sms, first, started).unwrap();
        let just_before = started + hour - SignedDuration::from_millis(1);
        assert_eq!(
            conversation.activity(just_before, DEFAULT_ACTIVE_MS),
            Activity::Active
        );
        assert_eq!(
            conversation.activity(started + hour, DEFAULT_ACTIVE_MS),
            Activity::Idle
        );

        let later = started + hour + hour;
        let resumed = conversation
            .say(Message::user("again", later).unwrap(), later)
            .unwrap();
        assert_eq!(resumed.activity(later, DEFAULT_ACTIVE_MS), Activity::Active);
        assert_eq!(resumed.messages.len(), 2);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_move_the_last_update_back() {
        let at = Timestamp::UNIX_EPOCH;
        let first = Message::user("hello", at).unwrap();
        let conversation = Conversation::begin(Uuid::nil(), None, Channel::Sms, first, at).unwrap();
        let before = at - SignedDuration::from_secs(5);
        let reply = Message::assistant("hi", before).unwrap();
        assert_eq!(conversation.say(reply, before).unwrap().last_updated, at);
    }
}
